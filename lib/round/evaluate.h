/*
 * evaluate - held-out loss over a whole shard, and sampling.
 *
 * Windows of T tokens one after the other, each predicting its tokens from those before it in the
 * window; every token of the shard but the first is predicted once. The sum is taken window by
 * window, in order: batch and threads change nothing beyond the rounding of single products.
 */
#ifndef EVALUATE_H
#define EVALUATE_H

#include <stdint.h>

#include "base/err.h"
#include "base/say.h"
#include "form/shard.h"
#include "math/model.h"
#include "math/sample.h"

struct evaluate_result {
	uint64_t tokens;      /* predicted */
	double loss;          /* nats a token */
	double perplexity;    /* e^loss */
	double bits_per_byte; /* of the text the shard came from; 0 when its bytes are unknown */
};
/* A token that was predicted: its position in the shard, from 1, its id, and ln p. */
typedef int evaluate_each(void *ctx, uint64_t position, uint32_t id, double logprob);
struct evaluate_pass {
	int batch, context;  /* windows at a time, tokens of each */
	evaluate_each *each; /* called for every token in order, when not NULL; an error of it ends the pass */
	void *ctx;
	const char *model;   /* its name, for errors that are the model's; NULL: they don't name it */
};
/* ERR_DATA for a shard of fewer than two tokens or another vocabulary, and for a loss that is not
 * finite. `c` is the configuration m was opened with, for T = context at least. */
int evaluate_shard(struct evaluate_result *out, struct model *m, const struct model_conf *c,
	struct shard *shard, const struct evaluate_pass *how, struct say *say) ERR_MUST;

struct evaluate_draw {
	struct sample_conf sample;
	uint64_t seed;
	int context; /* the window that is looked back on, <= the one m was opened with */
};
/*
 * Appends n tokens to the `have` >= 1 ids (room for n more), calling emit for each; an error of emit ends
 * it and is returned. As long as the window holds all of the text a token costs one row; beyond, the
 * window moves on with each token and is computed anew, so that nothing outside of it counts.
 */
int evaluate_sample(struct model *m, const struct model_conf *c, uint32_t *ids, size_t have,
	size_t n, const struct evaluate_draw *draw, int (*emit)(void *ctx, uint32_t id), void *ctx) ERR_MUST;

#endif
