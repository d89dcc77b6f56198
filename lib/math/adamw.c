#include "math/adamw.h"

#include "math/vec.h"

enum {
	PIECE = 1 << 16, /* elements of a job, whatever the pool: loops end at the same places */
	SUMS = 64        /* partial sums of a norm */
};
/* Moments below are set to 0: far beneath eps, and without it those of weights that get no gradient
 * would decay into denormal numbers, which cost a hundred cycles each. */
#define TINY ((real)1e-30)

/* Jobs here cannot fail, so the pool cannot. */
static void run(struct pool *pool, int (*job)(void *ctx, int i, int thread), void *ctx, uint64_t n)
{
	const int rc = pool_run(pool, job, ctx, (int)n);

	(void)rc;
}

VEC_CLONES static double sum_of_squares(const real *x, uint64_t n)
{
	double lane[VEC] = { 0 }, sum = 0;
	uint64_t i = 0;

	for (; i + VEC <= n; i += VEC)
		for (int l = 0; l < VEC; l++)
			lane[l] += (double)x[i + l] * (double)x[i + l];
	for (; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	for (int l = 0; l < VEC; l++)
		sum += lane[l];
	return sum;
}

struct norm {
	const real *g;
	uint64_t each, n;
	double sum[SUMS];
};

static int norm_part(void *ctx, int i, int thread)
{
	struct norm *s = ctx;
	const uint64_t first = (uint64_t)i * s->each;
	const uint64_t end = first + s->each < s->n ? first + s->each : s->n;

	(void)thread;
	s->sum[i] = first < end ? sum_of_squares(s->g + first, end - first) : 0;
	return 0;
}

double adamw_norm(const real *g, uint64_t n, struct pool *pool)
{
	struct norm s = { .g = g, .n = n, .each = n / SUMS + 1 };
	double sum = 0;

	run(pool, norm_part, &s, SUMS);
	for (int i = 0; i < SUMS; i++)
		sum += s.sum[i];
	return sqrt(sum);
}

/* What is the same for every element of a step. */
struct factors { real scale, beta1, beta2, keep1, keep2, rate, unbias2, eps, decay; };

struct step {
	real *p, *m, *v;
	const real *g;
	const struct tensors *layout;
	uint64_t n;
	struct factors f;
};

/*
 *     m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2
 *     p <- p (1 - lr decay) - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)
 */
VEC_CLONES static void update(real *restrict p, real *restrict m, real *restrict v,
	const real *restrict g, uint64_t n, const struct factors *factors, real decay)
{
	const struct factors f = *factors;

	for (uint64_t i = 0; i < n; i++) {
		const real gi = g[i] * f.scale;
		const real mi = f.beta1 * m[i] + f.keep1 * gi;
		const real vi = f.beta2 * v[i] + f.keep2 * gi * gi;

		m[i] = mi < TINY && mi > -TINY ? 0 : mi;
		v[i] = vi < TINY ? 0 : vi;
		p[i] = p[i] * (1 - decay) - f.rate * mi / ((real)sqrt(vi * f.unbias2) + f.eps);
	}
}

/* A piece of the flat arrays, tensor by tensor, for the rank decides about decay. */
static int step_piece(void *ctx, int piece, int thread)
{
	const struct step *s = ctx;
	uint64_t at = (uint64_t)piece * PIECE, next = 0;
	const uint64_t end = at + PIECE < s->n ? at + PIECE : s->n;

	(void)thread;
	for (size_t t = 0; t < s->layout->n && at < end; t++) {
		const struct tensor *tensor = &s->layout->v[t];

		next += tensor->count;
		if (next <= at)
			continue;
		const uint64_t n = (next < end ? next : end) - at;

		update(s->p + at, s->m + at, s->v + at, s->g + at, n, &s->f,
			tensor->rank >= 2 ? s->f.decay : 0);
		at += n;
	}
	return 0;
}

void adamw_step(real *p, real *m, real *v, const real *g, const struct tensors *layout,
	const struct adamw_conf *c, double lr, double scale, uint64_t t, struct pool *pool)
{
	struct step s = { p, m, v, g, layout, .n = tensors_total(layout) };

	s.f = (struct factors){
		.scale = (real)scale,
		.beta1 = (real)c->beta1,
		.beta2 = (real)c->beta2,
		.keep1 = (real)(1 - c->beta1),
		.keep2 = (real)(1 - c->beta2),
		.rate = (real)(lr / (1 - pow(c->beta1, (double)t))),
		.unbias2 = (real)(1 / (1 - pow(c->beta2, (double)t))),
		.eps = (real)c->eps,
		.decay = (real)(lr * c->weight_decay),
	};
	run(pool, step_piece, &s, (s.n + PIECE - 1) / PIECE);
}
