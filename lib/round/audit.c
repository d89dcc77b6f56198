#include "round/audit.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "form/card.h"
#include "io/place.h"
#include "round/rundir.h"

#define LEARNERS 1000000 /* entries of learner/ that are looked at */
#define TRIES 8          /* of beats that do not fit, */
#define PAUSE 250        /* so many milliseconds apart */

int audit_open(struct audit *a, const struct manifest *m, const struct trust *user)
{
	int rc;

	*a = (struct audit){ .manifest = m };
	if ((rc = manifest_trust(m, ROLE_SYNCER, user, NULL, &a->syncers)) < 0 ||
		(rc = manifest_trust(m, ROLE_LEARNER, user, NULL, &a->learners)) < 0)
		return rc;
	rc = head_load(&a->head, m->meta.run, m->fragments, &a->syncers);
	a->headed = rc > 0;
	return rc < 0 ? rc : 0;
}

void audit_close(struct audit *a)
{
	head_release(&a->head);
	trust_release(&a->syncers);
	trust_release(&a->learners);
	*a = (struct audit){ .manifest = NULL };
}

int audit_serial(const struct manifest *m, const struct trust *user)
{
	struct audit a;
	int rc = audit_open(&a, m, user);

	if (rc == 0 && a.headed && a.head.serial > m->serial)
		rc = err_set(ERR_AUTH, "%s: is of serial %" PRIu64 ", and the head knows %" PRIu64
			": rolled back: bring back the newest", RUNDIR_MANIFEST, m->serial, a.head.serial);
	else if (rc != ERR_NOMEM)
		rc = 0;
	audit_close(&a);
	return rc;
}

int audit_tape(const struct audit *a, struct tape_reader **out)
{
	uint64_t epoch = a->head.epoch;
	int rc = a->headed ? 0 : tape_newest(&epoch);

	*out = NULL;
	if (rc == 0)
		rc = tape_read_open(out, a->manifest->meta.run, epoch);
	if (rc == 0 && a->headed && a->head.tape_lines)
		tape_read_expect(*out, a->head.tape_lines, &a->head.tape_hash);
	return rc;
}

/* ---- beats ---- */

/* Into an empty one: 1, 0 when there is none. */
static int read_beat(const struct audit *a, const char *learner, struct beat *b)
{
	struct header h = { .keys = { 0 } };
	char path[RUNDIR_PATH];
	int rc = card_read(&h, NULL, rundir_beat(path, learner), &a->learners);
	bool found = rc > 0;

	if (found) {
		rc = beat_read(b, &h, a->manifest->fragments);
		if (rc == 0 && strcmp(b->run, a->manifest->meta.run) != 0)
			rc = err_set(ERR_AUTH, "of another run");
		if (rc == 0 && strcmp(b->learner, learner) != 0)
			rc = err_set(ERR_AUTH, "of '%s'", b->learner);
		if (rc < 0)
			err_at(rc, "%s", path);
	}
	header_release(&h);
	return rc < 0 ? rc : found;
}

/* 0 also when there is none, or none that can be read. */
static int take_beat(const struct audit *a, const char *learner,
	int (*take)(void *ctx, const struct beat *b), void *ctx, struct say *say)
{
	struct beat beat = { .fragments = 0 };
	int rc = read_beat(a, learner, &beat);

	if (rc > 0) {
		rc = take(ctx, &beat);
	} else if (rc < 0 && rc != ERR_NOMEM) {
		say_warn(say, "%s", err_text());
		rc = 0;
	}
	beat_release(&beat);
	return rc;
}

static bool is_name(void *ctx, const char *name)
{
	(void)ctx;
	return key_name_check("learner", name) == 0;
}

int audit_beats(const struct audit *a, int (*take)(void *ctx, const struct beat *b), void *ctx,
	struct say *say)
{
	char **name;
	size_t n;
	bool more = false;
	int rc = place_list_dirs(&name, &n, "learner", LEARNERS, &more, is_name, NULL);

	if (rc < 0)
		return rc;
	if (more)
		say_warn(say, "learner: more than %d entries: not all are looked at", LEARNERS);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = take_beat(a, name[i], take, ctx, say);
	place_list_free(name, n);
	return rc;
}

static int add_beat(void *ctx, const struct beat *beat)
{
	return books_beat(ctx, beat);
}

/* Whoever joined with a key that is revoked by now has no beat that counts. */
static int add_join(const struct audit *a, struct books *b, const struct tape_line *l)
{
	struct sig_public key;

	if (strcmp(l->kind, "join") != 0 || sig_unbase64(key.b, sizeof key.b, tape_text(l, "key")) < 0 ||
		!trust_revoked(&a->learners, &key))
		return 0;
	return books_revoke(b, tape_text(l, "learner"));
}

static int add_lines(const struct audit *a, struct books *b)
{
	const struct tape_line *l;
	struct tape_reader *r;
	int rc = audit_tape(a, &r);

	while (rc == 0 && (rc = tape_read(r, &l)) > 0)
		if ((rc = books_line(b, l)) == 0)
			rc = add_join(a, b, l);
	tape_read_close(r);
	return rc;
}

/* How many do not balance; their beats are read again. */
static int look_again(const struct audit *a, struct books *b)
{
	struct books_learner l;
	int rc = 0, wrong = 0;

	for (size_t i = 0; i < books_learners(b) && rc == 0; i++)
		if ((rc = books_learner(b, i, &l)) == 0 && !l.balanced) {
			wrong++;
			rc = take_beat(a, l.name, add_beat, b, NULL);
		}
	return rc < 0 ? rc : wrong;
}

int audit_books(const struct audit *a, const struct fragments *f, struct books **out, struct say *say)
{
	static const struct timespec pause = { .tv_nsec = PAUSE * 1000000L };
	bool lives = a->headed && a->head.phase != PHASE_DONE;
	int rc = books_open(out, f);

	if (rc == 0)
		rc = add_lines(a, *out);
	if (rc == 0)
		rc = audit_beats(a, add_beat, *out, say);
	for (int i = 0; lives && rc == 0 && i < TRIES; i++) {
		if ((rc = look_again(a, *out)) <= 0)
			break;
		nanosleep(&pause, NULL);
		rc = 0;
	}
	if (rc < 0) {
		books_close(*out);
		*out = NULL;
	}
	return rc;
}
