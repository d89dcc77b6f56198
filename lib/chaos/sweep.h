/*
 * sweep - many simulations: each mode, number of chips and number of learners, each with several seeds; and what
 * comes of them as a table.
 *
 * lockstep and elastic are one learner whatever M is, and so have one cell for each number of chips. Cells and
 * seeds run on the threads of a pool; the result does not depend on how many those are.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/pool.h"
#include "chaos/sim.h"

#define SWEEP_VALUES 64   /* of each list */
#define SWEEP_SEEDS 10000

struct sweep_cell {
	struct sim_conf conf;
	struct sim_result *result;  /* (seeds) with seeds conf.seed, conf.seed + 1, ...; owned by the sweep */
};
struct sweep {
	enum trace_mode mode[4];
	size_t modes;
	double chips[SWEEP_VALUES], learners[SWEEP_VALUES];
	size_t chip_counts, learner_counts;
	unsigned seeds;
	bool alike;                 /* learners are as large as those of base, however many: chips are not listed */
	const struct sim_result *measured; /* of a real run of `measured_learners`: the first line; or NULL */
	unsigned measured_learners;
	struct sweep_cell *cell;    /* (cells), after sweep_run; owned */
	size_t cells;
};

/* "lockstep,elastic". ERR_USAGE. */
int sweep_modes(struct sweep *s, const char *text) ERR_MUST;
/*
 * "150k,300k,...,2.4M": numbers with k, M, G or T behind; dots go on by the ratio of the two before them, up to
 * the number behind them. At most `most` values into out (SWEEP_VALUES); returns how many, or ERR_USAGE.
 */
int sweep_numbers(double *out, const char *text, double most) ERR_MUST;

/* All cells of the lists, with the rest as in base. ERR_USAGE, naming the cell, for one that can't be. */
int sweep_run(struct sweep *s, const struct sim_conf *base, struct pool *pool) ERR_MUST;
void sweep_release(struct sweep *s);

enum sweep_form { SWEEP_TEXT, SWEEP_TSV, SWEEP_JSON };
/*
 * A line each cell: the mean over seeds, and with more than one seed the half width of its 95 % confidence
 * interval (Student's t). TSV has a line of names first and all digits; JSON is an object a line.
 */
int sweep_print(const struct sweep *s, enum sweep_form form, struct buf *out) ERR_MUST;

#endif
