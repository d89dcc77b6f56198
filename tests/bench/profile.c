/*
 * profile - where the time of a training step goes: each kind of layer by itself, on arrays of the model's sizes, and
 * what of the whole step they explain. One thread, batch 8, processor time.
 *
 * Of matrix products also GFLOP/s, and the share of two peaks on 512 x 512 x 512: OpenBLAS's sgemm, and our own
 * kernels (gemm.h). Work of experts is that of an even load. Medians of ROUNDS; other work on the machine
 * shows in every figure: compare those of one run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "math/attention.h"
#include "math/blas.h"
#include "math/gemm.h"
#include "math/layer.h"
#include "math/model.h"
#include "math/optimizer.h"

enum { BATCH = 8, ROUNDS = 7, SIDE = 512 };

/* A model's sizes, as in net.c, and arrays that any of its layers fits into. */
struct sizes {
	struct model_conf c;
	int R, T, C, H, K, D, Q, P, F, V, L;
	int experts, rows; /* of a layer, 1 when dense; that each has */
	double calls;      /* of R rows in a step */
	real *a, *b, *w, *d, *pack, *work, *tables, *lse;
	uint32_t *ids;
};

static real *numbers(size_t n)
{
	real *x = malloc(n * sizeof(*x));

	for (size_t i = 0; x && i < n; i++)
		x[i] = (real)((double)(i * 2654435761u % 1000) / 1000 - 0.5) * (real)0.1;
	return x;
}

static int widest(const struct sizes *s)
{
	const int all[] = { s->P, 2 * s->F, s->V, s->C };
	int most = 0;

	for (int i = 0; i < 4; i++)
		most = all[i] > most ? all[i] : most;
	return most;
}

static int sizes_open(struct sizes *s, const struct model_conf *c)
{
	*s = (struct sizes){ .c = *c, .T = (int)c->context, .C = (int)c->d_model, .H = (int)c->heads,
		.K = (int)c->kv_heads, .D = (int)c->head_dim, .F = (int)c->ff, .V = (int)c->vocab,
		.L = (int)c->layers };
	s->Q = s->H * s->D;
	s->P = s->Q + 2 * s->K * s->D;
	s->R = s->T < 512 ? 512 / s->T * s->T : s->T;
	s->calls = (double)BATCH * s->T / s->R;
	s->experts = c->experts ? (int)c->experts : 1;
	s->rows = c->experts ? s->R * (int)c->experts_per_token / s->experts : s->R;
	const size_t wide = (size_t)widest(s);

	s->a = numbers((size_t)s->R * wide * 2);
	s->b = numbers((size_t)s->R * wide * 2);
	s->d = numbers((size_t)s->R * wide * 2);
	s->w = numbers(wide * (size_t)(s->C > s->F ? s->C : s->F) * 2);
	s->pack = numbers(GEMM_WORK);
	s->work = numbers(attention_work(s->T, s->D));
	s->tables = numbers((size_t)s->T * (size_t)s->D);
	s->lse = numbers((size_t)s->R * (size_t)(s->H + 1));
	s->ids = calloc((size_t)s->R, sizeof(*s->ids));
	return s->a && s->b && s->d && s->w && s->pack && s->work && s->tables && s->lse && s->ids ? 0 : err_nomem();
}

static void sizes_close(struct sizes *s)
{
	real *const all[] = { s->a, s->b, s->w, s->d, s->pack, s->work, s->tables, s->lse };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
	free(s->ids);
}

/* ---- kinds of layers: forward and backward of one call ---- */

/* A linear layer (n, k): y = x w^T, dx = dy w, dw = dy^T x. */
static void linear(const struct sizes *s, int rows, int n, int k)
{
	gemm_nt(s->d, s->a, s->w, rows, n, k, false, s->pack);
	gemm_nn(s->d, s->b, s->w, rows, k, n, false, s->pack);
	gemm_tn(s->w, s->b, s->a, n, k, rows, true, s->pack);
}

static void products(const struct sizes *s)
{
	linear(s, s->R, s->P, s->C);
	linear(s, s->R, s->C, s->Q);
	for (int e = 0; e < s->experts; e++) {
		linear(s, s->rows, 2 * s->F, s->C);
		linear(s, s->rows, s->C, s->F);
	}
}

static double flops_of_products(const struct sizes *s)
{
	return 6.0 * s->R * s->C * (s->P + s->Q) + 18.0 * s->experts * s->rows * s->C * s->F;
}

static void head(const struct sizes *s)
{
	linear(s, s->R, s->V, s->C);
}

static void attention(const struct sizes *s)
{
	const real *k = s->a + s->Q, *v = k + s->K * s->D;

	for (int g = 0; g < s->R / s->T; g++) {
		attention_forward(s->b, s->lse, s->a, k, v, s->work, s->T, s->H, s->K, s->D, s->P);
		attention_backward(s->d, s->d + s->Q, s->d + s->Q + s->K * s->D, s->b, s->b, s->lse, s->a, k, v,
			s->work, s->T, s->H, s->K, s->D, s->P);
	}
}

static void rotary(const struct sizes *s)
{
	const real *sin_t = s->tables + (size_t)s->T * (size_t)s->D / 2;

	for (int i = 0; i < 2 * s->R / s->T; i++)
		rope_rotate(s->a, s->tables, sin_t, s->T, s->H + s->K, s->D, s->P, 0, i % 2 ? 1 : -1);
}

static void norms(const struct sizes *s)
{
	for (int i = 0; i < 2; i++) {
		rmsnorm_forward(s->b, s->lse, s->a, s->w, s->R, s->C, (real)1e-5);
		rmsnorm_backward(s->d, s->w, s->b, s->a, s->lse, s->w + s->C, s->R, s->C);
	}
}

static void swiglu(const struct sizes *s)
{
	for (int e = 0; e < s->experts; e++) {
		swiglu_forward(s->b, s->a, s->rows, s->F);
		swiglu_backward(s->d, s->b, s->a, s->rows, s->F);
	}
}

static void loss(const struct sizes *s)
{
	double sum = 0;

	cross_entropy(&sum, s->a, s->ids, s->R, s->V, (real)1e-9);
}

/* ---- time ---- */

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of a processor: what others take of it does not count. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(void (*kind)(const struct sizes *), const struct sizes *s)
{
	double time[ROUNDS];

	kind(s);
	for (int i = 0; i < ROUNDS; i++) {
		const double start = now();

		kind(s);
		time[i] = now() - start;
	}
	qsort(time, ROUNDS, sizeof(time[0]), by_size);
	return time[ROUNDS / 2];
}

static void sgemm(const struct sizes *s)
{
	(void)s;
	static real x[3][SIDE * SIDE];

	blas_nt(x[0], x[1], x[2], SIDE, SIDE, SIDE, 0);
}

static void own_gemm(const struct sizes *s)
{
	static real x[3][SIDE * SIDE];

	gemm_nt(x[0], x[1], x[2], SIDE, SIDE, SIDE, false, s->pack);
}

/* Gradients of a step, and the optimizer's part. */
static int whole_step(double *gradients, double *update, const struct sizes *s)
{
	static const struct adamw_conf adamw = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1 };
	double time[2][ROUNDS], l;
	struct optimizer o = { 0 };
	struct model *m = NULL;
	uint32_t *ids = calloc((size_t)BATCH * (size_t)(s->T + 1), sizeof(*ids));
	int rc = ids ? model_open(&m, &s->c, s->T, MODEL_TRAIN, NULL) : err_nomem();

	if (rc == 0)
		rc = optimizer_open(&o, OPTIMIZER_ADAMW, model_tensors(m), NULL);
	for (uint64_t i = 0; rc == 0 && i < model_size(m); i++)
		model_params(m)[i] = (real)((double)(i * 2654435761u % 1000) / 1000 - 0.5) * (real)0.1;
	for (int i = 0; rc == 0 && i < BATCH * (s->T + 1); i++)
		ids[i] = (uint32_t)(i * 7919 % s->V);
	for (int i = 0; rc == 0 && i < ROUNDS; i++) {
		const double start = now();

		rc = model_backward(m, &l, ids, BATCH, s->T);
		time[0][i] = now() - start;
		(void)adamw_norm(model_grads(m), model_size(m), NULL);
		optimizer_step(&o, model_params(m), model_grads(m), &adamw, 0, 1e-4, 1);
		time[1][i] = now() - start - time[0][i];
	}
	optimizer_close(&o);
	model_close(m);
	free(ids);
	for (int i = 0; i < 2; i++)
		qsort(time[i], ROUNDS, sizeof(double), by_size);
	*gradients = time[0][ROUNDS / 2];
	*update = time[1][ROUNDS / 2];
	return rc;
}

static double line(const char *name, double part, double whole)
{
	printf("  %-14s %9.2f ms %5.1f %%\n", name, 1e3 * part, 100 * part / whole);
	return part;
}

static void products_line(const char *name, double flops, double part, const double *peak)
{
	const double rate = 1e-9 * flops / part;

	printf("  %-14s %9.1f GFLOP/s, %.0f %% of sgemm, %.0f %% of our own peak\n", name, rate, 100 * rate / peak[0],
		100 * rate / peak[1]);
}

static void tell(const char *preset, const struct sizes *s, double gradients, double update)
{
	static const struct { const char *name; void (*kind)(const struct sizes *); } part[] = {
		{ "attention", attention }, { "rotary", rotary }, { "rmsnorm", norms }, { "swiglu", swiglu },
	};
	const double cube = 2e-9 * SIDE * SIDE * SIDE;
	const double peak[2] = { cube / seconds(sgemm, s), cube / seconds(own_gemm, s) };
	const double whole = gradients + update, layers = s->calls * s->L;
	const double each = seconds(products, s), top = seconds(head, s);
	double sum = update;

	printf("%s: %.1f ms a step, %.0f tokens/s; sgemm %.1f, own %.1f GFLOP/s\n", preset, 1e3 * whole,
		BATCH * s->T / whole, peak[0], peak[1]);
	sum += line("products", layers * each, whole);
	sum += line("head", s->calls * top, whole);
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		sum += line(part[i].name, layers * seconds(part[i].kind, s), whole);
	sum += line("cross-entropy", s->calls * seconds(loss, s), whole);
	line("AdamW, norm", update, whole);
	line("rest", whole - sum, whole);
	products_line("products", flops_of_products(s), each, peak);
	products_line("head", 6.0 * s->R * s->C * s->V, top, peak);
	fflush(stdout);
}

static int measure(const char *preset)
{
	const char *text = model_preset(preset);
	double gradients, update;
	struct conf conf = { 0 };
	struct model_conf c;
	struct sizes s = { 0 };
	int rc;

	if ((rc = conf_parse(&conf, text, strlen(text))) == 0)
		rc = model_conf_read(&c, &conf);
	conf_release(&conf);
	if (rc == 0)
		rc = sizes_open(&s, &c);
	if (rc == 0)
		rc = whole_step(&gradients, &update, &s);
	if (rc == 0)
		tell(preset, &s, gradients, update);
	sizes_close(&s);
	return rc;
}

int main(int argc, char **argv)
{
	static const char *const presets[] = { "tiny", "small", "medium", "moe" };

	blas_init();
	for (int i = 0; i < 4; i++)
		if ((argc < 2 || strcmp(argv[1], presets[i]) == 0) && measure(presets[i]) < 0) {
			fprintf(stderr, "profile: %s\n", err_text());
			return 1;
		}
	return 0;
}
