/*
 * layer_cases - each layer against its plain double, for whatever `real` is. The includer defines
 * TOL, what an element may differ by, relative to max(1, |want|).
 *
 * Also numbers(), reproducible values of order one, and helpers to compare.
 */
#ifndef LAYER_CASES_H
#define LAYER_CASES_H

#include "base/rng.h"
#include "math/attention.h"
#include "math/layer.h"
#include "plain.h"
#include "unit.h"

static inline real *numbers(size_t n, uint64_t stream)
{
	real *x = calloc(n + 1, sizeof(*x));

	if (!x)
		abort();
	for (size_t i = 0; i < n; i++)
		x[i] = (real)rng_normal_at(11, stream, i);
	return x;
}

static inline double *doubles(const real *x, size_t n)
{
	double *d = plain_zeros(n);

	for (size_t i = 0; i < n; i++)
		d[i] = (double)x[i];
	return d;
}

/* Largest difference relative to max(1, |want|); NaN when there is one. */
static inline double farthest(const real *have, const double *want, size_t n)
{
	double most = 0;

	for (size_t i = 0; i < n; i++) {
		const double d = fabs((double)have[i] - want[i]) / fmax(1, fabs(want[i]));

		if (!(d <= most))
			most = d;
	}
	return most;
}

/* Frees want. */
#define CHECK_ALL(have, want, n) \
	do { \
		double *want_ = (want); \
		CHECK_NEAR(farthest((have), want_, (n)), 0, TOL); \
		free(want_); \
	} while (0)

static inline void rmsnorm_is_plain(int R, int C)
{
	const size_t n = (size_t)R * (size_t)C, c = (size_t)C;
	real *x = numbers(n, 1), *w = numbers(c, 2), *dy = numbers(n, 3), *dx = numbers(n, 4);
	real *dw = numbers(c, 5);
	real *y = numbers(n, 6), *inv = numbers((size_t)R, 7);
	double *px = doubles(x, n), *pw = doubles(w, c), *pdy = doubles(dy, n);
	double *pdx = doubles(dx, n), *pdw = doubles(dw, c);
	double *py = plain_zeros(n);

	rmsnorm_forward(y, inv, x, w, R, C, (real)1e-5);
	rmsnorm_backward(dx, dw, dy, x, inv, w, R, C);
	plain_rmsnorm(py, px, pw, R, C, (real)1e-5);
	plain_rmsnorm_backward(pdx, pdw, pdy, px, pw, R, C, (real)1e-5);
	CHECK_ALL(y, py, n);
	CHECK_ALL(dx, pdx, n);
	CHECK_ALL(dw, pdw, c);
	real *const all[] = { x, w, dy, dx, dw, y, inv };

	for (int i = 0; i < 7; i++)
		free(all[i]);
	free(px);
	free(pw);
	free(pdy);
}

static inline void rope_is_plain(int T, int heads, int D, int extra, int pos0)
{
	const int ld = heads * D + extra;
	const size_t n = (size_t)T * (size_t)ld, table = (size_t)(pos0 + T) * (size_t)(D / 2);
	real *x = numbers(n, 1), *before = numbers(n, 1), *cos_t = numbers(table, 2);
	real *sin_t = numbers(table, 3);
	double *want = doubles(x, n);

	rope_table(cos_t, sin_t, pos0 + T, D, 1000);
	rope_rotate(x, cos_t, sin_t, T, heads, D, ld, pos0, 1);
	for (int h = 0; h < heads; h++)
		plain_rope(want + h * D, T, D, ld, 1000, pos0, 1);
	CHECK_ALL(x, want, n);
	rope_rotate(x, cos_t, sin_t, T, heads, D, ld, pos0, -1);
	CHECK_ALL(x, doubles(before, n), n);
	free(x);
	free(before);
	free(cos_t);
	free(sin_t);
}

static inline void attention_is_plain(int T, int H, int K, int D)
{
	const int Q = H * D, KV = K * D, ld = Q + 2 * KV;
	const size_t n = (size_t)T * (size_t)ld, ny = (size_t)T * (size_t)Q;
	real *qkv = numbers(n, 1), *dqkv = numbers(n, 2), *y = numbers(ny, 3), *dy = numbers(ny, 4);
	real *lse = numbers((size_t)H * (size_t)T, 5), *work = numbers(attention_work(T, D), 6);
	double *p = doubles(qkv, n), *pd = plain_zeros(n), *py = plain_zeros(ny);
	double *pdy = doubles(dy, ny);

	attention_forward(y, lse, qkv, qkv + Q, qkv + Q + KV, work, T, H, K, D, ld);
	attention_backward(dqkv, dqkv + Q, dqkv + Q + KV, dy, y, lse, qkv, qkv + Q, qkv + Q + KV,
		work, T, H, K, D, ld);
	plain_attention(py, p, p + Q, p + Q + KV, T, H, K, D, ld);
	plain_attention_backward(
		pd, pd + Q, pd + Q + KV, pdy, p, p + Q, p + Q + KV, T, H, K, D, ld);
	CHECK_ALL(y, py, ny);
	CHECK_ALL(dqkv, pd, n);
	real *const all[] = { qkv, dqkv, y, dy, lse, work };

	for (int i = 0; i < 6; i++)
		free(all[i]);
	free(p);
	free(pdy);
}

/* The last rows of a sequence, keys and values of all in an array of their own. */
static inline void extending_attention_is_plain(int past, int T, int H, int K, int D)
{
	const int Q = H * D, KV = K * D, ld = Q + 2 * KV, all = past + T;
	const size_t n = (size_t)all * (size_t)ld, ny = (size_t)T * (size_t)Q;
	real *qkv = numbers(n, 1), *kv = numbers((size_t)all * 2 * (size_t)KV, 2);
	real *y = numbers(ny, 3), *work = numbers(attention_work(all, D), 4);
	double *p = doubles(qkv, n), *py = plain_zeros((size_t)all * (size_t)Q);

	for (int t = 0; t < all; t++)
		memcpy(kv + (size_t)t * 2 * (size_t)KV, qkv + (size_t)t * (size_t)ld + Q,
			2 * (size_t)KV * sizeof(*kv));
	attention_extend(y, qkv + (size_t)past * (size_t)ld, kv, kv + KV, work, past, T, H, K, D,
		ld, 2 * KV);
	plain_attention(py, p, p + Q, p + Q + KV, all, H, K, D, ld);
	CHECK_NEAR(farthest(y, py + (size_t)past * (size_t)Q, ny), 0, TOL);
	free(qkv);
	free(kv);
	free(y);
	free(work);
	free(p);
	free(py);
}

static inline void swiglu_is_plain(int R, int F)
{
	const size_t n = (size_t)R * (size_t)F;
	real *gu = numbers(2 * n, 1), *dh = numbers(n, 2), *h = numbers(n, 3);
	real *dgu = numbers(2 * n, 4);

	for (size_t i = 0; i < 2 * n; i += 3)
		gu[i] *= 20; /* far into both tails */
	double *pgu = doubles(gu, 2 * n), *pdh = doubles(dh, n), *ph = plain_zeros(n);
	double *pdgu = plain_zeros(2 * n);

	swiglu_forward(h, gu, R, F);
	swiglu_backward(dgu, dh, gu, R, F);
	plain_swiglu(ph, pgu, R, F);
	plain_swiglu_backward(pdgu, pdh, pgu, R, F);
	CHECK_ALL(h, ph, n);
	CHECK_ALL(dgu, pdgu, 2 * n);
	free(gu);
	free(dh);
	free(h);
	free(dgu);
	free(pgu);
	free(pdh);
}

static inline void cross_entropy_is_plain(int R, int V)
{
	const size_t n = (size_t)R * (size_t)V;
	real *x = numbers(n, 1), *kept = numbers(n, 1);
	uint32_t *target = calloc((size_t)R, sizeof(*target));
	double *px = doubles(x, n), *pd = plain_zeros(n), loss = 3, loss_only = 3;

	if (!target)
		abort();
	for (int r = 0; r < R; r++)
		target[r] = (uint32_t)(r * 7 + 3) % (uint32_t)V;
	cross_entropy(&loss_only, kept, target, R, V, 0);
	cross_entropy(&loss, x, target, R, V, (real)0.25);
	CHECK_NEAR(loss, 3 + plain_cross_entropy(pd, px, target, R, V, 0.25), TOL);
	CHECK(loss == loss_only);
	CHECK(farthest(kept, px, n) == 0);
	CHECK_ALL(x, pd, n);
	free(x);
	free(kept);
	free(target);
	free(px);
}

static inline void embedding_is_plain(void)
{
	enum { V = 7, C = 19, R = 5 };
	const uint32_t ids[R] = { 3, 6, 3, 0, 3 };
	real *table = numbers(V * C, 1), *x = numbers(R * C, 2), *dtable = numbers(V * C, 3);
	real *dx = numbers(R * C, 4);
	double *want = doubles(dtable, V * C);

	embed_forward(x, table, ids, R, C);
	embed_backward(dtable, dx, ids, R, C);
	for (int r = 0; r < R; r++)
		for (int c = 0; c < C; c++) {
			CHECK(x[r * C + c] == table[ids[r] * C + (uint32_t)c]);
			want[ids[r] * C + (uint32_t)c] += (double)dx[r * C + c];
		}
	CHECK_ALL(dtable, want, V * C);
	free(table);
	free(x);
	free(dtable);
	free(dx);
}

/* Sizes below, at and above the vector's 16 lanes, the tile's 6 rows and the strip's 48 queries. */
static inline void layers_are_plain(void)
{
	static const int sizes[][2] = { { 1, 1 }, { 3, 5 }, { 2, 16 }, { 5, 33 }, { 7, 128 },
		{ 1, 500 } };
	static const int heads[][4] = { { 1, 1, 1, 2 }, { 2, 2, 1, 2 }, { 5, 3, 1, 6 },
		{ 6, 4, 2, 16 }, { 17, 6, 3, 10 }, { 48, 2, 2, 32 }, { 49, 2, 1, 18 },
		{ 100, 3, 3, 24 }, { 128, 2, 1, 64 } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		rmsnorm_is_plain(sizes[i][0], sizes[i][1]);
		swiglu_is_plain(sizes[i][0], sizes[i][1]);
		cross_entropy_is_plain(sizes[i][0], sizes[i][1]);
	}
	cross_entropy_is_plain(3, 8191);
	rope_is_plain(1, 1, 2, 0, 0);
	rope_is_plain(9, 3, 10, 7, 0);
	rope_is_plain(4, 2, 64, 0, 13);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		attention_is_plain(heads[i][0], heads[i][1], heads[i][2], heads[i][3]);
		extending_attention_is_plain(heads[i][0], 1, heads[i][1], heads[i][2], heads[i][3]);
		extending_attention_is_plain(3, heads[i][0], heads[i][1], heads[i][2], heads[i][3]);
	}
	embedding_is_plain();
}

#endif
