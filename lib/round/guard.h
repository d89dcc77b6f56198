/*
 * guard - which answers count, and why not: pure judgement over what the headers and the first pass found.
 *
 * Reasons, in the order they are looked for: not authentic, not a delta, other run, other model or layout, other base,
 * learner's name belongs to another key, zero steps (or tokens), not finite, duplicate. Of two answers of one learner (same name and signer) in one round the one with more
 * tokens counts, then the smaller identity; the other is a duplicate, an exact copy is said to be one.
 */
#ifndef GUARD_H
#define GUARD_H

#include <stdbool.h>

#include "form/meta.h"
#include "form/trust.h"

enum verdict {
	VERDICT_ACCEPTED, VERDICT_UNREADABLE, VERDICT_NOT_AUTHENTIC, VERDICT_NOT_DELTA, VERDICT_OTHER_RUN, VERDICT_OTHER_LAYOUT,
	VERDICT_OTHER_BASE, VERDICT_NOT_ITS_NAME, VERDICT_ZERO_STEPS, VERDICT_NOT_FINITE, VERDICT_DUPLICATE
};
const char *verdict_name(enum verdict v); /* "accepted", "not-authentic", "other-base", ... stable words */

struct answer {
	const char *name;      /* of the file, for messages */
	struct meta meta;
	struct sig_public signer;
	digest id;
	double weight;
	enum verdict verdict;
	char why[256];         /* for people; empty when accepted */
};
struct guard_round {       /* what an answer must fit */
	char run[33], model[65], base[65];
	const struct tensors *layout;
};
/* Judges one answer by its header (verdict stays ACCEPTED when nothing is wrong). */
void guard_header(struct answer *a, const struct guard_round *round, const struct tensors *layout, const struct trust *trust);
/* Marks duplicates among n judged answers; independent of their order. */
void guard_duplicates(struct answer *v, size_t n);

#endif
