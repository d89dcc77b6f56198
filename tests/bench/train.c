/*
 * train - speed of training: tokens a second, and the share of the matrix product's own speed that
 * is kept.
 *
 * One line for each preset and number of threads. Work counted: 6 N + 6 L T Q a token, N weights in
 * matrices with the output head, those of the experts of a token only, Q = heads * head_dim. The peak is that
 * of sgemm on 512 x 512 x 512, on all threads at once, measured before and after each line; beside it that of our
 * own kernels. Last, the speed of evaluation (forward only, as dl-eval opens a model) as a multiple of training,
 * in turns with it. moe has as many active parameters as tiny, and is compared with it. Medians of TURNS turns
 * of STEPS steps after one that warms up; batch 8. Other work on the machine shows in every figure: compare ratios of one run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"
#include "math/adamw.h"
#include "math/blas.h"
#include "math/gemm.h"
#include "math/model.h"

enum { BATCH = 8, TURNS = 4, STEPS = 4, SIDE = 512, PRODUCTS = 40, THREADS_MOST = 64 };

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

enum { EACH = 3 * SIDE * SIDE + GEMM_WORK };

static int multiply(void *ctx, int i, int thread)
{
	real *square = (real *)ctx + (size_t)i * EACH;

	(void)thread;
	for (int r = 0; r < PRODUCTS; r++)
		blas_nt(square, square + SIDE * SIDE, square + 2 * SIDE * SIDE, SIDE, SIDE, SIDE,
			0);
	return 0;
}

static int multiply_own(void *ctx, int i, int thread)
{
	real *square = (real *)ctx + (size_t)i * EACH;

	(void)thread;
	for (int r = 0; r < PRODUCTS; r++)
		gemm_nt(square, square + SIDE * SIDE, square + 2 * SIDE * SIDE, SIDE, SIDE, SIDE, false,
			square + 3 * SIDE * SIDE);
	return 0;
}

/* GFLOP/s of these products on every thread of the pool. */
static double peak(int (*product)(void *, int, int), struct pool *pool, struct clock clock)
{
	const int threads = pool_threads(pool);
	real *squares = calloc((size_t)threads * EACH, sizeof(real));
	double best = 0;

	for (int i = 0; squares && i < 5; i++) {
		const double start = clock_now(&clock);

		if (pool_run(pool, product, squares, threads) < 0)
			break;
		const double rate = 2e-9 * SIDE * SIDE * SIDE * PRODUCTS * threads /
			(clock_now(&clock) - start);

		best = rate > best && i > 0 ? rate : best;
	}
	free(squares);
	return best;
}

struct setup {
	struct model_conf c;
	struct model *model, *eval;
	real *m, *v;
	uint32_t *ids;
	struct pool *pool;
	struct clock clock;
	uint64_t number; /* of the last step */
};

static int setup_open(struct setup *s, const char *preset, int threads)
{
	struct conf conf = { 0 };
	const char *text = model_preset(preset);
	struct rng rng;
	int rc;

	if ((rc = conf_parse(&conf, text, strlen(text))) == 0)
		rc = model_conf_read(&s->c, &conf);
	conf_release(&conf);
	if (rc < 0 || (rc = pool_open(&s->pool, threads)) < 0 ||
		(rc = model_open(&s->model, &s->c, (int)s->c.context, MODEL_TRAIN, s->pool)) < 0 ||
		(rc = model_open(&s->eval, &s->c, (int)s->c.context, MODEL_FORWARD, s->pool)) < 0)
		return rc;
	const struct tensors *layout = model_tensors(s->model);
	const size_t tokens = (size_t)BATCH * (s->c.context + 1);
	real *at = model_params(s->model);

	for (uint32_t t = 0; t < layout->n; at += layout->v[t++].count)
		model_init_slice(&s->c, layout, 1, t, 0, at, layout->v[t].count);
	memcpy(model_params(s->eval), model_params(s->model), model_size(s->model) * sizeof(real));
	s->m = calloc(model_size(s->model), sizeof(real));
	s->v = calloc(model_size(s->model), sizeof(real));
	s->ids = calloc(tokens, sizeof(*s->ids));
	if (!s->m || !s->v || !s->ids)
		return err_nomem();
	rng_init(&rng, 1, 1);
	for (size_t i = 0; i < tokens; i++)
		s->ids[i] = (uint32_t)rng_below(&rng, s->c.vocab);
	return 0;
}

static void setup_close(struct setup *s)
{
	model_close(s->model);
	model_close(s->eval);
	pool_close(s->pool);
	free(s->m);
	free(s->v);
	free(s->ids);
}

static int step(struct setup *s)
{
	static const struct adamw_conf adamw = {
		.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1
	};
	double loss;
	int rc;

	if ((rc = model_backward(s->model, &loss, s->ids, BATCH, (int)s->c.context)) < 0)
		return rc;
	const double norm = adamw_norm(model_grads(s->model), model_size(s->model), s->pool);

	adamw_step(model_params(s->model), s->m, s->v, model_grads(s->model),
		model_tensors(s->model), &adamw, 3e-4, norm > adamw.clip ? adamw.clip / norm : 1,
		++s->number, s->pool);
	return 0;
}

static double flops_a_token(const struct model_conf *c)
{
	const double Q = (double)c->heads * c->head_dim, KV = (double)c->kv_heads * c->head_dim;
	const double C = c->d_model;
	const double N = c->layers * (C * (2 * Q + 2 * KV) + 3 * C * c->ff * (c->experts ? c->experts_per_token : 1)) + (double)c->vocab * C;

	return 6 * N + 6 * (double)c->layers * c->context * Q;
}

static int evaluation(struct setup *s)
{
	double loss;

	return model_forward(s->eval, &loss, s->ids, BATCH, (int)s->c.context);
}

/* Seconds of each, the first left out. */
static int turn(struct setup *s, int (*work)(struct setup *), double *seconds)
{
	int rc = work(s);

	for (int i = 0; rc == 0 && i < STEPS; i++) {
		const double start = clock_now(&s->clock);

		rc = work(s);
		seconds[i] = clock_now(&s->clock) - start;
	}
	return rc;
}

static double median(double *v)
{
	qsort(v, (size_t)TURNS * STEPS, sizeof(v[0]), by_size);
	return v[TURNS * STEPS / 2];
}

/* *speed: tokens a second. */
static int measure(double *speed, const char *preset, int threads)
{
	struct setup s = { .clock = clock_monotonic() };
	double train[TURNS * STEPS], forward[TURNS * STEPS];
	int rc = setup_open(&s, preset, threads);

	if (rc < 0) {
		setup_close(&s);
		return rc;
	}
	double most = peak(multiply, s.pool, s.clock);
	const double own = peak(multiply_own, s.pool, s.clock);

	for (int i = 0; rc == 0 && i < TURNS * STEPS; i += STEPS)
		if ((rc = turn(&s, step, train + i)) == 0)
			rc = turn(&s, evaluation, forward + i);
	const double after = peak(multiply, s.pool, s.clock);

	most = after > most ? after : most;
	const double step_time = median(train);
	const double tokens = BATCH * (double)s.c.context / step_time;
	const double rate = tokens * flops_a_token(&s.c) * 1e-9;

	printf("%-7s %d threads %9.0f tokens/s %7.1f GFLOP/s %4.0f %% of sgemm %6.1f %4.0f %% of own %6.1f, "
	       "evaluation x%.2f\n", preset, threads, tokens, rate, 100 * rate / most, most, 100 * rate / own, own,
		step_time / median(forward));
	*speed = tokens;
	fflush(stdout);
	setup_close(&s);
	return rc;
}

int main(int argc, char **argv)
{
	static const char *const presets[] = { "tiny", "small", "medium", "moe" };
	const int threads = argc > 2 ? atoi(argv[2]) : 2;
	double speed[4] = { 0 };

	for (int i = 0; i < 4; i++)
		for (int t = 1; t <= threads && t <= THREADS_MOST; t *= 2)
			if ((argc < 2 || strcmp(argv[1], presets[i]) == 0) &&
				measure(&speed[i], presets[i], t) < 0) {
				fprintf(stderr, "train: %s\n", err_text());
				return 1;
			}
	if (argc < 2)
		printf("moe: %.2f of the speed of tiny, which has the same active parameters\n", speed[3] / speed[0]);
	return 0;
}
