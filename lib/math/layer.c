#include "math/layer.h"

#include <stddef.h>

#include "math/vec.h"

VEC_CLONES void rmsnorm_forward(real *y, real *inv, const real *x, const real *w, int R, int C,
	real eps)
{
	for (int r = 0; r < R; r++, y += C, x += C) {
		const real scale = 1 / (real)sqrt(vec_dot(x, x, C) / (real)C + eps);

		inv[r] = scale;
		for (int c = 0; c < C; c++)
			y[c] = x[c] * scale * w[c];
	}
}

/*
 * With g = dy * w and n = x * inv (both (C)):  dx += inv (g - n mean_C(g n)),  dw += dy n.
 */
VEC_CLONES void rmsnorm_backward(real *restrict dx, real *restrict dw, const real *restrict dy,
	const real *restrict x, const real *inv, const real *restrict w, int R, int C)
{
	for (int r = 0; r < R; r++, dx += C, dy += C, x += C) {
		const real scale = inv[r];
		vec sum = { 0 };
		int c = 0;

		for (; c + VEC <= C; c += VEC)
			sum += *(const vec *)(dy + c) * *(const vec *)(w + c) *
				*(const vec *)(x + c);
		real dot = vec_sum(&sum);

		for (; c < C; c++)
			dot += dy[c] * w[c] * x[c];
		const real back = dot * scale * scale / (real)C;

		for (c = 0; c < C; c++) {
			dw[c] += dy[c] * x[c] * scale;
			dx[c] += scale * (dy[c] * w[c] - x[c] * back);
		}
	}
}

void rope_table(real *cos_t, real *sin_t, int T, int D, double theta)
{
	for (int t = 0; t < T; t++)
		for (int i = 0; i < D / 2; i++) {
			const double angle = t * pow(theta, -2.0 * i / D);

			*cos_t++ = (real)cos(angle);
			*sin_t++ = (real)sin(angle);
		}
}

VEC_CLONES void rope_rotate(real *x, const real *cos_t, const real *sin_t, int T, int n_heads,
	int D, int ld, int pos0, int sign)
{
	const int half = D / 2;

	for (int t = 0; t < T; t++) {
		const real *c = cos_t + (size_t)(pos0 + t) * half;
		const real *s = sin_t + (size_t)(pos0 + t) * half;

		for (int h = 0; h < n_heads; h++) {
			real *restrict a = x + (size_t)t * ld + (size_t)h * D;
			real *restrict b = a + half;

			for (int i = 0; i < half; i++) {
				const real a0 = a[i], b0 = b[i], turn = (real)sign * s[i];

				a[i] = a0 * c[i] - b0 * turn;
				b[i] = b0 * c[i] + a0 * turn;
			}
		}
	}
}

VEC_CLONES void swiglu_forward(real *restrict h, const real *restrict gu, int R, int F)
{
	for (int r = 0; r < R; r++, h += F, gu += 2 * F) {
		const real *g = gu, *u = gu + F;

		for (int f = 0; f < F; f++)
			h[f] = g[f] / (1 + vec_exp(-g[f])) * u[f];
	}
}

/* With s = sigmoid(g):  du = dh g s,  dg = dh u s (1 + g (1 - s)). */
VEC_CLONES void swiglu_backward(real *restrict dgu, const real *restrict dh,
	const real *restrict gu, int R, int F)
{
	for (int r = 0; r < R; r++, dh += F, gu += 2 * F, dgu += 2 * F) {
		const real *g = gu, *u = gu + F;
		real *restrict dg = dgu, *restrict du = dgu + F;

		for (int f = 0; f < F; f++) {
			const real s = 1 / (1 + vec_exp(-g[f]));

			du[f] = dh[f] * g[f] * s;
			dg[f] = dh[f] * u[f] * s * (1 + g[f] * (1 - s));
		}
	}
}

/* The sum of e^(x - largest) over one row; e, unless NULL, keeps the terms and may be x itself. */
VEC_INLINE real exp_sum(real *e, const real *x, real largest, int V)
{
	enum { BLOCK = 16 * VEC };
	real term[BLOCK], sum = 0;

	for (int v = 0; v < V; v += BLOCK) {
		const int n = V - v < BLOCK ? V - v : BLOCK;

		for (int i = 0; i < n; i++)
			term[i] = vec_exp(x[v + i] - largest);
		sum += vec_total(term, n);
		if (e)
			memcpy(e + v, term, (size_t)n * sizeof(real));
	}
	return sum;
}

VEC_CLONES void cross_entropy(double *loss, real *logits, const uint32_t *target, int R, int V,
	real scale)
{
	for (int r = 0; r < R; r++, logits += V) {
		const real largest = vec_largest(logits, V), want = logits[target[r]];
		const real sum = exp_sum(scale != 0 ? logits : NULL, logits, largest, V);

		*loss += log((double)sum) + (double)largest - (double)want;
		if (scale == 0)
			continue;
		const real factor = scale / sum;

		for (int v = 0; v < V; v++)
			logits[v] *= factor;
		logits[target[r]] -= scale;
	}
}

void embed_forward(real *x, const real *table, const uint32_t *ids, int R, int C)
{
	for (int r = 0; r < R; r++)
		memcpy(x + (size_t)r * C, table + (size_t)ids[r] * C, (size_t)C * sizeof(real));
}

VEC_CLONES void embed_backward(real *dtable, const real *dx, const uint32_t *ids, int R, int C)
{
	for (int r = 0; r < R; r++, dx += C) {
		real *restrict d = dtable + (size_t)ids[r] * C;

		for (int c = 0; c < C; c++)
			d[c] += dx[c];
	}
}
