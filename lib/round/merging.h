/*
 * merging - one outer step over files: read answers, judge them, merge, write the next checkpoint and outer state.
 *
 * Pass 1 streams every delta once: seals, finite values, norms per tensor. Pass 2 reads accepted ones by index, a group of
 * slices at a time. Memory depends on threads, not on model or number of answers (but for 40 bytes a MiB of index).
 */
#ifndef MERGING_H
#define MERGING_H

#include "base/pool.h"
#include "base/say.h"
#include "form/frame.h"
#include "form/key.h"
#include "form/trust.h"
#include "math/merge.h"
#include "round/guard.h"

struct merging_conf {
	enum merge_rule rule;        /* for all tensors but embeddings and head, which are direct */
	struct merge_outer outer;
	uint64_t quorum;             /* fewer accepted: ERR_AGAIN */
	bool strict;                 /* any refusal: its own error */
};
struct merging_input { int fd; const char *name; };
struct merging_report {          /* one for each delta, in the order given */
	struct answer answer;
	double norm, cosine;         /* of the whole delta; to the merged one */
};

/*
 * base: regular file or pipe (spooled). state_in: fd of the outer state, or -1 for a fresh one. out: the next checkpoint;
 * state_out: fd, or -1 for none. Reports (n, caller's) are filled as far as known, also on failure.
 */
int merging_run(const struct merging_conf *c, const struct merging_input *base, const struct merging_input *delta, size_t n,
	int state_in, const char *state_name, int out, int state_out, const struct key *key, const struct trust *trust,
	struct pool *pool, struct say *say, struct merging_report *report) ERR_MUST;

#endif
