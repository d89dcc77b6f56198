/* codec: planes, rounding to bf16, and the exact difference. */
#include <float.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "form/codec.h"
#include "unit.h"

#define MOST 1000

static struct tensor tensor_of(enum dtype dtype, enum encoding enc)
{
	return (struct tensor){ .name = "t", .dtype = dtype, .enc = enc };
}

/* Any bit pattern, with the special ones often. */
static float any_float(struct rng *r)
{
	static const uint32_t special[] = { 0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f800000,
		0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001 };

	if (rng_below(r, 8) == 0)
		return float_from(special[rng_below(r, sizeof special / sizeof special[0])]);
	return float_from(rng_u32(r));
}

static void test_round_trip(void)
{
	static const size_t lengths[] = { 0, 1, 2, 255, 256, 257, 511, 512, 999, MOST };
	static float value[MOST], rest[MOST], value2[MOST], rest2[MOST];
	static uint8_t bytes[8 * MOST];
	struct tensor f32 = tensor_of(DTYPE_F32, ENC_F32), f32r = tensor_of(DTYPE_F32, ENC_F32R);
	struct rng r;

	rng_init(&r, 1, rng_stream("codec"));
	for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
		size_t n = lengths[k];

		for (size_t i = 0; i < n; i++) {
			value[i] = any_float(&r);
			rest[i] = any_float(&r);
		}
		codec_encode(&f32, bytes, value, NULL, n);
		rest2[0] = 1;
		codec_decode(&f32, value2, rest2, bytes, n);
		CHECK(memcmp(value, value2, n * sizeof *value) == 0);
		CHECK(n == 0 || rest2[0] == 0);

		codec_encode(&f32r, bytes, value, rest, n);
		codec_decode(&f32r, value2, rest2, bytes, n);
		CHECK(memcmp(value, value2, n * sizeof *value) == 0);
		CHECK(memcmp(rest, rest2, n * sizeof *rest) == 0);

		codec_encode(&f32r, bytes, value, NULL, n);
		codec_decode(&f32r, value2, rest2, bytes, n);
		CHECK(n == 0 || float_bits(rest2[n - 1]) == 0);
	}
}

static void test_layout(void)
{
	struct tensor f32 = tensor_of(DTYPE_F32, ENC_F32), bf16 = tensor_of(DTYPE_F32, ENC_BF16);
	struct tensor u16 = tensor_of(DTYPE_U16, ENC_PLAIN);
	float in[2] = { float_from(0x44332211), float_from(0x3f8055aa) };
	uint16_t ids[2] = { 0x1234, 0xabcd };
	uint8_t out[8];

	codec_encode(&f32, out, in, NULL, 2);
	CHECK(memcmp(out, "\x11\xaa\x22\x55\x33\x80\x44\x3f", 8) == 0);
	codec_encode(&bf16, out, in, NULL, 2);
	CHECK(memcmp(out, "\x33\x80\x44\x3f", 4) == 0);
	codec_order(&u16, out, ids, 2);
	CHECK(memcmp(out, "\x34\x12\xcd\xab", 4) == 0);
	CHECK(codec_size(&f32, 3) == 12 && codec_size(&bf16, 3) == 6 && codec_size(&u16, 3) == 6);
}

static void test_bf16(void)
{
	/* Half way goes to even; beyond the largest goes to infinity; NaN stays NaN, whatever its
	 * bits. */
	static const uint32_t pairs[][2] = {
		{ 0x3f808000, 0x3f800000 }, { 0x3f818000, 0x3f820000 }, { 0x3f808001, 0x3f810000 },
		{ 0x3f807fff, 0x3f800000 }, { 0x7f7fffff, 0x7f800000 }, { 0xff800000, 0xff800000 },
		{ 0x80000000, 0x80000000 }, { 0x00000001, 0x00000000 }, { 0x00008001, 0x00010000 },
		{ 0x7f800001, 0x7fc00000 }, { 0xffffffff, 0xffff0000 },
	};
	struct tensor bf16 = tensor_of(DTYPE_F32, ENC_BF16);

	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		float in = float_from(pairs[i][0]), out, again;
		uint8_t bytes[2];

		codec_bf16_round(&out, &in, 1);
		CHECK(float_bits(out) == pairs[i][1]);
		codec_encode(&bf16, bytes, &in, NULL, 1);
		codec_decode(&bf16, &again, NULL, bytes, 1);
		CHECK(float_bits(again) == pairs[i][1]);
	}
}

/* One check for many pairs: the first that fails is printed. */
static void check_difference(const float *base, const float *local, size_t n)
{
	static float value[MOST], rest[MOST];
	size_t bad = n;

	codec_difference(value, rest, base, local, n);
	for (size_t i = 0; i < n && bad == n; i++) {
		double x = ((double)base[i] - (double)value[i]) - (double)rest[i];

		if (!isfinite(base[i]) || !isfinite(local[i])) {
			if (isfinite(value[i]) || rest[i] != 0)
				bad = i;
		} else if (!((float)x == local[i]) || !isfinite(value[i])) {
			bad = i;
		}
	}
	if (bad < n)
		fprintf(stderr, "base %a local %a value %a rest %a\n", (double)base[bad], (double)local[bad],
			(double)value[bad], (double)rest[bad]);
	CHECK(bad == n);
}

static void test_difference_magnitudes(void)
{
	static const float edge[] = { 0, FLT_TRUE_MIN, FLT_MIN, FLT_MAX, 1, 1e-30f, 1e30f, 1.5f, 0.1f, 0x1p-24f,
		0x1p-25f, 0x1p-29f, 0x1p-30f, 0x1.fffffep0f, 0x1.fffffep-1f, 0x1.000002p0f, 0x1p126f, 0x1p104f,
		0x1.8p103f, 0x1p103f, 0x1.fffffep-126f, 0x1.fffffcp-127f, 3e-39f };
	enum { EDGES = sizeof edge / sizeof edge[0] };
	float base[4], local[4];

	for (int i = 0; i < EDGES; i++)
		for (int j = 0; j < EDGES; j++) {
			for (int sign = 0; sign < 4; sign++) {
				base[sign] = sign & 1 ? -edge[i] : edge[i];
				local[sign] = sign & 2 ? -edge[j] : edge[j];
			}
			check_difference(base, local, 4);
		}
}

static void test_difference_random(void)
{
	static float base[MOST], local[MOST];
	struct rng r;

	rng_init(&r, 2, rng_stream("difference"));
	for (int round = 0; round < 10000; round++) {
		for (size_t i = 0; i < MOST; i++) {
			base[i] = any_float(&r);
			switch (round % 4) {
			case 0: local[i] = any_float(&r); break;
			/* near in bits; near in exponent with either sign; a training step away */
			case 1: local[i] = float_from(float_bits(base[i]) + (uint32_t)rng_below(&r, 9) - 4); break;
			case 2: local[i] = float_from(float_bits(base[i]) ^ (rng_u32(&r) & 0x8effffff)); break;
			case 3:
				base[i] = 0.02f * rng_normal_at(3, 1, (uint64_t)round * MOST + i);
				local[i] = base[i] + 0.01f * rng_normal_at(3, 2, (uint64_t)round * MOST + i);
				break;
			}
		}
		check_difference(base, local, MOST);
	}
}

/* Where a parameter keeps its size the value alone is enough, and a rest has few bits. */
static void test_rest_is_small(void)
{
	float base[3] = { 1.5f, 0.3f, 0.7f }, local[3] = { 1.25f, 0.29f, 1e-5f }, value[3], rest[3];

	codec_difference(value, rest, base, local, 3);
	CHECK(rest[0] == 0 && rest[1] == 0);
	CHECK(rest[2] != 0);
	CHECK((float_bits(rest[2]) & 0x3ff) == 0);
}

int main(void)
{
	test_round_trip();
	test_layout();
	test_bf16();
	test_difference_magnitudes();
	test_difference_random();
	test_rest_is_small();
	return unit_done("codec");
}
