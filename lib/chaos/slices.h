/*
 * slices - the chips of one learner, by slices that fail and come back as a whole.
 *
 * Chips fail independently and without memory, so the failures of all slices that live are one Poisson
 * process, and cost grows with failures, not with chips. A failed chip takes its slice out, until it is back
 * a repair time later, uniform between low and high. With spares another slice takes its place at once.
 *
 * What is alive and what takes part are two things: slices_regroup makes them one, at the end of a stop.
 */
#ifndef SLICES_H
#define SLICES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

struct slices_conf {
	double chips, slice;  /* of this learner; of a slice, about: all are of one size */
	double mtbi;          /* seconds between failures of a chip; HUGE_VAL: none */
	double low, high;     /* seconds of a repair */
	bool spares;
	bool fresh;           /* all live at first; else as many as on average */
};
struct slices {
	struct slices_conf c;
	unsigned total, live, part; /* all; not failed; taking part */
	double rate;          /* failures per second and slice */
	double *back;         /* heap of (backs): when those that failed come back */
	unsigned backs;
	double fails;         /* when the next one fails */
	struct rng rng;
};
/* After a failure, too, slices_release. */
int slices_open(struct slices *s, const struct slices_conf *c, uint64_t seed, unsigned learner, double now)
	ERR_MUST;
void slices_release(struct slices *s);
/* When something happens next; HUGE_VAL: never. */
double slices_next(const struct slices *s);
/* Lets it happen: true when a slice failed, false when one came back. */
bool slices_happen(struct slices *s);
void slices_regroup(struct slices *s);
double slices_share(const struct slices *s); /* of all that take part */

/* Exponential with mean 1, by comparisons of uniform numbers alone (von Neumann): the same on all machines. */
double slices_exponential(struct rng *r);

#endif
