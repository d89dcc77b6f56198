/*
 * attention - causal grouped-query attention over one sequence, forward and backward.
 *
 *     y_t = sum_{s <= t} p_ts v_s,   p_t = softmax(q_t k_s / sqrt(D))
 *
 * Axes: T positions, H query heads, K key/value heads (H / K query heads share one), D channels of
 * a head. q (T, H*D), k and v (T, K*D) lie in one projection: all three have row stride ld; so have
 * their gradients. y and dy (T, H*D) are dense.
 *
 * Of the probabilities only lse (H, T), the logarithm of each row's sum, is kept: the backward pass
 * computes them again, a strip of rows at a time, so that nothing of size T x T exists (Dao et al.
 * 2022, 2205.14135).
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stddef.h>

#include "math/real.h"

/* Work space, in reals, of either function; one for each thread. */
size_t attention_work(int T, int D);
void attention_forward(real *y, real *lse, const real *q, const real *k, const real *v, real *work,
	int T, int H, int K, int D, int ld);
/*
 * The same for the last T of past + T positions, a row at a time: q (T, H*D) with row stride ldq, k and
 * v (past + T, K*D) with row stride ldkv. Work space as for past + T positions.
 */
void attention_extend(real *y, const real *q, const real *k, const real *v, real *work, int past,
	int T, int H, int K, int D, int ldq, int ldkv);
void attention_backward(real *dq, real *dk, real *dv, const real *dy, const real *y,
	const real *lse, const real *q, const real *k, const real *v, real *work, int T, int H,
	int K, int D, int ld);

#endif
