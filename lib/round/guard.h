/*
 * guard - which answers count, and why not: pure judgement over what headers and first pass found.
 *
 * Reasons, in the order they are looked for: unreadable, not authentic, not a delta, other run,
 * other model or layout, other base, other round (of one fragment), a learner's name that belongs to
 * another key (or begins as the default ones of its learners do), zero steps or tokens, not finite,
 * duplicate, outlier. Of two answers of one learner (same name and signer) the one with more tokens
 * counts, then the smaller identity, then the first given.
 *
 * The syncer of a run directory knows more reasons: of a process that another of the same learner
 * has replaced, tokens that an answer before had, and late.
 */
#ifndef GUARD_H
#define GUARD_H

#include <stdbool.h>

#include "form/meta.h"
#include "form/trust.h"

enum verdict {
	VERDICT_ACCEPTED,
	VERDICT_UNREADABLE,
	VERDICT_NOT_AUTHENTIC,
	VERDICT_NOT_DELTA,
	VERDICT_OTHER_RUN,
	VERDICT_OTHER_LAYOUT,
	VERDICT_OTHER_BASE,
	VERDICT_NOT_ITS_NAME,
	VERDICT_ZERO_STEPS,
	VERDICT_NOT_FINITE,
	VERDICT_DUPLICATE,
	VERDICT_OUTLIER,
	VERDICT_OLD_INCARNATION,
	VERDICT_OVERLAP,
	VERDICT_LATE,
	VERDICT_ABANDONED,  /* was accepted, but the merge it was accepted for cannot be carried out */
	VERDICT_NOT_CHECKED /* only of guard_standing */
};
const char *verdict_name(enum verdict v); /* "accepted", "not-authentic", ...: stable words */
/* What a program that accepts no refusal fails with: ERR_IO, ERR_AUTH or ERR_DATA. */
enum err verdict_code(enum verdict v);

struct answer {
	const char *name; /* of the file, for messages */
	struct meta meta;
	struct sig_public signer;
	digest id;
	double norm;   /* of the whole delta */
	double cosine; /* to the merged delta, where it was asked for */
	double weight; /* of an accepted answer, else 0 */
	bool measured; /* all its values were read and verified */
	enum verdict verdict;
	char why[320]; /* for people; empty when accepted */
};

/* The verdict as it may be told: not checked, when nothing is wrong so far, but values are unread. */
enum verdict guard_standing(const struct answer *a);

/* Sets verdict and reason, unless the answer was refused before. */
void guard_refuse(struct answer *a, enum verdict v, const char *fmt, ...) ERR_PRINTF(3, 4);

struct guard_round { /* what an answer must fit */
	char run[33], model[65], base[65];
	uint64_t round;
	char fragment[5]; /* empty: the whole model */
	uint64_t version; /* of the fragment's base */
	const struct tensors *layout;
};
/* More steps or tokens than this are no count of anything (and sums of them could wrap), nor is it a global
 * step. */
#define GUARD_COUNT ((uint64_t)1 << 48)
/* May this key use the name? Not one that another trusted key has, or would have by default. */
bool guard_owns(const char *name, const struct sig_public *signer, const struct trust *trust);
/* Judges meta and signer of one answer and the layout of its file. */
void guard_header(struct answer *a, const struct guard_round *round, const struct tensors *layout,
	const struct trust *trust);
/* Refuses all but one answer of a learner; what counts does not depend on their order but for
 * exact copies. */
void guard_duplicates(struct answer *v, size_t n);
/*
 * Refuses accepted answers whose norm, and norm a step, are both more than `limit` times the (lower)
 * median of the accepted ones that are not zero: honest learners differ by their number of steps,
 * so that only one of the two is large. limit 0: nobody.
 */
int guard_outliers(struct answer *v, size_t n, double limit) ERR_MUST;

#endif
