#include "chaos/sim.h"

#include <math.h>
#include <stdlib.h>

#include "chaos/sim_inside.h"

int sim_tell(struct sim *s, struct trace_event e)
{
	if (!s->trace)
		return 0;
	e.at = s->now;
	return trace_put(s->trace, &e);
}

/* ---- opening ---- */

static int make_tables(struct sim *s)
{
	s->learner = calloc(s->n, sizeof *s->learner);
	s->since = calloc(s->fragments, sizeof *s->since);
	s->who = calloc(s->n, sizeof *s->who);
	return s->learner && s->since && s->who ? 0 : err_nomem();
}

static int open_all(struct sim *s, const struct sim_conf *c)
{
	struct trace_head h;
	int rc;

	sim_conf_head(c, &h);
	s->c = c;
	s->n = h.learners;
	s->fragments = h.fragments;
	s->step_tokens = (double)c->tokens / (c->mode == TRACE_LOCKSTEP || c->mode == TRACE_ELASTIC ? 1 : c->learners);
	s->budget_at = -1;
	rc = make_tables(s);
	if (rc == 0)
		rc = agenda_init(&s->agenda, 2 * (size_t)s->n + 1);
	if (rc == 0)
		rc = sim_syncer_open(s);
	for (unsigned i = 0; rc == 0 && i < s->n; i++) {
		rc = sim_learner_open(s, i);
		sim_learner_plan(s, i);
	}
	return rc;
}

static void close_all(struct sim *s)
{
	for (unsigned i = 0; s->learner && i < s->n; i++)
		sim_learner_close(&s->learner[i]);
	sim_syncer_close(s);
	agenda_release(&s->agenda);
	free(s->learner);
	free(s->since);
	free(s->who);
}

/* ---- running ---- */

static int act(struct sim *s, unsigned actor)
{
	int rc;

	if (actor == sim_syncer(s))
		return s->c->mode == TRACE_DILOCO ? sim_barrier_act(s) : sim_syncer_act(s);
	if (actor >= s->n)
		return sim_wire_arrive(s, actor - s->n);
	rc = sim_learner_act(s, actor);
	sim_learner_plan(s, actor);
	return rc;
}

/* Without rounds all that was trained is merged. */
static bool within_budget(struct sim *s)
{
	if (s->c->mode == TRACE_LOCKSTEP || s->c->mode == TRACE_ELASTIC) {
		s->merged = s->learner[0].tokens;
		if (s->c->budget > 0 && s->merged >= s->c->budget)
			s->budget_at = s->now;
	}
	return s->budget_at < 0;
}

static int run(struct sim *s)
{
	int rc = 0;

	while (rc == 0 && within_budget(s)) {
		unsigned actor = agenda_first(&s->agenda);
		double t = s->agenda.time[actor];

		if (!(t <= s->c->length))
			break;
		s->now = fmax(s->now, t);
		rc = act(s, actor);
	}
	if (s->budget_at < 0)
		s->now = s->c->length;
	return rc;
}

/* ---- accounts ---- */

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* Bytes of the gradients that all chips exchange each step as bf16, in and out, where there are no rounds. */
static void count_gradients(struct sim *s)
{
	if (s->c->mode == TRACE_LOCKSTEP || s->c->mode == TRACE_ELASTIC)
		s->sent = s->received = 2 * s->c->params * (double)s->steps;
}

static void settle(struct sim *s)
{
	for (unsigned i = 0; i < s->n; i++)
		sim_learner_leave(s, i);
	sim_learner_training(s, false); /* the account of uptime comes to now */
	count_gradients(s);
}

static void report_rounds(const struct sim *s, struct sim_result *r)
{
	r->answers = ratio((double)s->answers, (double)s->merges);
	r->syncer = ratio(s->sent + s->received, s->now);
	r->interval = (double)s->c->interval;
	if (!s->policy)
		return;
	r->staleness = ratio(s->stale, (double)s->stales);
	r->interval = policy_achieved_interval(s->policy);
	r->stall = policy_longest_stall(s->policy);
}

static void report(struct sim *s, struct sim_result *r)
{
	*r = (struct sim_result){ .seconds = s->now, .merged = s->merged / s->fragments, .steps = (double)s->steps,
		.failures = (double)s->failures, .stops = (double)s->stops, .merges = (double)s->merges,
		.late = (double)s->late, .budget_at = s->budget_at < 0 ? NAN : s->budget_at, .answers = NAN,
		.staleness = NAN, .interval = NAN, .syncer = NAN, .stall = NAN };
	r->goodput = ratio(s->productive, s->allotted);
	r->uptime = ratio(s->up, s->now);
	r->link = ratio(s->sent + s->received, s->present);
	for (unsigned i = 0; i < s->n; i++)
		r->trained += s->learner[i].tokens;
	if (s->c->mode != TRACE_LOCKSTEP && s->c->mode != TRACE_ELASTIC)
		report_rounds(s, r);
}

int sim_run(const struct sim_conf *c, struct trace_writer *trace, struct sim_result *out)
{
	struct sim s = { .trace = trace };
	int rc = sim_conf_check(c);

	if (rc < 0)
		return rc;
	rc = open_all(&s, c);
	if (rc == 0)
		rc = run(&s);
	if (rc == 0) {
		settle(&s);
		report(&s, out);
	}
	close_all(&s);
	return rc;
}
