#include "math/moe.h"

#include <stdlib.h>
#include <string.h>

#include "math/arena.h"
#include "math/gemm.h"
#include "math/layer.h"
#include "math/vec.h"

/* ---- which experts ---- */

/* prob (R, E): logits to probabilities. */
VEC_CLONES static void softmax(real *prob, int R, int E)
{
	for (int r = 0; r < R; r++, prob += E) {
		const real largest = vec_largest(prob, E);

		for (int e = 0; e < E; e++)
			prob[e] = vec_exp(prob[e] - largest);
		const real scale = 1 / vec_total(prob, E);

		for (int e = 0; e < E; e++)
			prob[e] *= scale;
	}
}

/* The first of the largest that come after `last` in the order of falling probability; one number
 * that is not finite has made all of a row so. */
static int next_largest(const real *p, int E, int last)
{
	int best = -1;

	if (isnan(p[0]))
		return last + 1;
	for (int e = 0; e < E; e++) {
		const bool after = last < 0 || p[e] < p[last] || (p[e] == p[last] && e > last);

		if (after && (best < 0 || p[e] > p[best]))
			best = e;
	}
	return best;
}

/* One row: its experts and their weights. */
static void choose(int *pick, real *weight, const real *p, int E, int K)
{
	real sum = 0;

	for (int k = 0; k < K; k++) {
		pick[k] = next_largest(p, E, k ? pick[k - 1] : -1);
		sum += p[pick[k]];
	}
	for (int k = 0; k < K; k++)
		weight[k] = p[pick[k]] / sum;
}

/* Slots ordered by expert: start counts, then moves on as slots are filled, and is moved back. */
static void sort_slots(struct moe_route *r, const real *chosen, const int *pick, int R, int E,
	int K)
{
	int *start = r->start;

	memset(start, 0, (size_t)(E + 1) * sizeof(*start));
	for (int i = 0; i < R * K; i++)
		start[pick[i] + 1]++;
	for (int e = 0; e < E; e++)
		start[e + 1] += start[e];
	for (int i = 0; i < R * K; i++) {
		const int slot = start[pick[i]]++;

		r->row[slot] = i / K;
		r->weight[slot] = chosen[i];
	}
	memmove(start + 1, start, (size_t)E * sizeof(*start));
	start[0] = 0;
}

void moe_route(struct moe_route *r, real *chosen, int *pick, int R, int E, int K)
{
	softmax(r->prob, R, E);
	for (int i = 0; i < R; i++)
		choose(pick + (size_t)i * K, chosen + (size_t)i * K, r->prob + (size_t)i * E, E, K);
	sort_slots(r, chosen, pick, R, E, K);
}

/*
 * The weights of a row are the softmax of the logits of its experts alone, so that with d = dweight
 *     dlogit_e = w_e (d_e - sum_i w_i d_i) for its experts, 0 for the others.
 */
void moe_route_backward(real *dlogits, const real *dweight, const struct moe_route *r, real *mean,
	int R, int E, int K)
{
	memset(mean, 0, (size_t)R * sizeof(*mean));
	memset(dlogits, 0, (size_t)R * E * sizeof(*dlogits));
	for (int s = 0; s < R * K; s++)
		mean[r->row[s]] += r->weight[s] * dweight[s];
	for (int e = 0; e < E; e++)
		for (int s = r->start[e]; s < r->start[e + 1]; s++)
			dlogits[(size_t)r->row[s] * E + e] =
				r->weight[s] * (dweight[s] - mean[r->row[s]]);
}

double moe_balance(int *count, const struct moe_route *r, int G, int T, int E)
{
	double total = 0;

	memset(count, 0, (size_t)G * E * sizeof(*count));
	for (int e = 0; e < E; e++)
		for (int s = r->start[e]; s < r->start[e + 1]; s++)
			count[(size_t)(r->row[s] / T) * E + e]++;
	for (int i = 0; i < G * T; i++)
		for (int e = 0; e < E; e++)
			total += (double)count[(size_t)(i / T) * E + e] *
				(double)r->prob[(size_t)i * E + e];
	return total * E / ((double)T * T);
}

/* f does not change under small steps:  dp_e = scale E f_e / T,  dlogit_e = p_e (dp_e - sum p dp). */
void moe_balance_backward(real *dlogits, const int *count, const struct moe_route *r, real scale,
	int G, int T, int E)
{
	const real each = scale * (real)E / ((real)T * (real)T);
	const real *p = r->prob;

	for (int i = 0; i < G * T; i++, p += E, dlogits += E) {
		const int *n = count + (size_t)(i / T) * E;
		real mean = 0;

		for (int e = 0; e < E; e++)
			mean += p[e] * (real)n[e];
		for (int e = 0; e < E; e++)
			dlogits[e] += each * p[e] * ((real)n[e] - mean);
	}
}

/* ---- the experts ---- */

struct acts {
	struct moe_route route;
	real *gu, *h; /* (R*K, 2F) (R*K, F) of the slots */
};
struct moe {
	int layers, E, K, C, F, rows;
	enum moe_use use;
	struct acts *layer; /* (layers) with MOE_TRAIN, else (1) */
	real *in, *out; /* (R, C) rows of one expert, which has each row once at most */
	real *chosen;   /* (R*K) */
	int *pick;      /* (R*K) */
	int *count;     /* (R, E) at most R sequences */
	real *dh, *dgu; /* (R, F) (R, 2F) */
	real *dweight;  /* (R*K) */
	real *dlogits, *mean; /* (R, E) (R) */
	real *pack;     /* (GEMM_WORK) */
	uint64_t *routed; /* (layers, E) */
	double balance;
	real *arena;
};

static void place_layer(struct acts *a, const struct moe *m, real *base, size_t *used)
{
	const size_t R = (size_t)m->rows, slots = R * m->K;

	a->route.prob = arena_take(base, used, R * m->E);
	a->route.weight = arena_take(base, used, slots);
	a->route.row = arena_take_ints(base, used, slots);
	a->route.start = arena_take_ints(base, used, (size_t)m->E + 1);
	a->gu = arena_take(base, used, slots * 2 * m->F);
	a->h = arena_take(base, used, slots * m->F);
}

/* Layers that have arrays of their own. */
static int apart(const struct moe *m)
{
	return m->use == MOE_TRAIN ? m->layers : 1;
}

static struct acts *layer_of(const struct moe *m, int l)
{
	return &m->layer[m->use == MOE_TRAIN ? l : 0];
}

static size_t place(struct moe *m, real *base)
{
	const size_t R = (size_t)m->rows, slots = R * m->K;
	size_t used = 0;

	for (int l = 0; l < apart(m); l++)
		place_layer(&m->layer[l], m, base, &used);
	m->in = arena_take(base, &used, R * m->C);
	m->out = arena_take(base, &used, R * m->C);
	m->chosen = arena_take(base, &used, slots);
	m->pick = arena_take_ints(base, &used, slots);
	m->count = arena_take_ints(base, &used, R * m->E);
	m->pack = arena_take(base, &used, GEMM_WORK);
	if (m->use == MOE_FORWARD)
		return used;
	m->dh = arena_take(base, &used, R * m->F);
	m->dgu = arena_take(base, &used, R * 2 * m->F);
	m->dweight = arena_take(base, &used, slots);
	m->dlogits = arena_take(base, &used, R * m->E);
	m->mean = arena_take(base, &used, R);
	return used;
}

static struct moe shape(const struct model_conf *c, int rows, enum moe_use use)
{
	return (struct moe){
		.layers = (int)c->layers,
		.E = (int)c->experts,
		.K = (int)c->experts_per_token,
		.C = (int)c->d_model,
		.F = (int)c->ff,
		.rows = rows,
		.use = use,
	};
}

/* One layer stands for all: there may be too many to make a list of them only to count. */
size_t moe_bytes(const struct model_conf *c, int rows, enum moe_use use)
{
	struct moe m = shape(c, rows, use);
	struct acts one;
	size_t layer = 0, used;

	place_layer(&one, &m, NULL, &layer);
	used = layer * (size_t)(apart(&m) - 1);
	m.use = use == MOE_TRAIN ? MOE_RECOMPUTE : use;
	m.layer = &one;
	return (used + place(&m, NULL)) * sizeof(real);
}

int moe_open(struct moe **out, const struct model_conf *c, int rows, enum moe_use use)
{
	struct moe *m = calloc(1, sizeof(*m));

	if (!m)
		return err_nomem();
	*m = shape(c, rows, use);
	m->layer = calloc((size_t)apart(m), sizeof(*m->layer));
	m->routed = calloc((size_t)c->layers * c->experts, sizeof(*m->routed));
	if (m->layer && m->routed)
		m->arena = aligned_alloc(ARENA_ALIGN, moe_bytes(c, rows, use));
	if (!m->arena) {
		moe_close(m);
		return err_nomem();
	}
	place(m, m->arena);
	*out = m;
	return 0;
}

void moe_close(struct moe *m)
{
	if (!m)
		return;
	free(m->arena);
	free(m->routed);
	free(m->layer);
	free(m);
}

/* Where an expert's matrices are among the weights of the layer. */
static size_t up_at(const struct moe *m, int e)
{
	return (size_t)m->E * m->C + (size_t)e * 3 * m->F * m->C;
}

static size_t down_at(const struct moe *m, int e)
{
	return up_at(m, e) + 2 * (size_t)m->F * m->C;
}

size_t moe_weights(const struct model_conf *c)
{
	return (size_t)c->experts * c->d_model * (1 + 3 * (size_t)c->ff);
}

/* to (n, C): the rows of from that the list names. */
static void gather(real *to, const real *from, const int *row, int n, int C)
{
	for (int i = 0; i < n; i++)
		memcpy(to + (size_t)i * C, from + (size_t)row[i] * C, (size_t)C * sizeof(*to));
}

/* to[row[i]] += weight[i] * from[i]; weight NULL: 1. */
VEC_CLONES static void scatter(real *to, const real *from, const real *weight, const int *row,
	int n, int C)
{
	for (int i = 0; i < n; i++, from += C) {
		real *restrict sum = to + (size_t)row[i] * C;
		const real w = weight ? weight[i] : 1;

		for (int c = 0; c < C; c++)
			sum[c] += w * from[c];
	}
}

/* x NULL: only what the backward pass needs. */
static void expert_forward(struct moe *m, const struct acts *a, int e, real *x, const real *n,
	const real *w)
{
	const int first = a->route.start[e], rows = a->route.start[e + 1] - first;
	const int *row = a->route.row + first;
	real *gu = a->gu + (size_t)first * 2 * m->F, *h = a->h + (size_t)first * m->F;

	if (rows == 0)
		return;
	gather(m->in, n, row, rows, m->C);
	gemm_nt(gu, m->in, w + up_at(m, e), rows, 2 * m->F, m->C, false, m->pack);
	swiglu_forward(h, gu, rows, m->F);
	if (!x)
		return;
	gemm_nt(m->out, h, w + down_at(m, e), rows, m->C, m->F, false, m->pack);
	scatter(x, m->out, a->route.weight + first, row, rows, m->C);
}

/* Adds up what moe_load tells. */
static void count_load(struct moe *m, const struct moe_route *r, int l, int G, int T)
{
	if (l == 0) {
		memset(m->routed, 0, (size_t)m->layers * m->E * sizeof(*m->routed));
		m->balance = 0;
	}
	m->balance += moe_balance(m->count, r, G, T, m->E) / m->layers;
	for (int e = 0; e < m->E; e++)
		m->routed[(size_t)l * m->E + e] += (uint64_t)(r->start[e + 1] - r->start[e]);
}

static void route(struct moe *m, struct moe_route *r, const real *n, const real *w, int R)
{
	gemm_nt(r->prob, n, w, R, m->E, m->C, false, m->pack);
	moe_route(r, m->chosen, m->pick, R, m->E, m->K);
}

void moe_forward(struct moe *m, int l, real *x, const real *n, const real *w, int G, int T)
{
	struct acts *a = layer_of(m, l);

	route(m, &a->route, n, w, G * T);
	count_load(m, &a->route, l, G, T);
	for (int e = 0; e < m->E; e++)
		expert_forward(m, a, e, x, n, w);
}

void moe_again(struct moe *m, int l, const real *n, const real *w, int G, int T)
{
	struct acts *a = layer_of(m, l);

	route(m, &a->route, n, w, G * T);
	for (int e = 0; e < m->E; e++)
		expert_forward(m, a, e, NULL, n, w);
}

/* Of each slot, with s its weight: dweight = dh h; then h and dh become s h and s dh. */
VEC_CLONES static void weigh(real *dweight, real *dh, real *h, const real *weight, int n, int F)
{
	for (int i = 0; i < n; i++, dh += F, h += F) {
		dweight[i] = vec_dot(dh, h, F);
		for (int f = 0; f < F; f++) {
			dh[f] *= weight[i];
			h[f] *= weight[i];
		}
	}
}

static void expert_backward(struct moe *m, const struct acts *a, int e, real *dn, real *dw,
	const real *dx, const real *n, const real *w)
{
	const int first = a->route.start[e], rows = a->route.start[e + 1] - first;
	const int C = m->C, F = m->F, *row = a->route.row + first;
	real *gu = a->gu + (size_t)first * 2 * F, *h = a->h + (size_t)first * F;

	if (rows == 0)
		return;
	gather(m->in, dx, row, rows, C);
	gemm_nn(m->dh, m->in, w + down_at(m, e), rows, F, C, false, m->pack);
	weigh(m->dweight + first, m->dh, h, a->route.weight + first, rows, F);
	gemm_tn(dw + down_at(m, e), m->in, h, C, F, rows, true, m->pack);
	swiglu_backward(m->dgu, m->dh, gu, rows, F);
	gather(m->in, n, row, rows, C);
	gemm_tn(dw + up_at(m, e), m->dgu, m->in, 2 * F, C, rows, true, m->pack);
	gemm_nn(m->out, m->dgu, w + up_at(m, e), rows, C, 2 * F, false, m->pack);
	scatter(dn, m->out, NULL, row, rows, C);
}

void moe_backward(struct moe *m, int l, real *dn, real *dw, const real *dx, const real *n,
	const real *w, real balance, int G, int T)
{
	const struct acts *a = layer_of(m, l);
	const int R = G * T;

	memset(dn, 0, (size_t)R * m->C * sizeof(*dn));
	for (int e = 0; e < m->E; e++)
		expert_backward(m, a, e, dn, dw, dx, n, w);
	moe_route_backward(m->dlogits, m->dweight, &a->route, m->mean, R, m->E, m->K);
	moe_balance(m->count, &a->route, G, T, m->E);
	moe_balance_backward(m->dlogits, m->count, &a->route, balance / (real)m->layers, G, T,
		m->E);
	gemm_nn(dn, m->dlogits, w, R, m->C, m->E, true, m->pack);
	gemm_tn(dw, m->dlogits, n, m->E, m->C, R, true, m->pack);
}

void moe_load(const struct moe *m, uint64_t *routed, double *balance)
{
	for (int i = 0; i < m->layers * m->E; i++)
		routed[i] += m->routed[i];
	*balance += m->balance;
}
