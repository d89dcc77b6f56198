#include "round/desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_slots(struct desk *d, const struct fragments *cut)
{
	uint64_t most = 0;

	for (unsigned p = 0; p < cut->n; p++)
		if (cut->v[p].elems > most)
			most = cut->v[p].elems;
	for (size_t i = 0; i < DESK_SLOTS; i++) {
		d->slot[i].value = malloc(most * sizeof(float));
		if (!d->slot[i].value)
			return err_nomem();
	}
	return 0;
}

int desk_open(struct desk *d, const struct fragments *cut, const struct tensors *layout,
	enum optimizer_kind optimizer)
{
	int rc;

	*d = (struct desk){ .cut = cut };
	d->answer = calloc(cut->n, sizeof *d->answer);
	d->base = calloc(cut->n, sizeof *d->base);
	if (!d->answer || !d->base)
		return err_nomem();
	if ((rc = beat_init(&d->beat, cut->n)) < 0)
		return rc;
	if ((rc = run_state_init(&d->state, cut, layout, optimizer)) < 0)
		return rc;
	return open_slots(d, cut);
}

void desk_close(struct desk *d)
{
	for (size_t i = 0; i < DESK_SLOTS; i++)
		free(d->slot[i].value);
	run_state_release(&d->state);
	beat_release(&d->beat);
	if (d->headed)
		head_release(&d->head);
	free(d->answer);
	free(d->base);
	*d = (struct desk){ 0 };
}

/* ---- the training thread ---- */

static void take_outcomes(struct desk *d, struct replica *r)
{
	for (unsigned p = 0; p < d->cut->n; p++) {
		if (d->answer[p].job == DESK_DONE)
			replica_answered(r, p);
		else if (d->answer[p].job == DESK_FAILED)
			replica_dropped(r, p);
		else
			continue;
		d->answer[p].job = DESK_NONE;
	}
}

/* A version waits while the courier reads the base that it replaces. A snapshot that is still to be sent is
 * late now: its round is over. */
static void adopt_ready(struct desk *d, struct replica *r)
{
	for (struct desk_slot *s = d->slot; s < d->slot + DESK_SLOTS; s++) {
		struct desk_answer *a = &d->answer[s->fragment];

		if (s->state != DESK_READY || a->job == DESK_TAKEN)
			continue;
		if (a->job == DESK_POSTED)
			a->job = DESK_NONE;
		if (replica_differs(r, s->fragment, s->version.version, &s->version.id))
			replica_adopt(r, s->fragment, &s->version, s->value);
		s->state = DESK_EMPTY;
	}
}

static bool answer_calls(struct desk *d, struct replica *r, const char *learner, uint64_t cursor)
{
	bool posted = false;

	for (size_t i = 0; d->headed && !d->mute && i < d->head.calls; i++) {
		const struct head_call *c = &d->head.call[i];
		struct desk_answer *a = &d->answer[c->fragment];

		if (a->job != DESK_NONE || !head_invites(c, learner) ||
			!replica_may_answer(r, c->fragment, c->round, c->version))
			continue;
		a->meta = (struct meta){ .cursor = cursor };
		replica_snapshot(r, c->fragment, c->round, &a->meta);
		a->job = DESK_POSTED;
		posted = true;
	}
	return posted;
}

static void leave_books(struct desk *d, const struct replica *r)
{
	replica_beat(r, &d->beat);
	for (unsigned p = 0; p < d->cut->n; p++)
		d->base[p] = r->part[p].base.id;
}

bool desk_exchange(struct desk *d, struct replica *r, const char *learner, uint64_t cursor)
{
	bool posted;

	take_outcomes(d, r);
	adopt_ready(d, r);
	posted = answer_calls(d, r, learner, cursor);
	leave_books(d, r);
	return posted;
}

struct copy {
	const struct moments *to, *from;
	uint64_t n, v; /* of m and p, of v */
	int parts;
};

static void copy_share(float *to, const float *from, uint64_t n, int i, int parts)
{
	const uint64_t at = n * (uint64_t)i / (uint64_t)parts;
	const uint64_t end = n * (uint64_t)(i + 1) / (uint64_t)parts;

	memcpy(to + at, from + at, (end - at) * sizeof(float));
}

static int copy_part(void *ctx, int i, int thread)
{
	const struct copy *c = ctx;

	(void)thread;
	copy_share(c->to->m, c->from->m, c->n, i, c->parts);
	copy_share(c->to->v, c->from->v, c->v, i, c->parts);
	copy_share(c->to->p, c->from->p, c->n, i, c->parts);
	return 0;
}

bool desk_post_state(struct desk *d, const struct replica *r, const struct trainer *t)
{
	const struct optimizer *o = &t->optimizer;
	const struct moments from = { o->kind, o->m, o->v, t->params };
	struct copy c = { &d->state.values, &from, t->size, optimizer_size_v(o->kind, t->layout),
		pool_threads(t->pool) };
	uint64_t *routed = d->state.routed;

	if (d->saving != DESK_NONE || pool_run(t->pool, copy_part, &c, c.parts) < 0)
		return false;
	replica_beat(r, &d->state.books);
	for (unsigned p = 0; p < d->cut->n; p++) {
		d->state.base[p] = r->part[p].base.id;
		d->state.counted[p] = replica_routed(r, p, routed);
		routed += d->cut->v[p].n;
	}
	d->state.of_all = r->of_all;
	d->state.updates = o->updates;
	d->state.cursor = t->feed.cursor;
	d->saving = DESK_POSTED;
	return true;
}

void desk_row(struct desk *d, const struct metrics_row *row)
{
	if (d->rows < DESK_ROWS)
		d->row[d->rows++] = *row;
}

bool desk_busy(const struct desk *d)
{
	if (d->saving == DESK_POSTED || d->saving == DESK_TAKEN)
		return true;
	for (unsigned p = 0; p < d->cut->n; p++)
		if (d->answer[p].job == DESK_POSTED || d->answer[p].job == DESK_TAKEN)
			return true;
	return false;
}

/* ---- the courier ---- */

void desk_say(struct desk *d, bool warning, const char *text)
{
	struct desk_note *n = &d->note[d->notes];

	if (d->notes == DESK_NOTES)
		return;
	n->warning = warning;
	snprintf(n->text, sizeof n->text, "%s", text);
	d->notes++;
}

static bool is_version(const struct replica_version *v, uint64_t version, const digest *id)
{
	return v->version == version && memcmp(&v->id, id, sizeof *id) == 0;
}

struct desk_slot *desk_slot_for(struct desk *d, unsigned p, uint64_t version, const digest *id)
{
	struct desk_slot *found = NULL;

	if (d->beat.fragment[p].version == version && memcmp(&d->base[p], id, sizeof *id) == 0)
		return NULL;
	for (struct desk_slot *s = d->slot; s < d->slot + DESK_SLOTS; s++) {
		if (s->state == DESK_READY && s->fragment == p) {
			if (is_version(&s->version, version, id))
				return NULL;
			found = s;
			break;
		}
		if (s->state == DESK_EMPTY && !found)
			found = s;
	}
	if (found) {
		found->state = DESK_FILLING;
		found->fragment = p;
	}
	return found;
}
