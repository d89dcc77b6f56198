/*
 * drawn_sim - simulations with everything drawn by lot, and their traces: failures all the time and none, learners that
 * die of each and that forget, that come and go, links and syncers that are slow, every mode and rule.
 */
#ifndef DRAWN_SIM_H
#define DRAWN_SIM_H

#include <math.h>
#include <unistd.h>

#include "base/rng.h"
#include "chaos/sim.h"
#include "io/fd.h"
#include "unit.h"

static inline double drawn_from(struct rng *r, const double *v, size_t n)
{
	return v[rng_below(r, n)];
}
#define DRAW(r, ...) \
	drawn_from(r, (const double[]){ __VA_ARGS__ }, sizeof((double[]){ __VA_ARGS__ }) / sizeof(double))

static inline void drawn_sim_cluster(struct sim_conf *c, struct rng *r)
{
	c->learners = (unsigned)DRAW(r, 1, 2, 3, 4, 7);
	c->chips = c->learners * DRAW(r, 1, 1, 3, 10, 300, 1000);
	c->slice = DRAW(r, 1, 2, 256, 1000);
	c->mtbi = DRAW(r, 20, 60, 300, 3600, HUGE_VAL) * (c->chips / c->learners > 100 ? 100 : 1);
	c->repair_low = DRAW(r, 0, 0, 5, 20, 60);
	c->repair_high = c->repair_low + DRAW(r, 0, 0, 10, 40, 300);
	c->scale_down = DRAW(r, 0, 0.5, 9.5);
	c->scale_up = DRAW(r, 0, 0.5, 9.5);
	c->restart = DRAW(r, 0, 5, 63);
	c->rigid = rng_below(r, 3) == 0;
	c->fresh = rng_below(r, 2);
	c->forget = rng_below(r, 2);
	c->step = DRAW(r, 0.5, 1, 5);
	c->spread = DRAW(r, 0, 0.02, 0.5, 1);
	c->uneven = DRAW(r, 0, 0, 0.2, 0.9);
	c->length = DRAW(r, 1, 60, 150);
}

static inline void drawn_sim_rules(struct sim_conf *c, struct rng *r)
{
	c->fragments = (unsigned)DRAW(r, 1, 2, 3, 4);
	c->interval = (uint64_t)DRAW(r, 1, 2, 6, 24);
	c->overlap = (unsigned)DRAW(r, 1, 2, 3, 10);
	c->quorum = rng_below(r, 2) ? 1 : 1 + (unsigned)rng_below(r, c->learners);
	c->invite = rng_below(r, 2) ? c->quorum + (unsigned)rng_below(r, c->learners) : 0;
	c->grace = DRAW(r, 0, 0.5, 1, 5);
	c->rebase = rng_below(r, 2);
	c->lease = DRAW(r, 0.5, 3, 10, 30);
	c->beat = DRAW(r, 0, 0.2, 1, 10);
	c->bandwidth = DRAW(r, 1e7, 1e8, 1e9, 1e10, HUGE_VAL);
	c->latency = DRAW(r, 0, 0.02, 1, 7);
	c->merge = DRAW(r, 0, 0.05, 3);
	c->look = DRAW(r, 0, 0.05, 2);
	c->tokens = (uint64_t)DRAW(r, 1, 1000, 8388608);
	c->budget = rng_below(r, 5) == 0 ? 50.0 * (double)c->tokens : 0;
}

static inline void drawn_sim_joins(struct sim_conf *c, struct rng *r)
{
	for (unsigned k = (unsigned)rng_below(r, 3); k; k--) {
		struct sim_join *j = &c->join[c->joins++];

		j->n = 1 + (unsigned)rng_below(r, 2);
		j->from = (double)rng_below(r, 100);
		j->until = rng_below(r, 2) ? HUGE_VAL : j->from + DRAW(r, 0.5, 20, 60);
	}
}

/* As a seed will have it. */
static inline void drawn_sim(struct sim_conf *c, uint64_t seed)
{
	struct rng r;

	rng_init(&r, seed, rng_stream("drawn sim"));
	sim_conf_defaults(c);
	c->seed = seed;
	c->mode = rng_below(&r, 2) ? TRACE_DECOUPLED : (enum trace_mode)rng_below(&r, 4);
	drawn_sim_cluster(c, &r);
	drawn_sim_rules(c, &r);
	if (c->mode >= TRACE_DILOCO)
		drawn_sim_joins(c, &r);
}

/* A descriptor at the beginning of the trace; it is the caller's. */
static inline int drawn_sim_trace(const struct sim_conf *c, struct sim_result *r)
{
	struct trace_writer *w = NULL;
	struct trace_head h;
	int fd = -1;

	sim_conf_head(c, &h);
	CHECK(fd_temporary(&fd) == 0 && trace_create(&w, fd, &h) == 0);
	CHECK(sim_run(c, w, r) == 0);
	CHECK(trace_finish(w) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	trace_discard(w);
	return fd;
}

#endif
