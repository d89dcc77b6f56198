#include "round/group.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_SLICES 6 /* elements of a group, in slices; more threads have more */

struct group_worker {
	struct frame_scratch *scratch;
	double *coef, *norm; /* (accepted) */
	float *value;        /* (accepted, FRAME_ELEMS): what is being summed; NULL without cosine */
};

/* Lookup tables, where an element is touched by few tokens: its values say more than its direction. */
static bool is_table(const char *name)
{
	return strcmp(name, "model.embed_tokens.weight") == 0 || strcmp(name, "lm_head.weight") == 0;
}

static size_t accepted(const struct group *g)
{
	return g->conf.answers->accepted;
}

static const struct answer_file *answer_file(const struct group *g, size_t k)
{
	return &g->conf.answers->file[g->conf.answers->order[k]];
}

/* ---- memory ---- */

/* One answer alone is itself, remainders and all; of several, remainders are a part of the sum. */
static bool keeps_rest(const struct group *g)
{
	const struct tensors *ts;

	if (accepted(g) != 1)
		return false;
	ts = &frame_header(answer_file(g, 0)->reader)->tensors;
	for (size_t t = 0; t < ts->n; t++)
		if (ts->v[t].enc == ENC_F32R)
			return true;
	return false;
}

static int open_worker(struct group_worker *w, size_t m, bool cosine)
{
	w->coef = calloc(m, sizeof *w->coef);
	w->norm = calloc(m, sizeof *w->norm);
	w->value = cosine ? calloc(m, FRAME_ELEMS * sizeof *w->value) : NULL;
	if (!w->coef || !w->norm || (cosine && !w->value))
		return err_nomem();
	return frame_scratch_new(&w->scratch);
}

static int open_arrays(struct group *g)
{
	size_t m = accepted(g);

	g->sum = calloc(g->most, sizeof *g->sum);
	g->rest = keeps_rest(g) ? calloc(g->most, sizeof *g->rest) : NULL;
	g->out = calloc(g->most, sizeof *g->out);
	g->v = calloc(g->most, sizeof *g->v);
	g->dot = g->conf.cosine ? calloc(GROUP_UNITS * m, sizeof *g->dot) : NULL;
	g->tally.dot = calloc(m, sizeof *g->tally.dot);
	g->tally.all_dot = calloc(m, sizeof *g->tally.all_dot);
	g->rule = calloc(g->layout->n + 1, sizeof *g->rule);
	g->scale = calloc(g->layout->n + 1, sizeof *g->scale);
	if (!g->sum || (keeps_rest(g) && !g->rest) || !g->out || !g->v || (g->conf.cosine && !g->dot) ||
		!g->tally.dot || !g->tally.all_dot || !g->rule || !g->scale)
		return err_nomem();
	return 0;
}

int group_open(struct group *g, const struct group_conf *c)
{
	int threads = pool_threads(c->pool), rc;

	*g = (struct group){ .conf = *c, .layout = &frame_header(c->base)->tensors };
	g->most = (size_t)(threads < GROUP_SLICES ? GROUP_SLICES : threads < GROUP_UNITS ? threads :
		GROUP_UNITS) * FRAME_ELEMS;
	if ((rc = open_arrays(g)) < 0)
		return rc;
	g->worker = calloc((size_t)threads, sizeof *g->worker);
	if (!g->worker)
		return err_nomem();
	for (int i = 0; i < threads && rc == 0; i++)
		rc = open_worker(&g->worker[i], accepted(g), c->cosine);
	for (size_t t = 0; t < g->layout->n; t++) {
		bool direct = accepted(g) == 1 || is_table(g->layout->v[t].name);

		g->rule[t] = direct ? MERGE_DIRECT : c->rule;
		g->scale[t] = 1;
	}
	return rc;
}

void group_close(struct group *g)
{
	for (int i = 0; g->worker && i < pool_threads(g->conf.pool); i++) {
		frame_scratch_free(g->worker[i].scratch);
		free(g->worker[i].coef);
		free(g->worker[i].norm);
		free(g->worker[i].value);
	}
	free(g->worker);
	free(g->sum);
	free(g->rest);
	free(g->out);
	free(g->v);
	free(g->dot);
	free(g->tally.dot);
	free(g->tally.all_dot);
	free(g->rule);
	free(g->scale);
}

/* ---- filling ---- */

bool group_too_large(const struct group *g, uint32_t tensor)
{
	return g->rule[tensor] == MERGE_RDA && g->layout->v[tensor].count > g->most;
}

/* Elements of the unit at a place. */
static uint64_t unit_size(const struct group *g, const struct group_place *at)
{
	uint64_t left = g->layout->v[at->tensor].count - at->first;

	return left < FRAME_ELEMS ? left : FRAME_ELEMS;
}

static void empty(struct group *g)
{
	g->units = 0;
	g->elems = 0;
}

static void take_unit(struct group *g, struct group_place *at)
{
	struct group_unit *u = &g->unit[g->units++];

	*u = (struct group_unit){ .tensor = at->tensor, .n = (uint32_t)unit_size(g, at), .first = at->first,
		.at = g->elems };
	g->elems += u->n;
	at->first += u->n;
	if (at->first == g->layout->v[at->tensor].count)
		*at = (struct group_place){ at->tensor + 1, 0 };
}

void group_fill(struct group *g, struct group_place *at)
{
	empty(g);
	while (at->tensor < g->layout->n && g->units < GROUP_UNITS) {
		uint64_t room = g->most - g->elems, count = g->layout->v[at->tensor].count;
		bool whole = g->rule[at->tensor] == MERGE_RDA && at->first == 0;

		if (unit_size(g, at) > room || (whole && (count > room ||
			(count + FRAME_ELEMS - 1) / FRAME_ELEMS > GROUP_UNITS - g->units)))
			break;
		take_unit(g, at);
	}
}

void group_fill_piece(struct group *g, struct group_place *at)
{
	uint32_t tensor = at->tensor;

	empty(g);
	while (at->tensor == tensor && g->units < GROUP_UNITS && unit_size(g, at) <= g->most - g->elems)
		take_unit(g, at);
}

/* ---- summing ---- */

static void set_coefs(const struct group *g, struct group_worker *w, uint32_t tensor)
{
	for (size_t k = 0; k < accepted(g); k++)
		w->norm[k] = answer_file(g, k)->norm[tensor];
	merge_coefs(w->coef, g->rule[tensor], g->conf.answers->share, w->norm, accepted(g));
}

/* The part of a verified slice that lies in a unit: n elements, from element `from` of the slice and `to` of
 * the unit. Slices of other encodings have other lengths. */
struct overlap {
	struct frame_slice slice;
	size_t from, to, n;
};

/* The next overlap from element *at of the unit on; 1, or 0 when there are no more. */
static int next_overlap(struct overlap *o, const struct frame_reader *r, struct frame_scratch *scratch,
	const struct group_unit *u, size_t *at)
{
	int rc;

	if (*at == u->n)
		return 0;
	if ((rc = frame_slice_with(r, scratch, u->tensor, u->first + *at, &o->slice)) < 0)
		return rc;
	o->to = *at;
	o->from = (size_t)(u->first + *at - o->slice.first);
	o->n = o->slice.n - o->from < u->n - *at ? o->slice.n - o->from : u->n - *at;
	*at += o->n;
	return 1;
}

static int add_answer(struct group *g, struct group_worker *w, const struct group_unit *u, size_t k)
{
	struct overlap o;
	size_t at = 0;
	int rc;

	while ((rc = next_overlap(&o, answer_file(g, k)->reader, w->scratch, u, &at)) > 0) {
		const float *value = o.slice.value + o.from;

		merge_add(g->sum + u->at + o.to, g->rest ? g->rest + u->at + o.to : NULL, value,
			o.slice.rest ? o.slice.rest + o.from : NULL, w->coef[k], o.n);
		if (w->value)
			memcpy(w->value + k * FRAME_ELEMS + o.to, value, o.n * sizeof *value);
	}
	return rc;
}

static int sum_unit(void *ctx, int i, int thread)
{
	struct group *g = ctx;
	struct group_unit *u = &g->unit[i];
	struct group_worker *w = &g->worker[thread];
	int rc = 0;

	if (u->summed)
		return 0;
	set_coefs(g, w, u->tensor);
	merge_clear(g->sum + u->at, u->n);
	if (g->rest)
		merge_clear(g->rest + u->at, u->n);
	for (size_t k = 0; k < accepted(g) && rc == 0; k++)
		rc = add_answer(g, w, u, k);
	u->norm2 = merge_sum2(g->sum + u->at, u->n);
	for (size_t k = 0; k < accepted(g) && g->dot; k++)
		g->dot[(size_t)i * accepted(g) + k] =
			merge_dot(w->value + k * FRAME_ELEMS, g->sum + u->at, u->n);
	u->summed = true;
	return rc;
}

/* Adds a unit to what is known of its tensor. */
static void count_unit(struct group *g, size_t i)
{
	struct group_unit *u = &g->unit[i];
	struct group_tally *t = &g->tally;

	if (u->first == 0) {
		t->norm2 = 0;
		memset(t->dot, 0, accepted(g) * sizeof *t->dot);
	}
	t->norm2 += u->norm2;
	for (size_t k = 0; k < accepted(g) && g->dot; k++)
		t->dot[k] += g->dot[i * accepted(g) + k];
	u->counted = true;
}

bool group_decide(struct group *g, uint32_t tensor)
{
	struct group_tally *t = &g->tally;
	double *norm = g->worker[0].norm, *scale = &g->scale[tensor];

	for (size_t k = 0; k < accepted(g); k++)
		norm[k] = answer_file(g, k)->norm[tensor];
	if (g->rule[tensor] == MERGE_RDA &&
		!merge_rda_scale(scale, g->conf.answers->share, norm, accepted(g), sqrt(t->norm2))) {
		g->rule[tensor] = MERGE_DIRECT;
		*scale = 1;
		return false;
	}
	t->all_norm2 += *scale * *scale * t->norm2;
	for (size_t k = 0; k < accepted(g); k++)
		t->all_dot[k] += *scale * t->dot[k];
	return true;
}

static bool ends_tensor(const struct group *g, const struct group_unit *u)
{
	return u->first + u->n == g->layout->v[u->tensor].count;
}

/* Counts what was summed, in order. True when a tensor is to be summed again, by the other rule, before going on. */
static bool count_units(struct group *g)
{
	for (size_t i = 0; i < g->units; i++) {
		if (g->unit[i].counted)
			continue;
		count_unit(g, i);
		if (!ends_tensor(g, &g->unit[i]) || group_decide(g, g->unit[i].tensor))
			continue;
		for (size_t j = 0; j <= i; j++)
			if (g->unit[j].tensor == g->unit[i].tensor)
				g->unit[j].summed = g->unit[j].counted = false;
		return true;
	}
	return false;
}

int group_sum(struct group *g)
{
	do {
		int rc = pool_run(g->conf.pool, sum_unit, g, (int)g->units);

		if (rc < 0)
			return rc;
	} while (count_units(g));
	return 0;
}

int group_sum_piece(struct group *g)
{
	int rc = pool_run(g->conf.pool, sum_unit, g, (int)g->units);

	for (size_t i = 0; i < g->units && rc == 0; i++)
		count_unit(g, i);
	return rc;
}

/* ---- stepping ---- */

static int load_momentum(struct group *g, struct group_worker *w, const struct group_unit *u)
{
	struct overlap o;
	size_t at = 0;
	int rc;

	if (!g->conf.prior) {
		memset(g->v + u->at, 0, u->n * sizeof *g->v);
		return 0;
	}
	while ((rc = next_overlap(&o, g->conf.prior, w->scratch, u, &at)) > 0)
		memcpy(g->v + u->at + o.to, o.slice.value + o.from, o.n * sizeof *g->v);
	return rc;
}

static int check_result(const struct group *g, const struct group_unit *u)
{
	size_t bad;

	merge_norm2(g->out + u->at, g->v + u->at, u->n, &bad);
	if (bad == u->n)
		return 0;
	return err_set(ERR_DATA, "%s: tensor '%s' element %" PRIu64 ": merged value is %g, momentum %g",
		frame_name(g->conf.base), g->layout->v[u->tensor].name, u->first + bad,
		(double)g->out[u->at + bad], (double)g->v[u->at + bad]);
}

static int step_unit(void *ctx, int i, int thread)
{
	struct group *g = ctx;
	const struct group_unit *u = &g->unit[i];
	struct group_worker *w = &g->worker[thread];
	struct overlap o;
	size_t at = 0;
	int rc;

	if ((rc = load_momentum(g, w, u)) < 0)
		return rc;
	while ((rc = next_overlap(&o, g->conf.base, w->scratch, u, &at)) > 0) {
		size_t to = u->at + o.to;

		merge_step(g->out + to, g->v + to, o.slice.value + o.from, g->sum + to,
			g->rest ? g->rest + to : NULL, g->scale[u->tensor], &g->conf.outer, o.n);
	}
	return rc < 0 ? rc : check_result(g, u);
}

int group_step(struct group *g)
{
	return pool_run(g->conf.pool, step_unit, g, (int)g->units);
}
