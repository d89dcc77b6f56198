/*
 * split - which blocks of a corpus go to which shard: arithmetic only.
 *
 * Tokens are cut into blocks; the last may be shorter. With a holdout, every k-th block (i % k ==
 * k - 1) is held out. What is left goes round robin to the parts, so that each is like the whole, or
 * in equal regions one after the other (contiguous). Every block is in exactly one part.
 */
#ifndef SPLIT_H
#define SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct split {
	uint64_t tokens, block; /* both >= 1 */
	uint64_t parts;         /* >= 1, held out ones not counted */
	uint64_t every;         /* k >= 2, or 0: no holdout */
	bool contiguous;
};
/* In place of a part's number, from 0: the part held out. */
#define SPLIT_VALID UINT64_MAX

/* ERR_DATA with the remedy when a part would be empty. */
int split_check(const struct split *s) ERR_MUST;
uint64_t split_blocks(const struct split *s, uint64_t part);
uint64_t split_tokens(const struct split *s, uint64_t part);
/* Where the i-th block of a part lies in the corpus; *n is its length. */
uint64_t split_at(const struct split *s, uint64_t part, uint64_t i, uint64_t *n);

#endif
