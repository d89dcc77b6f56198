/*
 * half - two-byte floats, as other formats hold them: IEEE 754 binary16 ("f16") and bfloat16
 * ("bf16"), little-endian in memory, to float and back.
 *
 * Widening is exact for every value, NaN staying NaN. Narrowing rounds to nearest even; a finite
 * value too large for the narrow type becomes infinity there: half_f16_put and half_bf16_put return
 * how many did, and *first (may be NULL) is the place of the first.
 */
#ifndef HALF_H
#define HALF_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* One value, as half_bf16_put makes it. Rounding could carry a NaN into infinity; chosen without a branch, to be
 * vectorised. */
static inline uint16_t half_bf16_of(float x)
{
	const uint32_t b = float_bits(x), rounded = (b + 0x7fff + (b >> 16 & 1)) >> 16;

	return (uint16_t)((b & 0x7fffffff) > 0x7f800000 ? b >> 16 | 0x40 : rounded);
}

void half_f16_get(float *out, const uint8_t *in, size_t n);
void half_bf16_get(float *out, const uint8_t *in, size_t n);
size_t half_f16_put(uint8_t *out, const float *in, size_t n, size_t *first);
size_t half_bf16_put(uint8_t *out, const float *in, size_t n, size_t *first);

#endif
