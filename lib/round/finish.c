/* finish - checkpoints of a run, and its end. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "form/frame.h"
#include "io/place.h"
#include "io/wake.h"
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

/* From the fragments that the head names, under the name of its step. */
static int make_checkpoint(struct syncer *s, char path[RUNDIR_PATH], digest *id)
{
	struct assemble_conf conf = { s->c.manifest, &s->fragments, &s->makers, s->c.key,
		s->tape ? syncer_tick : NULL, s };
	struct atomic a;
	int rc = place_make(rundir_ckpt(path, s->head.step));

	if (rc < 0 || (rc = place_create(&a, path)) < 0)
		return rc;
	rc = assemble(a.fd, path, &conf, &s->head, id);
	if (rc == 0)
		return atomic_commit(&a);
	atomic_abort(&a);
	return rc;
}

static int write_checkpoint(struct syncer *s)
{
	char path[RUNDIR_PATH];
	digest id;
	int rc = make_checkpoint(s, path, &id);

	if (rc == 0 && (rc = tell_checkpoint(s, &id)) == 0) {
		s->ckpt = s->head.step;
		say_note(s->c.say, "%s is there", path);
	}
	return rc;
}

/* One that can't be made just now, for want of a fragment or of space, is tried again; the rounds go on. */
static int put_off(struct syncer *s, int rc)
{
	if (rc == ERR_BUSY || rc == ERR_NOMEM || tape_lost(s->tape))
		return rc;
	if (s->c.once)
		syncer_undone(s, rc);
	else
		syncer_bear(s, &s->ckpt_trouble, rc, "there is no checkpoint: ");
	return 0;
}

int finish_checkpoint(struct syncer *s)
{
	uint64_t every = s->c.manifest->checkpoint_every;
	int rc;

	if (s->head.phase != PHASE_RUNNING || every == 0 || s->head.step / every <= s->ckpt / every ||
		syncer_now(s) < s->ckpt_trouble.delay.retry)
		return 0; /* the one at the end comes when all fragments were merged once more */
	if ((rc = write_checkpoint(s)) < 0)
		return put_off(s, rc);
	s->ckpt_trouble.delay.pause = 0;
	return 0;
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

/* ---- a run that was done before ---- */

static int check_checkpoint(struct frame_reader *r, const char *path, const struct syncer *s)
{
	struct frame_slice slice;
	struct meta m;
	int rc = meta_read(&m, frame_header(r));

	if (rc == 0)
		rc = meta_want(&m, KIND_CHECKPOINT);
	if (rc == 0 && (strcmp(m.run, syncer_run_id(s)) != 0 || m.step != s->head.step))
		rc = err_set(ERR_AUTH, "is not the one of the end of this run");
	if (rc == 0)
		rc = tensors_same(&s->c.manifest->layout, &frame_header(r)->tensors);
	if (rc < 0)
		return err_at(rc, "%s", path);
	while ((rc = frame_next(r, &slice)) > 0)
		if (wake_requested())
			return err_set(ERR_IO, "%s: interrupted", path);
	return rc;
}

int finish_verify(const struct syncer *s)
{
	struct frame_reader *r = NULL;
	char path[RUNDIR_PATH];
	int fd, rc = place_open(rundir_ckpt(path, s->head.step), &fd);

	if (rc <= 0)
		return rc < 0 ? rc : err_set(ERR_DATA, "%s: not there", path);
	rc = frame_open(&r, fd, path, &s->makers, NULL);
	if (rc == 0)
		rc = check_checkpoint(r, path, s);
	frame_reader_free(r);
	close(fd);
	return rc;
}

int finish_again(struct syncer *s)
{
	char path[RUNDIR_PATH], what[ERR_TEXT];
	digest id;
	int rc = finish_verify(s);

	if (rc != ERR_DATA && rc != ERR_AUTH)
		return rc;
	snprintf(what, sizeof what, "%s", err_text());
	if ((rc = make_checkpoint(s, path, &id)) < 0)
		return err_at(rc, "%.300s, and it can't be made again", what);
	say_warn(s->c.say, "%.300s: it was made again from the fragments", what);
	return 0;
}
