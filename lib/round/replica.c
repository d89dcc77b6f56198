#include "round/replica.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "round/rundir.h"

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
	return r->base && r->snap ? 0 : err_nomem();
}

void replica_close(struct replica *r)
{
	free(r->start);
	free(r->part);
	free(r->base);
	free(r->snap);
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

/* ---- the beginning ---- */

void replica_restore(struct replica *r, unsigned p, const struct beat_fragment *books,
	const digest *base_id)
{
	struct replica_part *part = &r->part[p];

	*part = (struct replica_part){ .answered = books->answered, .lost = books->lost,
		.round = books->round };
	part->base.version = books->version;
	part->base.id = *base_id;
	part->work.steps = books->steps;
	part->work.tokens = books->tokens;
}

void replica_settle(struct replica *r)
{
	for (unsigned p = 0; p < r->cut->n; p++) {
		struct replica_part *part = &r->part[p];

		if (part->answered > r->trained) /* no books of ours; never more than was trained */
			part->answered = r->trained;
		if (part->work.tokens > r->trained - part->answered)
			part->work = (struct replica_work){ 0 };
		part->lost = r->trained - part->answered - part->work.tokens;
	}
}

static void lose_work(struct replica_part *part)
{
	part->lost += part->work.tokens;
	part->work = (struct replica_work){ 0 };
}

void replica_load(struct replica *r, unsigned p, const struct replica_version *v, const float *value,
	bool keep)
{
	struct replica_part *part = &r->part[p];

	memcpy(r->base + r->start[p], value, bytes_of(r, p));
	if (!keep) {
		fragment_scatter(&r->cut->v[p], r->params, value);
		lose_work(part);
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

void replica_step(struct replica *r, uint64_t tokens, double loss)
{
	r->step++;
	r->steps++;
	r->trained += tokens;
	for (unsigned p = 0; p < r->cut->n; p++) {
		count(&r->part[p].work, tokens, loss);
		if (r->part[p].pending)
			count(&r->part[p].since, tokens, loss);
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
	part->kept = false;
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
	part->round = part->asked;
	part->pending = false;
	part->kept = true;
}

void replica_dropped(struct replica *r, unsigned p)
{
	r->part[p].pending = false;
}

/* theta <- Theta + (theta - from): what was trained since then stays. */
static void rebase(struct replica *r, unsigned p, const float *value, const float *from)
{
	const struct fragment *f = &r->cut->v[p];

	for (size_t t = 0; t < f->n; from += f->layout.v[t].count, value += f->layout.v[t++].count) {
		float *local = r->params + f->offset[t];

		for (uint64_t i = 0; i < f->layout.v[t].count; i++)
			local[i] = value[i] + (local[i] - from[i]);
	}
}

/* What the new version does not hold of what p has trained begins here; NULL: nobody knows, when an
 * answer is out whose snapshot is not in memory. */
static const float *rebase_from(const struct replica *r, unsigned p, const struct replica_version *v)
{
	const struct replica_part *part = &r->part[p];
	bool answered = part->round > part->base.round;

	if (!answered || (v->version == part->base.version + 1 && !v->counted))
		return replica_base(r, p);
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
	const float *from = r->rule.how == ADOPT_REBASE ? rebase_from(r, p, v) : NULL;

	replica_dropped(r, p);
	follow_step(r, part, v);
	if (from) {
		rebase(r, p, value, from);
	} else {
		if (r->rule.how == ADOPT_MIX)
			mix(r, p, value, r->rule.mix);
		else
			fragment_scatter(&r->cut->v[p], r->params, value);
		lose_work(part);
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
