#include <math.h>
#include <stdlib.h>

#include "chaos/sim_inside.h"

static double seconds_for(const struct sim *s, double bytes)
{
	return 8 * bytes / s->c->bandwidth; /* 0 without a limit */
}

static double bytes_of(const struct sim *s, double bits)
{
	return s->c->params / s->fragments * bits / 8;
}

/* ---- signs of life ---- */

int sim_wire_beat(struct sim *s, unsigned i, bool gone)
{
	struct sim_learner *l = &s->learner[i];
	const double next = s->now + s->c->beat; /* nothing would make the syncer look before */
	struct policy_beat b = { .learner = i, .steps = l->steps, .step_seconds = s->c->step / l->speed,
		.since = s->since, .gone = gone };

	for (unsigned f = 0; f < s->fragments; f++)
		s->since[f] = l->part[f].version == s->version[f] ? l->steps - l->part[f].at : POLICY_OLD_BASE;
	l->beat_at = s->now + s->c->beat;
	if (!s->merging && s->agenda.time[sim_syncer(s)] > next)
		agenda_set(&s->agenda, sim_syncer(s), fmax(s->now, s->looks));
	return policy_beat(s->policy, s->now, &b);
}

/* ---- versions ---- */

static void take(struct sim_learner *l, unsigned f, uint64_t version, bool keep)
{
	struct sim_part *p = &l->part[f];

	p->version = version;
	p->out = p->snap = false;
	if (keep)
		return;
	p->at = l->steps;
	p->tokens_at = l->tokens;
}

/* Bytes that were given to a link one after the other are under way until `free`; but a whole model, with which a
 * learner begins, is there at once, so no more counts than goes over the link in the time. */
static double moved(const struct sim *s, const struct sim_learner *l, double bytes, double free_at)
{
	const double rate = s->c->bandwidth / 8;

	if (isinf(rate))
		return bytes;
	return fmin(fmax(0, bytes - fmax(0, free_at - s->now) * rate), (s->now - l->linked) * rate);
}

void sim_wire_account(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];

	s->sent += moved(s, l, l->sent, l->up_free);
	s->received += moved(s, l, l->received, l->down_free);
	l->sent = l->received = 0;
	l->linked = s->now;
}

void sim_wire_newest(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];

	sim_wire_account(s, i); /* of a link that begins anew */
	for (unsigned f = 0; f < s->fragments; f++) {
		take(l, f, s->version[f], false);
		l->part[f].out = l->part[f].answered > s->made[f];
	}
	l->received = s->fragments * bytes_of(s, s->c->fragment_bits);
	l->cursor = s->logged;
	l->fetching = false;
	l->up_free = l->down_free = s->now;
}

/* Snapshots are no part of what is saved. */
void sim_wire_restart(struct sim *s, unsigned i)
{
	for (unsigned f = 0; f < s->fragments; f++)
		s->learner[i].part[f].snap = false;
}

/* The next publication that it has not got and that still is the newest of its fragment: begins to fetch it. */
static bool fetch(struct sim *s, struct sim_learner *l)
{
	for (; l->cursor < s->logged; l->cursor++) {
		const struct sim_publication *p = &s->log[l->cursor];
		double seen = p->at + s->c->latency, start = fmax(seen, l->down_free);

		if (seen > s->now)
			return false;
		if (p->version != s->version[p->fragment] && s->published[p->fragment] + s->c->latency <= start)
			continue; /* overtaken */
		l->fetched = l->cursor++;
		l->fetched_at = l->down_free = start + seconds_for(s, bytes_of(s, s->c->fragment_bits));
		l->fetching = true;
		l->received += bytes_of(s, s->c->fragment_bits);
		return true;
	}
	return false;
}

/* What was trained since the last answer stays, where a learner can tell it from what the answer had (replica.c). */
static bool keeps(const struct sim *s, const struct sim_part *part, const struct sim_publication *p)
{
	return s->c->rebase && (!part->out || part->snap ||
		(p->version == part->version + 1 && part->counted != p->round));
}

static int adopt(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	const struct sim_publication *p = &s->log[l->fetched];
	struct sim_part *part = &l->part[p->fragment];

	l->fetching = false;
	if (part->version >= p->version)
		return 0;
	if (part->counted == p->round) {
		s->stale += (double)(l->steps - part->at);
		s->stales++;
	}
	take(l, p->fragment, p->version, keeps(s, part, p));
	return sim_tell(s, (struct trace_event){ .kind = TRACE_ADOPT, .learner = i, .fragment = p->fragment,
		.version = p->version });
}

static int adopt_all(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	int rc = 0;

	while (rc == 0 && (l->fetching || fetch(s, l)) && l->fetched_at <= s->now)
		rc = adopt(s, i);
	return rc;
}

/* ---- answers ---- */

static int send(struct sim *s, unsigned i, double at, uint64_t round)
{
	struct sim_learner *l = &s->learner[i];

	if (l->letters == l->letters_room) {
		size_t room = l->letters_room ? 2 * l->letters_room : 4;
		struct sim_letter *more = calloc(room, sizeof *more);

		if (!more)
			return err_nomem();
		for (size_t k = 0; k < l->letters; k++)
			more[k] = l->letter[(l->first_letter + k) % l->letters_room];
		free(l->letter);
		l->letter = more;
		l->letters_room = room;
		l->first_letter = 0;
	}
	l->letter[(l->first_letter + l->letters++) % l->letters_room] = (struct sim_letter){ at, round };
	if (l->letters == 1)
		agenda_set(&s->agenda, s->n + i, at);
	return 0;
}

static bool may_answer(const struct sim *s, unsigned i, const struct sim_call *c)
{
	const struct sim_part *p = &s->learner[i].part[c->fragment];

	return c->published + s->c->latency <= s->now && s->now < c->ended + s->c->latency &&
	       (!c->invited || c->invited[i]) && p->version == c->version &&
	       (p->answered != c->round || p->again) && s->learner[i].steps > p->at;
}

static int answer(struct sim *s, unsigned i, const struct sim_call *c)
{
	struct sim_learner *l = &s->learner[i];
	struct sim_part *p = &l->part[c->fragment];
	double bytes = bytes_of(s, s->c->delta_bits);
	uint64_t steps = l->steps - p->at;
	int rc;

	p->given = l->tokens - p->tokens_at;
	p->at = l->steps;
	p->tokens_at = l->tokens;
	p->answered = c->round;
	p->out = p->snap = true;
	p->again = false;
	l->up_free = fmax(l->up_free, s->now) + seconds_for(s, bytes);
	l->sent += bytes;
	rc = send(s, i, l->up_free + s->c->latency, c->round);
	return rc < 0 ? rc : sim_tell(s, (struct trace_event){ .kind = TRACE_ANSWER, .round = c->round,
		.fragment = c->fragment, .learner = i, .steps = steps, .tokens = (uint64_t)p->given });
}

static struct sim_letter take_letter(struct sim *s, unsigned i)
{
	struct sim_learner *l = &s->learner[i];
	struct sim_letter first = l->letter[l->first_letter];

	l->first_letter = (l->first_letter + 1) % l->letters_room;
	l->letters--;
	agenda_set(&s->agenda, s->n + i, l->letters ? l->letter[l->first_letter].at : HUGE_VAL);
	return first;
}

int sim_wire_arrive(struct sim *s, unsigned i)
{
	int rc;

	if (s->now < s->looks) { /* it lies there until then */
		agenda_set(&s->agenda, s->n + i, s->looks);
		return 0;
	}
	rc = policy_answer(s->policy, s->now, take_letter(s, i).round, i);
	if (rc < 0)
		return rc;
	s->late += rc == 0;
	agenda_set(&s->agenda, sim_syncer(s), s->now);
	return 0;
}

void sim_wire_drop(struct sim *s, unsigned i)
{
	while (s->learner[i].letters) {
		uint64_t round = take_letter(s, i).round;

		for (unsigned f = 0; f < s->fragments; f++)
			s->learner[i].part[f].again |= s->learner[i].part[f].answered == round;
		s->late++;
	}
}

/* ---- a boundary ---- */

int sim_wire_boundary(struct sim *s, unsigned i)
{
	int rc = adopt_all(s, i);

	for (unsigned k = 0; rc == 0 && k < s->seens; k++)
		if (may_answer(s, i, &s->call[s->seen[k]]))
			rc = answer(s, i, &s->call[s->seen[k]]);
	if (rc == 0 && s->now >= s->learner[i].beat_at)
		rc = sim_wire_beat(s, i, false);
	return rc;
}
