/*
 * codec - the values of one slice of a tensor to bytes and back.
 *
 * Plain integers are little-endian. Floats are split into byte planes (all low bytes first, then
 * the next, ...), which compress better. f32r holds a value and a remainder for each element: value
 * + remainder is the exact difference of two floats, so that base - delta gives back the learner's
 * parameters bit for bit (codec_difference). bf16 rounds to nearest even; NaN stays NaN. Functions
 * are pure; denormals, infinities and NaN pass unchanged through f32 and f32r.
 */
#ifndef CODEC_H
#define CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/tensor.h"

/* Bytes of n elements. */
size_t codec_size(const struct tensor *t, size_t n);
/* f32 values (n) and, for f32r only, remainders (n; NULL is all zero) to bytes. */
void codec_encode(
	const struct tensor *t, uint8_t *out, const float *value, const float *rest, size_t n);
/* Bytes to values; rest (may be NULL) gets the remainders, zeros unless f32r. */
void codec_decode(const struct tensor *t, float *value, float *rest, const uint8_t *in, size_t n);
/*
 * base - local as value + rest with  (float)((double)base - value - rest) == local  exactly,
 * whatever the magnitudes: value = fl(base - local), and rest is zero where value alone restores
 * local, else a few bits that do, so it compresses to almost nothing. (Zero is restored as +0: ==
 * knows no sign.) Finite inputs; a non-finite base or local gives a non-finite value and rest 0.
 * Needs the usual rounding, and denormals not flushed to zero.
 */
void codec_difference(float *value, float *rest, const float *base, const float *local, size_t n);
/* n integers from this machine's byte order to the file's, and back. */
void codec_order(const struct tensor *t, void *out, const void *in, size_t n);
void codec_bf16_round(float *out, const float *in, size_t n);

#endif
