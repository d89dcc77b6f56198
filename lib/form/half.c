#include "form/half.h"

#include <stdbool.h>

#include "base/bytes.h"

#define INFINITE 0x7f800000u /* the bits of a float's magnitude */

/* Values are converted in runs of this many, by loops that compilers vectorise. */
#define RUN 256

/* The exponent is moved from one bias to the other by a product, which is exact and does subnormals
 * right; infinity and NaN, which it would make finite, get their exponent back. */
static float f16_to_float(uint16_t h)
{
	const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
	const uint32_t b = float_bits(float_from(magnitude) * 0x1p112f);

	return float_from(b | sign | (magnitude >= 0x0f800000u ? INFINITE : 0));
}

static uint32_t if_so(bool condition)
{
	return 0u - condition;
}

/* All ways are gone and one is chosen by masks, without a branch. Below 2^-14 a number is rounded to units
 * of 2^-24 by adding one whose last place is that. 65520 is the first that is nearer to 2^16. */
static uint16_t f16_of(float x)
{
	const uint32_t b = float_bits(x), m = b & 0x7fffffff;
	const uint32_t is_nan = if_so(m > INFINITE), is_large = if_so(m >= 0x477ff000) & ~is_nan;
	const uint32_t is_small = if_so(m < 0x38800000), is_normal = ~(is_nan | is_large | is_small);
	const uint32_t normal = (m - 0x38000000 + 0xfff + (m >> 13 & 1)) >> 13;
	const uint32_t small = float_bits(float_from(m & is_small) + 0.5f) - float_bits(0.5f);

	return (uint16_t)((b >> 16 & 0x8000) | (normal & is_normal) | (small & is_small) | (0x7c00 & is_large) |
		((0x7e00 | (m >> 13 & 0x1ff)) & is_nan));
}

static void load(uint16_t *restrict to, const uint8_t *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = le16_get(from + 2 * i);
}

static void store(uint8_t *restrict to, const uint16_t *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		le16_put(to + 2 * i, from[i]);
}

static void f16_run_get(float *restrict to, const uint16_t *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = f16_to_float(from[i]);
}

static void bf16_run_get(float *restrict to, const uint16_t *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = float_from((uint32_t)from[i] << 16);
}

static void f16_run_put(uint16_t *restrict to, const float *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = f16_of(from[i]);
}

static void bf16_run_put(uint16_t *restrict to, const float *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = half_bf16_of(from[i]);
}

static void get(float *out, const uint8_t *in, size_t n, void (*convert)(float *, const uint16_t *, size_t))
{
	uint16_t run[RUN];

	for (size_t at = 0, part; at < n; at += part) {
		part = n - at < RUN ? n - at : RUN;
		load(run, in + 2 * at, part);
		convert(out + at, run, part);
	}
}

void half_f16_get(float *out, const uint8_t *in, size_t n)
{
	get(out, in, n, f16_run_get);
}

void half_bf16_get(float *out, const uint8_t *in, size_t n)
{
	get(out, in, n, bf16_run_get);
}

/* How many of n finite values have become `infinite`, the type's infinity. */
static size_t count_lost(size_t lost, size_t *first, const float *in, const uint16_t *narrow, size_t n,
	uint16_t infinite, size_t at)
{
	for (size_t i = 0; i < n; i++)
		if ((narrow[i] & 0x7fff) == infinite && (float_bits(in[i]) & 0x7fffffff) < INFINITE) {
			if (lost++ == 0 && first)
				*first = at + i;
		}
	return lost;
}

static bool any_infinite(const uint16_t *narrow, size_t n, uint16_t infinite)
{
	unsigned any = 0;

	for (size_t i = 0; i < n; i++)
		any |= (narrow[i] & 0x7fff) == infinite;
	return any != 0;
}

static size_t put(uint8_t *out, const float *in, size_t n, size_t *first,
	void (*convert)(uint16_t *, const float *, size_t), uint16_t infinite)
{
	uint16_t run[RUN];
	size_t lost = 0;

	for (size_t at = 0, part; at < n; at += part) {
		part = n - at < RUN ? n - at : RUN;
		convert(run, in + at, part);
		store(out + 2 * at, run, part);
		if (any_infinite(run, part, infinite))
			lost = count_lost(lost, first, in + at, run, part, infinite, at);
	}
	return lost;
}

size_t half_f16_put(uint8_t *out, const float *in, size_t n, size_t *first)
{
	return put(out, in, n, first, f16_run_put, 0x7c00);
}

size_t half_bf16_put(uint8_t *out, const float *in, size_t n, size_t *first)
{
	return put(out, in, n, first, bf16_run_put, 0x7f80);
}
