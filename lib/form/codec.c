#include "form/codec.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "form/half.h"

/* Planes are made in runs of this many elements: a fixed count is what compilers vectorise. */
#define RUN 256

static void split4_run(uint8_t *restrict p0, uint8_t *restrict p1, uint8_t *restrict p2,
	uint8_t *restrict p3, const uint32_t *restrict b)
{
	for (size_t j = 0; j < RUN; j++) {
		p0[j] = (uint8_t)b[j];
		p1[j] = (uint8_t)(b[j] >> 8);
		p2[j] = (uint8_t)(b[j] >> 16);
		p3[j] = (uint8_t)(b[j] >> 24);
	}
}

static void join4_run(uint32_t *restrict b, const uint8_t *restrict p0, const uint8_t *restrict p1,
	const uint8_t *restrict p2, const uint8_t *restrict p3)
{
	for (size_t j = 0; j < RUN; j++)
		b[j] = (uint32_t)p0[j] | (uint32_t)p1[j] << 8 | (uint32_t)p2[j] << 16 |
			(uint32_t)p3[j] << 24;
}

static void split4(uint8_t *out, const float *in, size_t n)
{
	uint32_t run[RUN];
	size_t i;

	for (i = 0; n - i >= RUN; i += RUN) {
		memcpy(run, in + i, sizeof(run));
		split4_run(out + i, out + n + i, out + 2 * n + i, out + 3 * n + i, run);
	}
	for (; i < n; i++) {
		uint32_t b = float_bits(in[i]);

		out[i] = (uint8_t)b;
		out[n + i] = (uint8_t)(b >> 8);
		out[2 * n + i] = (uint8_t)(b >> 16);
		out[3 * n + i] = (uint8_t)(b >> 24);
	}
}

static void join4(float *out, const uint8_t *in, size_t n)
{
	uint32_t run[RUN];
	size_t i;

	for (i = 0; n - i >= RUN; i += RUN) {
		join4_run(run, in + i, in + n + i, in + 2 * n + i, in + 3 * n + i);
		memcpy(out + i, run, sizeof(run));
	}
	for (; i < n; i++)
		out[i] = float_from((uint32_t)in[i] | (uint32_t)in[n + i] << 8 |
			(uint32_t)in[2 * n + i] << 16 | (uint32_t)in[3 * n + i] << 24);
}

static void split_bf16(uint8_t *restrict out, const float *restrict in, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t h = half_bf16_of(in[i]);

		out[i] = (uint8_t)h;
		out[n + i] = (uint8_t)(h >> 8);
	}
}

static void join_bf16(float *restrict out, const uint8_t *restrict in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = float_from((uint32_t)in[i] << 16 | (uint32_t)in[n + i] << 24);
}

size_t codec_size(const struct tensor *t, size_t n)
{
	switch (t->enc) {
	case ENC_F32: return 4 * n;
	case ENC_F32R: return 8 * n;
	case ENC_BF16: return 2 * n;
	case ENC_PLAIN: break;
	}
	return dtype_size(t->dtype) * n;
}

void codec_encode(
	const struct tensor *t, uint8_t *out, const float *value, const float *rest, size_t n)
{
	if (t->enc == ENC_BF16) {
		split_bf16(out, value, n);
		return;
	}
	split4(out, value, n);
	if (t->enc != ENC_F32R)
		return;
	if (rest)
		split4(out + 4 * n, rest, n);
	else
		memset(out + 4 * n, 0, 4 * n);
}

void codec_decode(const struct tensor *t, float *value, float *rest, const uint8_t *in, size_t n)
{
	if (t->enc == ENC_BF16)
		join_bf16(value, in, n);
	else
		join4(value, in, n);
	if (!rest)
		return;
	if (t->enc == ENC_F32R)
		join4(rest, in + 4 * n, n);
	else
		memset(rest, 0, n * sizeof(*rest));
}

void codec_order(const struct tensor *t, void *out, const void *in, size_t n)
{
	size_t size = dtype_size(t->dtype);
	const uint8_t *from = in;
	uint8_t *to = out;

	memcpy(out, in, n * size);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < size; k++)
			to[i * size + k] = from[i * size + size - 1 - k];
#else
	(void)from;
	(void)to;
#endif
}

void codec_bf16_round(float *out, const float *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = float_from((uint32_t)half_bf16_of(in[i]) << 16);
}

/* What a merge does to get the learner's parameter back. */
static bool restores(float base, float value, float rest, float local)
{
	return (float)(((double)base - value) - rest) == local;
}

/* base - local rounded to float; a sum beyond the largest float becomes the largest float. */
static float difference_value(float base, float local)
{
	float value = base - local;

	if (isinf(value) && isfinite(base) && isfinite(local))
		return copysignf(FLT_MAX, value);
	return value;
}

/* Sets the bits of `rest` to zero that weigh less than an eighth of the last bit of `local`. */
static float rest_trimmed(float rest, float local)
{
	int to = (int)(float_bits(local) >> 23 & 255), from = (int)(float_bits(rest) >> 23 & 255);
	int drop = (to ? to : 1) - 3 - (from ? from : 1);

	if (drop <= 0)
		return rest;
	return float_from(float_bits(rest) & ~((UINT32_C(1) << (drop > 23 ? 23 : drop)) - 1));
}

/*
 * The remainder e = (base - local) - value of a rounded difference is itself a float, for any two
 * floats and down to denormals (the classical error term of a floating-point sum, Knuth's TwoSum),
 * and where the sum overflowed and value is the largest float it is one too: it is a multiple of
 * the last bit of the smaller of the two and not larger than it. So base - value - e = local holds
 * without rounding, and what is left is to look at the two subtractions in double:
 *
 *  - base - value is exact when their bits span at most 53 places. Then subtracting e is exact as
 *    well, for the result is the float local.
 *  - Otherwise one of the two is more than 2^29 times the other. value cannot be the small one,
 *    since base and local then lie within a factor of two and value is a multiple of the last bit
 *    of local. With base the small one, |local| is within an ulp of |value|, and both roundings
 *    together move the result by less than 2^-51 |local|, well inside the half ulp (2^-26 |local|
 *    at least) that rounds to local.
 *
 * In this second case base is below 2^-29 |local|, so value is -local and restores local alone.
 * Trimming moves the result by less than ulp(local) / 8, where a quarter is needed at a power of
 * two. difference_rest tries the shortest first and checks, so the argument is about the last line
 * only.
 */
static float difference_rest(float base, float local, float value)
{
	double exact = ((double)base - value) - local;
	float rest = (float)exact, trimmed;

	if (restores(base, value, 0, local))
		return 0;
	trimmed = rest_trimmed(rest, local);
	return restores(base, value, trimmed, local) ? trimmed : rest;
}

/* Nine in ten differences restore the parameter alone: which do not is seen for a run at once. */
static void differences(float *restrict value, uint8_t *restrict odd, const float *base, const float *local, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		value[i] = base[i] - local[i];
		odd[i] = !restores(base[i], value[i], 0, local[i]);
	}
}

void codec_difference(float *value, float *rest, const float *base, const float *local, size_t n)
{
	uint8_t odd[RUN];

	memset(rest, 0, n * sizeof *rest);
	for (size_t at = 0, part; at < n; at += part) {
		part = n - at < RUN ? n - at : RUN;
		differences(value + at, odd, base + at, local + at, part);
		for (size_t k = 0, i = at; k < part; k++, i++) {
			if (!odd[k])
				continue;
			value[i] = difference_value(base[i], local[i]);
			if (isfinite(value[i]))
				rest[i] = difference_rest(base[i], local[i], value[i]);
		}
	}
}
