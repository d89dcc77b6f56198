/* half: every value of 16 bits, and what rounding does between them. */
#include "unit.h"

#include "form/half.h"

#include <float.h>
#include <stdlib.h>

/* From the definition: sign, exponent of 5 bits, fraction of 10. */
static double f16_value(unsigned h)
{
	const double sign = h & 0x8000 ? -1 : 1, fraction = (h & 0x3ff) / 1024.0;
	const int exponent = h >> 10 & 31;

	if (exponent == 31)
		return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
	return sign * (exponent ? ldexp(1 + fraction, exponent - 15) : ldexp(fraction, -14));
}

static void le16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static unsigned put_f16(float x)
{
	uint8_t out[2];

	half_f16_put(out, &x, 1, NULL);
	return out[0] | (unsigned)out[1] << 8;
}

static void test_every_f16(void)
{
	int wrong = 0, lossy = 0;

	for (unsigned h = 0; h < 65536; h++) {
		uint8_t in[2], back[2];
		double want = f16_value(h);
		float x;

		le16(in, h);
		half_f16_get(&x, in, 1);
		half_f16_put(back, &x, 1, NULL);
		if (isnan(want))
			wrong += !isnan(x);
		else
			wrong += (double)x != want || !signbit(x) != !signbit(want);
		lossy += memcmp(in, back, 2) != 0 && !isnan(want);
	}
	CHECK(wrong == 0);
	CHECK(lossy == 0);
}

/* Halfway between two neighbours the even one, else the nearer one. */
static void test_f16_rounds_to_nearest_even(void)
{
	int wrong = 0;

	for (unsigned h = 0; h < 0x7bff; h++) {
		const double a = f16_value(h), b = f16_value(h + 1);
		const float middle = (float)((a + b) / 2);

		wrong += put_f16(middle) != (h & 1 ? h + 1 : h);
		wrong += put_f16(nextafterf(middle, 0)) != h;
		wrong += put_f16(nextafterf(middle, INFINITY)) != h + 1;
		wrong += put_f16(-middle) != (0x8000 | (h & 1 ? h + 1 : h));
	}
	CHECK(wrong == 0);
	CHECK(put_f16(65519.996f) == 0x7bff);
	CHECK(put_f16(65520) == 0x7c00);
	CHECK(put_f16(-FLT_MAX) == 0xfc00);
	CHECK(put_f16(0x1p-25f) == 0);
	CHECK(put_f16(0x1.000002p-25f) == 1);
	CHECK(put_f16(-1e-30f) == 0x8000);
	CHECK((put_f16(NAN) & 0x7fff) > 0x7c00);
}

static void test_every_bf16(void)
{
	int wrong = 0;

	for (unsigned h = 0; h < 65536; h++) {
		uint8_t in[2], back[2];
		uint32_t bits = h << 16;
		float x, want;

		memcpy(&want, &bits, sizeof want);
		le16(in, h);
		half_bf16_get(&x, in, 1);
		half_bf16_put(back, &x, 1, NULL);
		wrong += isnan(want) ? !isnan(x) : x != want || memcmp(in, back, 2) != 0;
	}
	CHECK(wrong == 0);
}

static void test_what_does_not_fit_is_counted(void)
{
	const float x[] = { 1, 65504, 65520, -INFINITY, 1e30f, NAN, FLT_MAX };
	uint8_t out[14];
	size_t first = 99;

	CHECK(half_f16_put(out, x, 7, &first) == 3 && first == 2);
	CHECK(half_bf16_put(out, x, 7, &first) == 1 && first == 6);
	CHECK(half_bf16_put(out, x, 6, NULL) == 0);
}

int main(void)
{
	test_every_f16();
	test_f16_rounds_to_nearest_even();
	test_every_bf16();
	test_what_does_not_fit_is_counted();
	return unit_done("half");
}
