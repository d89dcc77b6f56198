/*
 * One head at a time is copied out of the projections into dense arrays padded with zeros, so that
 * the products below have no ragged edge: rows to a multiple of ROWS, columns to a multiple of VEC.
 *
 *     a strip of queries, forward:   S = Q K^T, P = softmax(S / sqrt(D)), Y = P V
 *     backward:                      S, P again, dP = dY V^T, dS = P (dP - rowsum(dY Y)) / sqrt(D),
 *                                    dQ = dS K, dK += dS^T Q, dV += P^T dY
 */
#include "math/attention.h"

#include "math/gemm.h"
#include "math/vec.h"

enum {
	ROWS = GEMM_PAD_ROWS,
	STRIP = 48 /* queries at a time, a multiple of ROWS */
};
_Static_assert(STRIP % ROWS == 0 && VEC % GEMM_PAD_COLS == 0, "padding fits the product");

static int rows_up(int n)
{
	return (n + ROWS - 1) / ROWS * ROWS;
}

/* Padded sizes, and the arrays that work is cut into. */
struct head {
	int T, D;
	real temper; /* 1 / sqrt(D) */
	int rows;  /* T up to a multiple of ROWS */
	int width; /* columns of a strip: rows up to a multiple of VEC */
	int chan;  /* D up to a multiple of VEC */
	real *q, *k, *v, *dy;  /* (rows, chan) */
	real *k_t, *v_t;       /* (D, width) */
	real *dk, *dv;         /* (rows, chan) */
	real *prob, *dprob;    /* (STRIP, width) */
	real *out;             /* (STRIP, chan): Y or dQ of a strip */
};

/* Returns the number of reals; cuts only when work is not NULL. */
static size_t cut(struct head *h, real *work, int T, int D)
{
	h->T = T;
	h->D = D;
	h->temper = 1 / (real)sqrt(D);
	h->rows = rows_up(T);
	h->width = vec_up(h->rows);
	h->chan = vec_up(D);
	const size_t tall = (size_t)h->rows * h->chan, flat = (size_t)D * h->width;
	const size_t strip = (size_t)STRIP * h->width;
	const struct {
		real **at;
		size_t n;
	} parts[] = {
		{ &h->q, tall },
		{ &h->k, tall },
		{ &h->v, tall },
		{ &h->dy, tall },
		{ &h->k_t, flat },
		{ &h->v_t, flat },
		{ &h->dk, tall },
		{ &h->dv, tall },
		{ &h->prob, strip },
		{ &h->dprob, strip },
		{ &h->out, (size_t)STRIP * h->chan },
	};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (work)
			*parts[i].at = work + n;
		n += parts[i].n;
	}
	return n;
}

size_t attention_work(int T, int D)
{
	struct head h;

	return cut(&h, NULL, T, D);
}

/* A head's columns, dense, and back. */
VEC_CLONES static void gather(real *restrict to, const struct head *h, const real *restrict from,
	int ld)
{
	for (int t = 0; t < h->T; t++, to += h->chan) {
		for (int d = 0; d < h->D; d++)
			to[d] = from[(size_t)t * ld + d];
		for (int d = h->D; d < h->chan; d++)
			to[d] = 0;
	}
	memset(to, 0, (size_t)(h->rows - h->T) * h->chan * sizeof(real));
}

VEC_CLONES static void scatter(real *restrict to, int ld, const struct head *h,
	const real *restrict from, int rows)
{
	for (int t = 0; t < rows; t++)
		for (int d = 0; d < h->D; d++)
			to[(size_t)t * ld + d] = from[(size_t)t * h->chan + d];
}

VEC_CLONES static void transpose(real *restrict to, const struct head *h, const real *restrict from)
{
	for (int d = 0; d < h->D; d++, to += h->width) {
		for (int t = 0; t < h->rows; t++)
			to[t] = from[(size_t)t * h->chan + d];
		for (int t = h->rows; t < h->width; t++)
			to[t] = 0;
	}
}

/* Where a strip starts, how many of its rows are real, and what is computed: padded rows, and
 * columns up to the diagonal. */
struct strip { int first, rows, m, n; };

static struct strip strip_at(const struct head *h, int first)
{
	struct strip s = { .first = first, .rows = h->T - first < STRIP ? h->T - first : STRIP };

	s.m = rows_up(s.rows);
	s.n = vec_up(first + s.m);
	return s;
}

/* prob: dot products (m, n) to probabilities. What a query does not see counts as -infinity, so that all is done in
 * whole vectors. */
VEC_CLONES static void softmax(real *prob, real *lse, const struct strip *s, const struct head *h)
{
	for (int r = 0; r < s->rows; r++, prob += h->width) {
		const int seen = s->first + r + 1, wide = vec_up(seen);

		for (int j = seen; j < wide; j++)
			prob[j] = -(real)HUGE_VAL;
		const real largest = vec_largest(prob, wide);

		for (int j = 0; j < wide; j++)
			prob[j] = vec_exp(h->temper * (prob[j] - largest));
		const real sum = vec_total(prob, wide), scale = 1 / sum;

		for (int j = 0; j < wide; j++)
			prob[j] *= scale;
		for (int j = wide; j < s->n; j++)
			prob[j] = 0;
		lse[r] = h->temper * largest + (real)log(sum);
	}
	memset(prob, 0, (size_t)(s->m - s->rows) * h->width * sizeof(real));
}

void attention_forward(real *y, real *lse, const real *q, const real *k, const real *v, real *work,
	int T, int H, int K, int D, int ld)
{
	struct head h;

	cut(&h, work, T, D);
	for (int head = 0; head < H; head++) {
		gather(h.q, &h, q + head * D, ld);
		if (head % (H / K) == 0) {
			gather(h.k, &h, k + head / (H / K) * D, ld);
			gather(h.v, &h, v + head / (H / K) * D, ld);
			transpose(h.k_t, &h, h.k);
		}
		for (int i = 0; i < T; i += STRIP) {
			const struct strip s = strip_at(&h, i);

			gemm_padded_nn(h.prob, h.width, h.q + (size_t)i * h.chan, h.chan, h.k_t, h.width, s.m, s.n, D,
				false);
			softmax(h.prob, lse + (size_t)head * T + i, &s, &h);
			gemm_padded_nn(h.out, h.chan, h.prob, h.width, h.v, h.chan, s.m, h.chan, i + s.rows, false);
			scatter(y + ((size_t)i * H + head) * D, H * D, &h, h.out, s.rows);
		}
	}
}

/* y (D) = softmax(q k / sqrt(D)) v over `seen` positions. prob (seen): work. */
VEC_INLINE void attend_one(real *restrict y, const real *q, const real *k, const real *v,
	real *prob, int seen, int D, int ld)
{
	const real temper = 1 / (real)sqrt(D);

	for (int s = 0; s < seen; s++)
		prob[s] = vec_dot(q, k + (size_t)s * ld, D);
	const real largest = vec_largest(prob, seen);

	for (int s = 0; s < seen; s++)
		prob[s] = vec_exp(temper * (prob[s] - largest));
	const real scale = 1 / vec_total(prob, seen);

	for (int d = 0; d < D; d++)
		y[d] = 0;
	for (int s = 0; s < seen; s++, v += ld) {
		const real p = prob[s] * scale;

		for (int d = 0; d < D; d++)
			y[d] += p * v[d];
	}
}

VEC_CLONES void attention_extend(real *y, const real *q, const real *k, const real *v, real *work,
	int past, int T, int H, int K, int D, int ldq, int ldkv)
{
	for (int t = 0; t < T; t++, q += ldq)
		for (int h = 0; h < H; h++, y += D) {
			const int kv = h / (H / K) * D;

			attend_one(y, q + h * D, k + kv, v + kv, work, past + t + 1, D, ldkv);
		}
}

/* prob: dot products to probabilities; dprob: gradients of probabilities to gradients of dot
 * products. (m, n) both. */
VEC_CLONES static void softmax_backward(real *restrict prob, real *restrict dprob, const real *lse,
	const real *dy, const real *y, int stride, const struct strip *s, const struct head *h)
{
	for (int r = 0; r < s->rows; r++, prob += h->width, dprob += h->width) {
		const int seen = s->first + r + 1;
		const real mean = vec_dot(dy + (size_t)r * stride, y + (size_t)r * stride, h->D);

		for (int j = 0; j < seen; j++) {
			prob[j] = vec_exp(h->temper * prob[j] - lse[r]);
			dprob[j] = h->temper * prob[j] * (dprob[j] - mean);
		}
		for (int j = seen; j < s->n; j++)
			prob[j] = dprob[j] = 0;
	}
	memset(prob, 0, (size_t)(s->m - s->rows) * h->width * sizeof(real));
	memset(dprob, 0, (size_t)(s->m - s->rows) * h->width * sizeof(real));
}

/* One query head: dq written, h->dk and h->dv added to. h holds k, v and their transposes. */
static void backward_head(real *dq, struct head *h, const real *dy, const real *y, const real *lse,
	const real *q, int ld, int stride)
{
	gather(h->q, h, q, ld);
	gather(h->dy, h, dy, stride);
	for (int i = 0; i < h->T; i += STRIP) {
		const struct strip s = strip_at(h, i);
		const int seen = i + s.rows;
		const real *qi = h->q + (size_t)i * h->chan, *dyi = h->dy + (size_t)i * h->chan;

		gemm_padded_nn(h->prob, h->width, qi, h->chan, h->k_t, h->width, s.m, s.n, h->D, false);
		gemm_padded_nn(h->dprob, h->width, dyi, h->chan, h->v_t, h->width, s.m, s.n, h->D, false);
		softmax_backward(h->prob, h->dprob, lse + i, dy + (size_t)i * stride,
			y + (size_t)i * stride, stride, &s, h);
		gemm_padded_tn(h->dv, h->chan, h->prob, h->width, dyi, h->chan, rows_up(seen), h->chan,
			s.rows, true);
		gemm_padded_tn(h->dk, h->chan, h->dprob, h->width, qi, h->chan, rows_up(seen), h->chan,
			s.rows, true);
		gemm_padded_nn(h->out, h->chan, h->dprob, h->width, h->k, h->chan, s.m, h->chan, seen, false);
		scatter(dq + (size_t)i * ld, ld, h, h->out, s.rows);
	}
}

void attention_backward(real *dq, real *dk, real *dv, const real *dy, const real *y,
	const real *lse, const real *q, const real *k, const real *v, real *work, int T, int H,
	int K, int D, int ld)
{
	const int group = H / K;
	struct head h;

	cut(&h, work, T, D);
	for (int kv = 0; kv < K; kv++) {
		gather(h.k, &h, k + kv * D, ld);
		gather(h.v, &h, v + kv * D, ld);
		transpose(h.k_t, &h, h.k);
		transpose(h.v_t, &h, h.v);
		memset(h.dk, 0, (size_t)h.rows * h.chan * sizeof(real));
		memset(h.dv, 0, (size_t)h.rows * h.chan * sizeof(real));
		for (int head = kv * group; head < (kv + 1) * group; head++)
			backward_head(dq + head * D, &h, dy + head * D, y + head * D,
				lse + (size_t)head * T, q + head * D, ld, H * D);
		scatter(dk + kv * D, ld, &h, h.dk, T);
		scatter(dv + kv * D, ld, &h, h.dv, T);
	}
}
