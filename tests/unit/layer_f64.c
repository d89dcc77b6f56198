/* Plain and fast code differ by the order of sums and by e^-64 that vec_exp takes for 0. */
#define TOL 1e-12
#include "differences.h"
#include "layer_cases.h"

/* A layer under test: what is differentiated is the sum of out[i] * weight[i]. */
struct probe {
	int R, C;             /* or T, D; or R, F */
	int H, K;
	real *in, *w, *out, *weight, *spare, *work;
	size_t n;             /* of out and weight */
	uint32_t *ids;
};

static double weighed(const struct probe *p)
{
	double sum = 0;

	for (size_t i = 0; i < p->n; i++)
		sum += (double)(p->out[i] * p->weight[i]);
	return sum;
}

static double norm_value(void *ctx)
{
	struct probe *p = ctx;

	rmsnorm_forward(p->out, p->spare, p->in, p->w, p->R, p->C, (real)1e-5);
	return weighed(p);
}

static void rmsnorm_gradient(int R, int C)
{
	const size_t n = (size_t)R * (size_t)C;
	struct probe p = {
		.R = R,
		.C = C,
		.in = numbers(n, 1),
		.w = numbers((size_t)C, 2),
		.out = numbers(n, 3),
		.weight = numbers(n, 4),
		.spare = numbers((size_t)R, 5),
		.n = n,
	};
	real *dx = calloc(n, sizeof(*dx)), *dw = calloc((size_t)C, sizeof(*dw));

	norm_value(&p);
	rmsnorm_backward(dx, dw, p.weight, p.in, p.spare, p.w, R, C);
	check_gradient("rmsnorm input", norm_value, &p, p.in, dx, n);
	check_gradient("rmsnorm weight", norm_value, &p, p.w, dw, (size_t)C);
	real *const all[] = { p.in, p.w, p.out, p.weight, p.spare, dx, dw };

	for (int i = 0; i < 7; i++)
		free(all[i]);
}

static double attention_value(void *ctx)
{
	struct probe *p = ctx;
	const int Q = p->H * p->C, KV = p->K * p->C;

	attention_forward(p->out, p->spare, p->in, p->in + Q, p->in + Q + KV, p->work, p->R, p->H,
		p->K, p->C, Q + 2 * KV);
	return weighed(p);
}

static void attention_gradient(int T, int H, int K, int D)
{
	const int Q = H * D, KV = K * D, ld = Q + 2 * KV;
	const size_t n = (size_t)T * (size_t)Q, in = (size_t)T * (size_t)ld;
	struct probe p = {
		.R = T,
		.C = D,
		.H = H,
		.K = K,
		.in = numbers(in, 1),
		.out = numbers(n, 2),
		.weight = numbers(n, 3),
		.spare = numbers((size_t)H * (size_t)T, 4),
		.work = numbers(attention_work(T, D), 5),
		.n = n,
	};
	real *d = numbers(in, 6);

	attention_value(&p);
	attention_backward(d, d + Q, d + Q + KV, p.weight, p.out, p.spare, p.in, p.in + Q,
		p.in + Q + KV, p.work, T, H, K, D, ld);
	check_gradient("attention", attention_value, &p, p.in, d, in);
	real *const all[] = { p.in, p.out, p.weight, p.spare, p.work, d };

	for (int i = 0; i < 6; i++)
		free(all[i]);
}

static double swiglu_value(void *ctx)
{
	struct probe *p = ctx;

	swiglu_forward(p->out, p->in, p->R, p->C);
	return weighed(p);
}

static void swiglu_gradient(int R, int F)
{
	const size_t n = (size_t)R * (size_t)F;
	struct probe p = {
		.R = R,
		.C = F,
		.in = numbers(2 * n, 1),
		.out = numbers(n, 2),
		.weight = numbers(n, 3),
		.n = n,
	};
	real *d = numbers(2 * n, 4);

	swiglu_backward(d, p.weight, p.in, R, F);
	check_gradient("swiglu", swiglu_value, &p, p.in, d, 2 * n);
	real *const all[] = { p.in, p.out, p.weight, d };

	for (int i = 0; i < 4; i++)
		free(all[i]);
}

static double cross_entropy_value(void *ctx)
{
	struct probe *p = ctx;
	double loss = 0;

	cross_entropy(&loss, p->in, p->ids, p->R, p->C, 0);
	return loss * 0.5;
}

static void cross_entropy_gradient(int R, int V)
{
	const size_t n = (size_t)R * (size_t)V;
	uint32_t ids[16] = { 0 };
	struct probe p = { .R = R, .C = V, .in = numbers(n, 1), .ids = ids };
	real *d = numbers(n, 1);
	double loss = 0;

	for (int r = 0; r < R; r++)
		ids[r] = (uint32_t)(r * 5 + 2) % (uint32_t)V;
	cross_entropy(&loss, d, ids, R, V, (real)0.5);
	check_gradient("cross entropy", cross_entropy_value, &p, p.in, d, n);
	free(p.in);
	free(d);
}

/* Linear: the gradient is exact however large the step, but a wrong sign or half shows. */
static double rope_value(void *ctx)
{
	struct probe *p = ctx;

	memcpy(p->out, p->in, p->n * sizeof(*p->out));
	rope_rotate(p->out, p->w, p->spare, p->R, p->H, p->C, p->H * p->C, 2, 1);
	return weighed(p);
}

static void rope_gradient(int T, int heads, int D)
{
	const size_t n = (size_t)T * (size_t)(heads * D), table = (size_t)(T + 2) * (size_t)(D / 2);
	struct probe p = {
		.R = T,
		.C = D,
		.H = heads,
		.in = numbers(n, 1),
		.out = numbers(n, 2),
		.weight = numbers(n, 3),
		.w = numbers(table, 4),
		.spare = numbers(table, 5),
		.n = n,
	};
	real *d = numbers(n, 3);

	rope_table(p.w, p.spare, T + 2, D, 100);
	rope_rotate(d, p.w, p.spare, T, heads, D, heads * D, 2, -1);
	check_gradient("rope", rope_value, &p, p.in, d, n);
	real *const all[] = { p.in, p.out, p.weight, p.w, p.spare, d };

	for (int i = 0; i < 6; i++)
		free(all[i]);
}

int main(void)
{
	layers_are_plain();
	rmsnorm_gradient(1, 1);
	rmsnorm_gradient(3, 37);
	attention_gradient(1, 1, 1, 2);
	attention_gradient(7, 4, 2, 6);
	attention_gradient(51, 3, 1, 4);
	swiglu_gradient(3, 19);
	cross_entropy_gradient(5, 21);
	rope_gradient(4, 2, 6);
	return unit_done("layer_f64");
}
