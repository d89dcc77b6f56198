#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/sim_inside.h"

int sim_syncer_open(struct sim *s)
{
	const struct sim_conf *c = s->c;
	struct policy_conf pc = { .fragments = s->fragments, .interval = c->interval, .overlap = c->overlap,
		.quorum = c->quorum, .grace = c->grace, .invite = c->invite, .seed = c->seed, .lease = c->lease };

	s->version = calloc(s->fragments, sizeof *s->version);
	s->published = calloc(s->fragments, sizeof *s->published);
	s->made = calloc(s->fragments, sizeof *s->made);
	s->call = calloc(s->fragments, sizeof *s->call);
	s->seen = calloc(s->fragments, sizeof *s->seen);
	if (!s->version || !s->published || !s->made || !s->call || !s->seen)
		return err_nomem();
	if (c->mode != TRACE_DECOUPLED)
		return 0;
	agenda_set(&s->agenda, sim_syncer(s), 0);
	return policy_open(&s->policy, &pc, 1, 0);
}

void sim_syncer_close(struct sim *s)
{
	for (unsigned f = 0; s->call && f < s->fragments; f++)
		free(s->call[f].invited);
	policy_close(s->policy);
	free(s->version);
	free(s->published);
	free(s->made);
	free(s->call);
	free(s->seen);
	free(s->log);
}

/* ---- calls ---- */

/* Calls that nobody can answer any more leave the list of those that learners look at. */
static void forget_calls(struct sim *s)
{
	unsigned n = 0;

	for (unsigned k = 0; k < s->seens; k++)
		if (s->now < s->call[s->seen[k]].ended + s->c->latency)
			s->seen[n++] = s->seen[k];
	s->seens = n;
}

static int invite(struct sim *s, struct sim_call *c, const struct policy_step *d)
{
	if (!d->invited)
		return 0;
	if (!c->invited && !(c->invited = calloc(s->n, 1)))
		return err_nomem();
	memset(c->invited, 0, s->n);
	for (size_t k = 0; k < d->n; k++)
		c->invited[d->invited[k]] = 1;
	return 0;
}

static int call(struct sim *s, const struct policy_step *d)
{
	struct sim_call *c = &s->call[d->fragment];
	unsigned k = 0;
	int rc;

	if (!d->invited) {
		free(c->invited);
		c->invited = NULL;
	}
	c->published = s->now;
	c->ended = HUGE_VAL;
	c->round = d->round;
	c->version = s->version[d->fragment];
	c->fragment = d->fragment;
	forget_calls(s);
	while (k < s->seens && s->seen[k] != d->fragment)
		k++;
	if (k == s->seens)
		s->seen[s->seens++] = d->fragment;
	rc = invite(s, c, d);
	if (rc == 0)
		rc = sim_tell(s, (struct trace_event){ .kind = TRACE_CALL, .round = d->round, .fragment = d->fragment,
			.version = c->version, .who = d->invited, .n = d->n });
	return rc < 0 ? rc : policy_called(s->policy, s->now, d->round);
}

/* ---- merges ---- */

static void begin_merge(struct sim *s, const struct policy_step *d)
{
	s->deed = *d;
	s->merging = true;
	s->whos = 0;
	for (unsigned i = 0; i < s->n; i++)
		if (policy_has_answer(s->policy, d->round, i))
			s->who[s->whos++] = i;
	s->looks = s->now + s->c->merge;
	agenda_set(&s->agenda, sim_syncer(s), s->looks);
}

/* Publications that all learners have looked at are forgotten, once there are many. */
static void shorten_log(struct sim *s)
{
	size_t first = s->logged;

	for (unsigned i = 0; i < s->n; i++) {
		const struct sim_learner *l = &s->learner[i];

		if (l->known && l->phase != SIM_AWAY) {
			first = l->cursor < first ? l->cursor : first;
			first = l->fetching && l->fetched < first ? l->fetched : first;
		}
	}
	if (!first)
		return;
	memmove(s->log, s->log + first, (s->logged - first) * sizeof *s->log);
	s->logged -= first;
	for (unsigned i = 0; i < s->n; i++) {
		s->learner[i].cursor -= s->learner[i].cursor < first ? s->learner[i].cursor : first;
		s->learner[i].fetched -= s->learner[i].fetched < first ? s->learner[i].fetched : first;
	}
}

static int publish(struct sim *s, unsigned f, uint64_t round)
{
	if (s->logged == s->log_room)
		shorten_log(s);
	if (2 * s->logged >= s->log_room) {
		size_t room = s->log_room ? 2 * s->log_room : 1024;
		void *more = reallocarray(s->log, room, sizeof *s->log);

		if (!more)
			return err_nomem();
		s->log = more;
		s->log_room = room;
	}
	s->version[f]++;
	s->published[f] = s->now;
	s->made[f] = round;
	s->log[s->logged++] = (struct sim_publication){ s->now, round, s->version[f], f };
	return 0;
}

static void account(struct sim *s, const struct policy_step *d)
{
	for (size_t k = 0; k < s->whos; k++) {
		struct sim_part *p = &s->learner[s->who[k]].part[d->fragment];

		s->merged += p->given;
		p->counted = d->round;
	}
	s->answers += s->whos;
	s->merges++;
	if (s->c->budget > 0 && s->budget_at < 0 && s->merged / s->fragments >= s->c->budget)
		s->budget_at = s->now;
}

static int end_merge(struct sim *s)
{
	const struct policy_step *d = &s->deed;
	int rc = publish(s, d->fragment, d->round);

	s->merging = false;
	s->call[d->fragment].ended = s->now;
	account(s, d);
	policy_merged(s->policy, s->now, d->round, s->c->merge);
	return rc < 0 ? rc : sim_tell(s, (struct trace_event){ .kind = TRACE_MERGE, .round = d->round,
		.fragment = d->fragment, .version = s->version[d->fragment], .who = s->who, .n = s->whos });
}

static int abandon(struct sim *s, const struct policy_step *d)
{
	s->call[d->fragment].ended = s->now;
	policy_abandoned(s->policy, s->now, d->round);
	return sim_tell(s, (struct trace_event){ .kind = TRACE_ABANDON, .round = d->round, .fragment = d->fragment });
}

/* ---- deciding ---- */

int sim_syncer_act(struct sim *s)
{
	struct policy_step d;
	int rc = s->merging ? end_merge(s) : 0;

	while (rc == 0) {
		policy_next(s->policy, s->now, &d);
		switch (d.act) {
		case POLICY_CALL:
			rc = call(s, &d);
			break;
		case POLICY_MERGE:
			begin_merge(s, &d);
			return 0;
		case POLICY_ABANDON:
			rc = abandon(s, &d);
			break;
		default:
			s->looks = s->now + s->c->look;
			agenda_set(&s->agenda, sim_syncer(s),
				d.act == POLICY_WAIT ? fmax(d.until, s->looks) : HUGE_VAL);
			return 0;
		}
	}
	return rc;
}
