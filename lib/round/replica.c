#include "round/replica.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "round/routed.h"
#include "round/rundir.h"

/* Of a layer: all of them are somewhere. */
static uint32_t count_experts(const struct fragments *cut)
{
	uint32_t most = 0;

	for (unsigned p = 0; p < cut->n; p++) {
		uint32_t n = routed_experts(&cut->v[p].layout);

		most = n > most ? n : most;
	}
	return most;
}

static int open_routed(struct replica_routed *c, const struct fragments *cut)
{
	const uint32_t experts = count_experts(cut);

	if (!experts)
		return 0;
	c->start = calloc(cut->n, sizeof *c->start);
	if (!c->start)
		return err_nomem();
	for (unsigned p = 0; p < cut->n; c->tensors += cut->v[p++].n)
		c->start[p] = c->tensors;
	c->route = calloc(c->tensors, sizeof *c->route);
	c->work = calloc(c->tensors, sizeof *c->work);
	c->since = calloc(c->tensors, sizeof *c->since);
	c->snap = calloc(c->tensors, sizeof *c->snap);
	if (!c->route || !c->work || !c->since || !c->snap)
		return err_nomem();
	for (unsigned p = 0; p < cut->n; p++)
		routed_map(c->route + c->start[p], &cut->v[p].layout, experts);
	return 0;
}

static void close_routed(struct replica_routed *c)
{
	free(c->start);
	free(c->route);
	free(c->work);
	free(c->since);
	free(c->snap);
}

int replica_open(struct replica *r, const struct fragments *cut, float *params,
	const struct adopt_rule *rule)
{
	uint64_t n = 0;

	*r = (struct replica){ .cut = cut, .params = params, .rule = *rule };
	r->start = calloc(cut->n, sizeof *r->start);
	r->part = calloc(cut->n, sizeof *r->part);
	if (!r->start || !r->part)
		return err_nomem();
	for (unsigned p = 0; p < cut->n; n += cut->v[p++].elems)
		r->start[p] = n;
	r->base = calloc(n, sizeof *r->base);
	r->snap = calloc(n, sizeof *r->snap);
	return r->base && r->snap ? open_routed(&r->routed, cut) : err_nomem();
}

void replica_close(struct replica *r)
{
	free(r->start);
	free(r->part);
	free(r->base);
	free(r->snap);
	close_routed(&r->routed);
	*r = (struct replica){ 0 };
}

const float *replica_base(const struct replica *r, unsigned p)
{
	return r->base + r->start[p];
}

const float *replica_snap(const struct replica *r, unsigned p)
{
	return r->snap + r->start[p];
}

static size_t bytes_of(const struct replica *r, unsigned p)
{
	return r->cut->v[p].elems * sizeof(float);
}

/* ---- tokens of experts ---- */

/* from: another of the arrays; NULL: zeros. */
static void set_counts(struct replica *r, unsigned p, uint64_t *to, const uint64_t *from)
{
	const size_t n = r->cut->v[p].n, at = r->routed.route ? r->routed.start[p] : 0;

	if (r->routed.route && from)
		memcpy(to + at, from + at, n * sizeof *to);
	else if (r->routed.route)
		memset(to + at, 0, n * sizeof *to);
}

static void count_routed(struct replica *r, unsigned p, const uint64_t *routed)
{
	struct replica_routed *c = &r->routed;
	const size_t n = r->cut->v[p].n;

	if (!c->route || !routed)
		return;
	routed_add(c->work + c->start[p], c->route + c->start[p], routed, n);
	if (r->part[p].pending)
		routed_add(c->since + c->start[p], c->route + c->start[p], routed, n);
}

const uint64_t *replica_snap_routed(const struct replica *r, unsigned p)
{
	const struct replica_routed *c = &r->routed;

	return c->route && !r->part[p].unsnapped ? c->snap + c->start[p] : NULL;
}

/* ---- the beginning ---- */

void replica_restore(struct replica *r, unsigned p, const struct beat_fragment *books,
	const digest *base_id, const uint64_t *routed)
{
	struct replica_part *part = &r->part[p];

	*part = (struct replica_part){ .answered = books->answered, .lost = books->lost,
		.round = books->round };
	part->base.version = books->version;
	part->base.id = *base_id;
	part->work.steps = books->steps;
	part->work.tokens = books->tokens;
	part->uncounted = books->steps > 0 && !routed;
	if (r->routed.route && routed && books->steps > 0)
		memcpy(r->routed.work + r->routed.start[p], routed, r->cut->v[p].n * sizeof *routed);
}

static void clear_work(struct replica *r, unsigned p)
{
	r->part[p].work = (struct replica_work){ 0 };
	r->part[p].uncounted = false;
	set_counts(r, p, r->routed.work, NULL);
}

static void lose_work(struct replica *r, unsigned p)
{
	r->part[p].lost += r->part[p].work.tokens;
	clear_work(r, p);
}

void replica_settle(struct replica *r)
{
	for (unsigned p = 0; p < r->cut->n; p++) {
		struct replica_part *part = &r->part[p];

		if (part->answered > r->trained) /* no books of ours; never more than was trained */
			part->answered = r->trained;
		if (part->work.tokens > r->trained - part->answered)
			clear_work(r, p);
		part->lost = r->trained - part->answered - part->work.tokens;
	}
}

void replica_load(struct replica *r, unsigned p, const struct replica_version *v, const float *value,
	bool keep)
{
	struct replica_part *part = &r->part[p];

	memcpy(r->base + r->start[p], value, bytes_of(r, p));
	if (!keep) {
		fragment_scatter(&r->cut->v[p], r->params, value);
		lose_work(r, p);
		if (v->step > r->step)
			r->step = v->step;
	}
	part->base = *v;
	part->kept = part->pending = false;
}

void replica_recall(struct replica *r, unsigned p, const float *snap)
{
	struct replica_part *part = &r->part[p];

	memcpy(r->snap + r->start[p], snap, bytes_of(r, p));
	part->kept = true;
	part->at = r->steps - part->work.steps;
}

/* ---- training ---- */

static void count(struct replica_work *w, uint64_t tokens, double loss)
{
	if (w->losses++ == 0)
		w->loss_first = loss;
	w->loss_last = loss;
	w->loss_sum += loss;
	w->steps++;
	w->tokens += tokens;
}

void replica_step(struct replica *r, uint64_t tokens, double loss, const uint64_t *routed)
{
	r->step++;
	r->steps++;
	r->trained += tokens;
	r->of_all += tokens;
	for (unsigned p = 0; p < r->cut->n; p++) {
		count(&r->part[p].work, tokens, loss);
		if (r->part[p].pending)
			count(&r->part[p].since, tokens, loss);
		count_routed(r, p, routed);
	}
}

bool replica_differs(const struct replica *r, unsigned p, uint64_t version, const digest *id)
{
	const struct replica_version *base = &r->part[p].base;

	return base->version != version || memcmp(&base->id, id, sizeof *id) != 0;
}

bool replica_may_answer(const struct replica *r, unsigned p, uint64_t round, uint64_t version)
{
	const struct replica_part *part = &r->part[p];

	return part->base.version == version && round > part->round && !part->pending &&
	       part->work.steps > 0;
}

void replica_snapshot(struct replica *r, unsigned p, uint64_t round, struct meta *m)
{
	struct replica_part *part = &r->part[p];
	const struct replica_work *w = &part->work;

	fragment_gather(&r->cut->v[p], r->snap + r->start[p], r->params);
	part->pending = true;
	part->asked = round;
	part->at = r->steps;
	part->since = (struct replica_work){ 0 };
	set_counts(r, p, r->routed.snap, r->routed.work);
	set_counts(r, p, r->routed.since, NULL);
	part->kept = false;
	part->unsnapped = part->uncounted;
	m->round = round;
	m->version = part->base.version;
	sig_hex(m->base, part->base.id.b, SIG_DIGEST);
	rundir_fragment_name(m->fragment, p);
	m->step = r->step;
	m->steps = w->steps;
	m->tokens = w->tokens;
	m->trained = r->trained;
	m->answered = part->answered + w->tokens;
	m->loss_first = w->loss_first;
	m->loss_last = w->loss_last;
	m->loss_mean = w->losses ? w->loss_sum / (double)w->losses : 0;
}

void replica_answered(struct replica *r, unsigned p)
{
	struct replica_part *part = &r->part[p];

	if (!part->pending)
		return;
	part->answered += part->work.tokens - part->since.tokens;
	part->work = part->since;
	part->uncounted = false;
	set_counts(r, p, r->routed.work, r->routed.since);
	part->round = part->asked;
	part->pending = false;
	part->kept = true;
}

void replica_dropped(struct replica *r, unsigned p)
{
	r->part[p].pending = false;
}

/* theta <- Theta + share (theta - from): what was trained since then stays, or some of it. */
static void rebase(struct replica *r, unsigned p, const float *value, const float *from, float share)
{
	const struct fragment *f = &r->cut->v[p];

	for (size_t t = 0; t < f->n; from += f->layout.v[t].count, value += f->layout.v[t++].count) {
		float *local = r->params + f->offset[t];

		for (uint64_t i = 0; i < f->layout.v[t].count; i++)
			local[i] = value[i] + share * (local[i] - from[i]);
	}
}

/* What the new version does not hold of what p has trained begins here, and this much of it stays; NULL: nobody knows,
 * when an answer is out whose snapshot is not in memory. */
static const float *rebase_from(const struct replica *r, unsigned p, const struct replica_version *v, float *share)
{
	const struct replica_part *part = &r->part[p];
	bool answered = part->round > part->base.round;

	if (!answered || (v->version == part->base.version + 1 && !v->counted)) {
		*share = 1 / (1 + (float)v->answers);
		return replica_base(r, p);
	}
	*share = 1;
	return part->kept ? replica_snap(r, p) : NULL;
}

/* theta <- A theta + (1 - A) Theta */
static void mix(struct replica *r, unsigned p, const float *value, double share)
{
	const struct fragment *f = &r->cut->v[p];
	const float a = (float)share;

	for (size_t t = 0; t < f->n; value += f->layout.v[t++].count) {
		float *local = r->params + f->offset[t];

		for (uint64_t i = 0; i < f->layout.v[t].count; i++)
			local[i] = a * local[i] + (1 - a) * value[i];
	}
}

static void follow_step(struct replica *r, const struct replica_part *part,
	const struct replica_version *v)
{
	if (part->kept && part->round == v->round)
		r->step = v->step + (r->steps - part->at);
	else if (v->step > r->step)
		r->step = v->step;
}

void replica_adopt(struct replica *r, unsigned p, const struct replica_version *v, const float *value)
{
	struct replica_part *part = &r->part[p];
	float share = 0;
	const float *from = r->rule.how == ADOPT_REBASE ? rebase_from(r, p, v, &share) : NULL;

	replica_dropped(r, p);
	follow_step(r, part, v);
	if (from) {
		rebase(r, p, value, from, share);
	} else {
		if (r->rule.how == ADOPT_MIX)
			mix(r, p, value, r->rule.mix);
		else
			fragment_scatter(&r->cut->v[p], r->params, value);
		lose_work(r, p);
	}
	memcpy(r->base + r->start[p], value, bytes_of(r, p));
	part->base = *v;
	part->kept = false;
}

/* ---- what can be seen ---- */

void replica_beat(const struct replica *r, struct beat *b)
{
	b->step = r->step;
	b->steps = r->steps;
	b->trained = r->trained;
	for (unsigned p = 0; p < r->cut->n; p++) {
		const struct replica_part *part = &r->part[p];

		b->fragment[p] = (struct beat_fragment){ .version = part->base.version,
			.steps = part->work.steps, .tokens = part->work.tokens, .round = part->round,
			.answered = part->answered, .lost = part->lost };
	}
}

bool replica_routed(const struct replica *r, unsigned p, uint64_t *out)
{
	const struct replica_routed *c = &r->routed;

	if (!c->route || r->part[p].uncounted)
		return false;
	memcpy(out, c->work + c->start[p], r->cut->v[p].n * sizeof *out);
	return true;
}
