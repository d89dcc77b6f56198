/*
 * pace - how many inner steps have passed: the clock of policy.h, that of the median learner.
 *
 * Each learner has done some steps by its last beat, and since then some more by its step_seconds, at
 * most one beat interval's (or one). The clock is the median of what the learners have done since its
 * mark, behind what it showed at the mark. A new mark is set when a learner comes or goes, and once the
 * clock has gone on by `renew`: so it follows those that are in the middle lately. Between marks it counts
 * steps that were done, so extrapolation adds no error in the long run. It never goes back.
 */
#ifndef PACE_H
#define PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pace_learner {
	double seen, gap;     /* last beat; longest interval between them, lately, in which it trained */
	double moved;         /* beat that last showed steps */
	double step;          /* seconds of one; 0: unknown */
	uint64_t steps, mark; /* now, at the mark */
	double ahead;         /* extrapolated beyond `mark` when it was set */
	bool trains, counted;
};
struct pace {
	struct pace_learner *learner; /* (n) */
	size_t n, room;
	double *scratch;      /* (room) */
	double steps;         /* the clock */
	double start;         /* it at the mark */
	double step_seconds;  /* of the median learner; 0: unknown */
};

void pace_release(struct pace *p);
/* Makes room for learners below n. */
int pace_grow(struct pace *p, size_t n) ERR_MUST;
void pace_beat(struct pace *p, double now, size_t learner, uint64_t steps, double step_seconds, bool trains);
void pace_drop(struct pace *p, size_t learner); /* it is dead, or has left */
void pace_go(struct pace *p, double now, double renew);

/* The middle one of v (n > 0), which is reordered; the mean of the middle two of an even number. */
double pace_median(double *v, size_t n);
/* What would be v[k] of v (n > k) in ascending order; v is reordered, those before k are no larger. */
double pace_select(double *v, size_t n, size_t k);

#endif
