/* start - a syncer takes its place: lock, epoch, and what policy must know. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "form/frame.h"
#include "io/place.h"
#include "round/rundir.h"
#include "round/syncing.h"

static int first_version(struct syncer *s, unsigned p)
{
	struct frame_reader *r = NULL;
	char path[RUNDIR_PATH];
	int fd, rc = place_open(rundir_fragment(path, p, 0), &fd);

	if (rc <= 0)
		return rc; /* gone when newer ones came */
	if ((rc = frame_open(&r, fd, path, &s->makers, NULL)) == 0 && (rc = frame_seekable(r)) == 0)
		rc = frame_id(r, &s->head.fragment[p].id);
	frame_reader_free(r);
	close(fd);
	return rc;
}

/* What the tape begins with. A damaged one may be of no use to anybody any more: see first_needed. */
static int first_versions(struct syncer *s)
{
	int rc = 0;

	for (unsigned p = 0; p < s->fragments.n && rc == 0; p++)
		if ((rc = first_version(s, p)) == ERR_AUTH || rc == ERR_DATA)
			rc = 0;
	return rc;
}

/* Those that are the newest still, now that the tape was read. One that could be read only now is the base of what
 * was called meanwhile, too. */
static int first_needed(struct syncer *s)
{
	int rc = 0;

	for (unsigned p = 0; p < s->fragments.n && rc == 0; p++)
		if (s->head.fragment[p].version == 0)
			rc = first_version(s, p);
	for (size_t i = 0; i < s->calls && rc == 0; i++)
		if (s->call[i]->open && s->call[i]->version == 0)
			s->call[i]->base = s->head.fragment[s->call[i]->fragment].id;
	return rc;
}

static int tell_epoch(struct syncer *s, uint64_t number, const digest *hash)
{
	char print[33];
	int rc;

	sig_fingerprint(print, &s->c.key->secret.pub);
	tape_begin(s->tape, 0, "epoch");
	tape_put_u64(s->tape, "epoch", s->epoch.number);
	tape_put_u64(s->tape, "after", number);
	tape_put_id(s->tape, "hash", hash);
	tape_put(s->tape, "syncer", print);
	tape_put(s->tape, "nonce", s->epoch.nonce);
	tape_put_u64(s->tape, "at", (uint64_t)time(NULL));
	rc = tape_end(s->tape, true);
	return rc < 0 ? rc : standing_tell(s);
}

static int take_epoch(struct syncer *s, uint64_t last, uint64_t number, const digest *hash)
{
	int rc = epoch_take(&s->epoch, last, syncer_run_id(s), s->c.key, &s->makers);

	if (rc > 0)
		return err_set(ERR_BUSY, "another syncer was faster");
	if (rc < 0 || (rc = tape_open(&s->tape, syncer_run_id(s), s->epoch.number, number, hash)) < 0)
		return rc;
	s->began = syncer_now(s);
	return tell_epoch(s, number, hash);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The median of the learners' global steps. */
static int median_step(const struct syncer *s, uint64_t *out)
{
	uint64_t *step = calloc(s->roster.n + 1, sizeof *step);
	size_t n = 0;

	if (!step)
		return err_nomem();
	for (size_t i = 0; i < s->roster.n; i++)
		if (s->roster.v[i]->seen && !s->roster.v[i]->lost)
			step[n++] = s->roster.v[i]->beat.step;
	qsort(step, n, sizeof *step, by_value);
	*out = n ? step[n / 2] : 0;
	free(step);
	return 0;
}

static int tell_history(struct syncer *s)
{
	uint64_t now = 0;
	int rc = median_step(s, &now);

	for (unsigned p = 0; p < s->fragments.n && rc == 0; p++) {
		const struct head_fragment *f = &s->head.fragment[p];

		if (f->version > 0 || s->c.once)
			policy_history(s->policy, p, now > f->step ? (double)(now - f->step) : 0);
	}
	return rc;
}

/* How many there are, and their numbers. */
static size_t invited_numbers(unsigned *out, const struct syncer *s, const struct call *c)
{
	size_t n = 0;

	for (size_t i = 0; i < s->roster.n; i++)
		if (call_invites(c, s->roster.v[i]->name))
			out[n++] = (unsigned)i;
	return n;
}

static int resume_rounds(struct syncer *s)
{
	unsigned *invited = calloc(s->roster.n + 1, sizeof *invited);
	size_t n;
	int rc = invited ? 0 : err_nomem();

	for (size_t i = 0; i < s->calls && rc == 0; i++) {
		struct call *c = s->call[i];

		if (!c->open)
			continue;
		c->called = syncer_now(s);
		n = invited_numbers(invited, s, c);
		rc = policy_resume(s->policy, syncer_now(s), c->round, c->fragment, c->invited ? invited : NULL,
			c->invited ? n : 0);
		for (size_t k = 0; k < c->slots && rc == 0; k++)
			if (c->slot[k].state == SLOT_REFUSED)
				policy_refused(s->policy, syncer_now(s), c->round, (unsigned)k);
	}
	free(invited);
	return rc;
}

static int open_policy(struct syncer *s)
{
	struct policy_conf rules;
	double now = syncer_now(s);
	int rc;

	standing_policy(&rules, s);
	s->obeyed = s->c.manifest->serial;
	if ((rc = policy_open(&s->policy, &rules, s->rounds + 1, now)) < 0 || (rc = tell_history(s)) < 0)
		return rc;
	policy_recall(s->policy, &s->head.times);
	if ((rc = resume_rounds(s)) < 0)
		return rc;
	if (s->head.phase == PHASE_CLOSING)
		policy_finish(s->policy, now);
	for (size_t i = 0; i < s->roster.n && rc == 0; i++)
		if (s->roster.v[i]->seen)
			rc = listen_hear(s, (unsigned)i);
	return rc;
}

/* Where the run stands, and that nobody else is its syncer. */
static int find_place(struct syncer *s, const struct head *head)
{
	struct epoch last;
	uint64_t number = 0;
	bool ended = false;
	digest hash;
	int rc;

	if ((rc = epoch_newest(&last, head->epoch, syncer_run_id(s), &s->makers)) < 0 ||
		(rc = first_versions(s)) < 0 ||
		(rc = resume_tape(s, head, last.number, &number, &hash, &ended)) < 0 || (rc = first_needed(s)) < 0)
		return rc;
	if ((rc = standing_serial(s, head->serial > s->serial ? head->serial : s->serial)) < 0)
		return rc;
	if (!ended && (rc = resume_alone(s, head, &last)) < 0)
		return rc;
	return take_epoch(s, last.number, number, &hash);
}

static int take_lock(struct syncer *s)
{
	int rc = place_make("syncer/lock");

	if (rc < 0)
		return rc;
	rc = lock_take(&s->lock, "syncer/lock");
	if (rc == ERR_BUSY && s->c.take_over)
		return 0;
	return rc < 0 ? err_at(rc, "another syncer lives") : 0;
}

static int open_run(struct syncer *s, struct head *head)
{
	int rc;

	if (head->fragment && head->phase == PHASE_DONE) { /* it stays as it is, and so do tape and epoch */
		head_release(&s->head);
		s->head = *head;
		*head = (struct head){ .fragment = NULL };
		s->epoch.number = s->head.epoch;
		say_warn(s->c.say, "the run is done (step %" PRIu64 ")", s->head.step);
		return 0;
	}
	if ((rc = find_place(s, head)) < 0 || (rc = listen_first(s)) < 0 || (rc = open_policy(s)) < 0)
		return rc;
	return syncer_publish(s, true);
}

static int open_all(struct syncer *s)
{
	const struct manifest *m = s->c.manifest;
	struct head head;
	int rc;

	if ((rc = standing_trust(s)) < 0 ||
		(rc = fragments_cut(&s->fragments, &m->layout, m->fragments)) < 0 ||
		(rc = head_init(&s->head, m->fragments)) < 0)
		return rc;
	if (!(s->loss = calloc(m->fragments, sizeof *s->loss)))
		return err_nomem();
	roster_init(&s->roster, m->fragments);
	if ((rc = take_lock(s)) < 0 || (rc = resume_head(&head, s)) < 0)
		return rc;
	rc = open_run(s, &head);
	head_release(&head);
	return rc;
}

int syncer_open(struct syncer **out, const struct syncer_conf *c)
{
	struct syncer *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return err_nomem();
	*s = (struct syncer){ .c = *c, .lock = LOCK_INIT };
	if ((rc = open_all(s)) < 0) {
		syncer_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void syncer_close(struct syncer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->calls; i++)
		call_free(s->call[i]);
	free(s->call);
	free(s->loss);
	policy_close(s->policy);
	roster_release(&s->roster);
	tape_close(s->tape);
	head_release(&s->head);
	fragments_release(&s->fragments);
	trust_release(&s->makers);
	trust_release(&s->learners);
	lock_release(&s->lock);
	free(s);
}
