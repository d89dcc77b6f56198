#include "chaos/like.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/say.h"
#include "chaos/like_inside.h"
#include "round/pace.h"

#define ENOUGH 10       /* samples */
#define SQRT3 1.7320508
#define EARLY 20        /* who joins in the first such part of the time was there from the beginning, and so on */

/* ---- fitting ---- */

/* Its end is left out, and a short run is nothing else: the tape does not tell how fast that was. */
static int too_little(const struct like_reading *r, bool once)
{
	return err_set(ERR_DATA, "no learner has answered%s%s: there is nothing to fit%s", once ? " twice" : "",
		r->finishing ? " before the run came to its end" : "",
		r->finishing ? "; take a run with more steps" : "");
}

static void fit_failures(const struct like_reading *r, struct sim_conf *c)
{
	double alive = 0, failures = 0, mean, deviation;

	for (unsigned i = 0; i < r->l->learners; i++) {
		alive += r->l->learner[i].alive;
		failures += (double)r->l->learner[i].failures;
	}
	c->mtbi = failures > 0 ? fmax(alive / failures, 1e-3) : HUGE_VAL;
	if (!(r->away > 0))
		return;
	mean = r->away_sum / r->away;
	deviation = sqrt(fmax(0, r->away_squares / r->away - mean * mean));
	c->repair_low = fmax(0, mean - SQRT3 * deviation);
	c->repair_high = fmax(c->repair_low, 2 * mean - c->repair_low);
}

static double spread_of(const struct like_reading *r)
{
	double n = 0, sum = 0;

	for (unsigned i = 0; i < r->l->learners; i++) {
		const struct like_sight *s = &r->sight[i];
		double mean = s->samples > 1 ? s->sum / s->samples : 0;

		if (!(mean > 0))
			continue;
		n += s->samples;
		sum += s->samples * sqrt(fmax(0, s->squares / s->samples - mean * mean)) / mean;
	}
	return n > 0 ? fmin(sum / n, 0.5) : 0.02;
}

/* The fastest one has speed 1. */
static int fit_speeds(struct like_reading *r, struct sim_conf *c)
{
	struct like *l = r->l;
	double fastest = HUGE_VAL;

	for (unsigned i = 0; i < l->learners; i++) {
		const struct like_sight *s = &r->sight[i];

		if (s->trained > 0 && s->seconds > 0)
			l->learner[i].step = fmax(1e-6, s->seconds * r->step_tokens / s->trained);
		if (l->learner[i].step > 0)
			fastest = fmin(fastest, l->learner[i].step);
	}
	if (fastest == HUGE_VAL)
		return too_little(r, true);
	if (!(l->speed = calloc(l->learners, sizeof *l->speed)))
		return err_nomem();
	for (unsigned i = 0; i < l->learners; i++) {
		if (!(l->learner[i].step > 0))
			l->learner[i].step = fastest;
		l->speed[i] = fmax(1e-3, fastest / l->learner[i].step);
	}
	c->speed = l->speed;
	c->speeds = l->learners;
	c->step = fastest;
	c->spread = spread_of(r);
	return 0;
}

static void rules_of(const struct manifest *m, struct sim_conf *c)
{
	sim_conf_defaults(c);
	c->fragments = m->fragments;
	c->interval = m->interval;
	c->overlap = m->overlap;
	c->quorum = m->quorum;
	c->invite = m->invite;
	c->grace = m->grace;
	c->lease = m->lease;
	c->rebase = m->adopt.how == ADOPT_REBASE;
	c->params = (double)tensors_total(&m->layout);
	c->delta_bits = m->delta == ENC_BF16 ? 16 : 32;
	c->fragment_bits = 32;
	c->fresh = true;
	c->slice = 1;
	c->scale_down = c->scale_up = 0;
	c->bandwidth = HUGE_VAL;
}

/* Was it there all the time, but for little at both ends? */
static bool stays(const struct like_learner *k, double began, double length)
{
	return k->joined - began <= length / EARLY && k->left - began >= length - length / EARLY;
}

/* Learners that joined late, or left, each one of its own. */
static int fit_joins(struct like *l, double began, double length)
{
	struct sim_conf *c = &l->conf;

	c->learners = 0;
	c->joins = 0;
	for (unsigned i = 0; i < l->learners; i++) {
		double from = l->learner[i].joined - began, until = l->learner[i].left - began;

		if (stays(&l->learner[i], began, length)) {
			c->learners++;
			continue;
		}
		if (c->joins == SIM_JOINS)
			return err_set(ERR_DATA, "more than %d learners came late or left", SIM_JOINS);
		c->join[c->joins++] = (struct sim_join){ .n = 1, .from = from,
			.until = until > length ? HUGE_VAL : fmax(until, from + 1e-6) };
	}
	if (!c->learners)
		return err_set(ERR_DATA, "no learner was there from its beginning to its end");
	c->chips = c->learners;
	return 0;
}

/* Those that stay come first, as a simulation has them. */
static void order(struct like_reading *r, double began, double length)
{
	struct like *l = r->l;
	unsigned n = 0;

	for (unsigned i = 0; i < l->learners; i++) {
		struct like_learner k = l->learner[i];
		struct like_sight s = r->sight[i];

		if (!stays(&k, began, length))
			continue;
		memmove(l->learner + n + 1, l->learner + n, (i - n) * sizeof k);
		memmove(r->sight + n + 1, r->sight + n, (i - n) * sizeof s);
		l->learner[n] = k;
		r->sight[n++] = s;
	}
}

/* Steps a second of the median learner, by which rounds are paced: median of steps, not of the time that one takes,
 * which is another for an even number. */
static double median_pace(const struct like *l)
{
	double pace[SIM_LEARNERS];

	for (unsigned i = 0; i < l->learners; i++)
		pace[i] = 1 / l->learner[i].step;
	return pace_median(pace, l->learners);
}

static int by_time(const void *a, const void *b)
{
	const struct like_change *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->by < y->by) - (x->by > y->by);
}

/* Seconds with at least K learners alive. */
static double time_up(struct like_reading *r)
{
	double up = 0, last = 0;
	int alive = 0;

	if (r->changes)
		qsort(r->change, r->changes, sizeof *r->change, by_time);
	for (size_t i = 0; i < r->changes; i++) {
		if (alive >= (int)r->m->quorum)
			up += r->change[i].at - last;
		last = r->change[i].at;
		alive += r->change[i].by;
	}
	return up + (alive >= (int)r->m->quorum ? r->now - last : 0);
}

static void measure(struct like_reading *r, double began)
{
	struct sim_result *v = &r->l->measured;
	double alive = 0, allotted = 0, bytes;

	for (unsigned i = 0; i < r->l->learners; i++) {
		const struct like_learner *k = &r->l->learner[i];

		v->trained += k->tokens;
		alive += fmin(k->alive, k->tokens / fmax(r->step_tokens, 1) * k->step);
		allotted += fmin(k->left, r->now) - k->joined - r->sight[i].absent;
		v->failures += (double)k->failures;
	}
	v->seconds = r->now - began;
	v->goodput = allotted > 0 ? alive / allotted : 0;
	v->uptime = v->seconds > 0 ? fmin(1, time_up(r) / v->seconds) : 0;
	v->answers = v->merges > 0 ? v->answers / v->merges : NAN;
	v->merged /= r->m->fragments;
	v->interval = r->intervals > 0 ? r->interval / r->intervals * median_pace(r->l) : NAN;
	v->steps = r->step_tokens > 0 ? v->trained / r->step_tokens : 0;
	bytes = r->l->conf.params / r->m->fragments / 8 *
		(r->sent * r->l->conf.delta_bits + v->merges * r->l->learners * r->l->conf.fragment_bits);
	v->syncer = v->seconds > 0 ? bytes / v->seconds : NAN;
	v->link = v->syncer / r->l->learners;
	v->staleness = v->stall = v->budget_at = v->stops = v->late = NAN;
}

static int fit(struct like_reading *r)
{
	struct like *l = r->l;
	double began = l->learners ? l->learner[0].joined : 0, length = r->now - began, wait;
	int rc;

	if (!l->learners || !(length > 0) || !(r->step_tokens > 0))
		return too_little(r, false);
	for (unsigned i = 0; i < l->learners; i++)
		if ((rc = like_read_ends(r, i, r->now)) < 0)
			return rc;
	order(r, began, length);
	if ((rc = fit_speeds(r, &l->conf)) < 0)
		return rc;
	fit_failures(r, &l->conf);
	l->conf.length = length;
	l->conf.merge = r->merges >= ENOUGH ? r->merge_seconds / r->merges : r->syncs > 0 ? r->sync / r->syncs : 0;
	/* of the time from call to answer, half a step passes until the next boundary, and half a turn of the
	 * syncer until it looks; the rest is two ways */
	wait = r->replies > 0 ? r->reply / r->replies - (l->conf.step + l->conf.look) / 2 : 0;
	l->conf.latency = fmax(0, wait / 2);
	measure(r, began);
	rc = fit_joins(l, began, length);
	l->conf.tokens = (uint64_t)fmax(1, r->step_tokens * l->conf.learners);
	return rc;
}

int like_read(struct like *l, const struct manifest *m, struct tape_reader *tape)
{
	struct like_reading r = { .l = l, .m = m, .merging = -1 };
	int rc = 0;

	*l = (struct like){ .learners = 0 };
	rules_of(m, &l->conf);
	r.called = calloc(m->fragments, sizeof *r.called);
	r.round = calloc(m->fragments, sizeof *r.round);
	r.step = calloc(m->fragments, sizeof *r.step);
	if (!r.called || !r.round || !r.step)
		rc = err_nomem();
	for (unsigned f = 0; rc == 0 && f < m->fragments; f++)
		r.step[f] = -1;
	if (rc == 0)
		rc = like_read_lines(&r, tape);
	if (rc == 0)
		rc = fit(&r);
	free(r.sight);
	free(r.given);
	free(r.called);
	free(r.round);
	free(r.step);
	free(r.change);
	return rc;
}

void like_release(struct like *l)
{
	free(l->learner);
	free(l->speed);
	*l = (struct like){ .learners = 0 };
}

/* ---- without some ---- */

static void remove_learner(struct like *l, unsigned i)
{
	struct sim_conf *c = &l->conf;
	size_t after = l->learners - i - 1;

	if (i < c->learners) {
		c->tokens = (uint64_t)fmax(1, (double)c->tokens / c->learners * (c->learners - 1));
		c->chips = --c->learners;
	} else {
		unsigned k = i - c->learners;

		memmove(c->join + k, c->join + k + 1, (c->joins - k - 1) * sizeof *c->join);
		c->joins--;
	}
	memmove(l->learner + i, l->learner + i + 1, after * sizeof *l->learner);
	memmove(l->speed + i, l->speed + i + 1, after * sizeof *l->speed);
	c->speeds = --l->learners;
}

int like_without(struct like *l, const char *names)
{
	while (*names) {
		size_t n = strcspn(names, ",");
		char shown[KEY_NAME + 1], word[KEY_NAME + 1];
		unsigned i = 0;

		snprintf(word, sizeof word, "%.*s", (int)(n < KEY_NAME ? n : KEY_NAME), names);
		while (i < l->learners && strcmp(l->learner[i].name, word) != 0)
			i++;
		say_escape(shown, sizeof shown, word);
		if (i == l->learners)
			return err_set(ERR_USAGE, "no learner of the run is called '%s'", shown);
		remove_learner(l, i);
		if (!l->conf.learners)
			return err_set(ERR_USAGE, "no learner that was there all the time is left without '%s'", shown);
		names += n + (names[n] == ',');
	}
	return 0;
}

/* ---- in words ---- */

int like_text(const struct like *l, struct buf *out)
{
	const struct sim_conf *c = &l->conf;
	int rc = buf_fmt(out, "%-20s  %8s  %5s  %8s  %8s\n", "LEARNER", "STEP", "SPEED", "FAILURES", "AWAY");

	for (unsigned i = 0; rc == 0 && i < l->learners; i++) {
		const struct like_learner *k = &l->learner[i];

		rc = buf_fmt(out, "%-20s  %6.3f s  %5.2f  %8.0f  %6.1f s\n", k->name, k->step, l->speed[i],
			(double)k->failures, k->failures ? k->away / (double)k->failures : 0);
	}
	if (rc == 0)
		rc = buf_fmt(out, "spread of steps %.2f, latency %.3f s, merge %.3f s", c->spread, c->latency,
			c->merge);
	if (rc == 0 && isfinite(c->mtbi))
		rc = buf_fmt(out, ", mtbi %.1f s, repair %.1f to %.1f s", c->mtbi, c->repair_low, c->repair_high);
	return rc < 0 ? rc : buf_str(out, "\n\n");
}
