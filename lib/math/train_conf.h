/*
 * train_conf - how a model is trained: the training keys of a configuration.
 *
 * Keys and defaults: lr 1e-3, lr_min_ratio 0.1, warmup 40, decay_steps 768, beta1 0.9, beta2 0.95,
 * eps 1e-8, weight_decay 0.1, clip 1, optimizer adamw, muon_momentum 0.95, batch 8. `context` is the
 * model's own key: a sample is as long as the model's context unless a program is told otherwise.
 */
#ifndef TRAIN_CONF_H
#define TRAIN_CONF_H

#include <stdint.h>

#include "base/conf.h"
#include "math/adamw.h"
#include "math/model_conf.h"
#include "math/optimizer_kind.h"
#include "math/sched.h"

struct train_conf {
	struct sched sched;
	struct adamw_conf adamw;
	enum optimizer_kind optimizer;
	double muon_momentum;
	uint64_t batch, context; /* sequences a step; tokens a sequence */
};
/* NULL-terminated; `context`, a model key, is not in it. */
extern const char *const train_keys[];
int train_conf_read(struct train_conf *t, const struct conf *from) ERR_MUST;
int train_conf_write(const struct train_conf *t, struct conf *to) ERR_MUST;

#endif
