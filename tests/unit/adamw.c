#include <stdlib.h>

#include "base/rng.h"
#include "math/adamw.h"
#include "plain.h"
#include "unit.h"

/* A matrix, a vector and a matrix again, longer than the pieces that work is cut into. */
enum { A = 300, B = 301, MATRIX = A * B, VECTOR = 517, N = 2 * MATRIX + VECTOR };

static const struct adamw_conf conf = {
	.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1
};

struct values { real *p, *m, *v, *g; };

static struct values values_new(void)
{
	struct values x;
	real **const all[] = { &x.p, &x.m, &x.v, &x.g };

	for (int i = 0; i < 4; i++) {
		*all[i] = calloc(N, sizeof(real));
		if (!*all[i])
			abort();
	}
	for (size_t i = 0; i < N; i++)
		x.p[i] = (real)rng_normal_at(1, 1, i);
	return x;
}

static void values_free(struct values *x)
{
	free(x->p);
	free(x->m);
	free(x->v);
	free(x->g);
}

static struct tensors layout(void)
{
	struct tensors l = { 0 };
	const struct tensor matrix = { .name = "a", .rank = 2, .dim = { A, B } };
	const struct tensor vector = { .name = "b", .rank = 1, .dim = { VECTOR } };

	CHECK(tensors_push(&l, &matrix) == 0 && tensors_push(&l, &vector) == 0 &&
		tensors_push(&l, &matrix) == 0);
	return l;
}

/* Gradients of sizes from 1e-9 to 1e3, so that eps and the bias correction matter. */
static void set_gradients(struct values *x, uint64_t step)
{
	for (size_t i = 0; i < N; i++)
		x->g[i] = (real)(rng_normal_at(1, 1 + step, i) * powf(10, (float)(i % 13) - 9));
}

/* A step is of the size of lr; its float arithmetic is off by a few units of 2^-24 of that and of
 * the weight itself. */
static void steps_are_plain_steps(void)
{
	struct tensors l = layout();
	struct values x = values_new();
	double *p = plain_zeros(N), *m = plain_zeros(N), *v = plain_zeros(N), worst = 0;

	for (size_t i = 0; i < N; i++)
		p[i] = (double)x.p[i];
	for (uint64_t t = 1; t <= 12; t++) {
		const double lr = 0.01 * (double)t, scale = 0.25;

		set_gradients(&x, t);
		adamw_step(x.p, x.m, x.v, x.g, &l, &conf, lr, scale, t, NULL);
		for (size_t i = 0; i < N; i++) {
			const double decay = i >= MATRIX && i < MATRIX + VECTOR ? 0 : 0.1;

			plain_adamw(&p[i], &m[i], &v[i], (double)x.g[i] * scale, lr, 0.9, 0.95,
				1e-8, decay, (double)t);
		}
	}
	for (size_t i = 0; i < N; i++)
		worst = fmax(worst, fabs((double)x.p[i] - p[i]) / fmax(1, fabs(p[i])));
	CHECK_NEAR(worst, 0, 2e-6);
	values_free(&x);
	free(p);
	free(m);
	free(v);
	tensors_release(&l);
}

static void bits_do_not_depend_on_the_pool(void)
{
	struct tensors l = layout();
	struct values one = values_new();
	double norm = 0;

	set_gradients(&one, 1);
	norm = adamw_norm(one.g, N, NULL);
	adamw_step(one.p, one.m, one.v, one.g, &l, &conf, 0.1, 1 / norm, 1, NULL);
	for (int threads = 2; threads <= 5; threads++) {
		struct values x = values_new();
		struct pool *pool;

		CHECK(pool_open(&pool, threads) == 0);
		set_gradients(&x, 1);
		CHECK(adamw_norm(x.g, N, pool) == norm);
		adamw_step(x.p, x.m, x.v, x.g, &l, &conf, 0.1, 1 / norm, 1, pool);
		CHECK(memcmp(x.p, one.p, N * sizeof(real)) == 0 &&
			memcmp(x.m, one.m, N * sizeof(real)) == 0);
		CHECK(memcmp(x.v, one.v, N * sizeof(real)) == 0);
		pool_close(pool);
		values_free(&x);
	}
	values_free(&one);
	tensors_release(&l);
}

static void norm_is_the_plain_norm(void)
{
	struct values x = values_new();
	double square = 0;

	set_gradients(&x, 3);
	for (size_t i = 0; i < N; i++)
		square += (double)x.g[i] * (double)x.g[i];
	CHECK_NEAR(adamw_norm(x.g, N, NULL) / sqrt(square), 1, 1e-12);
	CHECK(adamw_norm(x.g, 1, NULL) == fabs((double)x.g[0]) && adamw_norm(x.g, 0, NULL) == 0);
	x.g[N - 2] = 3e38f;
	CHECK_NEAR(adamw_norm(x.g, N, NULL) / 3e38, 1, 1e-6); /* no overflow on the way */
	x.g[N - 2] = NAN;
	CHECK(isnan(adamw_norm(x.g, N, NULL)));
	x.g[N - 2] = -INFINITY;
	CHECK(isinf(adamw_norm(x.g, N, NULL)));
	values_free(&x);
}

/* Weights that get no gradient: decay only, and moments end at 0 rather than as
 * denormal numbers. */
static void idle_moments_die_out(void)
{
	struct tensors l = layout();
	struct values x = values_new();
	const real first = x.p[0];

	set_gradients(&x, 1);
	adamw_step(x.p, x.m, x.v, x.g, &l, &conf, 1e-3, 1, 1, NULL);
	memset(x.g, 0, N * sizeof(real));
	for (uint64_t t = 2; t < 2000; t++)
		adamw_step(x.p, x.m, x.v, x.g, &l, &conf, 0, 1, t, NULL);
	for (size_t i = 0; i < N; i += 7)
		CHECK(x.m[i] == 0 && x.v[i] == 0);
	CHECK_NEAR(x.p[0], first, 2e-3);
	values_free(&x);
	tensors_release(&l);
}

int main(void)
{
	steps_are_plain_steps();
	bits_do_not_depend_on_the_pool();
	norm_is_the_plain_norm();
	idle_moments_die_out();
	return unit_done("adamw");
}
