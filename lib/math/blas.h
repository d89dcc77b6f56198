/*
 * blas - row-major matrix products. The only file that includes cblas.h.
 *
 * Called from our own threads, one product each: blas_init keeps OpenBLAS single-threaded.
 */
#ifndef BLAS_H
#define BLAS_H

#include "base/err.h"
#include "math/real.h"

void blas_init(void); /* before the first product; cheap to repeat */
/* Is there memory for products in so many threads at a time? OpenBLAS takes it at the first product
 * of a thread, and where there is none it tries again for ever. */
int blas_room(int threads) ERR_MUST;

/* C (m, n) = A (m, k) B(n, k)^T + beta C: a linear layer, weights (out, in). */
void blas_nt(real *c, const real *a, const real *b, int m, int n, int k, real beta);
/* C (m, n) = A (m, k) B (k, n) + beta C: gradient with respect to the input. */
void blas_nn(real *c, const real *a, const real *b, int m, int n, int k, real beta);
/* C (m, n) = A (k, m)^T B (k, n) + beta C: gradient with respect to the weights. */
void blas_tn(real *c, const real *a, const real *b, int m, int n, int k, real beta);

#endif
