/*
 * moe - the feed-forward part of a layer as a mixture of experts, as in Mixtral (Jiang et al. 2024,
 * 2401.04088).
 *
 *     p = softmax(Wgate n)                          over all E experts
 *     x += sum over the K largest p_e of  w_e W2_e (silu(W1_e n) * W3_e n),  w_e = p_e / their sum
 *
 * No expert is ever full: every row goes to its K experts. The rows of an expert are gathered, so
 * that an expert is two products, whatever its rows; sums over experts are taken in their order.
 *
 * The load-balancing loss (Fedus et al. 2022, 2101.03961) of a sequence of T rows is
 *
 *     E sum_e f_e P_e,   f_e = rows that go to e / T,   P_e = mean of p_e over the rows,
 *
 * K when the load is even. It is taken sequence by sequence: that of a batch is the mean of its
 * sequences, like the loss of the text, so that threads and hosts may share a batch in any way.
 *
 * Axes: R rows, G sequences of T rows, E experts, K experts of a row, C channels, F channels of an
 * expert. A slot is a row at one of its experts: R * K of them, by expert, and by row within.
 * Weights of a layer: Wgate (E, C), then of each expert W1 (F, C), W3 (F, C), W2 (C, F).
 */
#ifndef MOE_H
#define MOE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "math/model_conf.h"
#include "math/real.h"

/* The rows of one layer at their experts. */
struct moe_route {
	real *prob;   /* (R, E) softmax of what the router says */
	real *weight; /* (R*K) of a slot: w_e of its row */
	int *row;     /* (R*K) of a slot */
	int *start;   /* (E + 1) first slot of each expert, then R*K */
};
/*
 * prob holds the router's logits on entry. Of equal logits the first expert is taken; rows with a
 * number that is not finite go to the first K, with weights that are not numbers. work: (R*K) and
 * (R*K) elements.
 */
void moe_route(struct moe_route *r, real *chosen, int *pick, int R, int E, int K);
/* dlogits (R, E) written, from dweight (R*K) of the slots. mean (R): work. */
void moe_route_backward(real *dlogits, const real *dweight, const struct moe_route *r, real *mean,
	int R, int E, int K);
/* The sum of the load-balancing loss over G sequences. count (G, E): written, rows at each expert. */
double moe_balance(int *count, const struct moe_route *r, int G, int T, int E);
/* dlogits (R, E) is added the gradient of scale * that sum. count: from moe_balance. */
void moe_balance_backward(real *dlogits, const int *count, const struct moe_route *r, real scale,
	int G, int T, int E);

/* Activations of all layers, and work space. */
struct moe;
/* What is kept of the layers of a forward pass for the backward pass: nothing, all, or the last one, the others
 * being computed again. */
enum moe_use { MOE_FORWARD, MOE_TRAIN, MOE_RECOMPUTE };
/* For up to `rows` rows a call. */
int moe_open(struct moe **out, const struct model_conf *c, int rows, enum moe_use use) ERR_MUST;
void moe_close(struct moe *m);
/* Bytes that activations and work space take. */
size_t moe_bytes(const struct model_conf *c, int rows, enum moe_use use);
/* Elements of the weights of a layer. */
size_t moe_weights(const struct model_conf *c);

/* x (R, C) is added to; n (R, C), R = G * T; w: the weights of layer l. The first layer starts the
 * counts of moe_load anew. */
void moe_forward(struct moe *m, int l, real *x, const real *n, const real *w, int G, int T);
/* With MOE_RECOMPUTE, before moe_backward of any layer but the last: what moe_forward of it left, bit for bit. */
void moe_again(struct moe *m, int l, const real *n, const real *w, int G, int T);
/*
 * After moe_forward of all layers: dn (R, C) is written; dw added to; dx (R, C) the gradient of x;
 * n and w as they were. Also the gradient of balance * the load-balancing loss, summed over
 * sequences.
 */
void moe_backward(struct moe *m, int l, real *dn, real *dw, const real *dx, const real *n,
	const real *w, real balance, int G, int T);
/* Of the last forward pass: routed (layers, E) is added the rows that went to each expert, *balance
 * the load-balancing loss summed over sequences, the mean of the layers. */
void moe_load(const struct moe *m, uint64_t *routed, double *balance);

#endif
