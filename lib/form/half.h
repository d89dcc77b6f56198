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

void half_f16_get(float *out, const uint8_t *in, size_t n);
void half_bf16_get(float *out, const uint8_t *in, size_t n);
size_t half_f16_put(uint8_t *out, const float *in, size_t n, size_t *first);
size_t half_bf16_put(uint8_t *out, const float *in, size_t n, size_t *first);

#endif
