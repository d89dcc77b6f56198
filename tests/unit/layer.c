/*
 * A float has 24 bits: sums of up to 500 products of numbers of order one, in lanes, are off by
 * some 1e-6 at most, and vec_exp adds 2e-7 to that. Which products are fused depends on the
 * processor and moves results by as little.
 */
#define TOL 1e-5
#include "layer_cases.h"
#include "math/vec.h"

/* Every float between, in steps of a thousandth and around whole powers of two. */
static void exponential_is_exact_to_two_units(void)
{
	double worst = 0;

	for (int i = -63999; i <= 88000; i++) {
		const float x = (float)i / 1000;
		const double want = exp((double)x);

		worst = fmax(worst, fabs((double)vec_exp(x) - want) / want);
	}
	CHECK(worst < 2.5e-7);
	CHECK(vec_exp(0) == 1);
	CHECK(vec_exp(-64.5f) == 0 && vec_exp(-1e30f) == 0 && vec_exp(-INFINITY) == 0);
	CHECK(isfinite(vec_exp(1000)) && vec_exp(1000) == vec_exp(88) &&
		vec_exp(INFINITY) == vec_exp(88));
	CHECK(isnan(vec_exp(NAN)));
}

/* One bad number anywhere must show in what comes out, else a learner would train on in silence. */
static void what_is_not_finite_stays_so(void)
{
	static const real bad[] = { NAN, INFINITY, -INFINITY };

	for (int b = 0; b < 3; b++)
		for (int at = 0; at < 40; at += 13) {
			real *x = numbers(40, 1), *w = numbers(40, 2), *y = numbers(40, 3), inv;
			const uint32_t target = 0;
			double loss = 0;

			x[at] = bad[b];
			rmsnorm_forward(y, &inv, x, w, 1, 40, (real)1e-5);
			CHECK(isnan(y[at]));
			cross_entropy(&loss, x, &target, 1, 40, 1);
			CHECK(!isfinite(loss) || (bad[b] < 0 && at > 0));
			free(x);
			free(w);
			free(y);
		}
}

static void a_nan_in_a_key_reaches_the_queries_after_it(void)
{
	enum { T = 30, H = 1, D = 8, LD = 3 * D };
	real *qkv = numbers(T * LD, 1), *y = numbers(T * D, 2), *lse = numbers(T, 3);
	real *work = numbers(attention_work(T, D), 4);

	qkv[17 * LD + D + 3] = NAN;
	attention_forward(y, lse, qkv, qkv + D, qkv + 2 * D, work, T, H, H, D, LD);
	for (int t = 17; t < T; t++)
		CHECK(isnan(y[t * D]) && isnan(lse[t]));
	free(qkv);
	free(y);
	free(lse);
	free(work);
}

/* A position must not see what comes later. */
static void the_future_changes_nothing(void)
{
	enum { T = 61, H = 2, K = 1, D = 6, LD = (H + 2 * K) * D };
	real *qkv = numbers(T * LD, 1), *y = numbers(T * H * D, 2), *again = numbers(T * H * D, 3);
	real *lse = numbers(H * T, 4);
	real *work = numbers(attention_work(T, D), 5);

	attention_forward(y, lse, qkv, qkv + H * D, qkv + (H + K) * D, work, T, H, K, D, LD);
	for (int i = 50 * LD; i < T * LD; i++)
		qkv[i] = 3 - qkv[i];
	attention_forward(again, lse, qkv, qkv + H * D, qkv + (H + K) * D, work, T, H, K, D, LD);
	CHECK(memcmp(y, again, 50 * H * D * sizeof(*y)) == 0);
	CHECK(memcmp(y + 50 * H * D, again + 50 * H * D, H * D * sizeof(*y)) != 0);
	free(qkv);
	free(y);
	free(again);
	free(lse);
	free(work);
}

int main(void)
{
	layers_are_plain();
	exponential_is_exact_to_two_units();
	what_is_not_finite_stays_so();
	a_nan_in_a_key_reaches_the_queries_after_it();
	the_future_changes_nothing();
	return unit_done("layer");
}
