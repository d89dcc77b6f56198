#include "round/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEWEST 0.2 /* share of the newest sample in a moving average */

/* ---- learners ---- */

/* v[n], larger; the old one stays when there is no memory. */
#define GROW(v, n) \
	do { \
		void *more_ = reallocarray((v), (n), sizeof *(v)); \
		if (!more_) \
			return err_nomem(); \
		(v) = more_; \
	} while (0)

static int make_room(struct policy *p, size_t n)
{
	size_t room = p->room ? p->room : 8;

	while (room < n)
		room *= 2;
	if (room == p->room)
		return 0;
	GROW(p->learner, room);
	GROW(p->since, room * p->c.fragments);
	GROW(p->flag, room * p->c.fragments);
	GROW(p->drawn, room);
	GROW(p->list, room);
	p->room = room;
	return 0;
}

int rounds_know(struct policy *p, unsigned i)
{
	const size_t P = p->c.fragments;
	int rc;

	if (i < p->n)
		return 0;
	if ((rc = make_room(p, (size_t)i + 1)) < 0 || (rc = pace_grow(&p->pace, (size_t)i + 1)) < 0)
		return rc;
	for (; p->n <= i; p->n++) {
		p->learner[p->n] = (struct learner){ 0 };
		memset(p->since + p->n * P, 0, P * sizeof *p->since);
		memset(p->flag + p->n * P, 0, P);
	}
	return 0;
}

/* ---- who is waited for: sums over learners, kept up to date as each changes ---- */

bool rounds_waits_for(const struct policy *p, size_t i, unsigned f)
{
	const struct learner *l = &p->learner[i];
	const struct round *r = &p->round[f];
	const size_t at = i * p->c.fragments + f;
	const unsigned flag = p->flag[at];

	return r->open && l->alive && !l->mute && (r->all || flag & INVITED) &&
	       !(flag & (ANSWERED | REFUSED)) && !(l->idle && p->since[at] == 0);
}

static void add(size_t *sum, bool one, int sign)
{
	if (one)
		*sum = sign > 0 ? *sum + 1 : *sum - 1;
}

static void account_for(struct policy *p, size_t i, unsigned f, int sign)
{
	const struct learner *l = &p->learner[i];
	const uint64_t since = p->since[i * p->c.fragments + f];
	bool has = since && since != POLICY_OLD_BASE;

	if (!l->alive || l->mute)
		return;
	add(&p->round[f].busy, has, sign);
	add(&p->round[f].unsure, !has && (!l->idle || since), sign);
	add(&p->round[f].waiting, rounds_waits_for(p, i, f), sign);
}

void rounds_account(struct policy *p, size_t i, int sign)
{
	for (unsigned f = 0; f < p->c.fragments; f++)
		account_for(p, i, f, sign);
}

void rounds_new_base(struct policy *p, unsigned f)
{
	for (size_t i = 0; i < p->n; i++) {
		account_for(p, i, f, -1);
		p->since[i * p->c.fragments + f] = POLICY_OLD_BASE;
		account_for(p, i, f, 1);
	}
}

/* After the round of f has opened, ended, or taken in more learners. */
static void count_waiting(struct policy *p, unsigned f)
{
	p->round[f].waiting = 0;
	for (size_t i = 0; i < p->n; i++)
		p->round[f].waiting += rounds_waits_for(p, i, f);
}

/* ---- time ---- */

void rounds_stall(struct policy *p, double t)
{
	if (p->alive >= p->c.quorum && !p->closing)
		p->stall = fmax(p->stall, t - p->stall_from);
}

void rounds_set_alive(struct policy *p, size_t i, bool alive)
{
	if (p->learner[i].alive == alive)
		return;
	rounds_account(p, i, -1);
	p->learner[i].alive = alive;
	p->learner[i].mute = false;
	rounds_account(p, i, 1);
	p->alive = alive ? p->alive + 1 : p->alive - 1;
	if (!alive)
		pace_drop(&p->pace, i);
	else if (p->alive == p->c.quorum)
		p->enough_from = p->stall_from = p->now;
}

/* When the lease of the one ended with whom K were alive. */
static double quorum_ended(struct policy *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->learner[i].alive)
			p->pace.scratch[n++] = p->learner[i].seen + p->c.lease;
	return pace_select(p->pace.scratch, n, n - p->c.quorum);
}

static void expire(struct policy *p)
{
	if (p->alive >= p->c.quorum)
		rounds_stall(p, fmin(p->now, quorum_ended(p)));
	p->next_expiry = HUGE_VAL;
	for (size_t i = 0; i < p->n; i++) {
		struct learner *l = &p->learner[i];

		if (l->alive && l->seen + p->c.lease <= p->now)
			rounds_set_alive(p, i, false);
		else if (l->alive)
			p->next_expiry = fmin(p->next_expiry, l->seen + p->c.lease);
	}
}

void rounds_advance(struct policy *p, double now)
{
	if (!(now > p->now))
		return;
	if (p->first_call >= 0)
		p->open_seconds += (double)p->opens * (now - p->now);
	p->now = now;
	if (p->alive && now >= p->next_expiry)
		expire(p);
	rounds_stall(p, now);
}

void rounds_go(struct policy *p)
{
	pace_go(&p->pace, p->now, fmax((double)p->c.interval, 16));
	if (p->step <= 0)
		p->step = p->pace.step_seconds;
}

/* ---- rounds ---- */

struct round *rounds_find(const struct policy *p, uint64_t round)
{
	for (size_t i = 0; i < p->opens; i++)
		if (p->round[p->open[i]].number == round)
			return &p->round[p->open[i]];
	return NULL;
}

unsigned rounds_fragment(const struct policy *p, const struct round *r)
{
	return (unsigned)(r - p->round);
}

void rounds_begin(struct policy *p, unsigned f, uint64_t number, bool all)
{
	struct round *r = &p->round[f];
	size_t at = p->opens++;

	for (size_t i = 0; i < p->n; i++)
		p->flag[i * p->c.fragments + f] = 0;
	*r = (struct round){ .due = r->due, .merged = r->merged, .ever = r->ever, .busy = r->busy,
		.unsure = r->unsure, .final = r->final, .open = true, .all = all, .last = p->closing,
		.number = number, .called = p->now, .called_steps = p->pace.steps, .quorum = -1,
		.merge_at = -1 };
	for (; at > 0 && p->round[p->open[at - 1]].number > number; at--)
		p->open[at] = p->open[at - 1];
	p->open[at] = f;
	if (number >= p->next_round)
		p->next_round = number + 1;
	if (p->first_call < 0)
		p->first_call = p->now;
}

void rounds_invite(struct policy *p, unsigned f, const unsigned *invited, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p->flag[invited[i] * (size_t)p->c.fragments + f] |= INVITED;
	count_waiting(p, f);
}

void rounds_end(struct policy *p, struct round *r)
{
	size_t at = 0;

	while (p->open[at] != rounds_fragment(p, r))
		at++;
	memmove(p->open + at, p->open + at + 1, (--p->opens - at) * sizeof *p->open);
	r->final = r->last;
	r->open = r->merging = false;
	r->waiting = 0;
}

void rounds_average(double *x, double sample)
{
	*x = *x > 0 ? *x + NEWEST * (sample - *x) : sample;
}
