/*
 * sched - learning rate by global step: linear warm-up, cosine down to lr * lr_min_ratio, flat
 * after `decay_steps`.
 */
#ifndef SCHED_H
#define SCHED_H

#include <stdint.h>

struct sched {
	double lr, lr_min_ratio;      /* the last rate is lr * lr_min_ratio */
	uint64_t warmup, decay_steps; /* global steps; decay_steps 0: constant after warm-up */
};
/* The rate of the step that begins at global step s (0-based): s < warmup: lr (s + 1) / warmup. */
double sched_rate(const struct sched *s, uint64_t step);

#endif
