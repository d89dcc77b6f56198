#include "math/muon.h"

#include <stdlib.h>
#include <string.h>

#include "math/arena.h"
#include "math/gemm.h"
#include "math/vec.h"

enum { ROUNDS = 5 };
/* Means below are set to 0, as in adamw.c: they would decay into denormal numbers. */
#define TINY ((real)1e-30)

struct matrix {
	size_t at; /* in the flat arrays */
	int rows, cols;
};
struct muon {
	struct pool *pool;
	struct matrix *v; /* (n), the largest first: threads end at the same time */
	int n;
	size_t each;      /* reals of a thread's work */
	real *work;       /* (threads, each) */
};

bool muon_takes(const struct tensor *t)
{
	return t->rank == 2 && strncmp(t->name, "model.layers.", 13) == 0;
}

/* ---- one matrix ---- */

static int shorter(int rows, int cols)
{
	return rows < cols ? rows : cols;
}

/* What work is cut into; side = min(rows, cols). */
struct room { real *y, *a, *b, *pack; }; /* (rows, cols) (side, side) (side, side) (GEMM_WORK) */

static size_t cut(struct room *r, real *work, int rows, int cols)
{
	const size_t side = (size_t)shorter(rows, cols);
	size_t used = 0;

	r->y = arena_take(work, &used, (size_t)rows * (size_t)cols);
	r->a = arena_take(work, &used, side * side);
	r->b = arena_take(work, &used, side * side);
	r->pack = arena_take(work, &used, GEMM_WORK);
	return used;
}

size_t muon_work(int rows, int cols)
{
	struct room r;

	return cut(&r, NULL, rows, cols);
}

static double norm_of(const real *x, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sqrt(sum);
}

/* to = x * x_factor + y * y_factor; `to` may be one of them. */
VEC_CLONES static void combine(real *to, const real *x, real x_factor, const real *y, real y_factor, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = x_factor * x[i] + y_factor * y[i];
}

/* A tall matrix has its products the other way round, and is never transposed. */
static void newton_schulz(real *x, const struct room *r, int rows, int cols)
{
	const int side = shorter(rows, cols);
	const size_t n = (size_t)rows * (size_t)cols, square = (size_t)side * (size_t)side;

	if (rows > cols)
		gemm_tn(r->a, x, x, side, side, rows, false, r->pack);
	else
		gemm_nt(r->a, x, x, side, side, cols, false, r->pack);
	gemm_nn(r->b, r->a, r->a, side, side, side, false, r->pack);
	combine(r->b, r->a, (real)-4.7750, r->b, (real)2.0315, square);
	if (rows > cols)
		gemm_nn(r->y, x, r->b, rows, cols, cols, false, r->pack);
	else
		gemm_nn(r->y, r->b, x, rows, cols, rows, false, r->pack);
	combine(x, x, (real)3.4445, r->y, 1, n);
}

void muon_orthogonalise(real *x, real *work, int rows, int cols)
{
	const size_t n = (size_t)rows * (size_t)cols;
	const double norm = norm_of(x, n);
	struct room r;

	if (norm == 0)
		return;
	cut(&r, work, rows, cols);
	combine(x, x, (real)(1 / norm), x, 0, n);
	for (int i = 0; i < ROUNDS; i++)
		newton_schulz(x, &r, rows, cols);
}

/* ---- all of them ---- */

static int largest_first(const void *a, const void *b)
{
	const struct matrix *x = a, *y = b;
	const size_t n = (size_t)x->rows * (size_t)x->cols, k = (size_t)y->rows * (size_t)y->cols;

	return n != k ? (n < k) - (n > k) : (x->at > y->at) - (x->at < y->at);
}

static struct matrix matrix_of(const struct tensor *t, size_t at)
{
	return (struct matrix){ at, (int)t->dim[0], (int)t->dim[1] };
}

/* Its update, and what makes it orthogonal. */
static size_t each_of(struct matrix m)
{
	size_t used = 0;

	arena_take(NULL, &used, (size_t)m.rows * (size_t)m.cols);
	return used + muon_work(m.rows, m.cols);
}

static size_t most_work(const struct tensors *layout)
{
	size_t most = 0;

	for (size_t t = 0; t < layout->n; t++) {
		const size_t each = muon_takes(&layout->v[t]) ? each_of(matrix_of(&layout->v[t], 0)) : 0;

		most = each > most ? each : most;
	}
	return most;
}

size_t muon_bytes(const struct tensors *layout, int threads)
{
	return most_work(layout) * sizeof(real) * (size_t)threads;
}

int muon_open(struct muon **out, const struct tensors *layout, struct pool *pool)
{
	struct muon *u = calloc(1, sizeof(*u));
	size_t at = 0;

	if (!u)
		return err_nomem();
	u->pool = pool;
	u->each = most_work(layout);
	u->v = calloc(layout->n, sizeof(*u->v));
	if (u->each)
		u->work = aligned_alloc(ARENA_ALIGN, muon_bytes(layout, pool_threads(pool)));
	if (!u->v || (u->each && !u->work)) {
		muon_close(u);
		return err_nomem();
	}
	for (size_t t = 0; t < layout->n; at += layout->v[t++].count)
		if (muon_takes(&layout->v[t]))
			u->v[u->n++] = matrix_of(&layout->v[t], at);
	qsort(u->v, (size_t)u->n, sizeof(*u->v), largest_first);
	*out = u;
	return 0;
}

void muon_close(struct muon *u)
{
	if (!u)
		return;
	free(u->work);
	free(u->v);
	free(u);
}

struct step {
	struct muon *u;
	real *p, *m;
	const real *g;
	real scale, momentum, keep;
	double lr, decay;
};

VEC_CLONES static void average(real *restrict update, real *restrict m, const real *restrict g, size_t n,
	const struct step *s)
{
	const real mu = s->momentum, keep = s->keep, scale = s->scale;

	for (size_t i = 0; i < n; i++) {
		const real gi = g[i] * scale * keep;
		const real mi = mu * m[i] + gi;

		m[i] = mi < TINY && mi > -TINY ? 0 : mi;
		update[i] = mu * mi + gi;
	}
}

static int step_matrix(void *ctx, int i, int thread)
{
	const struct step *s = ctx;
	const struct matrix *a = &s->u->v[i];
	const size_t n = (size_t)a->rows * (size_t)a->cols;
	const double longer = a->rows > a->cols ? a->rows : a->cols;
	real *update = s->u->work + (size_t)thread * s->u->each;
	size_t used = 0;

	arena_take(update, &used, n);
	average(update, s->m + a->at, s->g + a->at, n, s);
	muon_orthogonalise(update, update + used, a->rows, a->cols);
	combine(s->p + a->at, s->p + a->at, (real)(1 - s->lr * s->decay), update,
		(real)(-s->lr * 0.2 * sqrt(longer)), n);
	return 0;
}

void muon_step(struct muon *u, real *p, real *m, const real *g, const struct muon_conf *c, double lr,
	double scale)
{
	struct step s = { u, p, m, g, (real)scale, (real)c->momentum, (real)(1 - c->momentum), lr,
		c->weight_decay };
	const int rc = pool_run(u->pool, step_matrix, &s, u->n); /* its jobs cannot fail */

	(void)rc;
}
