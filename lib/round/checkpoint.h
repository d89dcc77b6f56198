/*
 * checkpoint - a model from a sealed file into memory, for programs that need all of it.
 *
 *     checkpoint_open   header: what it is, its configuration
 *     ... change c.train as the options say ...
 *     checkpoint_load   the parameters, up to the verified end, and the identity
 */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "base/err.h"
#include "base/pool.h"
#include "form/frame.h"
#include "form/meta.h"
#include "math/model.h"
#include "math/train_conf.h"

struct checkpoint {
	struct meta meta;
	struct model_conf model;
	struct train_conf train;
	digest id; /* set by checkpoint_load */
};

/* ERR_DATA unless r is a checkpoint with a configuration that fits its tensors. */
int checkpoint_open(struct checkpoint *c, const struct frame_reader *r) ERR_MUST;
/* A model for sequences of c->train.context tokens, which must not exceed the model's: ERR_USAGE.
 * The caller closes it. */
int checkpoint_load(struct model **out, struct checkpoint *c, struct frame_reader *r,
	enum model_use use, struct pool *pool) ERR_MUST;

#endif
