/*
 * sched - learning rate: linear warm-up by global step; cosine down to lr * lr_min_ratio, flat after `decay_steps`, or
 * by the tokens of a whole run after `decay_tokens`: how many steps those will take, nobody knows where learners
 * come and go.
 */
#ifndef SCHED_H
#define SCHED_H

#include <stdint.h>

struct sched {
	double lr, lr_min_ratio;      /* the last rate is lr * lr_min_ratio */
	uint64_t warmup, decay_steps; /* global steps; decay_steps 0: constant after warm-up */
	uint64_t decay_tokens;        /* not 0: takes the place of decay_steps */
};
/*
 * The rate of the step that begins at global step s (0-based), with so many tokens trained before it. By steps,
 * s < warmup: lr (s + 1) / warmup, and the cosine begins at warmup. By tokens it begins at once, and the warm-up is a
 * factor of it.
 */
double sched_rate(const struct sched *s, uint64_t step, uint64_t tokens);

#endif
