/*
 * product_cases - products against three loops in double: a library chooses among many kernels by processor and
 * shape, and some had wrong ones for small matrices. A sum of k products of floats is off by at most
 * about k * 2^-24 of the sum of their sizes, and by sqrt(k) of that as a rule.
 *
 * Whoever includes it defines any_product().
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/rng.h"
#include "unit.h"

enum kind { NT, NN, TN };

/* n normal numbers out of a table made once; different streams start at different places of it. */
static real *numbers(size_t n, uint64_t stream)
{
	enum { TABLE = 99991 };
	static real table[TABLE];
	real *x = calloc(n + 1, sizeof(*x));

	if (!x)
		abort();
	for (size_t i = 0; table[TABLE - 1] == 0 && i < TABLE; i++)
		table[i] = (real)rng_normal_at(1, 1, i);
	for (size_t i = 0; i < n; i++)
		x[i] = table[(stream * 12345 + i) % TABLE];
	return x;
}

static void any_product(enum kind kind, real *c, const real *a, const real *b, int m, int n, int k, bool add);

/* The largest error relative to its bound; every `stride`th row is looked at. */
static double error(enum kind kind, int m, int n, int k, bool add, int stride)
{
	real *a = numbers((size_t)m * (size_t)k, 1), *b = numbers((size_t)n * (size_t)k, 2);
	real *c = numbers((size_t)m * (size_t)n, 3), *before = numbers((size_t)m * (size_t)n, 3);
	double worst = 0;

	any_product(kind, c, a, b, m, n, k, add);
	for (int i = 0; i < m; i += stride)
		for (int j = 0; j < n; j++) {
			const size_t at = (size_t)i * (size_t)n + (size_t)j;
			double want = add ? (double)before[at] : 0, size = fabs(want);

			for (int p = 0; p < k; p++) {
				const double x = (double)(kind == TN
						? a[(size_t)p * (size_t)m + (size_t)i]
						: a[(size_t)i * (size_t)k + (size_t)p]);
				const double y = (double)(kind == NT
						? b[(size_t)j * (size_t)k + (size_t)p]
						: b[(size_t)p * (size_t)n + (size_t)j]);

				want += x * y;
				size += fabs(x * y);
			}
			const double off =
				fabs((double)c[at] - want) / (size * 0x1p-24 * (1 + sqrt(k)) * 2);

			if (!(off <= worst))
				worst = off;
		}
	free(a);
	free(b);
	free(c);
	free(before);
	return worst;
}

static void small_products_are_right(void)
{
	static const int sizes[] = { 1, 2, 3, 6, 8, 15, 16, 17, 32, 33, 48, 65 };
	const int count = sizeof(sizes) / sizeof(sizes[0]);

	for (int i = 0; i < count; i++)
		for (int j = 0; j < count; j++)
			for (int p = 0; p < count; p++)
				for (int kind = NT; kind <= TN; kind++)
					CHECK(error(kind, sizes[i], sizes[j], sizes[p],
						kind == TN, 1) < 1);
}

/* What the presets use: rows of tokens, then projections of tiny, small, medium, the heads, and the
 * logits of one token. */
static void products_of_the_presets_are_right(void)
{
	static const int layers[][2] = { { 384, 128 }, { 128, 128 }, { 768, 128 }, { 128, 384 },
		{ 256, 128 }, { 768, 256 }, { 1408, 256 }, { 256, 704 }, { 1152, 384 },
		{ 2048, 384 }, { 384, 1024 }, { 8192, 256 } };

	for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
		const int out = layers[i][0], in = layers[i][1];

		CHECK(error(NT, 512, out, in, false, 37) < 1);
		CHECK(error(NT, 1, out, in, false, 1) < 1);
		CHECK(error(NN, 512, in, out, false, 37) < 1);
		CHECK(error(TN, out, in, 512, true, 37) < 1);
		CHECK(error(TN, out, in, 128, true, 37) < 1);
	}
}

static void *many_products(void *ctx)
{
	double *worst = ctx;

	for (int i = 0; i < 50; i++) {
		const double off = error(i % 3, 40 + i, 64, 96, false, 1);

		if (!(off <= *worst))
			*worst = off;
	}
	return NULL;
}

static void threads_do_not_disturb_each_other(void)
{
	pthread_t thread[4];
	double worst[4] = { 0 };

	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&thread[i], NULL, many_products, &worst[i]) == 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		CHECK(worst[i] < 1);
	}
}

static void zero_times_nan_in_the_result_is_forgotten(void)
{
	real c[4] = { NAN, NAN, NAN, NAN }, a[4] = { 1, 2, 3, 4 };

	any_product(NT, c, a, a, 2, 2, 2, false);
	CHECK(c[0] == 5 && c[1] == 11 && c[2] == 11 && c[3] == 25);
	a[0] = NAN;
	any_product(NT, c, a, a, 2, 2, 2, false);
	CHECK(isnan(c[0]) && isnan(c[1]) && isnan(c[2]) && c[3] == 25);
}

static void test_products(void)
{
	small_products_are_right();
	products_of_the_presets_are_right();
	threads_do_not_disturb_each_other();
	zero_times_nan_in_the_result_is_forgotten();
}
