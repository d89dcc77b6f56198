/*
 * optimizer - what turns gradients into a step: AdamW for all tensors, or Muon for the matrices within layers and
 * AdamW for the rest.
 *
 * Its state is m, the running mean of the gradient of each parameter, v, that of its square for what AdamW takes,
 * and the number of steps.
 */
#ifndef OPTIMIZER_H
#define OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "base/tensor.h"
#include "math/adamw.h"
#include "math/muon.h"
#include "math/optimizer_kind.h"
#include "math/real.h"

/* Has it a mean of squares? */
bool optimizer_squares(enum optimizer_kind kind, const struct tensor *t);
/* How many elements have one: the length of v, where they follow each other in the order of the layout. */
uint64_t optimizer_size_v(enum optimizer_kind kind, const struct tensors *layout);

struct optimizer {
	enum optimizer_kind kind;
	const struct tensors *layout; /* the caller's */
	struct pool *pool;            /* the caller's */
	real *m, *v;      /* (N), (optimizer_size_v) */
	struct muon *muon; /* or NULL */
	uint64_t updates; /* steps in all: AdamW's bias correction */
};
/* Everything zero. After a failure, too, optimizer_close. */
int optimizer_open(struct optimizer *o, enum optimizer_kind kind, const struct tensors *layout,
	struct pool *pool) ERR_MUST;
void optimizer_close(struct optimizer *o);
/* Moments and step count of another one of the same kind and layout; NULL: zero. */
void optimizer_take(struct optimizer *o, const struct optimizer *from);
/* Bytes of m, v and work space for so many threads. */
uint64_t optimizer_bytes(enum optimizer_kind kind, const struct tensors *layout, int threads);
/*
 * One step at rate lr; gradients scaled by `scale` first. p and g: (N), in the order of the layout. Decay for
 * tensors of rank >= 2. momentum: Muon's. Bits do not depend on the pool.
 */
void optimizer_step(struct optimizer *o, real *p, const real *g, const struct adamw_conf *adamw,
	double momentum, double lr, double scale);

#endif
