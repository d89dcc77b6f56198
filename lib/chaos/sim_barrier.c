#include <math.h>

#include "chaos/sim_inside.h"

/* Bytes of all parameters. */
static double bytes_of(const struct sim *s, double bits)
{
	return s->c->params * bits / 8;
}

/* Seconds from the last learner's last step until all have the new version. */
static double exchange(const struct sim *s)
{
	double bytes = bytes_of(s, s->c->delta_bits) + bytes_of(s, s->c->fragment_bits);

	return 8 * bytes / s->c->bandwidth + 2 * s->c->latency + s->c->merge;
}

static bool took_part(const struct sim_learner *l)
{
	return l->phase == SIM_WAITING && l->steps > l->mark;
}

static int give(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	double tokens = l->tokens - l->part->tokens_at;

	l->part->given = tokens;
	l->part->tokens_at = l->tokens;
	return sim_tell(s, (struct trace_event){ .kind = TRACE_ANSWER, .round = s->round, .learner = i,
		.steps = l->steps - l->mark, .tokens = (uint64_t)tokens });
}

/* The first one that has done its steps calls the others. */
int sim_barrier_reached(struct sim *s, unsigned i)
{
	int rc = 0;

	if (s->round == *s->version) {
		s->round++;
		rc = sim_tell(s, (struct trace_event){ .kind = TRACE_CALL, .round = s->round, .version = *s->version });
	}
	if (rc == 0)
		rc = give(s, i);
	return rc < 0 ? rc : sim_barrier_look(s);
}

static bool all_wait(const struct sim *s)
{
	bool any = false;

	for (unsigned i = 0; i < s->n; i++) {
		const struct sim_learner *l = &s->learner[i];

		if (l->phase != SIM_WAITING && l->phase != SIM_AWAY)
			return false;
		any |= took_part(l);
	}
	return any;
}

static bool nobody_trains(const struct sim *s)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->learner[i].phase != SIM_WAITING && s->learner[i].phase != SIM_AWAY)
			return false;
	return true;
}

int sim_barrier_look(struct sim *s)
{
	int rc = 0;

	if (s->merging || !nobody_trains(s))
		return 0;
	s->merging = true;
	agenda_set(&s->agenda, sim_syncer(s), s->now + (all_wait(s) ? exchange(s) : 0));
	for (unsigned i = 0; rc == 0 && i < s->n; i++)
		if (took_part(&s->learner[i]))
			rc = sim_tell(s, (struct trace_event){ .kind = TRACE_STOP, .learner = i, .seconds = exchange(s),
				.why = TRACE_WAIT });
	return rc;
}

static void account(struct sim *s)
{
	for (size_t k = 0; k < s->whos; k++)
		s->merged += s->learner[s->who[k]].part->given;
	s->sent += (double)s->whos * bytes_of(s, s->c->delta_bits); /* that of a merge to come is under way */
	s->answers += s->whos;
	s->merges++;
	if (s->c->budget > 0 && s->budget_at < 0 && s->merged >= s->c->budget)
		s->budget_at = s->now;
}

static int merge(struct sim *s)
{
	s->whos = 0;
	for (unsigned i = 0; i < s->n; i++)
		if (s->learner[i].phase != SIM_AWAY && s->learner[i].steps > s->learner[i].mark)
			s->who[s->whos++] = i;
	if (!s->whos)
		return 0;
	++*s->version;
	account(s);
	return sim_tell(s, (struct trace_event){ .kind = TRACE_MERGE, .round = s->round, .version = *s->version,
		.who = s->who, .n = s->whos });
}

int sim_barrier_adopt(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];

	if (l->part->version == *s->version)
		return 0;
	l->part->version = *s->version;
	s->received += bytes_of(s, s->c->fragment_bits);
	return sim_tell(s, (struct trace_event){ .kind = TRACE_ADOPT, .learner = i, .version = *s->version });
}

/* One that died meanwhile adopts when it is back. */
static int go_on(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	int rc = 0;

	l->mark = l->steps;
	if (l->phase == SIM_WAITING) {
		rc = sim_barrier_adopt(s, i);
		sim_learner_go(s, i);
		sim_learner_plan(s, i);
	}
	return rc;
}

int sim_barrier_act(struct sim *s)
{
	int rc = merge(s);

	s->merging = false;
	agenda_set(&s->agenda, sim_syncer(s), HUGE_VAL);
	for (unsigned i = 0; rc == 0 && i < s->n; i++)
		if (s->learner[i].phase != SIM_AWAY)
			rc = go_on(s, i);
	return rc;
}
