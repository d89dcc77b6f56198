#include "form/half.h"

#include <string.h>

#include "base/bytes.h"

#define INFINITE 0x7f800000u /* the bits of a float's magnitude */

static uint32_t bits_of(float x)
{
	uint32_t b;

	memcpy(&b, &x, sizeof b);
	return b;
}

static float float_of(uint32_t b)
{
	float x;

	memcpy(&x, &b, sizeof x);
	return x;
}

/* The exponent is moved from one bias to the other by a product, which is exact and does subnormals
 * right; infinity and NaN, which it would make finite, get their exponent back. */
static float f16_to_float(uint16_t h)
{
	const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
	const uint32_t b = bits_of(float_of(magnitude) * 0x1p112f);

	return float_of(b | sign | (magnitude >= 0x0f800000u ? INFINITE : 0));
}

static uint16_t f16_of_nan(uint32_t magnitude)
{
	return (uint16_t)(0x7e00 | (magnitude >> 13 & 0x1ff));
}

/* magnitude below 2^-14: in units of 2^-24, which adding a number whose last place is that rounds. */
static uint16_t f16_of_small(uint32_t magnitude)
{
	return (uint16_t)(bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f));
}

static uint16_t f16_of(float x)
{
	const uint32_t b = bits_of(x), magnitude = b & 0x7fffffff;
	const uint16_t sign = (uint16_t)(b >> 16 & 0x8000);

	if (magnitude > INFINITE)
		return sign | f16_of_nan(magnitude);
	if (magnitude >= 0x477ff000) /* 65520, the first that is nearer to 2^16 */
		return sign | 0x7c00;
	if (magnitude < 0x38800000)
		return sign | f16_of_small(magnitude);
	return sign | (uint16_t)((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

static uint16_t bf16_of(float x)
{
	const uint32_t b = bits_of(x);

	if ((b & 0x7fffffff) > INFINITE) /* rounding could carry a NaN into infinity */
		return (uint16_t)(b >> 16 | 0x40);
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

void half_f16_get(float *out, const uint8_t *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = f16_to_float(le16_get(in + 2 * i));
}

void half_bf16_get(float *out, const uint8_t *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = float_of((uint32_t)le16_get(in + 2 * i) << 16);
}

/* Has a finite x become the type's infinity, or what lies beyond it? */
static size_t count_lost(size_t lost, size_t *first, float x, uint16_t narrow, uint16_t infinite, size_t at)
{
	if ((narrow & 0x7fff) != infinite || (bits_of(x) & 0x7fffffff) >= INFINITE)
		return lost;
	if (lost == 0 && first)
		*first = at;
	return lost + 1;
}

size_t half_f16_put(uint8_t *out, const float *in, size_t n, size_t *first)
{
	size_t lost = 0;

	for (size_t i = 0; i < n; i++) {
		uint16_t h = f16_of(in[i]);

		le16_put(out + 2 * i, h);
		lost = count_lost(lost, first, in[i], h, 0x7c00, i);
	}
	return lost;
}

size_t half_bf16_put(uint8_t *out, const float *in, size_t n, size_t *first)
{
	size_t lost = 0;

	for (size_t i = 0; i < n; i++) {
		uint16_t h = bf16_of(in[i]);

		le16_put(out + 2 * i, h);
		lost = count_lost(lost, first, in[i], h, 0x7f80, i);
	}
	return lost;
}
