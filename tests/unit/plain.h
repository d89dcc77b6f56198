/*
 * plain - the model a second time, in the plainest loops and in double: what the fast code is
 * compared with.
 *
 * Axes as in layer.h. Nothing is fused, blocked, shared or saved; every function is its textbook
 * formula.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "math/model_conf.h"

static inline double *plain_zeros(size_t n)
{
	double *p = calloc(n + 1, sizeof(*p));

	if (!p)
		abort();
	return p;
}

/* y (R, N) = x (R, M) w (N, M)^T */
static inline void plain_linear(double *y, const double *x, const double *w, int R, int N, int M)
{
	for (int r = 0; r < R; r++)
		for (int n = 0; n < N; n++) {
			y[(size_t)r * N + n] = 0;
			for (int m = 0; m < M; m++)
				y[(size_t)r * N + n] += x[(size_t)r * M + m] * w[(size_t)n * M + m];
		}
}

/* dx and dw are added to. */
static inline void plain_linear_backward(double *dx, double *dw, const double *dy, const double *x,
	const double *w, int R, int N, int M)
{
	for (int r = 0; r < R; r++)
		for (int n = 0; n < N; n++)
			for (int m = 0; m < M; m++) {
				dx[(size_t)r * M + m] +=
					dy[(size_t)r * N + n] * w[(size_t)n * M + m];
				dw[(size_t)n * M + m] +=
					dy[(size_t)r * N + n] * x[(size_t)r * M + m];
			}
}

static inline void plain_rmsnorm(
	double *y, const double *x, const double *w, int R, int C, double eps)
{
	for (int r = 0; r < R; r++, x += C, y += C) {
		double square = 0;

		for (int c = 0; c < C; c++)
			square += x[c] * x[c];
		for (int c = 0; c < C; c++)
			y[c] = x[c] / sqrt(square / C + eps) * w[c];
	}
}

/* d(x_c s)/dx_b = s (c == b) - s^3 x_c x_b / C, s = 1 / sqrt(mean x^2 + eps). dx and dw are added
 * to. */
static inline void plain_rmsnorm_backward(double *dx, double *dw, const double *dy, const double *x,
	const double *w, int R, int C, double eps)
{
	for (int r = 0; r < R; r++, x += C, dx += C, dy += C) {
		double square = 0;

		for (int c = 0; c < C; c++)
			square += x[c] * x[c];
		const double s = 1 / sqrt(square / C + eps);

		for (int c = 0; c < C; c++) {
			dw[c] += dy[c] * x[c] * s;
			for (int b = 0; b < C; b++)
				dx[b] +=
					dy[c] * w[c] * ((c == b) * s - s * s * s * x[c] * x[b] / C);
		}
	}
}

/* One head (T, D) with row stride ld, as a rotation of the complex numbers x_i + i x_(i + D/2). */
static inline void plain_rope(double *x, int T, int D, int ld, double theta, int pos0, int sign)
{
	for (int t = 0; t < T; t++)
		for (int i = 0; i < D / 2; i++) {
			const double angle = sign * (pos0 + t) / pow(theta, 2.0 * i / D);
			double *re = x + (size_t)t * ld + i, *im = re + D / 2;
			const double a = *re, b = *im;

			*re = a * cos(angle) - b * sin(angle);
			*im = a * sin(angle) + b * cos(angle);
		}
}

/* The whole T x T matrix of one head; stride is that of q, k, v. */
static inline void plain_probabilities(
	double *p, const double *q, const double *k, int T, int D, int ld)
{
	for (int t = 0; t < T; t++) {
		double sum = 0;

		for (int s = 0; s < T; s++) {
			double dot = 0;

			for (int d = 0; d < D; d++)
				dot += q[(size_t)t * ld + d] * k[(size_t)s * ld + d];
			p[t * T + s] = s <= t ? exp(dot / sqrt(D)) : 0;
			sum += p[t * T + s];
		}
		for (int s = 0; s < T; s++)
			p[t * T + s] /= sum;
	}
}

static inline void plain_attention(double *y, const double *q, const double *k, const double *v,
	int T, int H, int K, int D, int ld)
{
	double *p = plain_zeros((size_t)T * T);

	memset(y, 0, (size_t)T * H * D * sizeof(*y));
	for (int h = 0; h < H; h++) {
		const int kv = h / (H / K) * D;

		plain_probabilities(p, q + h * D, k + kv, T, D, ld);
		for (int t = 0; t < T; t++)
			for (int s = 0; s < T; s++)
				for (int d = 0; d < D; d++)
					y[(size_t)t * H * D + h * D + d] +=
						p[t * T + s] * v[(size_t)s * ld + kv + d];
	}
	free(p);
}

/* dq, dk, dv are added to. */
static inline void plain_attention_backward(double *dq, double *dk, double *dv, const double *dy,
	const double *q, const double *k, const double *v, int T, int H, int K, int D, int ld)
{
	double *p = plain_zeros((size_t)T * T), *dp = plain_zeros((size_t)T);

	for (int h = 0; h < H; h++) {
		const int kv = h / (H / K) * D;

		plain_probabilities(p, q + h * D, k + kv, T, D, ld);
		for (int t = 0; t < T; t++) {
			const double *dyt = dy + (size_t)t * H * D + h * D;
			double mean = 0;

			for (int s = 0; s < T; s++) {
				dp[s] = 0;
				for (int d = 0; d < D; d++) {
					dp[s] += dyt[d] * v[(size_t)s * ld + kv + d];
					dv[(size_t)s * ld + kv + d] += p[t * T + s] * dyt[d];
				}
				mean += p[t * T + s] * dp[s];
			}
			for (int s = 0; s < T; s++)
				for (int d = 0; d < D; d++) {
					const double ds = p[t * T + s] * (dp[s] - mean) / sqrt(D);

					dq[(size_t)t * ld + h * D + d] +=
						ds * k[(size_t)s * ld + kv + d];
					dk[(size_t)s * ld + kv + d] +=
						ds * q[(size_t)t * ld + h * D + d];
				}
		}
	}
	free(p);
	free(dp);
}

static inline double plain_sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static inline void plain_swiglu(double *h, const double *gu, int R, int F)
{
	for (int r = 0; r < R; r++)
		for (int f = 0; f < F; f++) {
			const double g = gu[(size_t)r * 2 * F + f];
			const double u = gu[(size_t)r * 2 * F + F + f];

			h[(size_t)r * F + f] = g * plain_sigmoid(g) * u;
		}
}

static inline void plain_swiglu_backward(
	double *dgu, const double *dh, const double *gu, int R, int F)
{
	for (int r = 0; r < R; r++)
		for (int f = 0; f < F; f++) {
			const size_t at = (size_t)r * 2 * F + f;
			const double g = gu[at], u = gu[at + F], s = plain_sigmoid(g);
			const double d = dh[(size_t)r * F + f];

			dgu[at] = d * u * (s + g * s * (1 - s));
			dgu[at + F] = d * g * s;
		}
}

/* Returns the sum of -ln p; dlogits = (p - onehot) * scale. */
static inline double plain_cross_entropy(
	double *dlogits, const double *logits, const uint32_t *target, int R, int V, double scale)
{
	double loss = 0;

	for (int r = 0; r < R; r++) {
		const double *x = logits + (size_t)r * V;
		double top = x[0], sum = 0;

		for (int v = 0; v < V; v++)
			top = fmax(top, x[v]);
		for (int v = 0; v < V; v++)
			sum += exp(x[v] - top);
		loss += log(sum) + top - x[target[r]];
		for (int v = 0; v < V; v++)
			dlogits[(size_t)r * V + v] =
				(exp(x[v] - top) / sum - (v == (int)target[r])) * scale;
	}
	return loss;
}

/* Decoupled decay, bias correction, as written in the paper. */
static inline void plain_adamw(double *p, double *m, double *v, double g, double lr, double beta1,
	double beta2, double eps, double decay, double t)
{
	*m = beta1 * *m + (1 - beta1) * g;
	*v = beta2 * *v + (1 - beta2) * g * g;
	*p -= lr * (*m / (1 - pow(beta1, t)) / (sqrt(*v / (1 - pow(beta2, t))) + eps) + decay * *p);
}

/* One row of a mixture of experts: sizes, and what is kept from forward to backward. */
struct plain_row {
	int E, K, C, F;
	double *p, *w; /* (E) probabilities; weights, 0 for experts that the row does not go to */
};

static inline const double *plain_expert(const struct plain_row *r, const double *w, int e)
{
	return w + (size_t)r->E * r->C + (size_t)e * 3 * r->F * r->C;
}

/* The K most probable, one after the other. */
static inline void plain_route(struct plain_row *r, const double *n, const double *gate)
{
	double sum = 0;

	plain_linear(r->p, n, gate, 1, r->E, r->C);
	for (int e = 0; e < r->E; e++)
		sum += r->p[e] = exp(r->p[e]);
	for (int e = 0; e < r->E; e++) {
		r->p[e] /= sum;
		r->w[e] = 0;
	}
	sum = 0;
	for (int k = 0; k < r->K; k++) {
		int best = -1;

		for (int e = 0; e < r->E; e++)
			if (r->w[e] == 0 && (best < 0 || r->p[e] > r->p[best]))
				best = e;
		sum += r->w[best] = r->p[best];
	}
	for (int e = 0; e < r->E; e++)
		r->w[e] /= sum;
}

/* out (C) = what expert e makes of n (C); gu (2F) and h (F) are kept. */
static inline void plain_expert_forward(double *out, double *gu, double *h,
	const struct plain_row *r, const double *n, const double *w, int e)
{
	const double *up = plain_expert(r, w, e), *down = up + 2 * (size_t)r->F * r->C;

	plain_linear(gu, n, up, 1, 2 * r->F, r->C);
	plain_swiglu(h, gu, 1, r->F);
	plain_linear(out, h, down, 1, r->C, r->F);
}

/* x (C) += the experts' sum. */
static inline void plain_moe_row(double *x, struct plain_row *r, const double *n, const double *w)
{
	double *gu = plain_zeros(2 * (size_t)r->F), *h = plain_zeros((size_t)r->F);
	double *out = plain_zeros((size_t)r->C);

	plain_route(r, n, w);
	for (int e = 0; e < r->E; e++) {
		plain_expert_forward(out, gu, h, r, n, w, e);
		for (int c = 0; c < r->C; c++)
			x[c] += r->w[e] * out[c];
	}
	free(gu);
	free(h);
	free(out);
}

/* dn and dweights are added to, from d (C), the gradient of the sum; dp (E): of the probabilities,
 * what the load-balancing loss gives them. By the chain through p, sum, w, one after the other. */
static inline void plain_moe_row_backward(double *dn, double *dweights, double *dp, const double *d,
	const struct plain_row *r, const double *n, const double *w)
{
	const int E = r->E, C = r->C, F = r->F;
	double *gu = plain_zeros(2 * (size_t)F), *h = plain_zeros((size_t)F);
	double *dgu = plain_zeros(2 * (size_t)F), *dh = plain_zeros((size_t)F);
	double *out = plain_zeros((size_t)C), *dout = plain_zeros((size_t)C);
	double *dw = plain_zeros((size_t)E), sum = 0, mean = 0;

	for (int e = 0; e < E; e++) {
		const double *up = plain_expert(r, w, e), *down = up + 2 * (size_t)F * C;
		double *dup = dweights + (up - w), *ddown = dweights + (down - w);

		if (r->w[e] == 0)
			continue;
		sum += r->p[e];
		plain_expert_forward(out, gu, h, r, n, w, e);
		memset(dh, 0, (size_t)F * sizeof(*dh));
		for (int c = 0; c < C; c++) {
			dw[e] += d[c] * out[c];
			dout[c] = d[c] * r->w[e];
		}
		plain_linear_backward(dh, ddown, dout, h, down, 1, C, F);
		plain_swiglu_backward(dgu, dh, gu, 1, F);
		plain_linear_backward(dn, dup, dgu, n, up, 1, 2 * F, C);
	}
	for (int e = 0; e < E; e++)
		for (int i = 0; i < E; i++)
			if (r->w[e] != 0 && r->w[i] != 0)
				dp[e] += dw[i] * ((i == e) / sum - r->p[i] / (sum * sum));
	for (int e = 0; e < E; e++)
		mean += dp[e] * r->p[e];
	for (int e = 0; e < E; e++)
		dp[e] = r->p[e] * (dp[e] - mean);
	plain_linear_backward(dn, dweights, dp, n, w, 1, E, C);
	double *const all[] = { gu, h, dgu, dh, out, dout, dw };

	for (int i = 0; i < 7; i++)
		free(all[i]);
}

/*
 * The whole model over one sequence: returns the sum of -ln p and adds the gradient of scale * sum
 * to grads, with experts that of scale * (sum + T * coefficient * load-balancing loss), which is
 * added to *balance. Parameters in the order of model_layout. Recursion over the layers keeps each
 * layer's activations in its own frame.
 */
struct plain {
	const struct model_conf *c;
	const double *params;
	double *grads;
	const uint32_t *ids; /* (T+1) */
	int T;
	double scale, loss, balance;
};

static inline void plain_head(struct plain *p, double *dx, const double *x, size_t at)
{
	const int T = p->T, C = (int)p->c->d_model, V = (int)p->c->vocab;
	const size_t head = p->c->tied ? 0 : at + (size_t)C;
	double *n = plain_zeros((size_t)T * C), *dn = plain_zeros((size_t)T * C);
	double *logits = plain_zeros((size_t)T * V), *dlogits = plain_zeros((size_t)T * V);

	plain_rmsnorm(n, x, p->params + at, T, C, p->c->norm_eps);
	plain_linear(logits, n, p->params + head, T, V, C);
	p->loss = plain_cross_entropy(dlogits, logits, p->ids + 1, T, V, p->scale);
	plain_linear_backward(dn, p->grads + head, dlogits, n, p->params + head, T, V, C);
	plain_rmsnorm_backward(dx, p->grads + at, dn, x, p->params + at, T, C, p->c->norm_eps);
	free(n);
	free(dn);
	free(logits);
	free(dlogits);
}

static inline void plain_layers(struct plain *p, double *dx, const double *x, int layer, size_t at);

/* E sum_e f_e P_e of a sequence, and the share of tokens f (E). */
static inline double plain_balance(double *f, const struct plain_row *rows, int T, int E)
{
	double loss = 0;

	for (int e = 0; e < E; e++) {
		double p = 0;

		for (int t = 0; t < T; t++) {
			f[e] += (rows[t].w[e] != 0) / (double)T;
			p += rows[t].p[e] / T;
		}
		loss += E * f[e] * p;
	}
	return loss;
}

/* The second half of a layer with experts, and all above it. dx is added to. */
static inline void plain_moe(struct plain *p, double *dx, const double *x, int layer, size_t at)
{
	const struct model_conf *c = p->c;
	const int T = p->T, C = (int)c->d_model, E = (int)c->experts;
	const double *norm = p->params + at, *w = norm + C;
	double *dnorm = p->grads + at, *dw = dnorm + C;
	double *n = plain_zeros((size_t)T * C), *dn = plain_zeros((size_t)T * C);
	double *out = plain_zeros((size_t)T * C), *dout = plain_zeros((size_t)T * C);
	double *kept = plain_zeros(2 * (size_t)T * E), *f = plain_zeros((size_t)E);
	double *dp = plain_zeros((size_t)E);
	struct plain_row *row = calloc((size_t)T, sizeof(*row));

	if (!row)
		abort();
	plain_rmsnorm(n, x, norm, T, C, c->norm_eps);
	memcpy(out, x, (size_t)T * C * sizeof(*out));
	for (int t = 0; t < T; t++) {
		row[t] = (struct plain_row){ E, (int)c->experts_per_token, C, (int)c->ff,
			kept + 2 * (size_t)t * E, kept + (2 * (size_t)t + 1) * E };
		plain_moe_row(out + (size_t)t * C, &row[t], n + (size_t)t * C, w);
	}
	p->balance += plain_balance(f, row, T, E) / c->layers;
	plain_layers(p, dout, out, layer + 1, at + C + (size_t)E * C * (1 + 3 * c->ff));
	for (int t = 0; t < T; t++) {
		for (int e = 0; e < E; e++)
			dp[e] = p->scale * c->router_aux_loss_coef / c->layers * E * f[e];
		plain_moe_row_backward(dn + (size_t)t * C, dw, dp, dout + (size_t)t * C, &row[t],
			n + (size_t)t * C, w);
	}
	plain_rmsnorm_backward(dx, dnorm, dn, x, norm, T, C, c->norm_eps);
	for (int i = 0; i < T * C; i++)
		dx[i] += dout[i];
	double *const all[] = { n, dn, out, dout, kept, f, dp };

	for (int i = 0; i < 7; i++)
		free(all[i]);
	free(row);
}

/* The second half of a layer, and all above it. dx is added to. */
static inline void plain_feed_forward(
	struct plain *p, double *dx, const double *x, int layer, size_t at)
{
	const int T = p->T, C = (int)p->c->d_model, F = (int)p->c->ff;
	const double *norm = p->params + at, *gate_up = norm + C;
	const double *down = gate_up + 2 * (size_t)F * C;
	double *dnorm = p->grads + at, *dgate_up = dnorm + C, *ddown = dgate_up + 2 * (size_t)F * C;
	double *n = plain_zeros((size_t)T * C), *gu = plain_zeros(2 * (size_t)T * F);
	double *h = plain_zeros((size_t)T * F);
	double *out = plain_zeros((size_t)T * C), *dout = plain_zeros((size_t)T * C);
	double *dn = plain_zeros((size_t)T * C);
	double *dgu = plain_zeros(2 * (size_t)T * F), *dh = plain_zeros((size_t)T * F);

	plain_rmsnorm(n, x, norm, T, C, p->c->norm_eps);
	plain_linear(gu, n, gate_up, T, 2 * F, C);
	plain_swiglu(h, gu, T, F);
	plain_linear(out, h, down, T, C, F);
	for (int i = 0; i < T * C; i++)
		out[i] += x[i];
	plain_layers(p, dout, out, layer + 1, at + (size_t)C + 3 * (size_t)F * C);
	plain_linear_backward(dh, ddown, dout, h, down, T, C, F);
	plain_swiglu_backward(dgu, dh, gu, T, F);
	plain_linear_backward(dn, dgate_up, dgu, n, gate_up, T, 2 * F, C);
	plain_rmsnorm_backward(dx, dnorm, dn, x, norm, T, C, p->c->norm_eps);
	for (int i = 0; i < T * C; i++)
		dx[i] += dout[i];
	double *const all[] = { n, gu, h, out, dout, dn, dgu, dh };

	for (int i = 0; i < 8; i++)
		free(all[i]);
}

static inline void plain_layers(struct plain *p, double *dx, const double *x, int layer, size_t at)
{
	const struct model_conf *c = p->c;
	const int T = p->T, C = (int)c->d_model, H = (int)c->heads, K = (int)c->kv_heads;
	const int D = (int)c->head_dim;
	const int Q = H * D, P = Q + 2 * K * D;

	if (layer == (int)c->layers) {
		plain_head(p, dx, x, at);
		return;
	}
	const double *norm = p->params + at, *qkv_w = norm + C, *o = qkv_w + (size_t)P * C;
	double *dnorm = p->grads + at, *dqkv_w = dnorm + C, *d_o = dqkv_w + (size_t)P * C;
	double *n = plain_zeros((size_t)T * C), *qkv = plain_zeros((size_t)T * P);
	double *y = plain_zeros((size_t)T * Q);
	double *mid = plain_zeros((size_t)T * C), *dmid = plain_zeros((size_t)T * C);
	double *dn = plain_zeros((size_t)T * C);
	double *dqkv = plain_zeros((size_t)T * P), *dy = plain_zeros((size_t)T * Q);

	plain_rmsnorm(n, x, norm, T, C, c->norm_eps);
	plain_linear(qkv, n, qkv_w, T, P, C);
	for (int h = 0; h < H + K; h++)
		plain_rope(qkv + h * D, T, D, P, c->rope_theta, 0, 1);
	plain_attention(y, qkv, qkv + Q, qkv + Q + K * D, T, H, K, D, P);
	plain_linear(mid, y, o, T, C, Q);
	for (int i = 0; i < T * C; i++)
		mid[i] += x[i];
	(c->experts ? plain_moe : plain_feed_forward)(
		p, dmid, mid, layer, at + (size_t)C + (size_t)(P + Q) * C);
	plain_linear_backward(dy, d_o, dmid, y, o, T, C, Q);
	plain_attention_backward(
		dqkv, dqkv + Q, dqkv + Q + K * D, dy, qkv, qkv + Q, qkv + Q + K * D, T, H, K, D, P);
	for (int h = 0; h < H + K; h++)
		plain_rope(dqkv + h * D, T, D, P, c->rope_theta, 0, -1);
	plain_linear_backward(dn, dqkv_w, dqkv, n, qkv_w, T, P, C);
	plain_rmsnorm_backward(dx, dnorm, dn, x, norm, T, C, c->norm_eps);
	for (int i = 0; i < T * C; i++)
		dx[i] += dmid[i];
	double *const all[] = { n, qkv, y, mid, dmid, dn, dqkv, dy };

	for (int i = 0; i < 8; i++)
		free(all[i]);
}

static inline double plain_model(const struct model_conf *c, double *grads, const double *params,
	const uint32_t *ids, int T, double scale, double *balance)
{
	const int C = (int)c->d_model;
	struct plain p = {
		.c = c, .params = params, .grads = grads, .ids = ids, .T = T, .scale = scale
	};
	double *x = plain_zeros((size_t)T * C), *dx = plain_zeros((size_t)T * C);

	for (int t = 0; t < T; t++)
		memcpy(x + (size_t)t * C, params + (size_t)ids[t] * C, (size_t)C * sizeof(*x));
	plain_layers(&p, dx, x, 0, (size_t)c->vocab * (size_t)C);
	for (int t = 0; t < T; t++)
		for (int i = 0; i < C; i++)
			grads[(size_t)ids[t] * C + i] += dx[(size_t)t * C + i];
	*balance += p.balance;
	free(x);
	free(dx);
	return p.loss;
}

#endif
