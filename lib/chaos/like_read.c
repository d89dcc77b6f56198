#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/like_inside.h"

#define SILENT_MOST 8 /* answer intervals: beyond, a gap between answers is no time of training */

/* ---- learners ---- */

static int find(const struct like_reading *r, const char *name)
{
	for (unsigned i = 0; i < r->l->learners; i++)
		if (strcmp(r->l->learner[i].name, name) == 0)
			return (int)i;
	return -1;
}

static int change(struct like_reading *r, double at, int by)
{
	if (r->changes == r->room) {
		size_t room = r->room ? 2 * r->room : 64;
		void *more = reallocarray(r->change, room, sizeof *r->change);

		if (!more)
			return err_nomem();
		r->change = more;
		r->room = room;
	}
	r->change[r->changes++] = (struct like_change){ at, by };
	return 0;
}

static int add_learner(struct like_reading *r, const char *name)
{
	const size_t n = r->l->learners + 1, P = r->m->fragments;
	void *v;

	if (n > SIM_LEARNERS)
		return err_set(ERR_DATA, "more than %d learners", SIM_LEARNERS);
	if (!(v = reallocarray(r->l->learner, n, sizeof *r->l->learner)))
		return err_nomem();
	r->l->learner = v;
	if (!(v = reallocarray(r->sight, n, sizeof *r->sight)))
		return err_nomem();
	r->sight = v;
	if (!(v = reallocarray(r->given, n * P, sizeof *r->given)))
		return err_nomem();
	r->given = v;
	memset(r->given + (n - 1) * P, 0, P * sizeof *r->given);
	r->l->learner[n - 1] = (struct like_learner){ .joined = r->now, .left = HUGE_VAL };
	snprintf(r->l->learner[n - 1].name, sizeof r->l->learner->name, "%s", name);
	r->sight[n - 1] = (struct like_sight){ .last = -1, .lost = -1, .heard = r->now, .from = r->now };
	r->l->learners++;
	return change(r, r->now, 1);
}

static int take_join(struct like_reading *r, const struct tape_line *t)
{
	const char *name = tape_text(t, "learner");
	int rc = find(r, name) < 0 ? add_learner(r, name) : 0;
	int i = find(r, name);

	if (rc == 0 && i >= 0)
		r->sight[i].incarnation = tape_u64(t, "incarnation");
	return rc;
}

int like_read_ends(struct like_reading *r, unsigned i, double at)
{
	struct like_sight *s = &r->sight[i];

	if (s->from < 0)
		return 0;
	at = fmin(fmax(at, s->from), r->now);
	r->l->learner[i].alive += at - s->from;
	s->from = -1;
	return change(r, at, -1);
}

/* The end of its last life, as far as can be told. */
static double died(const struct like_reading *r, int i)
{
	const struct like_sight *s = &r->sight[i];
	double gap = s->answers > 0 ? s->seconds / s->answers : 0;

	if (s->lost >= 0)
		return s->lost;
	return fmin(s->last >= 0 ? s->last + gap / 2 : fmax(s->from, s->heard), r->now);
}

static int take_failure(struct like_reading *r, int i)
{
	double at = died(r, i), away = r->now - at;

	r->l->learner[i].failures++;
	r->l->learner[i].away += away;
	r->away++;
	r->away_sum += away;
	r->away_squares += away * away;
	return like_read_ends(r, (unsigned)i, at);
}

/* A failure, unless it had left on purpose, or went away while no syncer was at work: that tells nothing about
 * learners, and may have been a stop of the whole run. Its life then counts as one. */
static int take_back(struct like_reading *r, const struct tape_line *t)
{
	int i = find(r, tape_text(t, "learner")), rc = 0;
	struct like_sight *s = i < 0 ? NULL : &r->sight[i];

	if (!s)
		return 0;
	if (s->left)
		s->absent += r->now - r->l->learner[i].left;
	else if (s->from < 0 || s->heard >= 0)
		rc = take_failure(r, i);
	r->l->learner[i].left = HUGE_VAL;
	s->incarnation = tape_u64(t, "incarnation");
	s->left = false;
	s->last = s->lost = -1;
	s->heard = r->now;
	if (rc < 0 || s->from >= 0)
		return rc;
	s->from = r->now;
	return change(r, r->now, 1);
}

static int take_lost(struct like_reading *r, const struct tape_line *t)
{
	int i = find(r, tape_text(t, "learner"));

	if (i < 0 || r->sight[i].lost >= 0)
		return 0;
	r->sight[i].lost = r->now - tape_f64(t, "silent");
	return like_read_ends(r, (unsigned)i, r->sight[i].lost);
}

static int take_gone(struct like_reading *r, const struct tape_line *t)
{
	int i = find(r, tape_text(t, "learner"));

	if (i < 0)
		return 0;
	r->l->learner[i].left = r->now;
	r->sight[i].left = true;
	return like_read_ends(r, (unsigned)i, r->now);
}

/* ---- rounds ---- */

static bool fragment_of(const struct like_reading *r, const struct tape_line *t, unsigned *f)
{
	const char *text = tape_text(t, "fragment");

	*f = 0;
	if (*text++ != 'f')
		return false;
	for (; *text >= '0' && *text <= '9' && *f < r->m->fragments; text++)
		*f = 10 * *f + (unsigned)(*text - '0');
	return *text == '\0' && *f < r->m->fragments;
}

static int take_call(struct like_reading *r, const struct tape_line *t)
{
	unsigned f;

	if (fragment_of(r, t, &f)) {
		r->called[f] = r->now;
		r->round[f] = tape_u64(t, "round");
	}
	return 0;
}

/* Step times of about H steps each, for their spread. */
static void sample(struct like_reading *r, struct like_sight *s, double seconds, double tokens)
{
	double step;

	s->window_seconds += seconds;
	s->window_tokens += tokens;
	if (s->window_tokens < (double)r->m->interval * r->step_tokens)
		return;
	step = s->window_seconds * r->step_tokens / s->window_tokens;
	s->samples++;
	s->sum += step;
	s->squares += step * step;
	s->window_seconds = s->window_tokens = 0;
}

/* From one answer to the next of an epoch it has trained, and done nothing else. */
static void between_answers(struct like_reading *r, int i, double trained)
{
	struct like_sight *s = &r->sight[i];
	double seconds = r->now - s->last, tokens = trained - s->last_trained;
	double usual = s->answers > 0 ? s->seconds / s->answers : HUGE_VAL;

	if (s->last >= 0 && tokens > 0 && seconds < SILENT_MOST * fmax(usual, 1)) {
		s->trained += tokens;
		s->seconds += seconds;
		s->answers++;
		sample(r, s, seconds, tokens);
	}
	if (s->last < 0 || tokens > 0) {
		s->last = r->now;
		s->last_trained = trained;
	}
}

static int take_answer(struct like_reading *r, const struct tape_line *t)
{
	int i = find(r, tape_text(t, "learner"));
	double tokens = tape_f64(t, "tokens"), steps = tape_f64(t, "steps"), trained = tape_f64(t, "trained");
	unsigned f;

	if (i < 0 || !fragment_of(r, t, &f) || tape_u64(t, "incarnation") != r->sight[i].incarnation)
		return 0;
	if (steps >= 1 && tokens > 0)
		r->step_tokens = fmax(r->step_tokens, tokens / steps);
	r->given[(size_t)i * r->m->fragments + f] = tokens;
	r->l->learner[i].tokens = fmax(r->l->learner[i].tokens, trained);
	r->sent++;
	if (r->called[f] < r->base) /* it may have lain there since before this epoch */
		return 0;
	r->sight[i].heard = r->now;
	between_answers(r, i, trained);
	if (r->round[f] == tape_u64(t, "round")) {
		r->replies++;
		r->reply += r->now - r->called[f];
	}
	return 0;
}

static int take_merge(struct like_reading *r, const struct tape_line *t)
{
	const char *at = tape_text(t, "answers");
	struct tape_answer a;
	unsigned f;
	int rc;

	if (!fragment_of(r, t, &f))
		return 0;
	while ((rc = tape_answer_next(&a, &at)) > 0) {
		int i = find(r, a.learner);

		r->l->measured.answers++;
		if (i >= 0)
			r->l->measured.merged += r->given[(size_t)i * r->m->fragments + f];
	}
	r->l->measured.merges++;
	if (r->step[f] >= 0) {
		r->intervals++;
		r->interval += r->now - r->step[f];
	}
	r->step[f] = r->now;
	if (r->merging >= 0) {
		r->merges++;
		r->merge_seconds += r->now - r->merging;
	}
	r->merging = r->now;
	r->syncs++;
	r->sync += tape_f64(t, "xi_sync");
	return rc;
}

static int take_finish(struct like_reading *r, const struct tape_line *t)
{
	(void)t;
	r->finishing = true;
	return 0;
}

/* ---- all of it ---- */

/* Its clock begins anew. The time between two is not there; what learners trained in it is no measure of speed. */
static void begin_epoch(struct like_reading *r, uint64_t epoch)
{
	r->base = r->now;
	r->epoch = epoch;
	for (unsigned i = 0; i < r->l->learners; i++)
		r->sight[i].heard = r->sight[i].last = -1;
	for (unsigned f = 0; f < r->m->fragments; f++)
		r->step[f] = -1;
}

static int take_line(struct like_reading *r, const struct tape_line *t)
{
	static const struct {
		const char *kind;
		int (*take)(struct like_reading *r, const struct tape_line *t);
	} kinds[] = {
		{ "join", take_join }, { "back", take_back }, { "lost", take_lost }, { "gone", take_gone },
		{ "call", take_call }, { "answer", take_answer }, { "merge", take_merge },
		{ "finish", take_finish },
	};

	if (t->epoch != r->epoch)
		begin_epoch(r, t->epoch);
	r->now = fmax(r->now, r->base + t->seconds);
	if (strcmp(t->kind, "merge") != 0 && strcmp(t->kind, "publish") != 0 && strcmp(t->kind, "refuse") != 0)
		r->merging = -1;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].kind, t->kind) == 0)
			return kinds[i].take(r, t);
	return 0;
}

int like_read_lines(struct like_reading *r, struct tape_reader *tape)
{
	const struct tape_line *t;
	int rc = 0;

	while (!r->finishing && (rc = tape_read(tape, &t)) > 0)
		if ((rc = take_line(r, t)) < 0)
			return rc;
	return r->finishing ? 0 : rc;
}
