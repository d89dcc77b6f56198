/*
 * answers - what came back from a call: opened, judged, and put in the order of summing.
 *
 *     answers_open      pipes into temporary files, all at once; headers, seals of the indices
 *     answers_settle    who counts: one answer of a learner, by identity, with what share
 *     answers_enough    are they enough to merge?
 *     ... values are read, verified and measured by merging; what is wrong with them refuses more ...
 *     answers_measured  lengths and outliers; then answers_settle again, if that refused any
 *
 * Whatever is wrong with one file is a verdict on it and does not touch the others.
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
	int fd;           /* stays the caller's; -1: it could not be opened, */
	const char *name;
	const char *why;  /* for this reason */
};
struct answers_conf {
	double wait; /* seconds that pipes are given; 0: as long as they take */
	struct clock clock;
};

struct answer_file {
	int fd, copy;                /* copy: of a pipe, else -1 */
	struct frame_reader *reader; /* seekable */
	double *norm;                /* of each tensor, once it is measured */
	uint64_t *routed;            /* (tensors) to the experts of each (round/routed.h); NULL: it does not say */
};
struct answers {
	struct answer *v;         /* (n) in the order given */
	struct answer_file *file; /* (n) */
	size_t n, tensors;
	size_t *order;            /* (accepted) indices into v and file, by identity */
	double *share;            /* (accepted) weights that sum to 1 */
	size_t accepted;
};

/* 0 whatever the verdicts; an error is of this machine: memory, an interrupting signal. Zeroes *as
 * first; answers_release in any case. Names and descriptors must live as long. */
int answers_open(struct answers *as, const struct answers_conf *c, const struct answers_input *in,
	size_t n, const struct guard_round *round, const struct trust *trust, struct pool *pool) ERR_MUST;
void answers_release(struct answers *as);

void answers_settle(struct answers *as);
/*
 * strict: the error of the first refusal. Fewer accepted than quorum: ERR_AGAIN. None at all, where
 * quorum is 0: the error common to the refusals, else ERR_DATA.
 */
int answers_enough(const struct answers *as, uint64_t quorum, bool strict) ERR_MUST;
/* outlier: see guard_outliers. */
int answers_measured(struct answers *as, double outlier) ERR_MUST;

/* The last error as a verdict on answer i; an error still when it is not the answer's fault. */
int answers_refuse(struct answers *as, size_t i, int code) ERR_MUST;
size_t answers_refused(const struct answers *as);
/* Into share (accepted): those for a tensor of an expert, by the tokens that were routed to it. False when one of
 * them does not say that, or all say 0. */
bool answers_routed(const struct answers *as, double *share, size_t tensor);
bool answers_counted(const struct answers *as); /* do all that are accepted say it? */
/* One warning for each refusal. */
void answers_say(const struct answers *as, struct say *say);
/* A warning when one of several has nearly all of the weight. */
void answers_say_weight(const struct answers *as, struct say *say);

#endif
