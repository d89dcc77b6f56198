/*
 * feed - the batches one learner sees: samples of a shard, in the learner's own order, from a
 * position on. Which sample comes at which position is batch.h's; the position is all that has to
 * be saved.
 */
#ifndef FEED_H
#define FEED_H

#include <stdint.h>

#include "base/err.h"
#include "form/shard.h"
#include "math/batch.h"

struct feed {
	struct shard *shard; /* the caller's */
	struct batch_order order;
	uint64_t context; /* tokens a sample */
	uint64_t cursor;  /* position of the next sample, over all epochs */
};

/* Begins at position 0. ERR_DATA when the shard is not of this vocabulary (shard_want_vocab), or it is too
 * short for one sample. */
int feed_init(struct feed *f, struct shard *shard, uint64_t seed, const char *learner,
	uint64_t context, uint32_t vocab, const char *vocabulary) ERR_MUST;
/* The next `batch` samples, one after the other, context + 1 ids each. */
int feed_draw(struct feed *f, uint32_t *ids, uint64_t batch) ERR_MUST;
/* The epoch the next sample belongs to, from 0. */
uint64_t feed_epoch(const struct feed *f);

#endif
