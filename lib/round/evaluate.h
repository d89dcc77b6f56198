/*
 * evaluate - held-out loss over a whole shard, and sampling.
 *
 * Windows of T tokens one after the other, each predicting its tokens from those before it in the window; every token of the shard
 * but the first is predicted once. The sum is taken window by window in order: the same to 1e-6 for any batch size.
 */
#ifndef EVALUATE_H
#define EVALUATE_H

#include <stdint.h>

#include "base/err.h"
#include "form/shard.h"
#include "math/model.h"
#include "math/sample.h"

struct evaluate_result {
	uint64_t tokens;      /* predicted */
	double loss;          /* nats a token */
	double perplexity, bits_per_byte; /* the latter 0 when the shard's bytes are unknown */
};
int evaluate_shard(struct evaluate_result *out, struct model *m, struct shard *s, int batch, int context) ERR_MUST;
/* Appends n tokens to ids (room for n more), from a window of the last `context` ones; calls emit for each. */
int evaluate_sample(struct model *m, uint32_t *ids, size_t have, size_t n, int context, const struct sample_conf *c, uint64_t seed,
	int (*emit)(void *ctx, uint32_t id), void *ctx) ERR_MUST;

#endif
