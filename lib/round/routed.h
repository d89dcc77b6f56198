/*
 * routed - how many tokens the experts of a mixture were given since the base of a delta, tensor by tensor: what
 * an outer step may weigh the tensors of an expert by.
 *
 * In headers of deltas and states it is one key, a count for each expert in the order of the table of tensors;
 * neighbours that are of one expert have one count together:
 *
 *     tensor model.layers.0.block_sparse_moe.experts.0.w1.weight ...
 *     tensor model.layers.0.block_sparse_moe.experts.0.w2.weight ...      routed 310 188
 *     tensor model.layers.0.block_sparse_moe.experts.1.w1.weight ...
 *
 * Counts (tensors) have a place for every tensor of a table; those of no expert stay 0.
 */
#ifndef ROUTED_H
#define ROUTED_H

#include <stdint.h>

#include "base/conf.h"
#include "base/tensor.h"

#define ROUTED_KEY "routed"
#define ROUTED_NONE UINT32_MAX

uint32_t routed_experts(const struct tensors *layout); /* the highest number of one, and 1; 0: there is none */
/* Into route (tensors): where in an array (layers, experts) the expert of each tensor is, or ROUTED_NONE. */
void routed_map(uint32_t *route, const struct tensors *layout, uint32_t experts);
/* load (layers, experts): what one step routed. */
void routed_add(uint64_t *count, const uint32_t *route, const uint64_t *load, size_t tensors);

/* No key for a table without experts. */
int routed_write(struct conf *to, const char *key, const struct tensors *layout, const uint64_t *count) ERR_MUST;
/* 1; or 0 and count untouched, when the key is not there. ERR_DATA: it is no list of as many counts as the table has
 * experts, or one of them is above `most`, the tokens there were. */
int routed_read(uint64_t *count, const struct conf *from, const char *key, const struct tensors *layout, uint64_t most)
	ERR_MUST;

#endif
