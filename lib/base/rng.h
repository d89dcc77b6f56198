/*
 * rng - counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11).
 *
 * A generator is three integers, so it is saved by writing them down, and any
 * position can be reached at once. Everything here uses only integer arithmetic and
 * the IEEE operations + - * / sqrt, uncontracted, so the same seed gives the same
 * bits on any machine: no libm.
 */
#ifndef RNG_H
#define RNG_H

#include <stdint.h>

struct rng {
	uint64_t seed, stream, counter; /* counter: 32-bit words drawn so far */
};

/* A stream number from a name: FNV-1a 64 of the text. */
uint64_t rng_stream(const char *name);
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);

uint32_t rng_u32(struct rng *r);
uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), n > 0, no bias */
double rng_unit(struct rng *r);                /* uniform in [0, 1), 53 bits */

/* The raw bijection: four words of block `number`. Numbers from 2^62 on are used by the below. */
void rng_block(uint32_t out[4], uint64_t seed, uint64_t number, uint64_t stream);

/* The i-th standard normal of (seed, stream): a pure function, any order, any machine. */
float rng_normal_at(uint64_t seed, uint64_t stream, uint64_t i);

/*
 * A keyed permutation of [0, n): distinct i give distinct results, no table, n up to 2^62.
 * (Feistel network on the next power of four, cycle-walking back into range.)
 */
uint64_t rng_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);

#endif
