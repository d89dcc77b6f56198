/*
 * sched - learning rate by global step: linear warm-up, cosine down to lr * lr_min, flat after
 * `steps`.
 */
#ifndef SCHED_H
#define SCHED_H

#include <stdint.h>

struct sched {
	double lr, lr_min;      /* lr_min: a fraction of lr */
	uint64_t warmup, steps; /* steps 0: constant after warm-up */
};
/* The rate of the step that begins at global step s (0-based): s < warmup: lr (s + 1) / warmup. */
double sched_rate(const struct sched *s, uint64_t step);

#endif
