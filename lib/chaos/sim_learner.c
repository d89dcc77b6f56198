#include <math.h>
#include <stdlib.h>

#include "chaos/sim_inside.h"

#define LEAST 0.1 /* of its mean that a step takes */

static bool alone(const struct sim *s)
{
	return s->c->mode == TRACE_LOCKSTEP || s->c->mode == TRACE_ELASTIC;
}

static bool rigid(const struct sim *s)
{
	return s->c->mode == TRACE_LOCKSTEP || (s->c->rigid && s->c->mode != TRACE_ELASTIC);
}

/* Losing the last slice, what a learner knew is lost with it. */
static bool forgets(const struct sim *s)
{
	return s->c->forget && s->c->mode == TRACE_DECOUPLED;
}

/* ---- opening ---- */

/* When learner i comes and leaves. */
static void schedule(const struct sim_conf *c, unsigned i, struct sim_learner *l)
{
	unsigned before = c->learners;

	*l = (struct sim_learner){ .leaves = HUGE_VAL, .until = HUGE_VAL, .speed = sim_conf_speed(c, i) };
	for (unsigned k = 0; i >= before && k < c->joins; before += c->join[k++].n) {
		l->from = c->join[k].from;
		l->leaves = c->join[k].until;
		if (i < before + c->join[k].n)
			break;
	}
}

int sim_learner_open(struct sim *s, unsigned i)
{
	const struct sim_conf *c = s->c;
	struct sim_learner *l = &s->learner[i];
	struct slices_conf sc = { .chips = alone(s) ? c->chips : c->chips / c->learners, .mtbi = c->mtbi,
		.low = c->repair_low, .high = c->repair_high, .spares = rigid(s), .fresh = c->fresh };

	sc.slice = fmin(c->slice, sc.chips);
	schedule(c, i, l);
	if (!(l->part = calloc(s->fragments, sizeof *l->part)))
		return err_nomem();
	return slices_open(&l->slices, &sc, c->seed, i, l->from);
}

void sim_learner_close(struct sim_learner *l)
{
	slices_release(&l->slices);
	free(l->part);
	free(l->letter);
}

/* ---- accounts ---- */

void sim_learner_training(struct sim *s, bool more)
{
	unsigned enough = alone(s) ? 1 : s->c->quorum;

	if (s->training >= enough)
		s->up += s->now - s->up_from;
	s->up_from = s->now;
	s->training = more ? s->training + 1 : s->training - 1;
}

static double chips_each(const struct sim_learner *l)
{
	return l->slices.c.chips / l->slices.total;
}

void sim_learner_leave(struct sim *s, unsigned i)
{
	const struct sim_learner *l = &s->learner[i];

	if (l->phase == SIM_AWAY)
		return;
	s->allotted += (s->now - l->came) * l->slices.c.chips;
	s->present += s->now - l->came;
	sim_wire_account(s, i);
}

static void set_phase(struct sim *s, struct sim_learner *l, enum sim_phase phase)
{
	if ((l->phase == SIM_TRAINING) != (phase == SIM_TRAINING))
		sim_learner_training(s, phase == SIM_TRAINING);
	l->phase = phase;
	if (phase != SIM_TRAINING && phase != SIM_STOPPED)
		l->until = HUGE_VAL;
}

/* ---- steps and stops ---- */

static void begin_step(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	double seconds = s->c->step / l->speed;

	if (s->c->spread > 0)
		seconds *= fmax(LEAST, 1 + s->c->spread *
			(double)rng_normal_at(s->c->seed, rng_stream("steps") + i, l->draws++));
	l->began = s->now;
	l->until = s->now + seconds;
	set_phase(s, l, SIM_TRAINING);
}

void sim_learner_go(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];

	slices_regroup(&l->slices);
	begin_step(s, i);
}

static int stop(struct sim *s, unsigned i, double seconds, enum trace_why why)
{
	struct sim_learner *l = &s->learner[i];

	set_phase(s, l, SIM_STOPPED);
	l->until = s->now + seconds;
	l->want_up = false;
	s->stops++;
	if (l->reviving)
		return 0;
	return sim_tell(s, (struct trace_event){ .kind = TRACE_STOP, .learner = i, .seconds = seconds, .why = why });
}

/* diloco: H steps since the last merge. */
static bool has_done(const struct sim *s, const struct sim_learner *l)
{
	return s->c->mode == TRACE_DILOCO && l->steps - l->mark >= s->c->interval;
}

static int revive(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];

	l->reviving = false;
	l->beat_at = s->now;
	if (forgets(s))
		sim_wire_newest(s, i);
	else
		sim_wire_restart(s, i);
	return sim_tell(s, (struct trace_event){ .kind = TRACE_BACK, .learner = i });
}

/* What it missed is there at once where all wait for each other. */
static int catch_up(struct sim *s, unsigned i)
{
	int rc = revive(s, i);

	return rc == 0 && s->c->mode == TRACE_DILOCO ? sim_barrier_adopt(s, i) : rc;
}

/* The end of a stop. */
static int resume(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	int rc = l->reviving ? catch_up(s, i) : 0;

	slices_regroup(&l->slices);
	if (rc == 0 && has_done(s, l)) {
		set_phase(s, l, SIM_WAITING);
		return sim_barrier_look(s);
	}
	if (rc == 0)
		begin_step(s, i);
	return rc;
}

static int end_step(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	double share = slices_share(&l->slices);
	int rc;

	s->steps++;
	l->steps++;
	l->tokens += s->step_tokens * share;
	s->productive += (s->now - l->began) * l->slices.part * chips_each(l);
	rc = sim_tell(s, (struct trace_event){ .kind = TRACE_STEP, .learner = i, .share = share });
	if (rc == 0 && s->c->mode == TRACE_DECOUPLED)
		rc = sim_wire_boundary(s, i);
	if (rc == 0 && has_done(s, l)) {
		set_phase(s, l, SIM_WAITING);
		return sim_barrier_reached(s, i);
	}
	if (rc == 0 && l->want_up)
		return stop(s, i, s->c->scale_up, TRACE_UP);
	if (rc == 0)
		begin_step(s, i);
	return rc;
}

/* ---- failures ---- */

static int die(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	bool told = l->phase == SIM_DEAD || l->reviving;

	set_phase(s, l, SIM_DEAD);
	sim_wire_drop(s, i);
	l->reviving = false;
	if (told)
		return 0;
	return sim_tell(s, (struct trace_event){ .kind = TRACE_LOST, .learner = i, .kept = !forgets(s) });
}

static int fail(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];

	s->failures++;
	if (l->slices.live == 0)
		return die(s, i);
	if (l->phase == SIM_TRAINING)
		return rigid(s) ? stop(s, i, s->c->restart, TRACE_RESTART)
				: stop(s, i, s->c->scale_down, TRACE_DOWN);
	return 0; /* one within a stop is absorbed by it */
}

static int come_back(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];

	if (l->phase == SIM_DEAD) {
		l->reviving = true;
		return stop(s, i, s->c->scale_up, TRACE_UP);
	}
	l->want_up = l->phase == SIM_TRAINING;
	return 0;
}

/* ---- coming and leaving ---- */

static int join(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	int rc = sim_tell(s, (struct trace_event){ .kind = TRACE_JOIN, .learner = i });

	l->known = true;
	l->part->version = *s->version; /* diloco */
	l->came = s->now;
	l->mark = l->steps;
	l->phase = SIM_STOPPED;
	if (rc == 0 && s->c->mode == TRACE_DECOUPLED) {
		sim_wire_newest(s, i);
		rc = sim_wire_beat(s, i, false);
	}
	if (l->slices.live == 0) {
		set_phase(s, l, SIM_DEAD);
		if (rc < 0)
			return rc;
		return sim_tell(s, (struct trace_event){ .kind = TRACE_LOST, .learner = i, .kept = !forgets(s) });
	}
	if (rc == 0 && s->c->mode == TRACE_DILOCO && s->now > 0)
		set_phase(s, l, SIM_WAITING); /* it begins with the others, after their next merge */
	else if (rc == 0)
		sim_learner_go(s, i);
	return rc;
}

static int leave(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	int rc = 0;

	if (l->phase == SIM_DEAD || l->reviving) /* nobody is there who could leave */
		rc = sim_tell(s, (struct trace_event){ .kind = TRACE_BACK, .learner = i });
	if (rc == 0 && s->c->mode == TRACE_DECOUPLED)
		rc = sim_wire_beat(s, i, true);
	sim_learner_leave(s, i);
	set_phase(s, l, SIM_AWAY);
	if (rc == 0)
		rc = sim_tell(s, (struct trace_event){ .kind = TRACE_GONE, .learner = i });
	return rc == 0 && s->c->mode == TRACE_DILOCO ? sim_barrier_look(s) : rc;
}

/* ---- acting ---- */

int sim_learner_act(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];

	if (!l->known)
		return join(s, i);
	if (s->now >= l->leaves)
		return leave(s, i);
	if (s->now >= slices_next(&l->slices))
		return slices_happen(&l->slices) ? fail(s, i) : come_back(s, i);
	return l->phase == SIM_TRAINING ? end_step(s, i) : resume(s, i);
}

void sim_learner_plan(struct sim *s, unsigned i)
{
	const struct sim_learner *l = &s->learner[i];
	double t = l->from;

	if (l->known && l->phase == SIM_AWAY)
		t = HUGE_VAL;
	else if (l->known)
		t = fmin(fmin(l->until, l->leaves), slices_next(&l->slices));
	agenda_set(&s->agenda, i, t);
}
