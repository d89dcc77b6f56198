/* listen - the syncer's ears: who comes, goes, falls silent. */
#include <math.h>
#include <stdlib.h>

#include "round/syncing.h"

static int tell_learner(struct syncer *s, const struct roster_learner *l, const char *kind)
{
	tape_begin(s->tape, syncer_seconds(s), kind);
	tape_put(s->tape, "learner", l->name);
	return tape_end(s->tape, false);
}

static int tell_join(struct syncer *s, const struct roster_learner *l)
{
	char key[SIG_BASE64(SIG_PUBLIC)];

	sig_base64(key, sizeof key, l->key.b, sizeof l->key.b);
	tape_begin(s->tape, syncer_seconds(s), "join");
	tape_put(s->tape, "learner", l->name);
	tape_put(s->tape, "key", key);
	tape_put_u64(s->tape, "incarnation", l->beat.incarnation);
	return tape_end(s->tape, false);
}

static int tell_back(struct syncer *s, const struct roster_learner *l)
{
	tape_begin(s->tape, syncer_seconds(s), "back");
	tape_put(s->tape, "learner", l->name);
	tape_put_u64(s->tape, "incarnation", l->beat.incarnation);
	return tape_end(s->tape, false);
}

static void new_incarnation(struct syncer *s, struct roster_learner *l)
{
	l->told = l->beat.incarnation;
	l->born = l->beat.trained;
	l->first_round = s->rounds + 1;
}

/* What the beat means for the tape. */
static int tell_coming(struct syncer *s, struct roster_learner *l)
{
	int rc = 0;

	if (l->told == 0 && (rc = tell_join(s, l)) == 0) {
		new_incarnation(s, l);
		say_note(s->c.say, "learner %s joins", l->name);
	} else if (rc == 0 && (l->beat.incarnation > l->told || l->lost ||
		(l->gone && l->beat.state != BEAT_GONE))) {
		if ((rc = tell_back(s, l)) < 0)
			return rc;
		if (l->beat.incarnation > l->told)
			new_incarnation(s, l);
		say_note(s->c.say, "learner %s is back", l->name);
		l->lost = l->gone = false;
	}
	if (rc == 0 && l->beat.state == BEAT_GONE && !l->gone && (rc = tell_learner(s, l, "gone")) == 0) {
		say_note(s->c.say, "learner %s has left", l->name);
		l->gone = true;
	}
	return rc;
}

/* Trains no more, but may have something to answer. */
static bool is_idle(const struct syncer *s, const struct beat *b)
{
	const uint64_t target = s->c.manifest->target_steps;

	return b->state == BEAT_IDLE || (b->state == BEAT_GONE &&
		(s->head.phase != PHASE_RUNNING || (target && b->step >= target)));
}

/* In one pass a learner that left is one that comes back soon: cron drives it. */
static int tell_policy(struct syncer *s, unsigned i)
{
	const struct beat *b = &s->roster.v[i]->beat;
	uint64_t *since = calloc(s->fragments.n, sizeof *since);
	struct policy_beat beat = { .learner = i, .steps = b->steps, .step_seconds = b->step_seconds,
		.since = since, .idle = is_idle(s, b), .gone = b->state == BEAT_GONE && !s->c.once };
	int rc;

	if (!since)
		return err_nomem();
	for (unsigned p = 0; p < s->fragments.n; p++)
		since[p] = b->fragment[p].version == s->head.fragment[p].version ? b->fragment[p].steps
										  : POLICY_OLD_BASE;
	rc = policy_beat(s->policy, syncer_now(s), &beat);
	free(since);
	return rc;
}

/* A beat that counts has come. The first one of who was lost may be as old as that. */
int listen_hear(struct syncer *s, unsigned i)
{
	struct roster_learner *l = s->roster.v[i];
	int rc;

	if (l->lost && l->times == 1 && l->beat.incarnation == l->told && !s->c.once)
		return 0;
	if ((rc = tell_coming(s, l)) < 0)
		return rc;
	return tell_policy(s, i);
}

static int notice_silence(struct syncer *s, struct roster_learner *l)
{
	double silent = syncer_now(s) - (l->seen ? l->heard : s->began);
	int rc;

	if (l->lost || l->gone || l->told == 0 || silent < s->c.manifest->lease)
		return 0;
	tape_begin(s->tape, syncer_seconds(s), "lost");
	tape_put(s->tape, "learner", l->name);
	tape_put_f64(s->tape, "silent", floor(silent * 1000) / 1000);
	if ((rc = tape_end(s->tape, false)) < 0)
		return rc;
	l->lost = true;
	say_warn(s->c.say, "learner %s is lost: silent for %.0f s", l->name, silent);
	return 0;
}

int listen_all(struct syncer *s)
{
	struct roster_rules rules = { syncer_run_id(s), &s->learners, &s->c.manifest->owner, s->c.say };
	double now = syncer_now(s);
	size_t known = s->roster.n;
	int rc = roster_scan(&s->roster, now, &rules);

	for (size_t i = known; i < s->roster.n && rc >= 0; i++)
		rc = listen_hear(s, (unsigned)i);
	for (size_t i = 0; i < known && rc >= 0; i++) {
		if ((rc = roster_look(&s->roster, i, now, &rules)) > 0)
			rc = listen_hear(s, (unsigned)i);
		if (rc >= 0 && !s->c.once)
			rc = notice_silence(s, s->roster.v[i]);
	}
	return rc < 0 ? rc : 0;
}

/* Learners as they are now, before policy is told of them. */
int listen_first(struct syncer *s)
{
	struct roster_rules rules = { syncer_run_id(s), &s->learners, &s->c.manifest->owner, s->c.say };
	double now = syncer_now(s);
	int rc = 0;

	for (size_t i = 0; i < s->roster.n && rc >= 0; i++)
		rc = roster_look(&s->roster, i, now, &rules);
	if (rc >= 0)
		rc = roster_scan(&s->roster, now, &rules);
	return rc < 0 ? rc : 0;
}

/* Who is revoked stops counting at once. */
int listen_drop_revoked(struct syncer *s)
{
	int rc = 0;

	for (size_t i = 0; i < s->roster.n && rc == 0; i++) {
		struct roster_learner *l = s->roster.v[i];

		if (l->gone || !l->seen || trust_judge(&s->learners, &l->key, NULL) == 0)
			continue;
		if ((rc = tell_learner(s, l, "gone")) < 0)
			break;
		say_warn(s->c.say, "learner %s is not of the run any more", l->name);
		l->gone = true;
		l->beat.state = BEAT_GONE;
		rc = tell_policy(s, (unsigned)i);
	}
	return rc;
}
