/*
 * adamw - AdamW (Loshchilov & Hutter, 1711.05101): decoupled decay, bias correction; and gradient
 * clipping.
 */
#ifndef ADAMW_H
#define ADAMW_H

#include <stdint.h>

#include "base/pool.h"
#include "base/tensor.h"
#include "math/real.h"

struct adamw_conf { double beta1, beta2, eps, weight_decay, clip; }; /* clip 0: none */

/* Euclidean norm of n values, in double, the same bits for any number of threads. */
double adamw_norm(const real *g, uint64_t n, struct pool *pool);
/*
 * One step, number `t` (from 1), at rate lr; gradients scaled by `scale` first (clipping: min(1,
 * clip / norm)). Decay for tensors of rank >= 2 only. p, g, m, v are flat arrays in the order of
 * `layout`. Bits do not depend on the pool.
 */
void adamw_step(real *p, real *m, real *v, const real *g, const struct tensors *layout,
	const struct adamw_conf *c, double lr, double scale, uint64_t t, struct pool *pool);

#endif
