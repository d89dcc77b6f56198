/*
 * sim_conf - what is simulated: a cluster, a model, the rules of a run. Times in seconds.
 *
 * A learner has chips / learners chips, in slices. The defaults are the failure model behind the published
 * goodput of Decoupled DiLoCo (arXiv 2604.21428), with stops and repair times fitted to it: dl-chaos(1).
 */
#ifndef SIM_CONF_H
#define SIM_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "chaos/trace.h"

#define SIM_LEARNERS 16384
#define SIM_JOINS 64

struct sim_join { /* learners that come later, of the size of the others, and leave again */
	unsigned n;
	double from, until; /* until HUGE_VAL: they stay */
};
struct sim_conf {
	enum trace_mode mode;
	double chips;           /* of the learners that are there at first */
	unsigned learners;      /* M */
	uint64_t seed;
	double length;

	/* failures */
	double mtbi;            /* of a chip; HUGE_VAL: none fails */
	double slice;           /* chips that fail together */
	double scale_down, scale_up; /* stops, to go on without a slice, and to take one in again */
	double repair_low, repair_high;
	double restart;         /* stop at any failure, where nothing is elastic */
	bool rigid;             /* nor are the learners of diloco and decoupled */
	bool fresh;             /* all slices live at first */
	bool forget;            /* a learner that loses its last slice loses what it knew */

	/* training */
	double step, spread;    /* of an inner step at speed 1; relative standard deviation */
	const double *speed;    /* (speeds) of learners, over and over; NULL: 1 */
	unsigned speeds;
	double uneven;          /* else learners are slower in even steps, the last one by this share */
	uint64_t interval;      /* H */
	unsigned fragments, overlap, quorum, invite; /* P, tau, K; invited to a round, 0: all */
	double grace;           /* gamma */
	bool rebase;            /* adoption: what was trained since the answer stays */
	double lease, beat;     /* silence after which a learner does not count; between its signs of life */

	/* wires */
	double params;
	double delta_bits, fragment_bits; /* a parameter, in an answer, in a version */
	double bandwidth;       /* bits per second of each learner's link, each way; HUGE_VAL: no limit */
	double latency;         /* until what one wrote is seen by the other */
	double merge, look;     /* of the syncer: for a merge, and between looks at what has come */

	uint64_t tokens;        /* of an inner step of all the learners that are there at first */
	double budget;          /* tokens: ends when so many are merged; 0: none */
	struct sim_join join[SIM_JOINS];
	unsigned joins;
};

void sim_conf_defaults(struct sim_conf *c);
/* ERR_USAGE for what can't be. */
int sim_conf_check(const struct sim_conf *c) ERR_MUST;

/* What follows from it. */
unsigned sim_conf_learners(const struct sim_conf *c); /* that ever take part: 1 of lockstep and elastic */
double sim_conf_speed(const struct sim_conf *c, unsigned learner);
void sim_conf_head(const struct sim_conf *c, struct trace_head *h);
/* "2@6h-18h,1@20h": learners, from, and until. Into c->join. ERR_USAGE. */
int sim_conf_join(struct sim_conf *c, const char *text) ERR_MUST;

#endif
