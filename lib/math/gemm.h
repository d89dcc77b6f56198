/*
 * gemm - row-major matrix products of the model's sizes: a few hundred rows of activations and weights of a
 * hundred to a few thousand columns, where a library spends much of its time on the way to its kernel.
 *
 * The right-hand matrix is packed a panel at a time on the way through the cache, and the left-hand
 * one is read where it is, or packed where its rows would all fall on the same lines of the cache.
 * Register tiles of 14 x 32 with AVX-512 and 6 x 16 with AVX2 and FMA (Goto & van de Geijn 2008; Van
 * Zee & van de Geijn 2015); without them, and for few rows, OpenBLAS (blas.h). Which, is a matter of
 * processor and sizes alone: same machine, same bits. Each element is the sum over k in order, in blocks.
 *
 * Any thread may call any of them at any time, each with its own work, which is GEMM_WORK reals.
 */
#ifndef GEMM_H
#define GEMM_H

#include <stdbool.h>

#include "math/real.h"

/* Blocks of k, columns and rows: a panel of B in the first cache, a block of A in the second. GEMM_MC is a
 * multiple of the rows of both register tiles, GEMM_NC of their columns. */
enum { GEMM_KC = 256, GEMM_NC = 1024, GEMM_MC = 168, GEMM_WORK = GEMM_KC * (GEMM_NC + GEMM_MC) };

/* C (m, n) = A (m, k) B (n, k)^T, or added to C: a linear layer, weights (out, in). */
void gemm_nt(real *c, const real *a, const real *b, int m, int n, int k, bool add, real *work);
/* C (m, n) = A (m, k) B (k, n): gradient with respect to the input. */
void gemm_nn(real *c, const real *a, const real *b, int m, int n, int k, bool add, real *work);
/* C (m, n) = A (k, m)^T B (k, n): gradient with respect to the weights. */
void gemm_tn(real *c, const real *a, const real *b, int m, int n, int k, bool add, real *work);

/*
 * Small operands that are in the cache, nothing packed and no work wanted: rows are lda, ldb and ldc reals apart, m is
 * a multiple of GEMM_PAD_ROWS and n of GEMM_PAD_COLS (pad them).
 */
enum { GEMM_PAD_ROWS = 6, GEMM_PAD_COLS = 16 };

/* C (m, n) = A (m, k) B (k, n), or added to C. */
void gemm_padded_nn(real *c, int ldc, const real *a, int lda, const real *b, int ldb, int m, int n, int k, bool add);
/* C (m, n) = A (k, m)^T B (k, n), or added to C. */
void gemm_padded_tn(real *c, int ldc, const real *a, int lda, const real *b, int ldb, int m, int n, int k, bool add);

#endif
