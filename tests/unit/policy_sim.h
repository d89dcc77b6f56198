/*
 * policy_sim - a small run in virtual time: M learners and a syncer that does what policy.h decides, the
 * learners behaving as dl-learn does. A call is seen `poll` after it was published, and answered at the
 * next step boundary from there; the answer is there `upload` later; a new version is adopted at the first
 * boundary `poll` after it was published. Beats come every `beat` seconds. The syncer merges one round at
 * a time and hears nothing meanwhile; with `loop` it looks only that often.
 */
#ifndef POLICY_SIM_H
#define POLICY_SIM_H

#include <stdlib.h>

#include "round/policy.h"
#include "unit.h"

#define SIM_LEARNERS 16
#define SIM_FRAGMENTS 32
#define SIM_MAIL 4096

struct sim_learner {
	double step, from, until;    /* seconds of a step; joins; dies (0: never) */
	double poll, upload, beat;
	bool rebase;                 /* keeps the steps since its answer */
	/* state */
	double next_step, next_beat;
	uint64_t steps, version[SIM_FRAGMENTS], since[SIM_FRAGMENTS], tail[SIM_FRAGMENTS], last[SIM_FRAGMENTS];
	bool idle, gone;
};
struct sim_mail { /* to the syncer */
	double at;
	bool answer;
	unsigned learner;
	uint64_t round, steps, since[SIM_FRAGMENTS];
	bool idle;
};
struct sim_call {
	double published, ended; /* ended 0: open */
	uint64_t round, version;
	unsigned fragment;
	unsigned long invited; /* bits */
};
struct sim {
	struct policy_conf c;
	unsigned learners;
	struct sim_learner l[SIM_LEARNERS];
	double merge, loop, length, finish; /* seconds of a merge; ...; of the run; when it is to end, 0: never */
	uint64_t refuse_every;              /* each so manieth answer proves no good when merged */
	/* state */
	struct policy *p;
	struct sim_mail mail[SIM_MAIL];
	size_t mails;
	struct sim_call call[SIM_FRAGMENTS]; /* the last one of each fragment */
	double published[SIM_FRAGMENTS], closing;
	uint64_t version[SIM_FRAGMENTS], at_merge[SIM_FRAGMENTS][SIM_LEARNERS];
	double now, look, busy; /* the syncer looks next; is at work until */
	/* findings */
	uint64_t merges, calls, answers, late, refused, abandoned, intervals, hash;
	double interval_sum, longest_hold, longest_over; /* seconds from quorum to decision; of it beyond grace */
	unsigned most_open;
	double achieved, stall, overlap, done_at; /* done_at 0: not */
	uint64_t left; /* steps since base that nobody merged, of those alive */
};

static inline void sim_note(struct sim *s, uint64_t x)
{
	s->hash = (s->hash ^ x) * 0x100000001b3u;
}

static inline void sim_send(struct sim *s, double at, unsigned i, uint64_t round)
{
	struct sim_learner *l = &s->l[i];
	struct sim_mail *m = &s->mail[s->mails++];

	if (s->mails >= SIM_MAIL)
		exit(99);
	*m = (struct sim_mail){ .at = at, .answer = round > 0, .learner = i, .round = round,
		.steps = l->steps, .idle = l->idle };
	for (unsigned f = 0; f < s->c.fragments; f++)
		m->since[f] = l->version[f] == s->version[f] ? l->since[f] : POLICY_OLD_BASE;
}

static inline void sim_boundary(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->l[i];

	for (unsigned f = 0; f < s->c.fragments; f++) {
		struct sim_call *c = &s->call[f];

		if (l->version[f] < s->version[f] && s->published[f] + l->poll <= s->now) {
			l->since[f] = l->rebase && l->last[f] == c->round ? l->tail[f] : 0;
			l->version[f] = s->version[f];
		}
		if (c->round && (!c->ended || c->ended > s->now) && c->published + l->poll <= s->now && c->invited >> i & 1 &&
			l->version[f] == c->version && l->since[f] && l->last[f] < c->round) {
			l->last[f] = c->round;
			l->tail[f] = 0;
			sim_send(s, s->now + l->upload, i, c->round);
		}
	}
	l->idle = s->closing > 0 && s->closing + l->poll <= s->now;
}

static inline void sim_step(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->l[i];

	if (!l->idle) {
		l->steps++;
		for (unsigned f = 0; f < s->c.fragments; f++) {
			l->since[f]++;
			l->tail[f]++;
		}
	}
	sim_boundary(s, i);
	l->next_step = s->now + l->step;
}

static inline int sim_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What the median of the learners alive has really done since the last merge of f. */
static inline void sim_measure(struct sim *s, unsigned f)
{
	double v[SIM_LEARNERS];
	size_t n = 0;

	for (unsigned i = 0; i < s->learners; i++) {
		struct sim_learner *l = &s->l[i];

		if (l->from <= s->now && (l->until == 0 || s->now < l->until))
			v[n++] = (double)(l->steps - s->at_merge[f][i]);
		s->at_merge[f][i] = l->steps;
	}
	qsort(v, n, sizeof *v, sim_by_value);
	if (s->version[f] > 2 && n) { /* the first interval is no whole one, the second follows an unknown lag */
		s->interval_sum += (v[(n - 1) / 2] + v[n / 2]) / 2;
		s->intervals++;
	}
}

static inline void sim_merge(struct sim *s, const struct policy_step *d)
{
	struct policy_round r = { 0 };
	struct policy_times t;
	double hold;
	bool off = false;

	for (size_t i = 0; i < policy_open_rounds(s->p); i++) {
		policy_round_at(s->p, i, &r);
		if (r.round == d->round)
			break;
	}
	CHECK(r.round == d->round && r.merging && r.answers > 0);
	policy_times(s->p, &t);
	hold = s->now - r.quorum;
	s->longest_hold = fmax(s->longest_hold, r.quorum >= 0 ? hold : 0);
	s->longest_over = fmax(s->longest_over, r.quorum >= 0 && !s->closing ? s->now - r.merge_at : 0);
	for (unsigned i = 0; i < s->learners; i++)
		if (policy_has_answer(s->p, d->round, i) && s->refuse_every &&
			(d->round * 31 + i) % s->refuse_every == 0) {
			s->refused++;
			off = !policy_refused(s->p, s->now, d->round, i);
			r.answers--;
		}
	if (off)
		return;
	s->now += s->merge;
	s->answers += r.answers;
	s->merges++;
	s->version[d->fragment]++;
	s->published[d->fragment] = s->call[d->fragment].ended = s->now;
	sim_measure(s, d->fragment);
	policy_merged(s->p, s->now, d->round, s->merge);
}

static inline void sim_call_out(struct sim *s, const struct policy_step *d)
{
	struct sim_call *c = &s->call[d->fragment];

	CHECK(d->again || !c->round || c->ended > 0);
	*c = (struct sim_call){ .published = s->now, .round = d->round, .fragment = d->fragment,
		.version = s->version[d->fragment], .invited = d->invited ? 0 : ~0ul };
	for (size_t i = 0; i < d->n; i++)
		c->invited |= 1ul << d->invited[i];
	sim_note(s, c->invited);
	s->calls++;
	CHECK(policy_called(s->p, s->now, d->round) == 0);
	if (policy_open_rounds(s->p) > s->most_open)
		s->most_open = (unsigned)policy_open_rounds(s->p);
}

static inline void sim_decide(struct sim *s)
{
	struct policy_step d;

	for (;;) {
		policy_next(s->p, s->now, &d);
		if (d.act == POLICY_WAIT)
			break;
		sim_note(s, d.act + d.round * 5 + d.fragment * 1000003u);
		if (d.act == POLICY_CALL) {
			sim_call_out(s, &d);
		} else if (d.act == POLICY_MERGE) {
			sim_merge(s, &d);
		} else if (d.act == POLICY_ABANDON) {
			s->abandoned++;
			s->call[d.fragment].ended = s->now;
			policy_abandoned(s->p, s->now, d.round);
		} else {
			s->done_at = s->now;
			return;
		}
	}
	CHECK(d.until > s->now);
	s->look = s->loop > 0 ? s->now + s->loop : d.until;
}

/* The syncer hears what has arrived, in the order sent, and decides. */
static inline void sim_look(struct sim *s)
{
	size_t kept = 0;

	if (s->finish > 0 && s->now >= s->finish && s->closing <= 0) {
		policy_finish(s->p, s->now);
		s->closing = s->now;
	}
	for (size_t i = 0; i < s->mails; i++) {
		struct sim_mail *m = &s->mail[i];

		if (m->at > s->now) {
			s->mail[kept++] = *m;
		} else if (m->answer) {
			int rc = policy_answer(s->p, s->now, m->round, m->learner);

			CHECK(rc >= 0);
			s->late += rc == 0;
		} else {
			struct policy_beat b = { .learner = m->learner, .steps = m->steps,
				.step_seconds = s->l[m->learner].step, .since = m->since, .idle = m->idle };

			for (unsigned f = 0; f < s->c.fragments; f++) /* judged by what is newest now */
				if (s->published[f] > m->at - s->l[m->learner].poll)
					m->since[f] = POLICY_OLD_BASE;
			CHECK(policy_beat(s->p, s->now, &b) == 0);
		}
	}
	s->mails = kept;
	sim_decide(s);
}

/* The next that happens: a learner (0 ..), the syncer (learners), or nothing. */
static inline double sim_next(const struct sim *s, unsigned *who, bool *step)
{
	double t = s->look;

	*who = s->learners;
	for (size_t i = 0; i < s->mails && s->loop <= 0; i++)
		t = fmin(t, s->mail[i].at);
	if (s->finish > 0 && s->closing <= 0)
		t = fmin(t, s->finish);
	t = fmax(t, s->busy);
	for (unsigned i = 0; i < s->learners; i++) {
		const struct sim_learner *l = &s->l[i];
		double at = fmin(l->next_step, l->next_beat);

		if ((l->until > 0 && at >= l->until) || at >= t)
			continue;
		*who = i;
		*step = l->next_step <= l->next_beat;
		t = at;
	}
	return t;
}

static inline void sim_open(struct sim *s)
{
	if (policy_open(&s->p, &s->c, 1, 0) < 0) {
		CHECK(!"policy_open");
		exit(1);
	}
	s->hash = 0xcbf29ce484222325u;
	for (unsigned i = 0; i < s->learners; i++) {
		struct sim_learner *l = &s->l[i];

		/* Learners do not march in step. */
		l->next_step = l->from + l->step * (1 + (i * 7 % 16) / 16.0);
		l->next_beat = l->from + l->beat * (i * 5 % 16) / 16.0;
	}
}

static inline void sim_run(struct sim *s)
{
	unsigned who;
	bool step = false;
	double t;

	sim_open(s);
	while ((t = sim_next(s, &who, &step)) < s->length && s->done_at <= 0) {
		s->now = t;
		if (who == s->learners) {
			sim_look(s);
			s->busy = s->now;
		} else if (step) {
			sim_step(s, who);
		} else {
			sim_send(s, t + s->l[who].poll, who, 0);
			s->l[who].next_beat += s->l[who].beat;
		}
	}
	s->achieved = policy_achieved_interval(s->p);
	s->stall = policy_longest_stall(s->p);
	s->overlap = policy_mean_overlap(s->p);
	for (unsigned i = 0; i < s->learners; i++)
		for (unsigned f = 0; f < s->c.fragments; f++)
			if ((s->l[i].until == 0 || s->l[i].until > s->length) &&
				s->l[i].version[f] == s->version[f])
				s->left += s->l[i].since[f];
	policy_close(s->p);
}

#endif
