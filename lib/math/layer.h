/*
 * layer - forward and backward pairs of everything in the transformer that is neither a matrix
 * product nor attention. Outputs first, inputs next, sizes last; gradients start with d. Row-major.
 *
 * Axes: R rows (tokens), C channels, T positions of one sequence, D channels of a head, F
 * feed-forward channels, V vocabulary. One sequence a call where positions matter; the caller loops
 * over the batch.
 *
 * Backward functions ADD to gradients of weights and WRITE gradients of inputs, unless said. What
 * is not finite in an input is not finite in the loss: nothing here hides a NaN.
 */
#ifndef LAYER_H
#define LAYER_H

#include <stdint.h>

#include "math/real.h"

/* y (R, C) = x (R, C) * inv (R) * w (C), inv = 1 / sqrt(mean_C x^2 + eps).
 * Zhang & Sennrich 2019. */
void rmsnorm_forward(real *y, real *inv, const real *x, const real *w, int R, int C, real eps);
/* dx is added to (the residual stream carries it); dw added to. */
void rmsnorm_backward(real *dx, real *dw, const real *dy, const real *x, const real *inv,
	const real *w, int R, int C);

/* Tables (T, D/2) of cos and sin of pos * theta^(-2i/D). */
void rope_table(real *cos_t, real *sin_t, int T, int D, double theta);
/* In place on x (T, n_heads * D) with row stride ld: halves (i, i + D/2) rotated, as in HF. sign +1
 * forward, -1 backward (the transpose). Position of row 0 is pos0. */
void rope_rotate(real *x, const real *cos_t, const real *sin_t, int T, int n_heads, int D, int ld,
	int pos0, int sign);

/* h (R, F) = silu(g) * u, with g and u in one (R, 2F) array gu: gate first. */
void swiglu_forward(real *h, const real *gu, int R, int F);
void swiglu_backward(real *dgu, const real *dh, const real *gu, int R, int F);

/* Mean-free sums: *loss += -sum log p[target]; logits (R, V) become (softmax - onehot) * scale, the
 * gradient. With scale 0 logits stay as they are. Double accumulation of the sum. */
void cross_entropy(double *loss, real *logits, const uint32_t *target, int R, int V, real scale);

void embed_forward(real *x, const real *table, const uint32_t *ids, int R, int C);
void embed_backward(real *dtable, const real *dx, const uint32_t *ids, int R, int C);

#endif
