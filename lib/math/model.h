/*
 * model - a decoder-only transformer of the Llama family, dense or a mixture of experts: loss and
 * gradients.
 *
 *     x = embed[ids]
 *     each layer:  x += Wo attn(rope(Wq n), rope(Wk n), Wv n), n = rmsnorm(x)
 *                  x += Wdown (silu(Wgate m) * Wup m),         m = rmsnorm(x)
 *     logits = Whead rmsnorm(x)          (Whead = embed when tied)
 *
 * Touvron et al. 2023 (2302.13971); rotary halves and tensor names as in Hugging Face's Llama, so
 * that import and export need no renaming. With experts the second half of a layer is that of moe.h.
 * Parameters are one flat array in table order (model_layout); q, k, v and gate, up are neighbours,
 * so each group is one product.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#include "base/pool.h"
#include "base/tensor.h"
#include "math/model_conf.h"
#include "math/real.h"

struct model;
enum model_use {
	MODEL_FORWARD,
	MODEL_TRAIN,    /* gradients, too */
	MODEL_RECOMPUTE /* the same gradients, bit for bit, in less memory and a third more time: net.h */
};

/*
 * Buffers for sequences of up to `context` tokens, batches processed by the threads of `pool`
 * (NULL: one), each taking whole sequences. All memory is allocated here. The pool stays the caller's.
 */
int model_open(struct model **out, const struct model_conf *c, int context, enum model_use use,
	struct pool *pool) ERR_MUST;
void model_close(struct model *m);
const struct model_conf *model_configuration(const struct model *m);
const struct tensors *model_tensors(const struct model *m);
uint64_t model_size(const struct model *m); /* number of parameters */
enum model_use model_use(const struct model *m);
/* Bytes of an open model that batches of B sequences of T = `context` tokens have in use. */
struct model_memory {
	uint64_t params, grads, activations;
	uint64_t rows; /* that a thread works on at a time, and activations are for */
};
int model_memory(struct model_memory *out, const struct model_conf *c, int context, enum model_use use, int threads,
	uint64_t B) ERR_MUST;
real *model_params(struct model *m);        /* (model_size) */
real *model_grads(
	struct model *m); /* (model_size), after model_backward; valid until the next call */

/*
 * ids (B, T+1): inputs are [0, T), targets [1, T+1). Ids must be below vocab (the caller's shard
 * has checked). *loss: mean over B*T of -ln p, in double, summed in fixed order. model_backward
 * also leaves the gradient of that mean in model_grads; with experts, of that mean +
 * router_aux_loss_coef * the mean load-balancing loss of the sequences. Same inputs and pool size:
 * same bits.
 */
int model_forward(struct model *m, double *loss, const uint32_t *ids, int B, int T) ERR_MUST;
int model_backward(struct model *m, double *loss, const uint32_t *ids, int B, int T) ERR_MUST;
/* The part that n of B sequences have in loss and gradient of a mean over all B: parts add up. */
int model_backward_part(struct model *m, double *loss, const uint32_t *ids, int n, int B, int T) ERR_MUST;
/* Sum (not mean) of -ln p over the T targets of each of B sequences, kept apart: sums (B). For
 * evaluation. */
int model_losses(struct model *m, double *sums, const uint32_t *ids, int B, int T) ERR_MUST;
/* -ln p of each of the targets: losses (B, T). */
int model_token_losses(struct model *m, double *losses, const uint32_t *ids, int B, int T) ERR_MUST;
/* How the tokens of the last model_forward, model_backward or model_losses went to the experts; all 0
 * for a dense model. */
struct model_load {
	uint32_t experts;       /* of a layer; 0: dense */
	const uint64_t *routed; /* (layers, experts) tokens that went to each; the model's */
	uint64_t tokens;  /* of the batch: each went to K = experts_per_token experts of every layer */
	double balance;   /* load-balancing loss, the mean of layers and sequences: K when even */
	double variation; /* of an expert's tokens: standard deviation / mean, the mean of layers */
	double least;     /* what the expert with fewest tokens in any layer got of an even share */
};
void model_load(struct model_load *out, const struct model *m);
/* What model_load tells from now on, where the batch was spread over several models: routed (layers,
 * experts) and tokens are sums over them, balance is the mean over sequences. */
void model_put_load(struct model *m, const uint64_t *routed, uint64_t tokens, double balance);
/* Logits (V) after the last of n <= context ids. */
int model_logits(struct model *m, real *logits, const uint32_t *ids, int n) ERR_MUST;
/*
 * After model_logits, with the parameters unchanged: the logits after n >= 1 more ids, which go on from
 * those seen, context in all at most. Keys and values of these were kept, so a token costs one row
 * instead of all; the logits are those of model_logits over the whole to 2e-5 of the largest, unless
 * rounding sends a token to another expert. For a model opened without training.
 */
int model_more(struct model *m, real *logits, const uint32_t *ids, int n) ERR_MUST;

#endif
