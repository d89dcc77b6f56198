#include "math/net.h"

#include <stdlib.h>
#include <string.h>

#include "math/arena.h"
#include "math/attention.h"
#include "math/gemm.h"
#include "math/layer.h"
#include "math/moe.h"

enum {
	ROWS = 512,       /* rows of a call aimed at: full speed of products, not too much memory */
	LOGITS = 8 << 20  /* logits in memory at a time */
};

/*
 * Axes: R rows, C = d_model, H = heads, K = kv_heads, D = head_dim, F = ff, V = vocab;
 * Q = H * D, P = Q + 2 * K * D.
 */
struct acts {
	real *x;         /* (R, C) what the layer is given */
	real *n1, *inv1; /* (R, C) (R) */
	real *qkv;       /* (R, P) after rotation */
	real *kv;        /* (context, 2*K*D) keys and values after rotation, with NET_EXTEND */
	real *y, *lse;   /* (R, Q) (R, H) */
	real *mid;       /* (R, C) after attention */
	real *n2, *inv2; /* (R, C) (R) */
	real *gu, *h;    /* (R, 2F) (R, F), dense */
};
struct net {
	struct model_conf c;
	int layers, C, H, K, D, Q, P, F, V;
	int rows, context;   /* most rows of a call, longest sequence */
	enum net_use use;
	int G, T, R;         /* of the last forward pass */
	int past;            /* tokens before it, -1: no sequence that is extended */
	int chunk;           /* rows of logits at a time */
	real *cos_t, *sin_t; /* (context, D/2) */
	struct acts *layer;  /* (layers + 1): the last has only x, the input of the final norm */
	real *nf, *invf;     /* (R, C) (R) */
	real *logits;        /* (chunk, V) */
	real *work;          /* attention */
	real *pack;          /* (GEMM_WORK) */
	real *dx, *dn;       /* (R, C) gradients: of the residual stream, of a normalised input */
	real *dy, *dqkv;     /* (R, Q) (R, P) */
	real *dh, *dgu;      /* (R, F) (R, 2F), dense */
	real scale;          /* of the last net_loss with gradients */
	struct moe *moe;     /* or NULL: dense */
	real *arena;
};

/* Where the weights of a layer are in the flat arrays of parameters and gradients. */
struct offsets {
	size_t norm1;    /* (C) */
	size_t qkv, o;   /* (P, C) (C, Q) */
	size_t norm2;    /* (C) */
	size_t gu, down; /* (2F, C) (C, F); gu with experts: all that is theirs, see moe.h */
};

static bool trains(const struct net *n)
{
	return n->use == NET_TRAIN || n->use == NET_RECOMPUTE;
}

static void place_layer(struct acts *a, const struct net *n, real *base, size_t *used)
{
	const size_t R = (size_t)n->rows;

	a->x = arena_take(base, used, R * n->C);
	a->n1 = arena_take(base, used, R * n->C);
	a->inv1 = arena_take(base, used, R);
	a->qkv = arena_take(base, used, R * n->P);
	a->y = arena_take(base, used, R * n->Q);
	a->lse = arena_take(base, used, R * n->H);
	a->mid = trains(n) ? arena_take(base, used, R * n->C) : a->x; /* without training x is done with */
	a->n2 = arena_take(base, used, R * n->C);
	a->inv2 = arena_take(base, used, R);
	if (n->c.experts)
		return;
	a->gu = arena_take(base, used, R * 2 * n->F);
	a->h = arena_take(base, used, R * n->F);
}

/* One layer's arrays for all: without training the input of a layer is done with when its output is
 * written; to compute the others again, only that is kept. */
static void place_layers(struct net *n, real *base, size_t *used)
{
	place_layer(&n->layer[0], n, base, used);
	for (int l = 1; l <= n->layers; l++)
		n->layer[l] = n->layer[0];
	for (int l = 1; l < n->layers && n->use == NET_TRAIN; l++)
		place_layer(&n->layer[l], n, base, used);
	for (int l = 1; l < n->layers && n->use == NET_RECOMPUTE; l++)
		n->layer[l].x = arena_take(base, used, (size_t)n->rows * n->C);
	for (int l = 0; l < n->layers && n->use == NET_EXTEND; l++)
		n->layer[l].kv = arena_take(base, used, (size_t)n->context * 2 * n->K * n->D);
}

/* Cuts the arena into arrays; base NULL: only counts. */
static size_t place(struct net *n, real *base)
{
	const size_t R = (size_t)n->rows, table = (size_t)n->context * (n->D / 2);
	size_t used = 0;

	n->cos_t = arena_take(base, &used, table);
	n->sin_t = arena_take(base, &used, table);
	place_layers(n, base, &used);
	n->nf = arena_take(base, &used, R * n->C);
	n->invf = arena_take(base, &used, R);
	n->logits = arena_take(base, &used, (size_t)n->chunk * n->V);
	n->work = arena_take(base, &used, attention_work(n->context, n->D));
	n->pack = arena_take(base, &used, GEMM_WORK);
	if (!trains(n))
		return used;
	n->layer[n->layers].x = arena_take(base, &used, R * n->C);
	n->dx = arena_take(base, &used, R * n->C);
	n->dn = arena_take(base, &used, R * n->C);
	n->dy = arena_take(base, &used, R * n->Q);
	n->dqkv = arena_take(base, &used, R * n->P);
	if (n->c.experts)
		return used;
	n->dh = arena_take(base, &used, R * n->F);
	n->dgu = arena_take(base, &used, R * 2 * n->F);
	return used;
}

static enum moe_use moe_use(enum net_use use)
{
	return use == NET_TRAIN ? MOE_TRAIN : use == NET_RECOMPUTE ? MOE_RECOMPUTE : MOE_FORWARD;
}

int net_rows(int context)
{
	return context < ROWS ? ROWS / context * context : context;
}

static void shape(struct net *n, const struct model_conf *c, int context, enum net_use use, int rows)
{
	n->c = *c;
	n->layers = (int)c->layers;
	n->C = (int)c->d_model;
	n->H = (int)c->heads;
	n->K = (int)c->kv_heads;
	n->D = (int)c->head_dim;
	n->Q = n->H * n->D;
	n->P = n->Q + 2 * n->K * n->D;
	n->F = (int)c->ff;
	n->V = (int)c->vocab;
	n->context = context;
	n->rows = rows;
	n->use = use;
	n->chunk = LOGITS / n->V < n->rows ? LOGITS / n->V : n->rows;
	n->chunk = n->chunk ? n->chunk : 1;
}

/* Those of one layer, and for each further one what a second adds. */
size_t net_bytes(const struct model_conf *c, int context, enum net_use use, int rows)
{
	struct model_conf two = *c;
	size_t bytes[2], experts = 0;

	for (uint32_t l = 1; l <= 2; l++) {
		struct acts acts[3];
		struct net n = { .layer = acts };

		two.layers = l;
		shape(&n, &two, context, use, rows);
		bytes[l - 1] = place(&n, NULL) * sizeof(real);
		experts = c->experts ? moe_bytes(c, n.rows, moe_use(use)) : 0;
	}
	return bytes[0] + (c->layers - 1) * (bytes[1] - bytes[0]) + experts;
}

int net_open(struct net **out, const struct model_conf *c, int context, enum net_use use)
{
	struct net *n = calloc(1, sizeof(*n));

	if (!n)
		return err_nomem();
	shape(n, c, context, use, net_rows(context));
	n->layer = calloc(c->layers + 1, sizeof(*n->layer));
	const bool experts = !c->experts || moe_open(&n->moe, c, n->rows, moe_use(use)) == 0;

	if (n->layer && experts)
		n->arena = aligned_alloc(ARENA_ALIGN, place(n, NULL) * sizeof(real));
	if (!n->arena) {
		net_close(n);
		return err_nomem();
	}
	place(n, n->arena);
	rope_table(n->cos_t, n->sin_t, context, n->D, c->rope_theta);
	*out = n;
	return 0;
}

void net_close(struct net *n)
{
	if (!n)
		return;
	moe_close(n->moe);
	free(n->arena);
	free(n->layer);
	free(n);
}

int net_fits(const struct net *n, int T)
{
	return n->rows / T;
}

/* The order is that of model_layout. */
static struct offsets layer_at(const struct net *n, int l)
{
	const size_t C = (size_t)n->C, forward = n->moe ? moe_weights(&n->c) : 3 * C * n->F;
	const size_t each = 2 * C + C * ((size_t)n->P + n->Q) + forward;
	struct offsets at;

	at.norm1 = (size_t)n->V * C + (size_t)l * each;
	at.qkv = at.norm1 + C;
	at.o = at.qkv + (size_t)n->P * C;
	at.norm2 = at.o + C * n->Q;
	at.gu = at.norm2 + C;
	at.down = at.gu + 2 * (size_t)n->F * C;
	return at;
}

static size_t final_norm_at(const struct net *n)
{
	return layer_at(n, n->layers).norm1;
}

static size_t head_at(const struct net *n)
{
	return n->c.tied ? 0 : final_norm_at(n) + n->C;
}

static void rotate(const struct net *n, real *qkv, int sign)
{
	for (int g = 0; g < n->G; g++)
		rope_rotate(qkv + (size_t)g * n->T * n->P, n->cos_t, n->sin_t, n->T,
			n->H + n->K, n->D, n->P, n->past > 0 ? n->past : 0, sign);
}

/* Each sequence by itself. */
static void attend_within(struct net *n, const struct acts *a)
{
	for (int g = 0; g < n->G; g++) {
		const size_t row = (size_t)g * n->T;
		const real *q = a->qkv + row * n->P;

		attention_forward(a->y + row * n->Q, a->lse + row * n->H, q, q + n->Q,
			q + n->Q + n->K * n->D, n->work, n->T, n->H, n->K, n->D, n->P);
	}
}

static void keep_keys(struct net *n, const struct acts *a)
{
	const size_t width = 2 * (size_t)n->K * n->D;

	for (int t = 0; t < n->T; t++)
		memcpy(a->kv + (size_t)(n->past + t) * width, a->qkv + (size_t)t * n->P + n->Q,
			width * sizeof(real));
}

/* The residual stream, to be added to: one array for all where nothing is kept. */
static void go_on(const struct net *n, real *to, const real *from)
{
	if (to != from)
		memcpy(to, from, (size_t)n->R * n->C * sizeof(real));
}

/* w: all parameters.  mid = x + Wo attention(rope(Wqkv rmsnorm(x))) */
static void attend(struct net *n, const struct acts *a, const real *w, const struct offsets *at)
{
	const int R = n->R;

	rmsnorm_forward(a->n1, a->inv1, a->x, w + at->norm1, R, n->C, (real)n->c.norm_eps);
	gemm_nt(a->qkv, a->n1, w + at->qkv, R, n->P, n->C, false, n->pack);
	rotate(n, a->qkv, 1);
	if (n->past >= 0)
		keep_keys(n, a);
	if (n->past > 0)
		attention_extend(a->y, a->qkv, a->kv, a->kv + n->K * n->D, n->work, n->past, n->T,
			n->H, n->K, n->D, n->P, 2 * n->K * n->D);
	else
		attend_within(n, a);
	go_on(n, a->mid, a->x);
	gemm_nt(a->mid, a->y, w + at->o, R, n->C, n->Q, true, n->pack);
}

static void expand(struct net *n, const struct acts *a, const real *w, const struct offsets *at)
{
	rmsnorm_forward(a->n2, a->inv2, a->mid, w + at->norm2, n->R, n->C, (real)n->c.norm_eps);
	if (n->moe)
		return;
	gemm_nt(a->gu, a->n2, w + at->gu, n->R, 2 * n->F, n->C, false, n->pack);
	swiglu_forward(a->h, a->gu, n->R, n->F);
}

/* x = mid + Wdown swiglu(Wgu rmsnorm(mid)), or what the experts of layer l make of it */
static void feed_forward(struct net *n, int l, const real *w, const struct offsets *at)
{
	const struct acts *a = &n->layer[l];
	real *x = n->layer[l + 1].x;

	expand(n, a, w, at);
	go_on(n, x, a->mid);
	if (n->moe)
		moe_forward(n->moe, l, x, a->n2, w + at->gu, n->G, n->T);
	else
		gemm_nt(x, a->h, w + at->down, n->R, n->C, n->F, true, n->pack);
}

/* All that the backward pass needs of layer l but its output, from what it was given. */
static void again(struct net *n, int l, const real *w, const struct offsets *at)
{
	const struct acts *a = &n->layer[l];

	attend(n, a, w, at);
	expand(n, a, w, at);
	if (n->moe)
		moe_again(n->moe, l, a->n2, w + at->gu, n->G, n->T);
}

static void forward(struct net *n, const real *params, const uint32_t *ids, int stride)
{
	for (int g = 0; g < n->G; g++)
		embed_forward(n->layer[0].x + (size_t)g * n->T * n->C, params,
			ids + (size_t)g * stride, n->T, n->C);
	for (int l = 0; l < n->layers; l++) {
		const struct offsets at = layer_at(n, l);

		attend(n, &n->layer[l], params, &at);
		feed_forward(n, l, params, &at);
	}
	rmsnorm_forward(n->nf, n->invf, n->layer[n->layers].x, params + final_norm_at(n), n->R,
		n->C, (real)n->c.norm_eps);
}

void net_forward(struct net *n, const real *params, const uint32_t *ids, int stride, int G, int T)
{
	n->G = G;
	n->T = T;
	n->R = G * T;
	n->past = -1;
	forward(n, params, ids, stride);
}

void net_extend(struct net *n, const real *params, const uint32_t *ids, int past, int T)
{
	n->G = 1;
	n->R = n->T = T;
	n->past = past;
	forward(n, params, ids, T);
}

/* -ln p of rows first..first+rows of all sequences, added to the sums; logits become their
 * gradients. */
static void chunk_loss(struct net *n, double *losses, const uint32_t *targets, int stride, int first,
	int rows, real scale)
{
	for (int r = first; r < first + rows; r++) {
		const int g = r / n->T, t = r % n->T;

		losses[r] = 0;
		cross_entropy(&losses[r], n->logits + (size_t)(r - first) * n->V,
			targets + (size_t)g * stride + t, 1, n->V, scale);
	}
}

void net_loss(struct net *n, double *losses, real *grads, const real *params, const uint32_t *targets,
	int stride, real scale)
{
	const real *w = params + head_at(n);

	if (grads)
		n->scale = scale;
	for (int first = 0; first < n->R; first += n->chunk) {
		const int rows = n->R - first < n->chunk ? n->R - first : n->chunk;
		const real *nf = n->nf + (size_t)first * n->C;

		gemm_nt(n->logits, nf, w, rows, n->V, n->C, false, n->pack);
		chunk_loss(n, losses, targets, stride, first, rows, grads ? scale : 0);
		if (!grads)
			continue;
		gemm_nn(n->dn + (size_t)first * n->C, n->logits, w, rows, n->C, n->V, false, n->pack);
		gemm_tn(grads + head_at(n), n->logits, nf, n->V, n->C, rows, true, n->pack);
	}
}

/* What the load-balancing loss of one sequence counts, where that of its T tokens counts scale. */
static real balance_scale(const struct net *n)
{
	return n->scale * (real)n->T * (real)n->c.router_aux_loss_coef;
}

/* dn: gradient of the normalised input. */
static void dense_backward(struct net *n, real *dw, const struct acts *a, const real *w,
	const struct offsets *at)
{
	const int R = n->R, C = n->C, F = n->F;

	gemm_nn(n->dh, n->dx, w + at->down, R, F, C, false, n->pack);
	gemm_tn(dw + at->down, n->dx, a->h, C, F, R, true, n->pack);
	swiglu_backward(n->dgu, n->dh, a->gu, R, F);
	gemm_nn(n->dn, n->dgu, w + at->gu, R, C, 2 * F, false, n->pack);
	gemm_tn(dw + at->gu, n->dgu, a->n2, 2 * F, C, R, true, n->pack);
}

/* dx: gradient of the layer's output, becomes that of mid. */
static void feed_forward_backward(struct net *n, real *dw, int l, const real *w,
	const struct offsets *at)
{
	const struct acts *a = &n->layer[l];
	const int R = n->R, C = n->C;

	if (n->moe)
		moe_backward(n->moe, l, n->dn, dw + at->gu, n->dx, a->n2, w + at->gu, balance_scale(n),
			n->G, n->T);
	else
		dense_backward(n, dw, a, w, at);
	rmsnorm_backward(n->dx, dw + at->norm2, n->dn, a->mid, a->inv2, w + at->norm2, R, C);
}

/* dx: gradient of mid, becomes that of x. */
static void attend_backward(struct net *n, real *dw, const struct acts *a, const real *w,
	const struct offsets *at)
{
	const int R = n->R, C = n->C, T = n->T;

	gemm_nn(n->dy, n->dx, w + at->o, R, n->Q, C, false, n->pack);
	gemm_tn(dw + at->o, n->dx, a->y, C, n->Q, R, true, n->pack);
	for (int g = 0; g < n->G; g++) {
		const size_t row = (size_t)g * T;
		const real *q = a->qkv + row * n->P;
		real *dq = n->dqkv + row * n->P;

		attention_backward(dq, dq + n->Q, dq + n->Q + n->K * n->D, n->dy + row * n->Q,
			a->y + row * n->Q, a->lse + row * n->H, q, q + n->Q, q + n->Q + n->K * n->D,
			n->work, T, n->H, n->K, n->D, n->P);
	}
	rotate(n, n->dqkv, -1);
	gemm_nn(n->dn, n->dqkv, w + at->qkv, R, C, n->P, false, n->pack);
	gemm_tn(dw + at->qkv, n->dqkv, a->n1, n->P, C, R, true, n->pack);
	rmsnorm_backward(n->dx, dw + at->norm1, n->dn, a->x, a->inv1, w + at->norm1, R, C);
}

void net_backward(struct net *n, real *grads, const real *params, const uint32_t *ids, int stride)
{
	const size_t norm = final_norm_at(n);

	memset(n->dx, 0, (size_t)n->R * n->C * sizeof(real));
	rmsnorm_backward(n->dx, grads + norm, n->dn, n->layer[n->layers].x, n->invf, params + norm,
		n->R, n->C);
	for (int l = n->layers - 1; l >= 0; l--) {
		const struct offsets at = layer_at(n, l);

		if (n->use == NET_RECOMPUTE && l < n->layers - 1)
			again(n, l, params, &at);
		feed_forward_backward(n, grads, l, params, &at);
		attend_backward(n, grads, &n->layer[l], params, &at);
	}
	for (int g = 0; g < n->G; g++)
		embed_backward(grads, n->dx + (size_t)g * n->T * n->C, ids + (size_t)g * stride,
			n->T, n->C);
}

void net_load(const struct net *n, uint64_t *routed, double *balance)
{
	if (n->moe)
		moe_load(n->moe, routed, balance);
}

void net_logits(struct net *n, real *logits, const real *params, int r)
{
	gemm_nt(logits, n->nf + (size_t)r * n->C, params + head_at(n), 1, n->V, n->C, false, n->pack);
}
