/*
 * probe - what a model says to a few tokens that are always the same: whether two files hold the same
 * model, asked of the model itself.
 */
#ifndef PROBE_H
#define PROBE_H

#include "base/err.h"
#include "base/pool.h"
#include "math/model_conf.h"
#include "math/real.h"

#define PROBE_TOKENS 64 /* or the context, if that is less */

struct probe {
	double loss;  /* nats a token */
	real *logits; /* (V) after the last token; probe_release frees them */
	uint32_t vocab;
};
/* Fills (model_size) parameters, in the order of model_layout. */
typedef int probe_loader(void *ctx, real *params);
/* Takes memory for the whole model, and gives it back. */
int probe_run(struct probe *p, const struct model_conf *c, struct pool *pool, probe_loader *load, void *ctx)
	ERR_MUST;
void probe_release(struct probe *p);
/* Bit for bit? */
bool probe_same(const struct probe *a, const struct probe *b);
/* The largest difference of two logits, divided by the largest logit. */
double probe_difference(const struct probe *a, const struct probe *b);

#endif
