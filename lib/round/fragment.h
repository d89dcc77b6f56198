/*
 * fragment - the model cut into P fragments of about equal size (balanced tensor fragmentation).
 *
 * Tensors in order of size, largest first (equal sizes: in order of the table), each go to the fragment
 * that is smallest so far (of several: the first). Whole tensors only; deterministic from the layout
 * alone. Within a fragment tensors stand in the order of the table. Decoupled DiLoCo, 2604.21428.
 */
#ifndef FRAGMENT_H
#define FRAGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/tensor.h"

#define FRAGMENT_MAX 1000 /* "f999" */

struct fragment {
	uint32_t *tensor;      /* (n) numbers in the layout, ascending */
	uint64_t *offset;      /* (n) where each begins in the flat array of all parameters */
	size_t n;
	uint64_t elems;
	struct tensors layout; /* its own table, as it stands in its files; encoding f32 */
};
struct fragments {
	struct fragment *v;
	unsigned n;
	double imbalance; /* elements of the largest over the mean */
};

/* ERR_USAGE when count is 0, above FRAGMENT_MAX or above the number of tensors. */
int fragments_cut(struct fragments *f, const struct tensors *layout, unsigned count) ERR_MUST;
void fragments_release(struct fragments *f);

/* Between the flat array of the model and that of a fragment (its elems values, tensor after tensor). */
void fragment_gather(const struct fragment *f, float *out, const float *model);
void fragment_scatter(const struct fragment *f, float *model, const float *in);

#endif
