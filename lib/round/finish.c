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

static const char *target_reached(const struct syncer *s)
{
	const struct manifest *m = s->c.manifest;

	if (m->target_steps && s->head.step >= m->target_steps)
		return "target_steps";
	if (m->target_tokens && roster_trained(&s->roster) >= m->target_tokens)
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
	int rc = collect(s); /* who is late hears of it now or never */

	if (rc == 0)
		rc = write_checkpoint(s);
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
