/*
 * answers - what came back from a call: opened, verified, judged, and put in the order of summing.
 *
 * Pipes are copied into temporary files, all at once; then each file is streamed once, from its head
 * to its verified end, several at the same time. Whatever is wrong with one is a verdict on it and
 * does not touch the others. Afterwards accepted files can be read in any order.
 */
#ifndef ANSWERS_H
#define ANSWERS_H

#include "base/clock.h"
#include "base/pool.h"
#include "base/say.h"
#include "form/frame.h"
#include "form/trust.h"
#include "round/guard.h"

struct answers_input {
	int fd; /* stays the caller's; -1: it could not be opened, */
	const char *name;
	const char *why; /* for this reason */
};
struct answers_conf {
	double outlier; /* see guard_outliers */
	double wait;    /* seconds that pipes are given; 0: as long as they take */
	struct clock clock;
};

struct answer_file {
	int fd, copy;                /* copy: of a pipe, else -1 */
	struct frame_reader *reader; /* seekable; NULL unless accepted */
	double *norm;                /* of each tensor */
};
struct answers {
	struct answer *v;         /* (n) in the order given */
	struct answer_file *file; /* (n) */
	size_t n;
	size_t *order; /* (accepted) indices into v and file, by identity */
	double *share; /* (accepted) weights that sum to 1 */
	size_t accepted;
	double weight; /* sum of the weights */
};

/* 0 whatever the verdicts; an error is of this machine: memory, an interrupting signal. Zeroes *as
 * first; answers_release in any case. Names and descriptors must live as long. */
int answers_read(struct answers *as, const struct answers_conf *c, const struct answers_input *in,
	size_t n, const struct guard_round *round, const struct trust *trust, struct pool *pool) ERR_MUST;
void answers_release(struct answers *as);

/* One warning for each refusal. */
void answers_say(const struct answers *as, struct say *say);
/*
 * Are they enough to merge? strict: the error of the first refusal. Fewer accepted than quorum:
 * ERR_AGAIN. None at all, where quorum is 0: the error common to the refusals, else ERR_DATA.
 */
int answers_enough(const struct answers *as, uint64_t quorum, bool strict) ERR_MUST;

#endif
