/*
 * blas - row-major matrix products. The only file that includes cblas.h.
 *
 * Called from our own threads, one product each: blas_init keeps OpenBLAS single-threaded.
 */
#ifndef BLAS_H
#define BLAS_H

#include "math/real.h"

void blas_init(void); /* before the first product; cheap to repeat */

/* C (m, n) = A (m, k) B(n, k)^T + beta C: a linear layer, weights (out, in). */
void blas_nt(real *c, const real *a, const real *b, int m, int n, int k, real beta);
/* C (m, n) = A (m, k) B (k, n) + beta C: gradient with respect to the input. */
void blas_nn(real *c, const real *a, const real *b, int m, int n, int k, real beta);
/* C (m, n) = A (k, m)^T B (k, n) + beta C: gradient with respect to the weights. */
void blas_tn(real *c, const real *a, const real *b, int m, int n, int k, real beta);

#endif
