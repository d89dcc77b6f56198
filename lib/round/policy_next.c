#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "round/rounds.h"

#define SURPRISE 4 /* a sample counts as no more than this many times what is usual */
#define SHARE 0.75 /* of the pace's share of the slots that a round keeps while a call waits for one */
#define CLOSE 1e-6 /* steps that make no difference: rounding */
#define NOD 0.0625 /* steps: no sooner than this the clock is looked at again */

/* ---- when to merge ---- */

static void average_quorum(struct policy *p, struct round *r)
{
	double sample = fmax(0, r->quorum - fmax(r->called, p->enough_from));
	double usual = fmax(p->quorum, p->c.overlap * p->step);

	if (!r->sampled && !r->resumed)
		rounds_average(&p->quorum, usual > 0 ? fmin(sample, SURPRISE * usual) : sample);
	r->sampled = true;
}

static void give_grace(struct policy *p, struct round *r)
{
	struct policy_times t;

	if (r->quorum < 0 || r->merge_at >= 0)
		return;
	average_quorum(p, r);
	policy_times(p, &t);
	r->merge_at = r->quorum + (p->c.once ? 0 : t.window);
}

/* When a round that has its quorum may be ended for a call that waits: see the header. */
static double share_ends(const struct policy *p, const struct round *r)
{
	double steps = SHARE * p->c.overlap * (double)p->c.interval / p->c.fragments;

	return r->called + steps * p->step - p->sync;
}

static bool is_due(const struct policy *p, const struct round *r)
{
	return !r->open && p->pace.steps + CLOSE >= r->due - p->lag;
}

/* The fragment to call next: of those that are due the one that is longest, or P. */
static unsigned most_due(const struct policy *p)
{
	unsigned best = p->c.fragments;

	for (unsigned f = 0; f < p->c.fragments; f++)
		if (is_due(p, &p->round[f]) && (best == p->c.fragments || p->round[f].due < p->round[best].due))
			best = f;
	return best;
}

/* All slots are taken, and a call waits for one. */
static bool starved(const struct policy *p)
{
	if (p->c.once || p->opens < p->c.overlap || p->alive < p->c.quorum)
		return false;
	for (size_t i = 0; i < p->opens; i++)
		if (p->round[p->open[i]].merging)
			return false; /* one will be free soon */
	return most_due(p) < p->c.fragments;
}

static struct round *to_merge(struct policy *p)
{
	bool tight = starved(p);

	for (size_t i = 0; i < p->opens; i++) {
		struct round *r = &p->round[p->open[i]];

		if (r->merging || r->quorum < 0)
			continue;
		if (p->now >= r->merge_at || r->waiting == 0 || (tight && p->now >= share_ends(p, r)))
			return r;
	}
	return NULL;
}

/* ---- who is called ---- */

/* Learners alive that are not invited to the open round of f (to: for a new one), ascending in p->drawn. */
static size_t candidates(struct policy *p, unsigned f, bool again)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->learner[i].alive && !(again && p->flag[i * p->c.fragments + f] & INVITED))
			p->drawn[n++] = (unsigned)i;
	return n;
}

static int ascending(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

/* The first k of p->drawn (n) become a random subset, from seed, round and how often it was drawn. */
static void draw(struct policy *p, uint64_t round, unsigned times, size_t n, size_t k)
{
	struct rng rng;

	rng_init(&rng, p->c.seed ^ rng_stream("invite"), round);
	rng.counter = (uint64_t)times << 32;
	for (size_t i = 0; i < k; i++) {
		size_t j = i + (size_t)rng_below(&rng, n - i);
		unsigned t = p->drawn[i];

		p->drawn[i] = p->drawn[j];
		p->drawn[j] = t;
	}
}

static size_t invite_size(const struct policy *p)
{
	return p->c.invite > p->c.quorum ? p->c.invite : p->c.quorum;
}

/* p->list becomes who was invited, with k of the n drawn. */
static size_t make_list(struct policy *p, unsigned f, bool again, size_t k)
{
	size_t m = 0;

	for (size_t i = 0; again && i < p->n; i++)
		if (p->flag[i * p->c.fragments + f] & INVITED)
			p->list[m++] = (unsigned)i;
	memcpy(p->list + m, p->drawn, k * sizeof *p->drawn);
	qsort(p->list, m + k, sizeof *p->list, ascending);
	return m + k;
}

static void decide_call(struct policy *p, unsigned f)
{
	size_t n, k;

	p->call = (struct call){ .round = p->next_round, .fragment = f, .all = true };
	if (p->c.invite == 0 || p->closing || p->alive < p->c.quorum)
		return;
	n = candidates(p, f, false);
	k = n < invite_size(p) ? n : invite_size(p);
	draw(p, p->next_round, 0, n, k);
	p->call.all = false;
	p->call.n = make_list(p, f, false, k);
}

/* Can this round not get its quorum from those that are invited and alive? */
static bool short_of(const struct policy *p, const struct round *r)
{
	return !r->merging && r->quorum < 0 && r->answers + r->waiting < p->c.quorum;
}

/* A round whose list must grow, if there is one: its call. */
static bool decide_again(struct policy *p)
{
	for (size_t i = 0; i < p->opens; i++) {
		struct round *r = &p->round[p->open[i]];
		size_t n, k, have = r->answers + r->waiting;

		if (r->all || !short_of(p, r) || !(n = candidates(p, p->open[i], true)))
			continue;
		k = invite_size(p) > have ? invite_size(p) - have : 1;
		k = k < n ? k : n;
		draw(p, r->number, r->redrawn + 1, n, k);
		p->call = (struct call){ .round = r->number, .fragment = p->open[i], .again = true };
		p->call.n = make_list(p, p->open[i], true, k);
		return true;
	}
	return false;
}

/* A round that nobody alive can answer any more, after answers were refused. */
static struct round *hopeless(struct policy *p)
{
	for (size_t i = 0; i < p->opens; i++) {
		struct round *r = &p->round[p->open[i]];

		if (short_of(p, r) && r->refused && r->waiting == 0)
			return r;
	}
	return NULL;
}

static bool decide_new(struct policy *p)
{
	unsigned f;

	if (!p->c.once && (p->opens >= p->c.overlap || p->alive < p->c.quorum))
		return false;
	if ((f = most_due(p)) == p->c.fragments)
		return false;
	decide_call(p, f);
	return true;
}

/* ---- the end ---- */

/* Until then everybody alive is waited for. */
static double closing_until(const struct policy *p)
{
	return p->c.once ? p->opened : p->finished + p->c.lease;
}

static double patience_ends(const struct policy *p, const struct round *r)
{
	return fmax(closing_until(p), r->called + p->c.lease);
}

static bool ends(const struct policy *p, const struct round *r)
{
	if (r->merging)
		return false;
	if (p->c.once)
		return r->answers >= p->c.quorum || r->expired || (r->resumed && !r->waiting && !r->unsure);
	if (r->waiting)
		return p->now >= patience_ends(p, r);
	return r->answers >= p->c.quorum || p->now >= closing_until(p);
}

/* Those that let the round pass are not waited for again. */
static void give_up_on(struct policy *p, unsigned f)
{
	for (size_t i = 0; p->round[f].waiting && i < p->n; i++)
		if (rounds_waits_for(p, i, f)) {
			rounds_account(p, i, -1);
			p->learner[i].mute = true;
		}
}

static struct round *to_end(struct policy *p)
{
	for (size_t i = 0; i < p->opens; i++)
		if (ends(p, &p->round[p->open[i]])) {
			if (!p->c.once)
				give_up_on(p, p->open[i]);
			return &p->round[p->open[i]];
		}
	return NULL;
}

static bool decide_last(struct policy *p)
{
	for (unsigned f = 0; f < p->c.fragments; f++) {
		const struct round *r = &p->round[f];

		if (r->open || r->final || !r->busy || (!p->c.once && p->opens >= p->c.overlap))
			continue;
		decide_call(p, f);
		return true;
	}
	return false;
}

static bool is_over(const struct policy *p)
{
	bool late = p->now >= closing_until(p);

	if (p->opens || (!p->alive && !late))
		return false;
	for (unsigned f = 0; f < p->c.fragments; f++) {
		const struct round *r = &p->round[f];

		if (!r->final && (r->busy || (r->unsure && !late)))
			return false;
	}
	return true;
}

/* ---- what to do ---- */

static void say_round(struct policy_step *s, enum policy_act act, const struct policy *p, struct round *r)
{
	s->act = act;
	s->round = r->number;
	s->fragment = rounds_fragment(p, r);
	r->merging = act == POLICY_MERGE;
}

static void say_call(struct policy_step *s, const struct policy *p)
{
	s->act = POLICY_CALL;
	s->round = p->call.round;
	s->fragment = p->call.fragment;
	s->invited = p->call.all ? NULL : p->list;
	s->n = p->call.n;
	s->again = p->call.again;
}

static void earlier(double *t, double at, double now)
{
	if (at > now && at < *t)
		*t = at;
}

/* When the clock will be where the next fragment is due, as things go. */
static double next_call(const struct policy *p)
{
	double left = HUGE_VAL;

	if (p->alive < p->c.quorum || p->pace.step_seconds <= 0)
		return HUGE_VAL;
	for (unsigned f = 0; f < p->c.fragments; f++)
		if (!p->round[f].open && !is_due(p, &p->round[f]))
			left = fmin(left, p->round[f].due - p->lag - p->pace.steps);
	/* Not at every instant when extrapolation has come to its end. */
	return p->now + fmax(left, NOD) * p->pace.step_seconds;
}

static double wake(const struct policy *p)
{
	double t = HUGE_VAL;
	bool tight = !p->closing && starved(p);

	for (size_t i = 0; i < p->opens; i++) {
		const struct round *r = &p->round[p->open[i]];

		if (r->merging)
			continue;
		if (p->closing)
			earlier(&t, patience_ends(p, r), p->now);
		else if (r->quorum >= 0)
			earlier(&t, tight ? fmin(r->merge_at, share_ends(p, r)) : r->merge_at, p->now);
	}
	if (p->alive)
		earlier(&t, p->next_expiry, p->now);
	if (p->closing)
		earlier(&t, closing_until(p), p->now);
	else
		earlier(&t, next_call(p), p->now);
	return t;
}

void policy_next(struct policy *p, double now, struct policy_step *s)
{
	struct round *r;

	rounds_advance(p, now);
	rounds_go(p);
	*s = (struct policy_step){ .act = POLICY_WAIT };
	p->call.round = 0;
	for (size_t i = 0; i < p->opens; i++)
		give_grace(p, &p->round[p->open[i]]);
	if (p->over || (p->closing && is_over(p))) {
		p->over = true;
		s->act = POLICY_DONE;
	} else if ((r = p->closing ? to_end(p) : to_merge(p))) {
		say_round(s, r->answers ? POLICY_MERGE : POLICY_ABANDON, p, r);
	} else if (p->closing ? decide_last(p) : decide_again(p)) {
		say_call(s, p);
	} else if (!p->closing && (r = hopeless(p))) {
		say_round(s, POLICY_ABANDON, p, r);
	} else if (!p->closing && decide_new(p)) {
		say_call(s, p);
	} else {
		s->until = wake(p);
	}
}
