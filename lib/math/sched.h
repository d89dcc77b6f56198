/*
 * sched - learning rate by global step: linear warm-up, cosine down to lr * lr_min, flat after `steps`.
 */
#ifndef SCHED_H
#define SCHED_H

#include <stdint.h>

#include "base/conf.h"
#include "math/adamw.h"

struct sched { double lr, lr_min; uint64_t warmup, steps; }; /* lr_min: fraction; steps 0: constant after warm-up */
/* The rate of the step that begins at global step s (0-based): s < warmup: lr * (s + 1) / warmup. */
double sched_rate(const struct sched *s, uint64_t step);

/* Training keys of a configuration: lr, lr_min, warmup, steps, beta1, beta2, eps, weight_decay, clip, batch, context. */
struct train_conf {
	struct sched sched;
	struct adamw_conf adamw;
	uint64_t batch, context; /* context: tokens a training sample, <= the model's */
};
extern const char *const train_keys[];
int train_conf_read(struct train_conf *t, const struct conf *from) ERR_MUST;
int train_conf_write(const struct train_conf *t, struct conf *to) ERR_MUST;

#endif
