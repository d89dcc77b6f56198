#include "round/syncer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "form/card.h"
#include "io/place.h"
#include "io/wake.h"
#include "round/fields.h"
#include "round/rundir.h"
#include "round/syncing.h"

#define TURN 0.05        /* seconds between turns while rounds are open, at least */
#define TURN_IDLE 0.25   /* while none is, at most */
#define TURN_MOST 1.0
#define TURN_SHARE 25    /* and so many times what a turn took */
#define BEAT 0.9         /* seconds between heads */
#define RETRY 0.2        /* seconds after a failure, doubled up to */
#define RETRY_MOST 5.0
#define PASSES 60        /* of --once, that the last rounds wait for an answer */
#define SEE_OFF 5.0      /* seconds that learners are given to leave when the run is done */

double syncer_now(const struct syncer *s)
{
	return clock_now(&s->c.clock);
}

const char *syncer_run_id(const struct syncer *s)
{
	return s->c.manifest->meta.run;
}

double syncer_seconds(const struct syncer *s)
{
	return syncer_now(s) - s->began;
}

/* ---- the head ---- */

/* Merged: the mean over fragments by size. */
uint64_t syncer_tokens(const struct syncer *s)
{
	double sum = 0, elems = 0;

	for (unsigned p = 0; p < s->fragments.n; p++) {
		sum += (double)s->head.fragment[p].tokens * (double)s->fragments.v[p].elems;
		elems += (double)s->fragments.v[p].elems;
	}
	return (uint64_t)(sum / elems + 0.5);
}

static int fill_head(struct syncer *s)
{
	struct head *h = &s->head;
	int rc = 0;

	memcpy(h->run, syncer_run_id(s), sizeof h->run);
	memcpy(h->nonce, s->epoch.nonce, sizeof h->nonce);
	h->epoch = s->epoch.number;
	h->serial = s->c.manifest->serial;
	h->tokens = syncer_tokens(s) < FIELD_MOST ? syncer_tokens(s) : FIELD_MOST;
	h->trained = roster_trained(&s->roster);
	h->step = 0;
	for (unsigned p = 0; p < h->fragments; p++)
		if (h->fragment[p].step > h->step)
			h->step = h->fragment[p].step;
	policy_times(s->policy, &h->times);
	h->tape_lines = tape_lines(s->tape);
	tape_last(s->tape, &h->tape_hash);
	while (h->calls)
		head_end_call(h, h->call[0].round);
	for (size_t i = 0; i < s->calls && rc == 0; i++) {
		const struct call *c = s->call[i];

		if (c->open)
			rc = head_add_call(h, c->round, c->fragment, c->version, c->invited);
	}
	return rc;
}

int syncer_publish(struct syncer *s, bool fast)
{
	struct header h = { .keys = { 0 } };
	struct buf bytes = BUF_INIT;
	int rc = fill_head(s);

	s->head.counter++;
	if (rc == 0 && (rc = head_write(&s->head, &h)) == 0)
		rc = card_seal(&bytes, &h, &s->c.key->secret, NULL);
	if (rc == 0)
		rc = place_put(RUNDIR_HEAD, bytes.data, bytes.len, fast);
	if (rc == 0) {
		s->dirty = false;
		s->head_due = syncer_now(s) + BEAT;
	}
	header_release(&h);
	buf_release(&bytes);
	return rc;
}

/* While something takes long, learners and other syncers see that this one lives. */
void syncer_tick(void *ctx)
{
	struct syncer *s = ctx;

	if (syncer_now(s) >= s->head_due && syncer_publish(s, true) < 0)
		s->head_due = syncer_now(s) + RETRY;
}

/* ---- turns ---- */

/* At the end of a run that is driven by passes, whoever has not answered for so many of them will not. */
static void expire(struct syncer *s)
{
	if (!s->c.once || s->head.phase != PHASE_CLOSING)
		return;
	for (size_t i = 0; i < s->calls; i++)
		if (s->call[i]->open && s->epoch.number - s->call[i]->epoch >= PASSES)
			policy_expire(s->policy, s->call[i]->round);
}

/* 1: the run is done. *until: when there is something to do, if nothing comes before. */
static int decide(struct syncer *s, double *until)
{
	struct policy_step st;
	struct call *c;
	int rc = 0;

	expire(s);
	while (rc == 0) {
		policy_next(s->policy, syncer_now(s), &st);
		c = syncer_call(s, st.round);
		*until = st.until;
		if (st.act == POLICY_WAIT)
			return 0;
		if (st.act == POLICY_DONE)
			return s->c.once && s->did ? 0 : finish_run(s); /* who is between two turns may have more */
		if (st.act == POLICY_CALL)
			rc = perform_call(s, &st);
		else if (!c)
			return err_set(ERR_DATA, "round %" PRIu64 " is not known", st.round);
		else if (st.act == POLICY_ABANDON)
			rc = perform_abandon(s, c, "no quorum can come any more");
		else {
			c->held = true;
			c->delay.pause = c->delay.retry = 0;
			if ((rc = perform_merge(s)) == 0 && (rc = finish_begin(s)) == 0)
				rc = finish_checkpoint(s);
		}
	}
	return rc;
}

/* Everything once. 1: the run is done. */
static int turn(struct syncer *s, double *until)
{
	int rc;

	*until = HUGE_VAL;
	if (s->head.phase == PHASE_DONE) {
		rc = syncer_publish(s, false);
		return rc < 0 ? rc : 1;
	}
	if ((rc = standing_check(s)) < 0 || (rc = listen_all(s)) < 0 || (rc = collect(s)) < 0 ||
		(rc = mend_all(s)) < 0 || (rc = perform_merge(s)) < 0 || (rc = finish_begin(s)) < 0 ||
		(rc = finish_checkpoint(s)) < 0)
		return rc;
	return decide(s, until);
}

void syncer_put_off(const struct syncer *s, struct delay *d)
{
	d->pause = d->pause > 0 ? fmin(2 * d->pause, RETRY_MOST) : RETRY;
	d->retry = syncer_now(s) + d->pause;
}

void syncer_bear(struct syncer *s, struct trouble *t, int rc, const char *what)
{
	double now = syncer_now(s);

	if (strcmp(t->note.text, err_text()) != 0 || now - t->delay.told >= TELL_AGAIN) {
		err_save(&t->note, rc);
		t->delay.told = now;
		say_warn(s->c.say, "%s: %strying again", err_text(), what);
	}
	syncer_put_off(s, &t->delay);
}

/* No matter of waiting: cron is to hear of it. */
void syncer_undone(struct syncer *s, int rc)
{
	if (s->undone.code == 0)
		err_save(&s->undone, rc == ERR_AGAIN ? ERR_DATA : rc);
}

static bool passes(const struct syncer *s, int rc)
{
	return rc != ERR_BUSY && rc != ERR_NOMEM && !s->hopeless && !tape_lost(s->tape);
}

static bool any_open(const struct syncer *s)
{
	for (size_t i = 0; i < s->calls; i++)
		if (s->call[i]->open)
			return true;
	return false;
}

/* Sleeps until the next turn, but wakes for a signal. took: what this one took. */
static void rest(const struct syncer *s, double until, double took)
{
	double most = any_open(s) ? TURN : TURN_IDLE, least = fmin(TURN_SHARE * took, TURN_MOST);
	double seconds = fmax(fmin(until - syncer_now(s), most), 0.002);
	struct timespec t;

	seconds = fmax(seconds, least);
	t.tv_sec = (time_t)seconds;
	t.tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
	nanosleep(&t, NULL);
}

static int tell_end(struct syncer *s)
{
	int rc;

	tape_begin(s->tape, syncer_seconds(s), "end");
	rc = tape_end(s->tape, true);
	return rc < 0 ? rc : syncer_publish(s, true);
}

/* ---- why nothing happens ---- */

static int add_missing(struct buf *out, const struct syncer *s, const struct call *c)
{
	const char *comma = "";
	int rc = 0;

	for (size_t i = 0; i < s->roster.n && rc == 0; i++) {
		const struct roster_learner *l = s->roster.v[i];
		bool answered = i < c->slots && c->slot[i].state != SLOT_EMPTY;

		if (answered || !call_invites(c, l->name))
			continue;
		rc = buf_fmt(out, "%s%s%s", comma, l->name, l->gone ? " (left)" : l->lost ? " (lost)" : "");
		comma = ", ";
	}
	return rc == 0 && !*comma ? buf_str(out, "learners that never came") : rc;
}

static int add_waiting(struct buf *out, const struct syncer *s, const struct call *c)
{
	size_t answers = 0;
	time_t at = (time_t)c->at;
	struct tm tm;
	char text[32] = "";
	int rc;

	for (size_t i = 0; i < c->slots; i++)
		answers += c->slot[i].state == SLOT_ANSWERED;
	rc = buf_fmt(out, "%sround %" PRIu64 " (f%03u) has %zu of %u answers and waits for ",
		out->len ? "; " : "", c->round, c->fragment, answers, s->c.manifest->quorum);
	if (rc == 0)
		rc = add_missing(out, s, c);
	if (rc == 0 && c->at && gmtime_r(&at, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm))
		rc = buf_fmt(out, " since %s", text);
	return rc;
}

/* ERR_AGAIN, and a sentence that says who is waited for. */
static int not_yet(const struct syncer *s, const char *what)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	for (size_t i = 0; i < s->calls && rc == 0; i++)
		if (s->call[i]->open)
			rc = add_waiting(&text, s, s->call[i]);
	if (rc == 0 && text.len == 0)
		rc = buf_fmt(&text, "no round is due, %zu of %zu learners are alive, a quorum needs %u",
			policy_alive_count(s->policy, syncer_now(s)), s->roster.n, s->c.manifest->quorum);
	if (rc == 0)
		rc = err_set(ERR_AGAIN, "%s: %s", what, text.data);
	buf_release(&text);
	return rc;
}

static bool too_late(const struct syncer *s)
{
	double since = fmax(s->began, s->merged);

	return s->c.deadline > 0 && syncer_now(s) - since >= s->c.deadline;
}

static bool time_to_leave(const struct syncer *s)
{
	return wake_requested() || (s->c.lasting > 0 && syncer_seconds(s) >= s->c.lasting);
}

/* ---- running ---- */

static int leave(struct syncer *s, int rc)
{
	struct err_note note;

	err_save(&note, rc);
	if (tell_end(s) < 0)
		say_warn(s->c.say, "%s", err_text());
	return err_restore(&note);
}

static int run_once(struct syncer *s)
{
	double until;
	int rc = turn(s, &until);

	if (rc == 0 && s->dirty)
		rc = syncer_publish(s, true);
	if (rc == 0 && s->undone.code)
		rc = err_restore(&s->undone);
	if (rc == 0 && !s->did)
		rc = not_yet(s, "nothing to merge");
	return rc == ERR_BUSY || tape_lost(s->tape) ? rc : leave(s, rc < 0 ? rc : 0);
}

/* ERR_DATA when there is nothing to try again in. */
static int bear(struct syncer *s, int rc)
{
	struct err_note note;

	err_save(&note, rc);
	if (rundir_there() < 0)
		return ERR_DATA;
	rc = err_restore(&note);
	if (!passes(s, rc))
		return rc;
	syncer_bear(s, &s->trouble, rc, "");
	return 0;
}

static int one_turn(struct syncer *s, double *until)
{
	int rc = 0;

	*until = s->trouble.delay.retry;
	if (syncer_now(s) >= s->trouble.delay.retry && (rc = turn(s, until)) == 0)
		s->trouble.delay.pause = 0;
	if (rc < 0)
		rc = bear(s, rc);
	if (rc == 0 && (s->dirty || syncer_now(s) >= s->head_due) && (rc = syncer_publish(s, true)) < 0) {
		rc = bear(s, rc);
		s->head_due = syncer_now(s) + RETRY;
	}
	return rc;
}

static bool all_gone(const struct syncer *s)
{
	for (size_t i = 0; i < s->roster.n; i++)
		if (!s->roster.v[i]->gone && !s->roster.v[i]->lost)
			return false;
	return true;
}

/* The run is done. Learners see that and leave; what is still on its way from them is late, and told so. */
static void see_off(struct syncer *s)
{
	double until = syncer_now(s) + fmin(SEE_OFF, s->c.manifest->lease);

	s->roster.scan = 0;
	while (syncer_now(s) < until && !wake_requested()) {
		bool last = all_gone(s) && s->roster.scan > 0;

		if (listen_all(s) < 0 || collect(s) < 0 ||
			(syncer_now(s) >= s->head_due && syncer_publish(s, true) < 0))
			break;
		if (last)
			break;
		rest(s, syncer_now(s) + TURN, 0);
	}
}

/* What is lost of it since then comes back, if that can be. */
static int done_before(struct syncer *s)
{
	int rc = mend_done(s);

	return rc < 0 ? rc : finish_again(s);
}

int syncer_run(struct syncer *s)
{
	double until, began, merged;
	int rc = 0;

	if (!s->tape)
		return done_before(s);
	if (s->c.once)
		return run_once(s);
	while (rc == 0 && !time_to_leave(s)) {
		if (too_late(s)) {
			rc = not_yet(s, "nothing was merged until the deadline");
			break;
		}
		began = syncer_now(s);
		merged = s->merged;
		if ((rc = one_turn(s, &until)) == 0)
			rest(s, until, s->merged > merged ? 0 : syncer_now(s) - began);
	}
	if (rc > 0)
		see_off(s);
	if (rc == ERR_BUSY || rc == ERR_NOMEM || rc == ERR_DATA || tape_lost(s->tape))
		return rc;
	return leave(s, rc < 0 ? rc : 0);
}
