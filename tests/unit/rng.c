#include <stdlib.h>

#include "base/rng.h"
#include "unit.h"

/* Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds). */
static void test_known_answers(void)
{
	static const struct {
		uint64_t number, stream, seed;
		uint32_t want[4];
	} cases[] = {
		{ 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ UINT64_MAX, UINT64_MAX, UINT64_MAX,
		  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ 0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822,
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};
	uint32_t have[4];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		rng_block(have, cases[i].seed, cases[i].number, cases[i].stream);
		CHECK(memcmp(have, cases[i].want, sizeof have) == 0);
	}
}

static void test_saved_and_restored(void)
{
	struct rng a, b;
	uint32_t words[4];

	rng_init(&a, 0, 0);
	rng_block(words, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		CHECK(rng_u32(&a) == words[i]);
	CHECK(a.counter == 4);
	for (int i = 0; i < 1001; i++)
		rng_u32(&a);
	b = (struct rng){ a.seed, a.stream, a.counter };
	for (int i = 0; i < 100; i++)
		CHECK(rng_u64(&a) == rng_u64(&b));
	CHECK(rng_stream("") == 0xcbf29ce484222325u && rng_stream("a") == 0xaf63dc4c8601ec8cu);
}

static void test_below(void)
{
	unsigned count[7] = { 0 };
	struct rng r;

	rng_init(&r, 3, 4);
	for (int i = 0; i < 70000; i++)
		count[rng_below(&r, 7)]++;
	for (int i = 0; i < 7; i++)
		CHECK(count[i] > 9600 && count[i] < 10400); /* 4 standard deviations are 370 */
	for (int i = 0; i < 1000; i++)
		CHECK(rng_below(&r, ((uint64_t)1 << 63) + 1) <= (uint64_t)1 << 63);
	CHECK(rng_below(&r, 1) == 0);
}

static void test_unit(void)
{
	double sum = 0, square = 0;
	struct rng r;

	rng_init(&r, 5, 6);
	for (int i = 0; i < 100000; i++) {
		double x = rng_unit(&r);

		CHECK(x >= 0 && x < 1);
		sum += x;
		square += x * x;
	}
	CHECK(fabs(sum / 1e5 - 0.5) < 0.004);
	CHECK(fabs(square / 1e5 - 1.0 / 3) < 0.004);
}

/* The same bits everywhere and for good: checkpoints are made of them. */
static void test_golden_normals(void)
{
	static const struct {
		uint64_t i;
		float want;
	} golden[] = {
		{ 0, -0x1.5baa52p+0f },
		{ 1, -0x1.937a08p-1f },
		{ 2, -0x1.a408aap+1f },
		{ 1000000, 0x1.93e0c4p+0f },
		{ (uint64_t)1 << 40, 0x1.5a0762p-1f },
	};

	for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
		CHECK(rng_normal_at(1, rng_stream("golden"), golden[i].i) == golden[i].want);
}

static void test_normal_moments(void)
{
	enum { N = 2000000 };
	double sum[5] = { 0 }, neighbours = 0, last = 0;
	unsigned beyond[6] = { 0 };

	for (uint64_t i = 0; i < N; i++) {
		double x = rng_normal_at(42, rng_stream("w"), i), power = 1;

		for (int k = 0; k < 5; k++, power *= x)
			sum[k] += power;
		for (int k = 1; k <= 5; k++)
			beyond[k] += fabs(x) > k;
		neighbours += x * last;
		last = x;
	}
	/* Within four to five standard errors: of x^k they are 1, 1.41, 3.9, 9.8 / sqrt(N). */
	CHECK(fabs(sum[1] / N) < 0.0035);
	CHECK(fabs(sum[2] / N - 1) < 0.005);
	CHECK(fabs(sum[3] / N) < 0.014);
	CHECK(fabs(sum[4] / N - 3) < 0.035);
	CHECK(fabs(neighbours / N) < 0.0035);
	for (int k = 1; k <= 5; k++) {
		double want = N * erfc(k / sqrt(2.0));

		CHECK(fabs(beyond[k] - want) < 5 * sqrt(want) + 1);
	}
}

/* Kolmogorov's distance to the normal distribution, over every decile and the far tails. */
static int ascending(const void *a, const void *b)
{
	const float *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void test_normal_distribution(void)
{
	enum { N = 100000 };
	float *x = malloc(N * sizeof *x);
	double worst = 0;

	CHECK(x != NULL);
	for (uint64_t i = 0; x && i < N; i++)
		x[i] = rng_normal_at(7, 7, i);
	if (x)
		qsort(x, N, sizeof *x, ascending);
	for (int i = 0; x && i < N; i++)
		worst = fmax(worst, fabs(0.5 * erfc(-(double)x[i] / sqrt(2.0)) - (i + 0.5) / N));
	CHECK(worst < 1.95 / sqrt(N)); /* exceeded once in a thousand seeds */
	free(x);
}

static void test_normal_is_a_function_of_index(void)
{
	float forward[64];

	for (uint64_t i = 0; i < 64; i++)
		forward[i] = rng_normal_at(9, 1, i);
	for (uint64_t i = 64; i-- > 0;)
		CHECK(rng_normal_at(9, 1, i) == forward[i]);
	CHECK(rng_normal_at(9, 2, 0) != forward[0] && rng_normal_at(8, 1, 0) != forward[0]);
}

static void check_bijection(uint64_t seed, uint64_t n)
{
	unsigned char *seen = calloc(n, 1);
	uint64_t fixed = 0;

	CHECK(seen != NULL);
	for (uint64_t i = 0; seen && i < n; i++) {
		uint64_t j = rng_permute(seed, 3, n, i);

		CHECK(j < n && !seen[j]);
		if (j < n)
			seen[j] = 1;
		fixed += i == j;
	}
	if (n > 100)
		CHECK(fixed < 12); /* one is expected */
	free(seen);
}

static void test_permutations(void)
{
	static const uint64_t sizes[] = { 255, 256, 257, 1000, 4095, 4096, 4097, 16385, 50000 };
	unsigned first[5] = { 0 };

	for (uint64_t n = 1; n <= 70; n++)
		check_bijection(n, n);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_bijection(11, sizes[i]);
	for (uint64_t seed = 0; seed < 5000; seed++)
		first[rng_permute(seed, 3, 5, 0)]++;
	for (int i = 0; i < 5; i++)
		CHECK(first[i] > 870 && first[i] < 1130);
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t n = ((uint64_t)1 << 62) - i;

		CHECK(rng_permute(1, 2, n, n - 1) < n);
	}
}

int main(void)
{
	test_known_answers();
	test_saved_and_restored();
	test_below();
	test_unit();
	test_golden_normals();
	test_normal_moments();
	test_normal_distribution();
	test_normal_is_a_function_of_index();
	test_permutations();
	return unit_done("rng");
}
