/* The outer step against golden values and a second, plain implementation. */
#include "math/merge.h"

#include <float.h>
#include <stdlib.h>

#include "base/rng.h"
#include "form/codec.h"
#include "unit.h"

#define N 1003 /* no multiple of anything */
#define M 5

static float delta[M][N], rest[M][N];
static double sum[N];

static void fill(float *x, uint64_t stream, float sigma, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = sigma * rng_normal_at(7, stream, i);
}

static void names(void)
{
	enum merge_experts e;
	enum merge_rule r;

	CHECK(merge_rule_parse("rda", &r) == 0 && r == MERGE_RDA);
	CHECK(merge_rule_parse("direct", &r) == 0 && r == MERGE_DIRECT);
	CHECK_STR(merge_rule_name(MERGE_RDA), "rda");
	CHECK(merge_rule_parse("mean\n", &r) == ERR_DATA);
	CHECK_SAYS("unknown rule 'mean\\n'");
	CHECK(merge_experts_parse("routed", &e) == 0 && e == MERGE_BY_ROUTED);
	CHECK(merge_experts_parse("tokens", &e) == 0 && e == MERGE_BY_TOKENS);
	CHECK_STR(merge_experts_name(MERGE_BY_ROUTED), "routed");
	CHECK(merge_experts_parse("route", &e) == ERR_DATA);
	CHECK_SAYS("unknown weights 'route', expected tokens or routed");
}

static void weights(void)
{
	CHECK(merge_weight(0, 0) == 0);
	CHECK(merge_weight(100, 0) == 0);
	CHECK(merge_weight(100, 10) == 1000);
	CHECK(merge_weight(100, 20) == 500);
	CHECK(isfinite(merge_weight(UINT64_MAX, 1)));
}

static void weights_to_shares(void)
{
	double w[3] = { 1, 0, 3 }, none[2] = { 0, 0 };

	CHECK(merge_shares(w, 3) && w[0] == 0.25 && w[1] == 0 && w[2] == 0.75);
	CHECK(!merge_shares(none, 2) && none[0] == 0 && none[1] == 0);
	CHECK(!merge_shares(none, 0));
}

static void norms(void)
{
	size_t bad;
	double want = 0;

	fill(delta[0], 1, 1, N);
	fill(rest[0], 2, 1e-8f, N);
	for (size_t i = 0; i < N; i++)
		want += ((double)delta[0][i] + rest[0][i]) * ((double)delta[0][i] + rest[0][i]);
	CHECK_NEAR(merge_norm2(delta[0], rest[0], N, &bad), want, 1e-12);
	CHECK(bad == N);
	CHECK(merge_norm2(delta[0], NULL, 0, &bad) == 0 && bad == 0);
	for (size_t n = 0; n < 20; n++) {
		float ones[20];

		for (size_t i = 0; i < 20; i++)
			ones[i] = 1;
		CHECK(merge_norm2(ones, NULL, n, &bad) == (double)n && bad == n);
	}
}

static void unsound_values(void)
{
	static const float unsound[] = { NAN, INFINITY, -INFINITY, 1e38f, -FLT_MAX, 1.1e18f };
	size_t bad;

	for (size_t k = 0; k < sizeof unsound / sizeof unsound[0]; k++)
		for (size_t at = 0; at < 20; at++) {
			float x[20] = { 0 }, zero[20] = { 0 };

			x[at] = unsound[k];
			merge_norm2(x, NULL, 20, &bad);
			CHECK(bad == at);
			merge_norm2(zero, x, 20, &bad);
			CHECK(bad == at);
		}
	/* Large, but each for itself in order. */
	for (size_t i = 0; i < N; i++)
		delta[0][i] = 1e18f;
	CHECK(isfinite(merge_norm2(delta[0], NULL, N, &bad)));
	CHECK(bad == N);
}

static void step_once(float *x, float *v, float d, double eta, double mu)
{
	struct merge_outer o = { eta, mu };
	float none = 0, out, v_out;

	merge_step(&out, &v_out, x, v, &d, &none, 1, &o, 1);
	*x = out;
	*v = v_out;
}

static void golden_steps(void)
{
	float x = 1, v = 0;

	step_once(&x, &v, 0.5f, 1, 0); /* base 1, local 0.5 */
	CHECK(x == 0.5f && v == 0.5f);
	x = 1, v = 0;
	step_once(&x, &v, 0.5f, 0, 0);
	CHECK(x == 1);
	x = 1, v = 0;
	step_once(&x, &v, 0.5f, 0.5, 0);
	CHECK(x == 0.75f);
	/* Nesterov by hand: v = 1; x = 10 - 0.5 (1 + 0.5) = 9.25; v = 1.5; x -= 0.5 (1 + 0.75). */
	x = 10, v = 0;
	step_once(&x, &v, 1, 0.5, 0.5);
	CHECK(x == 9.25f && v == 1);
	step_once(&x, &v, 1, 0.5, 0.5);
	CHECK(x == 8.375f && v == 1.5f);
	step_once(&x, &v, 0, 0.5, 0.5);
	CHECK(x == 8.1875f && v == 0.75f);
}

/* One answer, eta 1, mu 0: base - delta is what the learner had, to the last bit. */
static void one_answer_is_itself(void)
{
	struct merge_outer o = { 1, 0 };
	float base[N], local[N], value[N], left[N], out[N], v[N] = { 0 };
	int wrong = 0;

	for (size_t i = 0; i < N; i++) {
		base[i] = ldexpf(rng_normal_at(3, 1, i), (int)(i % 61) - 30);
		local[i] = ldexpf(rng_normal_at(3, 2, i), (int)(i % 47) - 25);
	}
	base[0] = 0, local[0] = FLT_TRUE_MIN, base[1] = -0.0f, local[1] = 1, local[2] = base[2];
	codec_difference(value, left, base, local, N);
	merge_step(out, v, base, v, value, left, 1, &o, N);
	for (size_t i = 0; i < N; i++)
		wrong += memcmp(&out[i], &local[i], sizeof out[i]) != 0;
	CHECK(wrong == 0);
}

static void clear_is_neutral(void)
{
	float x[2] = { -0.0f, 0.0f };
	double s[2];

	merge_clear(s, 2);
	merge_add(s, x, 1, 2);
	CHECK(signbit(s[0]) && !signbit(s[1]));
}

/* Plain RDA, written from the formula. */
static void plain_rda(double *d, const double *w, size_t m)
{
	double total = 0, mean = 0, length = 0, norm[M];

	for (size_t k = 0; k < m; k++) {
		norm[k] = 0;
		for (size_t i = 0; i < N; i++)
			norm[k] += (double)delta[k][i] * delta[k][i];
		norm[k] = sqrt(norm[k]);
		total += w[k];
		mean += w[k] * norm[k];
	}
	for (size_t i = 0; i < N; i++) {
		d[i] = 0;
		for (size_t k = 0; k < m; k++)
			d[i] += w[k] * (delta[k][i] / norm[k]) / total;
		length += d[i] * d[i];
	}
	for (size_t i = 0; i < N; i++)
		d[i] = d[i] / sqrt(length) * (mean / total);
}

static double shares(double *share, const double *w, size_t m)
{
	double total = 0;

	for (size_t k = 0; k < m; k++)
		total += w[k];
	for (size_t k = 0; k < m; k++)
		share[k] = w[k] / total;
	return total;
}

/* Our way: coefficients, one sum, one scale. Returns false where RDA gave way to direct. */
static bool merged(double *scale, enum merge_rule rule, const double *w, size_t m)
{
	double share[M] = { 0 }, norm[M] = { 0 }, c[M];
	size_t bad;
	bool ok = true;

	shares(share, w, m);
	for (size_t k = 0; k < m; k++)
		norm[k] = sqrt(merge_norm2(delta[k], NULL, N, &bad));
	merge_coefs(c, rule, share, norm, m);
	merge_clear(sum, N);
	for (size_t k = 0; k < m; k++)
		merge_add(sum, delta[k], c[k], N);
	*scale = 1;
	if (rule == MERGE_RDA)
		ok = merge_rda_scale(scale, share, norm, m, sqrt(merge_sum2(sum, N)));
	return ok;
}

static void rda_equals_the_formula(void)
{
	double w[M] = { 1, 2.5, 1000, 3, 0.25 }, want[N], scale;

	for (size_t k = 0; k < M; k++)
		fill(delta[k], 10 + k, powf(10, (float)k - 3), N);
	plain_rda(want, w, M);
	CHECK(merged(&scale, MERGE_RDA, w, M));
	for (size_t i = 0; i < N; i++)
		CHECK_NEAR(scale * sum[i], want[i], 1e-12);
}

static void direct_is_the_weighted_mean(void)
{
	double w[M] = { 1, 2, 3, 4, 0 }, scale;

	for (size_t k = 0; k < M; k++)
		fill(delta[k], 20 + k, 1, N);
	CHECK(merged(&scale, MERGE_DIRECT, w, M));
	for (size_t i = 0; i < N; i++)
		CHECK_NEAR(sum[i], (delta[0][i] + 2. * delta[1][i] + 3. * delta[2][i] +
			4. * delta[3][i]) / 10, 1e-12);
}

/* RDA's length is the mean of the lengths, whatever the directions. */
static void rda_keeps_the_length(void)
{
	double w[M] = { 1, 1 }, scale;
	size_t bad;

	fill(delta[0], 30, 1, N);
	for (size_t i = 0; i < N; i++)
		delta[1][i] = 3 * delta[0][i];
	CHECK(merged(&scale, MERGE_RDA, w, 2));
	CHECK_NEAR(scale * sqrt(merge_sum2(sum, N)),
		2 * sqrt(merge_norm2(delta[0], NULL, N, &bad)), 1e-6);
	fill(delta[1], 31, 1e-3f, N);
	CHECK(merged(&scale, MERGE_RDA, w, 2));
	CHECK_NEAR(scale * sqrt(merge_sum2(sum, N)),
		(sqrt(merge_norm2(delta[0], NULL, N, &bad)) +
		sqrt(merge_norm2(delta[1], NULL, N, &bad))) / 2, 1e-12);
}

static void rda_without_a_direction(void)
{
	double w[M] = { 1, 1 }, scale;

	fill(delta[0], 40, 1, N);
	for (size_t i = 0; i < N; i++)
		delta[1][i] = -3 * delta[0][i]; /* opposite, with rounding */
	CHECK(!merged(&scale, MERGE_RDA, w, 2));
	memset(delta[1], 0, sizeof delta[1]);
	CHECK(merged(&scale, MERGE_RDA, w, 2)); /* a zero delta pulls nowhere, but halves the length */
	for (size_t i = 0; i < N; i++)
		CHECK_NEAR(scale * sum[i], delta[0][i] / 2, 1e-12);
	memset(delta[0], 0, sizeof delta[0]);
	CHECK(merged(&scale, MERGE_RDA, w, 2) && scale == 0); /* nothing at all is no change */
}

static void split_keeps_the_sum(void)
{
	float value[N], left[N], v[N] = { 0 }, x[N], apart[N], v_apart[N];
	struct merge_outer o = { 0.7, 0.9 };

	fill(delta[0], 50, 1, N);
	fill(delta[1], 51, 1e-3f, N);
	fill(x, 52, 1, N);
	merge_clear(sum, N);
	merge_add(sum, delta[0], 1. / 3, N);
	merge_add(sum, delta[1], 2. / 3, N);
	merge_split(value, left, sum, N);
	for (size_t i = 0; i < N; i++) {
		CHECK(fabs((double)value[i] + left[i] - sum[i]) <= ldexp(fabs(sum[i]), -47));
		CHECK_NEAR(sum[i], (delta[0][i] + 2. * delta[1][i]) / 3, 1e-15);
	}
	CHECK_NEAR(merge_dot(delta[0], sum, N) / 3 + merge_dot(delta[1], sum, N) * 2 / 3,
		merge_sum2(sum, N), 1e-12);
	/* In place of the sum, as into other arrays. */
	merge_step(apart, v_apart, x, v, value, left, 0.5, &o, N);
	merge_step(value, left, x, v, value, left, 0.5, &o, N);
	CHECK(memcmp(apart, value, sizeof apart) == 0 && memcmp(v_apart, left, sizeof left) == 0);
}

int main(void)
{
	names();
	weights();
	weights_to_shares();
	norms();
	unsound_values();
	golden_steps();
	one_answer_is_itself();
	clear_is_neutral();
	rda_equals_the_formula();
	direct_is_the_weighted_mean();
	rda_keeps_the_length();
	rda_without_a_direction();
	split_keeps_the_sum();
	return unit_done("merge");
}
