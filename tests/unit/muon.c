/* muon - against the same iteration in plain loops and double, and what it is for: orthogonal steps. */
#include "math/muon.h"

#include <stdlib.h>

#include "base/rng.h"
#include "math/blas.h"
#include "plain.h"
#include "unit.h"

static void fill(real *x, size_t n, uint64_t stream, double size)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (real)(rng_normal_at(3, stream, i) * size);
}

static real *reals(size_t n)
{
	real *x = calloc(n + 1, sizeof(*x));

	if (!x)
		abort();
	return x;
}

/* ---- a second Newton-Schulz: the definition, X a matrix of any shape, in double ---- */

static void plain_newton_schulz(double *x, int rows, int cols)
{
	double *a = plain_zeros((size_t)rows * rows), *b = plain_zeros((size_t)rows * rows);
	double *y = plain_zeros((size_t)rows * cols);

	for (int i = 0; i < rows; i++)
		for (int j = 0; j < rows; j++)
			for (int k = 0; k < cols; k++)
				a[i * rows + j] += x[i * cols + k] * x[j * cols + k];
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < rows; j++) {
			for (int k = 0; k < rows; k++)
				b[i * rows + j] += 2.0315 * a[i * rows + k] * a[k * rows + j];
			b[i * rows + j] += -4.7750 * a[i * rows + j];
		}
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++) {
			y[i * cols + j] = 3.4445 * x[i * cols + j];
			for (int k = 0; k < rows; k++)
				y[i * cols + j] += b[i * rows + k] * x[k * cols + j];
		}
	memcpy(x, y, (size_t)rows * cols * sizeof(*x));
	free(a);
	free(b);
	free(y);
}

static void plain_orthogonalise(double *x, int rows, int cols)
{
	double square = 0;

	for (int i = 0; i < rows * cols; i++)
		square += x[i] * x[i];
	for (int i = 0; i < rows * cols; i++)
		x[i] /= square > 0 ? sqrt(square) : 1;
	for (int i = 0; i < 5; i++)
		plain_newton_schulz(x, rows, cols);
}

static void orthogonalise(real *x, int rows, int cols)
{
	real *work = aligned_alloc(64, muon_work(rows, cols) * sizeof(real));

	muon_orthogonalise(x, work, rows, cols);
	free(work);
}

/* Float arithmetic, and no more: the iteration multiplies errors in small directions by up to 3.4445^5. */
static void it_is_the_plain_iteration(void)
{
	static const int shape[][2] = { { 1, 1 }, { 1, 7 }, { 7, 1 }, { 5, 5 }, { 16, 48 }, { 48, 16 },
		{ 33, 100 }, { 100, 33 }, { 128, 128 }, { 384, 128 }, { 128, 384 } };

	for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
		const int rows = shape[s][0], cols = shape[s][1];
		const size_t n = (size_t)rows * (size_t)cols;
		real *x = reals(n);
		double *want = plain_zeros(n), worst = 0;

		fill(x, n, s, 1e-3);
		for (size_t i = 0; i < n; i++)
			want[i] = (double)x[i];
		orthogonalise(x, rows, cols);
		plain_orthogonalise(want, rows, cols);
		for (size_t i = 0; i < n; i++)
			worst = fmax(worst, fabs((double)x[i] - want[i]));
		CHECK_NEAR(worst, 0, 2e-4);
		free(x);
		free(want);
	}
}

/* ---- singular values, by Jacobi's rotations of the rows ---- */

static void rotate_rows(double *x, double *y, int n)
{
	double xx = 0, yy = 0, xy = 0;

	for (int i = 0; i < n; i++) {
		xx += x[i] * x[i];
		yy += y[i] * y[i];
		xy += x[i] * y[i];
	}
	if (xy == 0)
		return;
	const double zeta = (yy - xx) / (2 * xy);
	const double t = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
	const double c = 1 / sqrt(1 + t * t), s = c * t;

	for (int i = 0; i < n; i++) {
		const double xi = x[i];

		x[i] = c * xi - s * y[i];
		y[i] = s * xi + c * y[i];
	}
}

/* The smallest and the largest of x (rows, cols), rows <= cols, which is lost. */
static void singular_values(double *least, double *most, double *x, int rows, int cols)
{
	for (int sweep = 0; sweep < 12; sweep++)
		for (int i = 0; i < rows; i++)
			for (int j = i + 1; j < rows; j++)
				rotate_rows(x + (size_t)i * cols, x + (size_t)j * cols, cols);
	*least = HUGE_VAL;
	*most = 0;
	for (int i = 0; i < rows; i++) {
		double square = 0;

		for (int j = 0; j < cols; j++)
			square += x[(size_t)i * cols + j] * x[(size_t)i * cols + j];
		*least = fmin(*least, sqrt(square));
		*most = fmax(*most, sqrt(square));
	}
}

/* Rows of very different size become rows of one. */
static void all_directions_come_out_alike(void)
{
	enum { ROWS = 24, COLS = 72 };
	real x[ROWS * COLS];
	double wide[ROWS * COLS], least, most;

	for (int tall = 0; tall < 2; tall++) {
		for (int i = 0; i < ROWS; i++)
			for (int j = 0; j < COLS; j++)
				x[tall ? j * ROWS + i : i * COLS + j] =
					(real)(rng_normal_at(5, (uint64_t)i, (uint64_t)j) * pow(0.8, i));
		orthogonalise(x, tall ? COLS : ROWS, tall ? ROWS : COLS);
		for (int i = 0; i < ROWS; i++)
			for (int j = 0; j < COLS; j++)
				wide[i * COLS + j] = (double)x[tall ? j * ROWS + i : i * COLS + j];
		singular_values(&least, &most, wide, ROWS, COLS);
		CHECK(least > 0.68 && most < 1.21);
	}
}

static void size_does_not_matter_and_zero_stays_zero(void)
{
	real small[20 * 30], large[20 * 30], zero[20 * 30] = { 0 };
	double worst = 0;

	fill(small, 600, 9, 1e-12);
	fill(large, 600, 9, 1e6);
	orthogonalise(small, 20, 30);
	orthogonalise(large, 20, 30);
	orthogonalise(zero, 20, 30);
	for (int i = 0; i < 600; i++)
		worst = fmax(worst, fabs((double)(small[i] - large[i])) + fabs((double)zero[i]));
	CHECK_NEAR(worst, 0, 1e-4);
}

/* ---- steps ---- */

enum { TABLE = 50 * 8, TALL = 24 * 8, NORM = 8, WIDE = 8 * 24, N = TABLE + TALL + NORM + WIDE };

static struct tensors layout(void)
{
	static const struct tensor all[] = {
		{ .name = "model.embed_tokens.weight", .rank = 2, .dim = { 50, 8 } },
		{ .name = "model.layers.0.mlp.up_proj.weight", .rank = 2, .dim = { 24, 8 } },
		{ .name = "model.layers.0.input_layernorm.weight", .rank = 1, .dim = { 8 } },
		{ .name = "model.layers.0.mlp.down_proj.weight", .rank = 2, .dim = { 8, 24 } },
	};
	struct tensors l = { 0 };

	for (int i = 0; i < 4; i++)
		CHECK(tensors_push(&l, &all[i]) == 0);
	return l;
}

static void plain_step(double *p, double *m, const real *g, double scale, double lr, int rows, int cols)
{
	const int n = rows * cols;
	double *x = plain_zeros((size_t)n);

	for (int i = 0; i < n; i++) {
		m[i] = 0.95 * m[i] + 0.05 * scale * (double)g[i];
		x[i] = 0.95 * m[i] + 0.05 * scale * (double)g[i];
	}
	plain_orthogonalise(x, rows, cols);
	for (int i = 0; i < n; i++)
		p[i] -= lr * (0.2 * sqrt(rows > cols ? rows : cols) * x[i] + 0.1 * p[i]);
	free(x);
}

static void steps_are_plain_steps_for_matrices_of_layers_alone(void)
{
	const struct muon_conf conf = { .momentum = 0.95, .weight_decay = 0.1 };
	struct tensors l = layout();
	real p[N], m[N] = { 0 }, g[N];
	double want_p[N], want_m[N] = { 0 }, worst = 0;
	struct muon *u;

	fill(p, N, 20, 1);
	for (int i = 0; i < N; i++)
		want_p[i] = (double)p[i];
	CHECK(muon_open(&u, &l, NULL) == 0);
	for (uint64_t t = 0; t < 5; t++) {
		fill(g, N, 30 + t, 10);
		muon_step(u, p, m, g, &conf, 0.01, 0.5);
		plain_step(want_p + TABLE, want_m + TABLE, g + TABLE, 0.5, 0.01, 24, 8);
		plain_step(want_p + N - WIDE, want_m + N - WIDE, g + N - WIDE, 0.5, 0.01, 8, 24);
	}
	for (int i = 0; i < N; i++)
		worst = fmax(worst, fabs((double)p[i] - want_p[i]) + fabs((double)m[i] - want_m[i]));
	CHECK_NEAR(worst, 0, 2e-5);
	muon_close(u);
	tensors_release(&l);
}

static void bits_do_not_depend_on_the_pool(void)
{
	const struct muon_conf conf = { .momentum = 0.9, .weight_decay = 0 };
	struct tensors l = layout();
	real p[6][N], m[6][N] = { { 0 } }, g[N];

	for (int threads = 1; threads < 6; threads++) {
		struct pool *pool;
		struct muon *u;

		fill(p[threads], N, 20, 1);
		CHECK(pool_open(&pool, threads) == 0 && muon_open(&u, &l, pool) == 0);
		for (uint64_t t = 0; t < 3; t++) {
			fill(g, N, 30 + t, 1);
			muon_step(u, p[threads], m[threads], g, &conf, 0.01, 1);
		}
		CHECK(memcmp(p[threads], p[1], sizeof p[1]) == 0 && memcmp(m[threads], m[1], sizeof m[1]) == 0);
		muon_close(u);
		pool_close(pool);
	}
	tensors_release(&l);
}

static void without_matrices_there_is_nothing_to_do(void)
{
	const struct muon_conf conf = { .momentum = 0.9 };
	struct tensors l = layout(), one = { .v = l.v, .n = 1 };
	real p[TABLE] = { 1 }, m[TABLE] = { 0 };
	struct muon *u = NULL;

	CHECK(muon_bytes(&one, 7) == 0 && muon_open(&u, &one, NULL) == 0);
	muon_step(u, p, m, p, &conf, 1, 1);
	CHECK(p[0] == 1 && m[0] == 0);
	muon_close(u);
	tensors_release(&l);
}

int main(void)
{
	blas_init();
	it_is_the_plain_iteration();
	all_directions_come_out_alike();
	size_does_not_matter_and_zero_stays_zero();
	steps_are_plain_steps_for_matrices_of_layers_alone();
	bits_do_not_depend_on_the_pool();
	without_matrices_there_is_nothing_to_do();
	return unit_done("muon");
}
