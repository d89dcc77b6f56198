/* perform - what policy decides, done: calls, merges, rounds given up. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/place.h"
#include "round/rundir.h"
#include "round/syncing.h"

/* ---- calls ---- */

/* "all", or names with commas. */
static int invited_text(struct buf *out, const struct syncer *s, const struct policy_step *st)
{
	int rc = st->invited ? 0 : buf_str(out, "all");

	for (size_t i = 0; i < st->n && st->invited && rc == 0; i++)
		rc = buf_fmt(out, "%s%s", i ? "," : "", s->roster.v[st->invited[i]]->name);
	return rc;
}

static int tell_call(struct syncer *s, const struct policy_step *st, const char *invited)
{
	char name[5];

	tape_begin(s->tape, syncer_seconds(s), "call");
	tape_put_u64(s->tape, "round", st->round);
	tape_put(s->tape, "fragment", rundir_fragment_name(name, st->fragment));
	tape_put_u64(s->tape, "version", s->head.fragment[st->fragment].version);
	tape_put(s->tape, "invited", invited);
	tape_put_f64(s->tape, "steps", floor(policy_steps_since(s->policy, st->fragment) * 100) / 100);
	return tape_end(s->tape, false);
}

static int note_call(struct syncer *s, const struct policy_step *st, const char *invited)
{
	const struct head_fragment *f = &s->head.fragment[st->fragment];
	struct call *c = syncer_call(s, st->round);
	char *copy = st->invited ? strdup(invited) : NULL;
	int rc;

	if (st->invited && !copy)
		return err_nomem();
	if (!c && (rc = syncer_add_call(s, &c, st->round, st->fragment, f->version, NULL)) < 0) {
		free(copy);
		return rc;
	}
	free(c->invited);
	c->invited = copy;
	c->base = f->id;
	c->epoch = s->epoch.number;
	c->called = syncer_now(s);
	c->at = (uint64_t)time(NULL);
	if (st->round > s->rounds)
		s->rounds = st->round;
	return 0;
}

int perform_call(struct syncer *s, const struct policy_step *st)
{
	struct policy_step told = *st; /* the list lives until policy is called */
	struct buf invited = BUF_INIT;
	int rc = invited_text(&invited, s, &told);

	if (rc == 0 && (rc = tell_call(s, &told, invited.data)) == 0)
		rc = note_call(s, &told, invited.data);
	buf_release(&invited);
	if (rc < 0)
		return rc;
	s->did = s->dirty = true;
	rc = syncer_publish(s, true);
	if (policy_called(s->policy, syncer_now(s), told.round) < 0)
		return ERR_NOMEM;
	return rc;
}

/* ---- merges ---- */

void perform_rules(struct commit_conf *c, struct syncer *s)
{
	*c = (struct commit_conf){ .manifest = s->c.manifest, .fragments = &s->fragments, .key = s->c.key,
		.makers = &s->makers, .learners = &s->learners, .pool = s->c.pool, .say = NULL,
		.tape = s->tape, .epoch = s->epoch.number, .now = syncer_seconds(s),
		.quorum = s->head.phase == PHASE_RUNNING ? s->c.manifest->quorum : 1,
		.tick = syncer_tick, .ctx = s };
}

static void round_times(struct commit *m, const struct syncer *s, const struct call *c)
{
	struct policy_round r;

	policy_times(s->policy, &m->times);
	for (size_t i = 0; i < policy_open_rounds(s->policy); i++) {
		policy_round_at(s->policy, i, &r);
		if (r.round != c->round || r.quorum < 0)
			continue;
		m->quorum = r.quorum - r.called;
		m->waited = syncer_now(s) - r.quorum;
	}
}

/* The answers that are there, to be merged. */
static int gather(struct commit *m, const struct syncer *s, const struct call *c)
{
	*m = (struct commit){ .round = c->round, .version = c->version + 1, .fragment = c->fragment,
		.base = c->base };
	m->answer = calloc(s->roster.n + 1, sizeof *m->answer);
	if (!m->answer)
		return err_nomem();
	for (size_t i = 0; i < c->slots; i++) {
		struct commit_answer *a = &m->answer[m->answers];

		if (c->slot[i].state != SLOT_ANSWERED)
			continue;
		memcpy(a->learner, s->roster.v[i]->name, sizeof a->learner);
		a->id = c->slot[i].id;
		a->tokens = c->slot[i].tokens;
		m->answers++;
	}
	round_times(m, s, c);
	return 0;
}

/* Answers that the tape says are refused. false: too few are left, and the round goes on. */
static bool drop_refused(struct syncer *s, struct call *c, const struct commit_answer *a, size_t n)
{
	bool enough = true;

	for (size_t k = 0; k < n; k++) {
		long i = roster_find(&s->roster, a[k].learner);

		if (!a[k].told || i < 0)
			continue;
		say_warn(s->c.say, "round %" PRIu64 ": the answer of %s is refused: %s", c->round,
			a[k].learner, a[k].why);
		c->slot[i].state = SLOT_REFUSED;
		c->slot[i].closed = true;
		enough &= policy_refused(s->policy, syncer_now(s), c->round, (unsigned)i);
	}
	return enough;
}

static void say_round(const struct syncer *s, const struct commit *m, double seconds)
{
	double achieved = policy_achieved_interval(s->policy);
	struct policy_times t;

	policy_times(s->policy, &t);
	say_note(s->c.say, "round %" PRIu64 ": f%03u is at version %" PRIu64 ", step %" PRIu64
		": answers %zu/%zu, xi_step %.3f, xi_quorum %.3f, xi_sync %.3f, slack %.3f, window %.3f, "
		"waited %.3f, merged in %.3f s, H %.1f", m->round, m->fragment, m->version, m->step, m->answers,
		policy_alive_count(s->policy, syncer_now(s)), t.step, t.quorum, t.sync, t.slack, t.window, m->waited,
		seconds, achieved);
}

/* Versions that nobody needs any more. What can't be removed stays. */
static void collect_garbage(const struct syncer *s, unsigned p)
{
	uint64_t keep = s->c.manifest->keep, version = s->head.fragment[p].version;
	char path[RUNDIR_PATH];

	if (keep == 0)
		return;
	while (version > keep) {
		int gone = place_remove(rundir_fragment(path, p, version - keep - 1));

		if (place_remove(rundir_outer(path, p, version - keep - 1)) < 0 || gone <= 0)
			return;
		version--;
	}
}

static void count_merged(struct syncer *s, struct call *c, const struct commit *m)
{
	for (size_t k = 0; k < m->answers; k++) {
		long i = roster_find(&s->roster, m->answer[k].learner);
		struct roster_learner *l;

		if (i < 0 || (size_t)i >= c->slots)
			continue;
		l = s->roster.v[i];
		c->slot[i].state = SLOT_ANSWERED;
		if (c->slot[i].trained > l->covered[c->fragment])
			l->covered[c->fragment] = c->slot[i].trained;
	}
}

static int published(struct syncer *s, struct call *c, const struct commit *m, double began)
{
	struct head_fragment *f = &s->head.fragment[c->fragment];
	double seconds = syncer_now(s) - began;
	int rc, rc2;

	*f = (struct head_fragment){ .version = m->version, .round = m->round, .step = m->step,
		.tokens = m->tokens, .id = m->id };
	count_merged(s, c, m);
	policy_merged(s->policy, syncer_now(s), c->round, seconds);
	c->held = false;
	s->merged = syncer_now(s);
	s->did = s->dirty = true;
	rc = collect_close(s, c);
	rc2 = syncer_publish(s, true);
	say_round(s, m, seconds);
	collect_garbage(s, c->fragment);
	return rc < 0 ? rc : rc2;
}

int perform_abandon(struct syncer *s, struct call *c, const char *why)
{
	char name[5];
	int rc;

	tape_begin(s->tape, syncer_seconds(s), "abandon");
	tape_put_u64(s->tape, "round", c->round);
	tape_put(s->tape, "fragment", rundir_fragment_name(name, c->fragment));
	tape_put(s->tape, "why", why);
	if ((rc = tape_end(s->tape, true)) < 0)
		return rc;
	say_warn(s->c.say, "round %" PRIu64 " is given up: %s", c->round, why);
	policy_abandoned(s->policy, syncer_now(s), c->round);
	commit_release(&c->commit);
	c->held = false;
	s->dirty = true;
	return collect_close(s, c);
}

/* A decision whose files are gone, given up for good before its answers learn that they count for nothing: none is
 * refused whose merge a syncer that comes after might still carry out. */
static int abandon_decision(struct syncer *s, struct call *c)
{
	struct commit given_up = c->commit;
	char why[ERR_TEXT];
	int rc;

	snprintf(why, sizeof why, "%s", err_text());
	c->commit = (struct commit){ .round = 0 };
	if ((rc = perform_abandon(s, c, why)) < 0 && c->open) {
		c->commit = given_up;
		return rc;
	}
	for (size_t k = 0; k < given_up.answers && rc == 0; k++) {
		struct commit_answer *a = &given_up.answer[k];

		a->verdict = VERDICT_ABANDONED;
		snprintf(a->why, sizeof a->why, "%.300s", why);
		rc = commit_refuse(s->tape, syncer_seconds(s), c->round, c->fragment, a);
	}
	commit_release(&given_up);
	return rc;
}

/* Was it the file that the round starts from, and is it as it was again? An error else, the old one or worse. */
static int mended(struct syncer *s, struct call *c, int rc)
{
	struct err_note note;
	int done;

	if (rc != ERR_DATA && rc != ERR_AUTH)
		return rc;
	err_save(&note, rc);
	if ((done = mend_fragment(s, c->fragment)) == 0)
		return err_restore(&note);
	c->delay.pause = c->delay.retry = 0;
	return done < 0 ? done : 0;
}

/* Something is in the way of this round, which is tried again soon. The others go on. */
static int put_off(struct syncer *s, struct call *c, int rc)
{
	double now = syncer_now(s);

	if (tape_lost(s->tape) || (rc = mended(s, c, rc)) == 0 || rc == ERR_BUSY || rc == ERR_NOMEM ||
		s->hopeless)
		return rc;
	if (!s->loss[c->fragment].told && (c->delay.pause <= 0 || now - c->delay.told >= TELL_AGAIN)) {
		say_warn(s->c.say, "%s: round %" PRIu64 " waits, and is tried again", err_text(), c->round);
		c->delay.told = now;
	}
	syncer_put_off(s, &c->delay);
	if (s->c.once)
		syncer_undone(s, rc);
	return 0;
}

/* A decision that is on the tape, and could not be carried out so far. */
static int merge_decided(struct syncer *s, struct call *c)
{
	struct commit_conf rules;
	double began = syncer_now(s);
	int rc;

	perform_rules(&rules, s);
	rc = commit_again(&c->commit, &rules);
	if (rc == ERR_DATA && (rc = mended(s, c, rc)) == 0)
		return 0;
	if (rc == ERR_DATA)
		return abandon_decision(s, c);
	if (rc < 0)
		return rc == ERR_BUSY ? rc : put_off(s, c, rc);
	rc = published(s, c, &c->commit, began);
	commit_release(&c->commit);
	return rc;
}

/* At the end of the run what is there is merged: better that than to lose what its learners have trained. */
static void tell_few(struct syncer *s, const struct commit *m)
{
	if (s->told_few || m->answers >= s->c.manifest->quorum)
		return;
	s->told_few = true;
	say_warn(s->c.say, "round %" PRIu64 ": the run is at its end: merged what is there, %zu of the %u answers of a "
		"quorum", m->round, m->answers, s->c.manifest->quorum);
}

/* 1: published; 0: its round goes on, or the decision is there and is carried out later. */
static int merge_new(struct syncer *s, struct call *c)
{
	struct commit_conf rules;
	struct commit m;
	char path[RUNDIR_PATH];
	double began = syncer_now(s);
	int rc;

	if ((rc = standing_revoked(s)) < 0 || (rc = gather(&m, s, c)) < 0)
		return rc;
	perform_rules(&rules, s);
	rc = commit_make(&m, &rules);
	if (m.fresh && m.decided)
		say_warn(s->c.say, "%s: lost or damaged: the momentum of f%03u starts from zero",
			rundir_outer(path, m.fragment, m.version - 1), m.fragment);
	if (!drop_refused(s, c, m.answer, m.answers + m.refused) && !m.decided)
		c->held = false;
	if (rc == 0) {
		tell_few(s, &m);
		rc = published(s, c, &m, began);
	} else if (m.decided) {
		c->commit = m;
		m = (struct commit){ .round = 0 };
		rc = rc == ERR_BUSY ? rc : put_off(s, c, rc);
	} else if (rc == ERR_AGAIN) {
		say_note(s->c.say, "%s", err_text());
		rc = 0;
	} else if (rc != ERR_BUSY) {
		rc = put_off(s, c, rc);
	}
	commit_release(&m);
	return rc;
}

static int merge_one(struct syncer *s, struct call *c)
{
	if (!c->open || syncer_now(s) < c->delay.retry)
		return 0;
	if (c->commit.decided)
		return merge_decided(s, c);
	return c->held ? merge_new(s, c) : 0;
}

/* What is decided, by policy or on the tape, and is not done yet: all of it, whatever is in the way of one. */
int perform_merge(struct syncer *s)
{
	struct err_note first = { .code = 0 };

	for (size_t i = 0; i < s->calls; i++) {
		int rc = merge_one(s, s->call[i]);

		if (rc == ERR_BUSY || rc == ERR_NOMEM)
			return rc;
		if (rc < 0 && first.code == 0)
			err_save(&first, rc);
	}
	return first.code ? err_restore(&first) : 0;
}
