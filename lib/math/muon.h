/*
 * muon - Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon): a step for a matrix is its momentum made
 * orthogonal, so that all its directions are of one size.
 *
 *     m <- mu m + (1 - mu) g,   u = mu m + (1 - mu) g                            (Nesterov)
 *     X = u / |u|;  five times:  A = X X^T,  X <- a X + (b A + c A A) X          (Newton-Schulz)
 *     p <- p (1 - lr decay) - lr 0.2 sqrt(max(rows, cols)) X
 *
 * with a, b, c = 3.4445, -4.7750, 2.0315: singular values above |u| / 500 come out between 0.68 and 1.21,
 * which is as good as 1. The last factor makes the root mean square of a step that of AdamW (Liu et al.
 * 2025, 2502.16982), so that one rate and one decay serve both; Muon is the inner optimizer of MuLoCo
 * (2505.23725).
 *
 * Which tensors: the matrices within layers. Embeddings, head and norms are AdamW's (math/optimizer.h).
 */
#ifndef MUON_H
#define MUON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pool.h"
#include "base/tensor.h"
#include "math/real.h"

bool muon_takes(const struct tensor *t);

/* Reals of work that a matrix of this shape needs. */
size_t muon_work(int rows, int cols);
/* x (rows, cols), not all zero, becomes orthogonal: five steps as above. Zero stays zero. */
void muon_orthogonalise(real *x, real *work, int rows, int cols);

/* Work space for the threads of a pool, for the largest matrix of a layout. */
struct muon;
int muon_open(struct muon **out, const struct tensors *layout, struct pool *pool) ERR_MUST;
void muon_close(struct muon *u);
/* Bytes that muon_open takes for so many threads. */
size_t muon_bytes(const struct tensors *layout, int threads);

struct muon_conf { double momentum, weight_decay; };
/*
 * One step at rate lr for the matrices of the layout; gradients scaled by `scale` first. p, m, g are flat arrays
 * in its order, and other tensors in them stay as they are. A matrix is one thread's: bits do not depend on
 * the pool, which is that of muon_open.
 */
void muon_step(struct muon *u, real *p, real *m, const real *g, const struct muon_conf *c, double lr,
	double scale);

#endif
