#include "round/spmd.h"

#include <stdlib.h>
#include <string.h>

#include "base/opt.h"

enum { STEP = 1, END = 2 };

/* What the first rank says before anything else. */
struct greeting {
	char version[32];
	struct model_conf c;
	int context; /* 0: there is nothing to do */
	enum model_use use;
};
/* What it says before each step. */
struct order {
	int act, B, T;
};
struct spmd {
	struct ranks *ranks;
	struct model *model; /* of this rank */
	uint64_t routes;     /* counts that model_load tells: layers * experts */
	double *sums;        /* (3 + routes): loss, balance, tokens, routed */
	uint64_t *routed;    /* (routes) */
	uint32_t *ids;       /* (B, T+1) beyond the first */
	size_t room;         /* ids */
	bool begun, lost;
};

static int hold(struct spmd *s, struct model *m, const struct model_conf *c)
{
	s->model = m;
	s->routes = (uint64_t)c->layers * c->experts;
	s->sums = calloc(3 + s->routes, sizeof *s->sums);
	s->routed = calloc(s->routes + 1, sizeof *s->routed);
	return s->sums && s->routed ? 0 : err_nomem();
}

static void let_go(struct spmd *s)
{
	free(s->sums);
	free(s->routed);
	free(s->ids);
}

/* Any failure ends the work of all: the others can't know where this one is. */
static int note(struct spmd *s, int rc)
{
	s->lost |= rc < 0;
	return rc;
}

/* ---- a step, on every rank ---- */

static int first_of(const struct spmd *s, int B, int rank)
{
	return (int)((int64_t)B * rank / ranks_count(s->ranks));
}

static void note_load(struct spmd *s, double loss)
{
	struct model_load load;

	model_load(&load, s->model);
	s->sums[0] = loss;
	s->sums[1] = load.balance;
	s->sums[2] = (double)load.tokens;
	for (uint64_t i = 0; i < s->routes; i++)
		s->sums[3 + i] = (double)load.routed[i];
}

static int own_part(struct spmd *s, const uint32_t *ids, int B, int T)
{
	const int first = first_of(s, B, ranks_self(s->ranks));
	const int n = first_of(s, B, ranks_self(s->ranks) + 1) - first;
	double loss = 0;
	int rc;

	if (n > 0) {
		rc = model_backward_part(s->model, &loss, ids + (size_t)first * (T + 1), n, B, T);
		if (rc < 0)
			return rc;
		note_load(s, loss);
		return 0;
	}
	memset(model_grads(s->model), 0, model_size(s->model) * sizeof(real));
	memset(s->sums, 0, (3 + s->routes) * sizeof *s->sums);
	return 0;
}

static int step(struct spmd *s, uint32_t *ids, int B, int T)
{
	int rc;

	if ((rc = ranks_give(s->ranks, ids, (size_t)B * (T + 1) * sizeof *ids)) < 0 ||
		(rc = ranks_give(s->ranks, model_params(s->model), model_size(s->model) * sizeof(real))) < 0 ||
		(rc = own_part(s, ids, B, T)) < 0 ||
		(rc = ranks_sum(s->ranks, model_grads(s->model), model_size(s->model))) < 0)
		return rc;
	return ranks_sum_f64(s->ranks, s->sums, 3 + s->routes);
}

/* ---- the first ---- */

int spmd_open(struct spmd **out, struct ranks *r)
{
	*out = r ? calloc(1, sizeof **out) : NULL;
	if (!*out)
		return r ? err_nomem() : 0;
	(*out)->ranks = r;
	return 0;
}

int spmd_begin(struct spmd *s, struct model *m, const struct model_conf *c, int context)
{
	struct greeting hello = { .version = OPT_VERSION, .c = *c, .context = context, .use = model_use(m) };
	int rc;

	if (!s)
		return 0;
	if ((rc = hold(s, m, c)) < 0)
		return rc;
	if ((rc = note(s, ranks_give(s->ranks, &hello, sizeof hello))) < 0)
		return rc;
	s->begun = true;
	return 0;
}

int spmd_backward(struct spmd *s, struct model *m, double *loss, const uint32_t *ids, int B, int T)
{
	struct order order = { STEP, B, T };
	int rc;

	if (!s)
		return model_backward(m, loss, ids, B, T);
	if ((rc = ranks_give(s->ranks, &order, sizeof order)) < 0 ||
		(rc = step(s, (uint32_t *)(uintptr_t)ids, B, T)) < 0)
		return note(s, rc);
	*loss = s->sums[0];
	for (uint64_t i = 0; i < s->routes; i++)
		s->routed[i] = (uint64_t)s->sums[3 + i];
	model_put_load(m, s->routed, (uint64_t)s->sums[2], s->sums[1]);
	return 0;
}

bool spmd_lost(const struct spmd *s)
{
	return s && s->lost;
}

static int dismiss(struct spmd *s)
{
	struct greeting nothing = { .version = OPT_VERSION };
	struct order end = { .act = END };

	return s->begun ? ranks_give(s->ranks, &end, sizeof end) : ranks_give(s->ranks, &nothing, sizeof nothing);
}

void spmd_close(struct spmd *s)
{
	if (!s)
		return;
	if (!s->lost)
		(void)!dismiss(s);
	let_go(s);
	free(s);
}

/* ---- the others ---- */

static int grow(struct spmd *s, size_t ids)
{
	uint32_t *more;

	if (ids <= s->room)
		return 0;
	more = realloc(s->ids, ids * sizeof *more);
	if (!more)
		return err_nomem();
	s->ids = more;
	s->room = ids;
	return 0;
}

static int serve(struct spmd *s)
{
	struct order order;
	int rc;

	for (;;) {
		if ((rc = ranks_give(s->ranks, &order, sizeof order)) < 0)
			return rc;
		if (order.act == END)
			return 0;
		if ((rc = grow(s, (size_t)order.B * (order.T + 1))) < 0 ||
			(rc = step(s, s->ids, order.B, order.T)) < 0)
			return rc;
	}
}

int spmd_serve(struct ranks *r, struct pool *pool)
{
	struct greeting hello;
	struct spmd s = { .ranks = r };
	struct model *m = NULL;
	int rc = ranks_give(r, &hello, sizeof hello);

	if (rc == 0 && strncmp(hello.version, OPT_VERSION, sizeof hello.version) != 0)
		rc = err_set(ERR_USAGE, "rank %d is version " OPT_VERSION ", the first another: install the same "
			"everywhere", ranks_self(r));
	if (rc == 0 && hello.context > 0)
		rc = model_open(&m, &hello.c, hello.context, hello.use, pool);
	if (rc == 0 && m)
		rc = hold(&s, m, &hello.c);
	if (rc == 0 && m)
		rc = serve(&s);
	let_go(&s);
	model_close(m);
	return rc;
}
