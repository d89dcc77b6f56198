#include "math/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/blas.h"
#include "math/net.h"

enum { PIECE = 1 << 16 }; /* elements of a gradient that one job adds up */

/* A share of the batch: it has the sequences [B * i / W, B * (i + 1) / W) of a batch of B,
 * whichever thread runs it. */
struct worker {
	struct net *net;
	real *grads;  /* (size) */
	double *losses; /* (rows of the net): of the tokens of one call */
	double loss;
	uint64_t *routed; /* (layers, experts) */
	double balance;   /* summed over sequences */
};
struct model {
	struct model_conf c;
	struct tensors layout;
	struct pool *pool;
	int context;
	uint64_t size;
	real *params;
	struct worker *worker;
	int workers;
	bool ready; /* for products */
	enum model_use use;
	int seen;   /* tokens of the text that model_more goes on from */
	uint64_t *routed; /* (layers, experts) of the last batch, for model_load */
	uint64_t tokens;
	double balance;
};

static real *zeros(uint64_t n)
{
	return n > SIZE_MAX / sizeof(real) ? NULL : calloc((size_t)n, sizeof(real));
}

/* (layers, experts), and one more so that there is something for a dense model too. */
static uint64_t *loads(const struct model_conf *c)
{
	return calloc((size_t)c->layers * c->experts + 1, sizeof(uint64_t));
}

static enum net_use net_use(enum model_use use, bool first)
{
	if (use == MODEL_FORWARD)
		return first ? NET_EXTEND : NET_FORWARD;
	return use == MODEL_TRAIN ? NET_TRAIN : NET_RECOMPUTE;
}

static int worker_open(struct worker *w, const struct model *m)
{
	const bool train = m->use != MODEL_FORWARD;
	int rc;

	if ((rc = net_open(&w->net, &m->c, m->context, net_use(m->use, w == m->worker))) < 0)
		return rc;
	w->losses = calloc((size_t)net_fits(w->net, 1), sizeof(*w->losses));
	w->routed = loads(&m->c);
	if (train)
		w->grads = zeros(m->size);
	return w->losses && w->routed && (w->grads || !train) ? 0 : err_nomem();
}

int model_open(struct model **out, const struct model_conf *c, int context, enum model_use use,
	struct pool *pool)
{
	struct model *m = calloc(1, sizeof(*m));
	int rc = 0;

	if (!m)
		return err_nomem();
	blas_init();
	m->c = *c;
	m->pool = pool;
	m->context = context;
	m->use = use;
	m->workers = pool_threads(pool);
	m->worker = calloc((size_t)m->workers, sizeof(*m->worker));
	m->routed = loads(c);
	if (!m->worker || !m->routed)
		rc = err_nomem();
	if (rc == 0 && (rc = model_layout(c, &m->layout)) == 0) {
		m->size = tensors_total(&m->layout);
		m->params = zeros(m->size);
		rc = m->params ? 0 : err_nomem();
	}
	for (int i = 0; rc == 0 && i < m->workers; i++)
		rc = worker_open(&m->worker[i], m);
	if (rc < 0) {
		model_close(m);
		return rc;
	}
	*out = m;
	return 0;
}

void model_close(struct model *m)
{
	if (!m)
		return;
	for (int i = 0; m->worker && i < m->workers; i++) {
		net_close(m->worker[i].net);
		free(m->worker[i].grads);
		free(m->worker[i].losses);
		free(m->worker[i].routed);
	}
	free(m->routed);
	free(m->worker);
	free(m->params);
	tensors_release(&m->layout);
	free(m);
}

const struct model_conf *model_configuration(const struct model *m)
{
	return &m->c;
}

const struct tensors *model_tensors(const struct model *m)
{
	return &m->layout;
}

uint64_t model_size(const struct model *m)
{
	return m->size;
}

enum model_use model_use(const struct model *m)
{
	return m->use;
}

/* A thread has the sequences of run_share; of arrays for more rows, what is not touched is not there. */
int model_memory(struct model_memory *out, const struct model_conf *c, int context, enum model_use use, int threads,
	uint64_t B)
{
	const uint64_t shares = B < (uint64_t)threads ? B : (uint64_t)threads, each = (B + shares - 1) / shares;
	const uint64_t most = (uint64_t)net_rows(context), rows = each * (uint64_t)context;
	struct tensors layout = { 0 };
	int rc = model_layout(c, &layout);

	*out = (struct model_memory){ .rows = rows < most ? rows : most };
	if (rc == 0) {
		out->params = tensors_total(&layout) * sizeof(real);
		out->grads = use == MODEL_FORWARD ? 0 : shares * out->params;
		for (uint64_t i = 0; i < shares; i++)
			out->activations += net_bytes(c, context, net_use(use, i == 0), (int)out->rows);
	}
	tensors_release(&layout);
	return rc;
}

real *model_params(struct model *m)
{
	return m->params;
}

real *model_grads(struct model *m)
{
	return m->worker[0].grads;
}

/* One batch on its way through the workers. */
struct batch {
	struct model *m;
	const uint32_t *ids; /* (B, T+1) */
	int B, T, shares;
	int whole; /* sequences that the mean is over */
	bool backward;
	double *sums;   /* (B) or NULL */
	double *losses; /* (B, T) or NULL */
};

/* What net_loss left in the worker, of sequences s to s + G. */
static void keep_losses(const struct batch *b, struct worker *w, int s, int G)
{
	const double *loss = w->losses;

	for (int g = 0; g < G; g++) {
		double sum = 0;

		for (int t = 0; t < b->T; t++)
			sum += *loss++;
		w->loss += sum;
		if (b->sums)
			b->sums[s + g] = sum;
	}
	if (b->losses)
		memcpy(b->losses + (size_t)s * (size_t)b->T, w->losses,
			(size_t)G * (size_t)b->T * sizeof(*w->losses));
}

static int run_share(void *ctx, int i, int thread)
{
	const struct batch *b = ctx;
	struct model *m = b->m;
	struct worker *w = &m->worker[i];
	const int stride = b->T + 1, end = (int)((int64_t)b->B * (i + 1) / b->shares);
	const int most = net_fits(w->net, b->T);
	const real scale = (real)(1 / ((double)b->whole * b->T));
	real *grads = b->backward ? w->grads : NULL;

	(void)thread;
	w->loss = w->balance = 0;
	memset(w->routed, 0, (size_t)m->c.layers * m->c.experts * sizeof(*w->routed));
	if (grads)
		memset(grads, 0, (size_t)m->size * sizeof(real));
	for (int s = (int)((int64_t)b->B * i / b->shares); s < end; s += most) {
		const int G = end - s < most ? end - s : most;
		const uint32_t *ids = b->ids + (size_t)s * stride;

		net_forward(w->net, m->params, ids, stride, G, b->T);
		net_load(w->net, w->routed, &w->balance);
		net_loss(w->net, w->losses, grads, m->params, ids + 1, stride, scale);
		if (grads)
			net_backward(w->net, grads, m->params, ids, stride);
		keep_losses(b, w, s, G);
	}
	return 0;
}

/* The gradients of all shares into the first, in their order. */
static int add_piece(void *ctx, int piece, int thread)
{
	const struct batch *b = ctx;
	struct model *m = b->m;
	const uint64_t first = (uint64_t)piece * PIECE;
	const uint64_t end = first + PIECE < m->size ? first + PIECE : m->size;
	real *restrict sum = m->worker[0].grads;

	(void)thread;
	for (int s = 1; s < b->shares; s++) {
		const real *restrict more = m->worker[s].grads;

		for (uint64_t i = first; i < end; i++)
			sum[i] += more[i];
	}
	return 0;
}

/* Only now: every other allocation for the training has been made. */
static int make_ready(struct model *m)
{
	int rc = m->ready ? 0 : blas_room(m->workers);

	m->ready = rc == 0;
	return rc;
}

/* Of all shares, in their order. */
static void add_loads(struct model *m, const struct batch *b)
{
	const size_t n = (size_t)m->c.layers * m->c.experts;

	memset(m->routed, 0, n * sizeof(*m->routed));
	m->tokens = n ? (uint64_t)b->B * (uint64_t)b->T : 0;
	m->balance = 0;
	for (int s = 0; s < b->shares; s++) {
		for (size_t i = 0; i < n; i++)
			m->routed[i] += m->worker[s].routed[i];
		m->balance += m->worker[s].balance / b->whole;
	}
}

static int run_batch(struct batch *b, double *total)
{
	struct model *m = b->m;
	const int B = b->B, T = b->T;
	int rc;

	if (B < 1 || T < 1 || T > m->context)
		return err_set(ERR_USAGE,
			"%d sequences of %d tokens: the model was opened for up to %d tokens", B, T,
			m->context);
	if ((rc = make_ready(m)) < 0)
		return rc;
	b->shares = B < m->workers ? B : m->workers;
	if ((rc = pool_run(m->pool, run_share, b, b->shares)) < 0)
		return rc;
	*total = 0;
	for (int i = 0; i < b->shares; i++)
		*total += m->worker[i].loss;
	add_loads(m, b);
	if (b->backward && b->shares > 1)
		rc = pool_run(m->pool, add_piece, b, (int)((m->size + PIECE - 1) / PIECE));
	return rc;
}

int model_forward(struct model *m, double *loss, const uint32_t *ids, int B, int T)
{
	struct batch b = { .m = m, .ids = ids, .B = B, .T = T, .whole = B };
	int rc = run_batch(&b, loss);

	*loss /= (double)B * T;
	return rc;
}

int model_backward_part(struct model *m, double *loss, const uint32_t *ids, int n, int B, int T)
{
	struct batch b = { .m = m, .ids = ids, .B = n, .T = T, .whole = B, .backward = true };
	int rc = run_batch(&b, loss);

	*loss /= (double)B * T;
	return rc;
}

int model_backward(struct model *m, double *loss, const uint32_t *ids, int B, int T)
{
	return model_backward_part(m, loss, ids, B, B, T);
}

int model_losses(struct model *m, double *sums, const uint32_t *ids, int B, int T)
{
	struct batch b = { .m = m, .ids = ids, .B = B, .T = T, .whole = B, .sums = sums };
	double total;

	return run_batch(&b, &total);
}

int model_token_losses(struct model *m, double *losses, const uint32_t *ids, int B, int T)
{
	struct batch b = { .m = m, .ids = ids, .B = B, .T = T, .whole = B, .losses = losses };
	double total;

	return run_batch(&b, &total);
}

void model_load(struct model_load *out, const struct model *m)
{
	const uint32_t L = m->c.layers, E = m->c.experts;

	*out = (struct model_load){ .experts = E, .routed = m->routed, .tokens = m->tokens,
		.balance = m->balance };
	if (m->tokens == 0)
		return;
	const double even = (double)m->tokens * m->c.experts_per_token / E;

	out->least = HUGE_VAL;
	for (uint32_t l = 0; l < L; l++) {
		double square = 0;

		for (uint32_t e = 0; e < E; e++) {
			const double share = (double)m->routed[(size_t)l * E + e] / even;

			square += (share - 1) * (share - 1);
			out->least = fmin(out->least, share);
		}
		out->variation += sqrt(square / E) / L;
	}
}

void model_put_load(struct model *m, const uint64_t *routed, uint64_t tokens, double balance)
{
	memcpy(m->routed, routed, (size_t)m->c.layers * m->c.experts * sizeof *routed);
	m->tokens = tokens;
	m->balance = balance;
}

int model_logits(struct model *m, real *logits, const uint32_t *ids, int n)
{
	struct net *net = m->worker[0].net;
	int rc = make_ready(m);

	if (rc < 0)
		return rc;
	if (n < 1 || n > m->context)
		return err_set(ERR_USAGE, "%d tokens: the model was opened for 1 to %d", n,
			m->context);
	if (m->use != MODEL_FORWARD)
		net_forward(net, m->params, ids, n, 1, n);
	else
		net_extend(net, m->params, ids, 0, n);
	net_logits(net, logits, m->params, n - 1);
	m->seen = n;
	return 0;
}

int model_more(struct model *m, real *logits, const uint32_t *ids, int n)
{
	struct net *net = m->worker[0].net;

	if (m->use != MODEL_FORWARD || m->seen == 0)
		return err_set(ERR_USAGE, "there is no text to go on from");
	if (n < 1 || n > m->context - m->seen)
		return err_set(ERR_USAGE, "%d tokens after %d: the model was opened for %d", n,
			m->seen, m->context);
	net_extend(net, m->params, ids, m->seen, n);
	net_logits(net, logits, m->params, n - 1);
	m->seen += n;
	return 0;
}
