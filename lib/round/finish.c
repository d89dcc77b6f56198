/* finish - checkpoints of a run, and its end. */
#include "io/place.h"
#include "round/assemble.h"
#include "round/rundir.h"
#include "round/syncing.h"

static int tell_checkpoint(struct syncer *s, const digest *id)
{
	tape_begin(s->tape, syncer_seconds(s), "checkpoint");
	tape_put_u64(s->tape, "step", s->head.step);
	tape_put_id(s->tape, "id", id);
	return tape_end(s->tape, false);
}

static int write_checkpoint(struct syncer *s)
{
	struct assemble_conf conf = { s->c.manifest, &s->fragments, &s->makers, s->c.key, syncer_tick, s };
	struct atomic a;
	char path[RUNDIR_PATH];
	digest id;
	int rc = place_make(rundir_ckpt(path, s->head.step));

	if (rc < 0 || (rc = place_create(&a, path)) < 0)
		return rc;
	rc = assemble(a.fd, path, &conf, &s->head, &id);
	if (rc == 0)
		rc = atomic_commit(&a);
	else
		atomic_abort(&a);
	if (rc == 0 && (rc = tell_checkpoint(s, &id)) == 0) {
		s->ckpt = s->head.step;
		say_note(s->c.say, "%s is there", path);
	}
	return rc;
}

int finish_checkpoint(struct syncer *s)
{
	uint64_t every = s->c.manifest->checkpoint_every;

	if (s->head.phase != PHASE_RUNNING || every == 0 || s->head.step / every <= s->ckpt / every)
		return 0; /* the one at the end comes when all fragments were merged once more */
	return write_checkpoint(s);
}

/*
 * Has everybody trained to the target? Nobody's steps move the clock then, and no merge comes of itself.
 * Those that have left count when nobody is there, as between two turns of cron; else they are given a
 * lease to come back, for what they have trained and nobody has called for is lost with the end.
 */
static bool all_wait(const struct syncer *s)
{
	size_t there = 0, left = 0, ready = 0, left_ready = 0;

	for (size_t i = 0; i < s->roster.n; i++) {
		const struct roster_learner *l = s->roster.v[i];
		bool at_target = l->beat.step >= s->c.manifest->target_steps;

		if (!l->seen || l->lost)
			continue;
		if (l->gone || l->beat.state == BEAT_GONE) {
			left++;
			left_ready += at_target;
		} else {
			there++;
			ready += at_target && l->beat.state == BEAT_IDLE;
		}
	}
	if (!there && !s->c.once && syncer_seconds(s) < s->c.manifest->lease)
		return false;
	return there ? ready == there : left && left_ready == left;
}

static const char *target_reached(const struct syncer *s)
{
	const struct manifest *m = s->c.manifest;

	if (m->target_steps && (s->head.step >= m->target_steps || all_wait(s)))
		return "target_steps";
	if (m->target_tokens && roster_shown(&s->roster) >= m->target_tokens)
		return "target_tokens";
	return NULL;
}

int finish_begin(struct syncer *s)
{
	const char *why = target_reached(s);
	int rc;

	if (s->head.phase != PHASE_RUNNING || !why)
		return 0;
	tape_begin(s->tape, syncer_seconds(s), "finish");
	tape_put(s->tape, "why", why);
	if ((rc = tape_end(s->tape, false)) < 0)
		return rc;
	say_note(s->c.say, "%s: the last rounds", why);
	s->head.phase = PHASE_CLOSING;
	s->did = s->dirty = true;
	policy_finish(s->policy, syncer_now(s));
	return 0;
}

/* 1: done. */
int finish_run(struct syncer *s)
{
	int rc = write_checkpoint(s);

	if (rc < 0)
		return rc;
	tape_begin(s->tape, syncer_seconds(s), "done");
	tape_put_u64(s->tape, "step", s->head.step);
	tape_put_u64(s->tape, "tokens", syncer_tokens(s));
	tape_put_u64(s->tape, "trained", roster_trained(&s->roster));
	if ((rc = tape_end(s->tape, true)) < 0)
		return rc;
	s->head.phase = PHASE_DONE;
	s->did = true;
	rc = syncer_publish(s, false);
	return rc < 0 ? rc : 1;
}
