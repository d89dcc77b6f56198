#include "round/policy.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "round/rounds.h"

#define TOO_LATE 0.75  /* of H, behind a mark: the next mark is skipped as may be needed ... */
#define NO_SOONER 0.25 /* ... to lie this part of H ahead */

/* ---- opening ---- */

static bool sensible(const struct policy_conf *c)
{
	return c->fragments && c->interval && c->interval <= (uint64_t)1 << 53 && c->overlap &&
	       c->quorum && c->grace >= 0 && isfinite(c->grace) && c->lease > 0;
}

/* Where fragment f stands between marks of H: (f + 1) H / P, by the clock. */
static double phase(const struct policy *p, unsigned f)
{
	return (double)p->c.interval * (f + 1.0) / p->c.fragments;
}

int policy_open(struct policy **out, const struct policy_conf *c, uint64_t first_round, double now)
{
	struct policy *p;

	*out = NULL;
	if (!sensible(c) || !first_round || !isfinite(now))
		return err_set(ERR_USAGE, "policy: fragments, interval, overlap, quorum, lease and rounds "
					  "are at least 1");
	if (!(p = calloc(1, sizeof *p)))
		return err_nomem();
	*p = (struct policy){ .c = *c, .opened = now, .now = now, .next_round = first_round,
		.enough_from = now, .next_expiry = HUGE_VAL, .first_call = -1, .stall_from = now,
		.lag = fmin(c->overlap, (double)c->interval) };
	p->round = calloc(c->fragments, sizeof *p->round);
	p->open = calloc(c->fragments, sizeof *p->open);
	if (!p->round || !p->open) {
		policy_close(p);
		return err_nomem();
	}
	for (unsigned f = 0; f < c->fragments; f++)
		p->round[f].due = phase(p, f);
	*out = p;
	return 0;
}

void policy_close(struct policy *p)
{
	if (!p)
		return;
	pace_release(&p->pace);
	free(p->learner);
	free(p->since);
	free(p->flag);
	free(p->drawn);
	free(p->list);
	free(p->round);
	free(p->open);
	free(p);
}

/* ---- events ---- */

int policy_beat(struct policy *p, double now, const struct policy_beat *b)
{
	const size_t P = p->c.fragments;
	struct learner *l;
	int rc;

	if ((rc = rounds_know(p, b->learner)) < 0)
		return rc;
	rounds_advance(p, now);
	rounds_set_alive(p, b->learner, !b->gone);
	l = &p->learner[b->learner];
	rounds_account(p, b->learner, -1);
	l->seen = p->now;
	l->idle = b->idle;
	memcpy(p->since + b->learner * P, b->since, P * sizeof *b->since);
	rounds_account(p, b->learner, 1);
	if (l->alive)
		p->next_expiry = fmin(p->next_expiry, p->now + p->c.lease);
	pace_beat(&p->pace, p->now, b->learner, b->steps, b->step_seconds, l->alive && !l->idle);
	return 0;
}

/* Whether it has its quorum, after answers or K have changed. */
static void look_for_quorum(struct policy *p, struct round *r)
{
	if (r->answers < p->c.quorum)
		r->quorum = r->merge_at = -1;
	else if (r->quorum < 0)
		r->quorum = p->now;
}

int policy_answer(struct policy *p, double now, uint64_t round, unsigned learner)
{
	struct round *r;
	unsigned char *flag;
	int rc;

	if ((rc = rounds_know(p, learner)) < 0)
		return rc;
	rounds_advance(p, now);
	if (!(r = rounds_find(p, round)) || r->merging)
		return 0;
	flag = &p->flag[(size_t)learner * p->c.fragments + rounds_fragment(p, r)];
	if (*flag & (ANSWERED | REFUSED) || !(r->all || *flag & INVITED))
		return 0;
	r->waiting -= rounds_waits_for(p, learner, rounds_fragment(p, r));
	*flag |= ANSWERED;
	r->answers++;
	look_for_quorum(p, r);
	return 1;
}

bool policy_refused(struct policy *p, double now, uint64_t round, unsigned learner)
{
	struct round *r = rounds_find(p, round);
	unsigned char *flag;

	rounds_advance(p, now);
	if (!r || learner >= p->n)
		return false;
	flag = &p->flag[(size_t)learner * p->c.fragments + rounds_fragment(p, r)];
	r->waiting -= rounds_waits_for(p, learner, rounds_fragment(p, r));
	r->answers -= *flag & ANSWERED ? 1 : 0;
	r->refused += *flag & REFUSED ? 0 : 1;
	*flag = (unsigned char)((*flag | REFUSED) & ~ANSWERED);
	if (r->answers >= p->c.quorum || (p->closing && r->answers))
		return true;
	look_for_quorum(p, r);
	r->merging = false;
	return false;
}

void policy_finish(struct policy *p, double now)
{
	rounds_advance(p, now);
	if (p->closing)
		return;
	p->closing = true;
	p->finished = p->now;
}

void policy_expire(struct policy *p, uint64_t round)
{
	struct round *r = rounds_find(p, round);

	if (r)
		r->expired = true;
}

void policy_reconf(struct policy *p, const struct policy_conf *c)
{
	struct policy_conf want = *c;

	want.fragments = p->c.fragments;
	want.once = p->c.once;
	if (!sensible(&want))
		return;
	p->c = want;
	p->next_expiry = p->now; /* the lease may be another */
	p->lag = fmin(p->lag, (double)want.interval);
	for (unsigned f = 0; f < want.fragments; f++) {
		p->round[f].due = fmin(p->round[f].due, p->pace.steps + (double)want.interval);
		if (p->round[f].open)
			look_for_quorum(p, &p->round[f]);
	}
}

/* The mark for the next merge of a fragment: H on, or where the clock has passed that, the first that
 * leaves the learners some time. */
static void next_due(struct policy *p, struct round *r)
{
	const double H = (double)p->c.interval, from = phase(p, rounds_fragment(p, r));
	const double want = p->pace.steps - r->due > TOO_LATE * H
		? ceil((p->pace.steps + NO_SOONER * H - from) / H)
		: floor((r->due + H - from) / H + 0.5);

	r->due = from + want * H;
}

int policy_called(struct policy *p, double now, uint64_t round)
{
	const struct call call = p->call;

	rounds_advance(p, now);
	p->call.round = 0;
	if (!round || round != call.round)
		return err_set(ERR_DATA, "round %" PRIu64 " was not to be called", round);
	if (p->step > 0 && p->pace.step_seconds > 0)
		rounds_average(&p->step, p->pace.step_seconds);
	if (call.again) {
		p->round[call.fragment].redrawn++;
	} else {
		rounds_go(p);
		rounds_begin(p, call.fragment, round, call.all);
	}
	rounds_invite(p, call.fragment, p->list, call.n);
	return 0;
}

int policy_resume(struct policy *p, double now, uint64_t round, unsigned fragment,
	const unsigned *invited, size_t n)
{
	int rc;

	if (fragment >= p->c.fragments || !round || p->round[fragment].open || rounds_find(p, round))
		return err_set(ERR_DATA, "round %" PRIu64 " for fragment %u can't be open", round, fragment);
	for (size_t i = 0; invited && i < n; i++)
		if ((rc = rounds_know(p, invited[i])) < 0)
			return rc;
	rounds_advance(p, now);
	rounds_begin(p, fragment, round, !invited);
	p->round[fragment].resumed = true;
	rounds_invite(p, fragment, invited, invited ? n : 0);
	return 0;
}

void policy_merged(struct policy *p, double now, uint64_t round, double seconds)
{
	struct round *r = rounds_find(p, round);

	rounds_advance(p, now);
	if (!r)
		return;
	rounds_go(p);
	rounds_stall(p, p->now);
	p->stall_from = p->now;
	if (r->ever) {
		p->interval_steps += p->pace.steps - r->merged;
		p->intervals++;
	}
	if (!r->resumed)
		rounds_average(&p->lag, fmin(p->pace.steps - r->called_steps, (double)p->c.interval));
	if (isfinite(seconds) && seconds >= 0)
		rounds_average(&p->sync, seconds);
	r->merged = p->pace.steps;
	r->ever = true;
	next_due(p, r);
	rounds_end(p, r);
	rounds_new_base(p, rounds_fragment(p, r));
}

void policy_abandoned(struct policy *p, double now, uint64_t round)
{
	struct round *r = rounds_find(p, round);

	rounds_advance(p, now);
	if (!r)
		return;
	rounds_go(p);
	r->due = fmax(r->due, p->pace.steps);
	next_due(p, r);
	rounds_end(p, r);
}

void policy_history(struct policy *p, unsigned fragment, double ago)
{
	if (fragment >= p->c.fragments || !isfinite(ago))
		return;
	p->round[fragment].merged = p->pace.steps - ago;
	p->round[fragment].due = p->round[fragment].merged + (double)p->c.interval;
}

void policy_recall(struct policy *p, const struct policy_times *t)
{
	p->step = isfinite(t->step) ? fmax(t->step, 0) : 0;
	p->quorum = isfinite(t->quorum) ? fmax(t->quorum, 0) : 0;
	p->sync = isfinite(t->sync) ? fmax(t->sync, 0) : 0;
}

/* ---- what can be seen ---- */

void policy_times(const struct policy *p, struct policy_times *t)
{
	t->step = p->step;
	t->quorum = p->quorum;
	t->sync = p->sync;
	t->slack = p->step > 0 ? p->c.overlap * p->step - p->quorum - p->sync : 0;
	t->window = p->c.grace * fmax(0, t->slack);
}

size_t policy_open_rounds(const struct policy *p)
{
	return p->opens;
}

void policy_round_at(const struct policy *p, size_t i, struct policy_round *out)
{
	const struct round *r = &p->round[p->open[i]];

	*out = (struct policy_round){ .round = r->number, .fragment = p->open[i], .called = r->called,
		.quorum = r->quorum, .merge_at = r->merge_at, .waited = r->waiting, .answers = r->answers,
		.refused = r->refused, .merging = r->merging };
	for (size_t j = 0; j < p->n; j++)
		out->invited += p->learner[j].alive &&
				(r->all || p->flag[j * p->c.fragments + p->open[i]] & INVITED);
}

bool policy_has_answer(const struct policy *p, uint64_t round, unsigned learner)
{
	const struct round *r = rounds_find(p, round);

	return r && learner < p->n && p->flag[(size_t)learner * p->c.fragments + rounds_fragment(p, r)] & ANSWERED;
}

bool policy_alive(const struct policy *p, double now, unsigned learner)
{
	return learner < p->n && p->learner[learner].alive && now < p->learner[learner].seen + p->c.lease;
}

size_t policy_alive_count(const struct policy *p, double now)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += policy_alive(p, now, (unsigned)i);
	return n;
}

double policy_steps_since(const struct policy *p, unsigned fragment)
{
	return p->pace.steps - p->round[fragment].merged;
}

double policy_achieved_interval(const struct policy *p)
{
	return p->intervals > 0 ? p->interval_steps / p->intervals : 0;
}

double policy_mean_overlap(const struct policy *p)
{
	return p->first_call >= 0 && p->now > p->first_call ? p->open_seconds / (p->now - p->first_call) : 0;
}

double policy_longest_stall(const struct policy *p)
{
	return p->stall;
}
