#include "round/group.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/model_conf.h"

#define GROUP_ROOM ((size_t)48 << 18) /* floats in all arrays: 48 MiB */
#define GROUP_SLICES 8                /* longest array, in slices */
#define BLOCK MERGE_BLOCK

_Static_assert(FRAME_ELEMS == MERGE_UNIT, "units are slices, and math/outer_step sums as is done here");

/* One answer's part of one unit. */
struct group_part {
	double norm2, dot;
	uint64_t bad; /* the first element that makes no sense, with its value; UINT64_MAX: none */
	float value;
	int code;     /* why it could not be read, with its sentence; 0: it was */
	char *why;
};

struct group_worker {
	struct frame_scratch *scratch;
	double *coef, *norm, *share; /* (m) */
	double *sum;         /* (FRAME_ELEMS) */
	float *v;            /* (FRAME_ELEMS) */
};

static struct answer_file *answer_file(const struct group *g, size_t k)
{
	return &g->conf.answers->file[g->conf.answers->order[k]];
}

static struct answer *answer(const struct group *g, size_t k)
{
	return &g->conf.answers->v[g->conf.answers->order[k]];
}

float *group_array(const struct group *g, size_t k)
{
	return g->room + k * g->length;
}

static struct group_part *part(const struct group *g, size_t unit, size_t k)
{
	return &g->part[unit * g->m + k];
}

static bool ends_tensor(const struct group *g, const struct group_unit *u)
{
	return u->first + u->n == g->layout->v[u->tensor].count;
}

/* ---- memory ---- */

static int open_worker(struct group_worker *w, size_t m)
{
	w->coef = calloc(m, sizeof *w->coef);
	w->norm = calloc(m, sizeof *w->norm);
	w->share = calloc(m, sizeof *w->share);
	w->sum = calloc(FRAME_ELEMS, sizeof *w->sum);
	w->v = calloc(FRAME_ELEMS, sizeof *w->v);
	if (!w->coef || !w->norm || !w->share || !w->sum || !w->v)
		return err_nomem();
	return frame_scratch_new(&w->scratch);
}

static size_t at_most(size_t x, size_t most)
{
	return x < most ? x : most;
}

/* Sums need two arrays, even of one answer. */
static int open_arrays(struct group *g)
{
	size_t arrays = g->m > 2 ? g->m : 2, most = (size_t)GROUP_SLICES * FRAME_ELEMS;
	uint64_t total = tensors_total(g->layout);

	if (total < most)
		most = (size_t)total;
	g->hold = at_most(GROUP_ROOM / arrays, most);
	if (g->hold < at_most(FRAME_ELEMS, most))
		g->hold = 0;
	g->pieces = at_most(GROUP_ROOM / 2, most);
	g->room = malloc((g->hold ? arrays * g->hold : 2 * g->pieces) * sizeof *g->room);
	if (g->hold)
		g->pieces = arrays * g->hold / 2;
	g->part = calloc(GROUP_UNITS * g->m, sizeof *g->part);
	g->tally.dot = calloc(g->m, sizeof *g->tally.dot);
	g->tally.all_dot = calloc(g->m, sizeof *g->tally.all_dot);
	g->rule = calloc(g->layout->n + 1, sizeof *g->rule);
	g->scale = calloc(g->layout->n + 1, sizeof *g->scale);
	if (!g->room || !g->part || !g->tally.dot || !g->tally.all_dot || !g->rule || !g->scale)
		return err_nomem();
	return 0;
}

int group_open(struct group *g, const struct group_conf *c)
{
	int threads = pool_threads(c->pool), rc;

	*g = (struct group){ .conf = *c, .layout = &frame_header(c->base)->tensors,
		.m = c->answers->accepted };
	if ((rc = open_arrays(g)) < 0)
		return rc;
	g->worker = calloc((size_t)threads, sizeof *g->worker);
	if (!g->worker)
		return err_nomem();
	for (int i = 0; i < threads && rc == 0; i++)
		rc = open_worker(&g->worker[i], g->m);
	for (size_t t = 0; t < g->layout->n; t++) {
		bool direct = g->m == 1 || merge_is_table(g->layout->v[t].name);

		g->rule[t] = direct ? MERGE_DIRECT : c->rule;
		g->scale[t] = 1;
	}
	return rc;
}

static void close_worker(struct group_worker *w)
{
	frame_scratch_free(w->scratch);
	free(w->coef);
	free(w->norm);
	free(w->share);
	free(w->sum);
	free(w->v);
}

void group_close(struct group *g)
{
	for (int i = 0; g->worker && i < pool_threads(g->conf.pool); i++)
		close_worker(&g->worker[i]);
	for (size_t i = 0; g->part && i < GROUP_UNITS * g->m; i++)
		free(g->part[i].why);
	free(g->worker);
	free(g->room);
	free(g->part);
	free(g->tally.dot);
	free(g->tally.all_dot);
	free(g->rule);
	free(g->scale);
	*g = (struct group){ .room = NULL };
}

/* ---- filling ---- */

bool group_can_hold(const struct group *g, uint32_t tensor)
{
	return g->hold && (g->rule[tensor] == MERGE_DIRECT || g->layout->v[tensor].count <= g->hold);
}

/* Elements of the unit at a place. */
static uint64_t unit_size(const struct group *g, const struct group_place *at)
{
	uint64_t left = g->layout->v[at->tensor].count - at->first;

	return left < FRAME_ELEMS ? left : FRAME_ELEMS;
}

static void empty(struct group *g, size_t length)
{
	g->length = length;
	g->units = g->elems = 0;
}

static void take_unit(struct group *g, struct group_place *at)
{
	struct group_unit *u = &g->unit[g->units++];

	*u = (struct group_unit){ .tensor = at->tensor, .n = (uint32_t)unit_size(g, at),
		.first = at->first, .at = g->elems };
	g->elems += u->n;
	at->first += u->n;
	if (at->first == g->layout->v[at->tensor].count)
		*at = (struct group_place){ at->tensor + 1, 0 };
}

/* The scale of RDA is of the whole tensor, so its values are held until its end. */
static bool fits(const struct group *g, const struct group_place *at)
{
	uint64_t count = g->layout->v[at->tensor].count, room = g->length - g->elems;

	if (!group_can_hold(g, at->tensor) || unit_size(g, at) > room)
		return false;
	if (g->rule[at->tensor] == MERGE_DIRECT || at->first > 0)
		return true;
	return count <= room && (count - 1) / FRAME_ELEMS < GROUP_UNITS - g->units;
}

void group_fill(struct group *g, struct group_place *at)
{
	empty(g, g->hold);
	while (at->tensor < g->layout->n && g->units < GROUP_UNITS && fits(g, at))
		take_unit(g, at);
}

void group_fill_pieces(struct group *g, struct group_place *at)
{
	uint32_t tensor = at->tensor;

	empty(g, g->pieces);
	while (at->tensor == tensor && g->units < GROUP_UNITS &&
		unit_size(g, at) <= g->length - g->elems)
		take_unit(g, at);
}

/* ---- reading ---- */

/* The part of a verified slice that lies in a unit: n elements, from element `from` of the slice and
 * `to` of the unit. Slices of other encodings have other lengths. */
struct overlap {
	struct frame_slice slice;
	size_t from, to, n;
};

/* The next overlap from element *at of the unit on; 1, or 0 when there are no more. */
static int next_overlap(struct overlap *o, const struct frame_reader *r,
	struct frame_scratch *scratch, const struct group_unit *u, size_t *at)
{
	int rc;

	if (*at == u->n)
		return 0;
	if ((rc = frame_slice_with(r, scratch, u->tensor, u->first + *at, &o->slice)) < 0)
		return rc;
	o->to = *at;
	o->from = (size_t)(u->first + *at - o->slice.first);
	o->n = at_most(o->slice.n - o->from, u->n - *at);
	*at += o->n;
	return 1;
}

static const float *overlap_rest(const struct overlap *o)
{
	return o->slice.rest ? o->slice.rest + o->from : NULL;
}

static void measure(struct group_part *p, const struct group_unit *u, const struct overlap *o)
{
	const float *value = o->slice.value + o->from;
	size_t bad;

	p->norm2 += merge_norm2(value, overlap_rest(o), o->n, &bad);
	if (bad < o->n && p->bad == UINT64_MAX) {
		p->bad = u->first + o->to + bad;
		p->value = value[bad];
	}
}

static void hold(struct group *g, const struct group_unit *u, size_t k, const struct overlap *o)
{
	float *value = group_array(g, k) + u->at + o->to, *rest = group_array(g, 1) + u->at + o->to;

	memcpy(value, o->slice.value + o->from, o->n * sizeof *value);
	if (g->m > 1)
		return;
	if (o->slice.rest)
		memcpy(rest, overlap_rest(o), o->n * sizeof *rest);
	else
		memset(rest, 0, o->n * sizeof *rest);
}

/* Some answers' parts of one unit, which are read together. */
struct reading {
	struct group *g;
	const struct group_unit *unit;
	struct group_part *part[FRAME_MANY];
	size_t k[FRAME_MANY], at[FRAME_MANY], n;
	bool held;
};

static void use_overlap(const struct reading *r, size_t j, const struct overlap *o)
{
	measure(r->part[j], r->unit, o);
	if (r->held)
		hold(r->g, r->unit, r->k[j], o);
}

/* Errors are noted: which of several comes first depends on the threads, which is told must not. */
static void note_error(struct group_part *p, int code)
{
	p->code = code;
	if (!(p->why = strdup(err_text())))
		p->code = ERR_NOMEM;
}

static void take_first(void *ctx, size_t j, int rc, const struct frame_slice *s)
{
	struct reading *r = ctx;
	struct overlap o = { .to = 0 };

	if (rc < 0) {
		note_error(r->part[j], rc);
		return;
	}
	o.slice = *s;
	o.from = (size_t)(r->unit->first - s->first);
	o.n = at_most(s->n - o.from, r->unit->n);
	use_overlap(r, j, &o);
	r->at[j] = o.n;
}

/* What the first slices left over: nothing, where they are as long as ours. */
static void read_rest(struct reading *r, size_t j, struct frame_scratch *scratch)
{
	const struct frame_reader *from = answer_file(r->g, r->k[j])->reader;
	struct overlap o;
	int rc;

	if (r->part[j]->code < 0)
		return;
	while ((rc = next_overlap(&o, from, scratch, r->unit, &r->at[j])) > 0)
		use_overlap(r, j, &o);
	if (rc < 0)
		note_error(r->part[j], rc);
}

static void add_reading(struct reading *r, size_t unit, size_t k)
{
	struct group_part *p = part(r->g, unit, k);

	if (answer(r->g, k)->verdict != VERDICT_ACCEPTED)
		return;
	free(p->why);
	*p = (struct group_part){ .bad = UINT64_MAX };
	r->part[r->n] = p;
	r->k[r->n] = k;
	r->at[r->n++] = 0;
}

/* Jobs go unit by unit, and in a unit FRAME_MANY answers at a time. */
static size_t readings(const struct group *g)
{
	return (g->m + FRAME_MANY - 1) / FRAME_MANY;
}

static int read_some(struct group *g, size_t job, int thread, bool held)
{
	size_t unit = job / readings(g), first = job % readings(g) * FRAME_MANY;
	struct reading r = { .g = g, .unit = &g->unit[unit], .held = held };
	const struct frame_reader *from[FRAME_MANY];
	struct frame_scratch *scratch = g->worker[thread].scratch;
	int rc;

	if (r.unit->read)
		return 0;
	for (size_t k = first; k < g->m && k < first + FRAME_MANY; k++)
		add_reading(&r, unit, k);
	for (size_t j = 0; j < r.n; j++)
		from[j] = answer_file(g, r.k[j])->reader;
	if ((rc = frame_slices_with(from, r.n, scratch, r.unit->tensor, r.unit->first, take_first,
		&r)) < 0)
		return rc;
	for (size_t j = 0; j < r.n; j++)
		read_rest(&r, j, scratch);
	return 0;
}

static int hold_some(void *ctx, int i, int thread)
{
	return read_some(ctx, (size_t)i, thread, true);
}

static int measure_some(void *ctx, int i, int thread)
{
	return read_some(ctx, (size_t)i, thread, false);
}

/* What was found in one part: length of the tensor, or a reason to refuse the answer. */
static int judge_part(struct group *g, const struct group_unit *u, const struct group_part *p, size_t k)
{
	const char *tensor = g->layout->v[u->tensor].name;
	double *norm = &answer_file(g, k)->norm[u->tensor];

	if (answer(g, k)->verdict != VERDICT_ACCEPTED)
		return 0;
	*norm = (u->first == 0 ? 0 : *norm) + p->norm2;
	if (ends_tensor(g, u))
		*norm = sqrt(*norm);
	if (p->code == 0 && p->bad == UINT64_MAX)
		return 0;
	g->spoiled = true;
	if (p->code < 0) {
		err_set((enum err)p->code, "%s", p->why ? p->why : "out of memory");
		return answers_refuse(g->conf.answers, g->conf.answers->order[k], p->code);
	}
	guard_refuse(answer(g, k), VERDICT_NOT_FINITE, "tensor '%s' element %" PRIu64 " is %g", tensor,
		p->bad, (double)p->value);
	return 0;
}

static int read_units(struct group *g, int (*job)(void *ctx, int i, int thread))
{
	int rc = pool_run(g->conf.pool, job, g, (int)(g->units * readings(g)));

	for (size_t i = 0; i < g->units && rc == 0; i++) {
		for (size_t k = 0; k < g->m && rc == 0 && !g->unit[i].read; k++)
			rc = judge_part(g, &g->unit[i], part(g, i, k), k);
		g->unit[i].read = true;
	}
	return rc;
}

int group_read(struct group *g)
{
	return read_units(g, hold_some);
}

int group_measure(struct group *g)
{
	return read_units(g, measure_some);
}

/* ---- summing ---- */

static void set_shares(const struct group *g, struct group_worker *w, uint32_t tensor)
{
	const struct answers *as = g->conf.answers;
	uint32_t layer, expert;

	if (g->conf.experts == MERGE_BY_ROUTED && model_expert(g->layout->v[tensor].name, &layer, &expert) &&
		answers_routed(as, w->share, tensor))
		return;
	memcpy(w->share, as->share, g->m * sizeof *w->share);
}

static void set_coefs(const struct group *g, struct group_worker *w, uint32_t tensor)
{
	set_shares(g, w, tensor);
	for (size_t k = 0; k < g->m; k++)
		w->norm[k] = answer_file(g, k)->norm[tensor];
	merge_coefs(w->coef, g->rule[tensor], w->share, w->norm, g->m);
}

/* A block of a finished sum. */
static void finish_block(struct group *g, struct group_unit *u, size_t b, const double *sum, size_t n)
{
	u->norm2 += merge_sum2(sum, n);
	if (g->m > 1) /* one answer is its sum already */
		merge_split(group_array(g, 0) + u->at + b, group_array(g, 1) + u->at + b, sum, n);
}

static int sum_held(void *ctx, int i, int thread)
{
	struct group *g = ctx;
	struct group_unit *u = &g->unit[i];
	struct group_worker *w = &g->worker[thread];

	if (u->summed)
		return 0;
	set_coefs(g, w, u->tensor);
	u->norm2 = 0;
	for (size_t b = 0; b < u->n; b += BLOCK) {
		size_t n = at_most(BLOCK, u->n - b), at = u->at + b;

		merge_clear(w->sum, n);
		for (size_t k = 0; k < g->m; k++)
			merge_add(w->sum, group_array(g, k) + at, w->coef[k], n);
		for (size_t k = 0; k < g->m && g->conf.cosine; k++)
			part(g, (size_t)i, k)->dot += merge_dot(group_array(g, k) + at, w->sum, n);
		finish_block(g, u, b, w->sum, n);
	}
	u->summed = true;
	return 0;
}

/* Their values being read once more is the price of the cosines of what cannot be held. */
static int dot_streamed(struct group *g, size_t unit, struct group_worker *w)
{
	struct overlap o;
	int rc = 0;

	for (size_t k = 0; k < g->m && rc == 0; k++) {
		struct group_part *p = part(g, unit, k);
		size_t at = 0;

		p->dot = 0;
		while ((rc = next_overlap(&o, answer_file(g, k)->reader, w->scratch, &g->unit[unit],
			&at)) > 0)
			p->dot += merge_dot(o.slice.value + o.from, w->sum + o.to, o.n);
	}
	return rc;
}

static int sum_streamed(void *ctx, int i, int thread)
{
	struct group *g = ctx;
	struct group_unit *u = &g->unit[i];
	struct group_worker *w = &g->worker[thread];
	struct overlap o;
	int rc = 0;

	set_coefs(g, w, u->tensor);
	merge_clear(w->sum, u->n);
	for (size_t k = 0; k < g->m && rc == 0; k++) {
		size_t at = 0;

		while ((rc = next_overlap(&o, answer_file(g, k)->reader, w->scratch, u, &at)) > 0)
			merge_add(w->sum + o.to, o.slice.value + o.from, w->coef[k], o.n);
	}
	u->norm2 = 0;
	for (size_t b = 0; b < u->n; b += BLOCK)
		finish_block(g, u, b, w->sum + b, at_most(BLOCK, u->n - b));
	return rc == 0 && g->conf.cosine ? dot_streamed(g, (size_t)i, w) : rc;
}

/* Adds a unit to what is known of its tensor's sum. */
static void count_unit(struct group *g, size_t i)
{
	struct group_unit *u = &g->unit[i];
	struct group_tally *t = &g->tally;

	if (u->first == 0) {
		t->norm2 = 0;
		memset(t->dot, 0, g->m * sizeof *t->dot);
	}
	t->norm2 += u->norm2;
	for (size_t k = 0; k < g->m; k++)
		t->dot[k] += part(g, i, k)->dot;
	u->counted = true;
}

bool group_decide(struct group *g, uint32_t tensor)
{
	struct group_tally *t = &g->tally;
	struct group_worker *w = &g->worker[0];
	double *scale = &g->scale[tensor];

	set_coefs(g, w, tensor);
	if (g->rule[tensor] == MERGE_RDA &&
		!merge_rda_scale(scale, w->share, w->norm, g->m, sqrt(t->norm2))) {
		g->rule[tensor] = MERGE_DIRECT;
		*scale = 1;
		return false;
	}
	t->all_norm2 += *scale * *scale * t->norm2;
	for (size_t k = 0; k < g->m; k++)
		t->all_dot[k] += *scale * t->dot[k];
	return true;
}

/* The sum took the place of what it was made from. */
static int read_again(struct group *g, uint32_t tensor)
{
	for (size_t i = 0; i < g->units; i++)
		if (g->unit[i].tensor == tensor)
			g->unit[i].read = g->unit[i].summed = g->unit[i].counted = false;
	return group_read(g);
}

/* Counts what was summed, in order, up to a tensor that has to be summed again: 1 then. */
static int count_units(struct group *g)
{
	for (size_t i = 0; i < g->units; i++) {
		if (g->unit[i].counted)
			continue;
		count_unit(g, i);
		if (ends_tensor(g, &g->unit[i]) && !group_decide(g, g->unit[i].tensor)) {
			int rc = read_again(g, g->unit[i].tensor);

			return rc < 0 ? rc : 1;
		}
	}
	return 0;
}

int group_sum(struct group *g)
{
	int rc;

	do {
		if ((rc = pool_run(g->conf.pool, sum_held, g, (int)g->units)) < 0)
			return rc;
	} while ((rc = count_units(g)) > 0);
	return rc;
}

int group_sum_pieces(struct group *g)
{
	int rc = pool_run(g->conf.pool, sum_streamed, g, (int)g->units);

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
		memset(w->v, 0, u->n * sizeof *w->v);
		return 0;
	}
	while ((rc = next_overlap(&o, g->conf.prior, w->scratch, u, &at)) > 0)
		memcpy(w->v + o.to, o.slice.value + o.from, o.n * sizeof *w->v);
	return rc;
}

static int check_result(const struct group *g, const struct group_unit *u)
{
	const float *out = group_array(g, 0) + u->at, *v = group_array(g, 1) + u->at;
	size_t bad;

	merge_norm2(out, v, u->n, &bad);
	if (bad == u->n)
		return 0;
	return err_set(ERR_DATA, "%s: tensor '%s' element %" PRIu64 ": merged value is %g, momentum %g",
		frame_name(g->conf.base), g->layout->v[u->tensor].name, u->first + bad,
		(double)out[bad], (double)v[bad]);
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
		float *value = group_array(g, 0) + u->at + o.to, *rest = group_array(g, 1) + u->at + o.to;

		merge_step(value, rest, o.slice.value + o.from, w->v + o.to, value, rest,
			g->scale[u->tensor], &g->conf.outer, o.n);
	}
	return rc < 0 ? rc : check_result(g, u);
}

int group_step(struct group *g)
{
	return pool_run(g->conf.pool, step_unit, g, (int)g->units);
}
