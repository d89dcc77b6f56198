/* mend - newest versions whose files are lost or damaged: nobody can train from them, so no round follows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/place.h"
#include "io/wake.h"
#include "round/rundir.h"
#include "round/syncing.h"

#define LOOK 2.0   /* seconds between looks at what is there */
#define RETRY 5.0  /* and between tries of what could not be made again */
#define LOST 5.0   /* leases that are waited for it to be brought back */

/* ---- how a version came about ---- */

/* What the tape says of the merge that made the newest version of a fragment. */
struct origin {
	struct commit commit;
	uint64_t decided, published; /* epochs; 0: not found */
};

static int take_line(struct origin *o, const struct tape_line *l, uint64_t round)
{
	if (tape_u64(l, "round") != round)
		return 0;
	if (strcmp(l->kind, "publish") == 0)
		o->published = l->epoch;
	if (strcmp(l->kind, "merge") != 0)
		return 0;
	commit_release(&o->commit);
	o->decided = l->epoch;
	return commit_parse(&o->commit, l);
}

static int read_tape(struct origin *o, const struct syncer *s, uint64_t round)
{
	const struct tape_line *l;
	struct tape_reader *t = NULL;
	int rc = tape_read_open(&t, syncer_run_id(s), s->epoch.number);

	while (rc == 0 && (rc = tape_read(t, &l)) > 0)
		rc = take_line(o, l, round);
	tape_read_close(t);
	if (rc == 0 && (!o->decided || !o->published))
		rc = err_set(ERR_DATA, "the tape has no merge of round %" PRIu64, round);
	return rc;
}

/* ---- making it again ---- */

/* A file says in which epoch it was made: the one that published it, or one before that was killed then. */
static int remake_in(struct origin *o, struct syncer *s)
{
	struct commit_conf conf;
	int rc = ERR_DATA;

	perform_rules(&conf, s);
	if (!s->tape)
		conf.tick = NULL; /* done before: there is no life to be shown */
	for (uint64_t e = o->published; e >= o->decided && rc == ERR_DATA; e--)
		rc = commit_remake(&o->commit, &conf, e);
	return rc;
}

static int remake(struct syncer *s, unsigned p)
{
	const struct head_fragment *f = &s->head.fragment[p];
	struct origin o = { .decided = 0 };
	int rc = 0;

	if (f->version == 0)
		return err_set(ERR_DATA, "no merge made it");
	if ((rc = read_tape(&o, s, f->round)) == 0) {
		o.commit.id = f->id;
		rc = remake_in(&o, s);
	}
	commit_release(&o.commit);
	return rc;
}

/* What is lost, why it stays so, and what to type: once, and once more by who leaves for it. */
static int tell_lost(struct syncer *s, unsigned p, const char *what, int rc)
{
	struct loss *l = &s->loss[p];
	char ckpt[RUNDIR_PATH + 80] = "", why[ERR_TEXT];
	bool for_good = !s->c.once && rc != ERR_IO && syncer_now(s) - l->since >= LOST * s->c.manifest->lease;

	snprintf(why, sizeof why, "%.300s, and it can't be made again (%.300s)", what, err_text());
	if (s->ckpt)
		snprintf(ckpt, sizeof ckpt, ", or begin a new run from the last checkpoint: dl-init -r NEW ckpt/%"
			PRIu64 ".ckpt", s->ckpt);
	if (for_good) {
		s->hopeless = true;
		return err_set(ERR_AUTH, "%s: bring it back and start the syncer again%s", why, ckpt);
	}
	if (!l->told)
		say_warn(s->c.say, "%s: f%03u stands still: bring it back%s", why, p, ckpt);
	l->told = true;
	return 0;
}

/* 1: made again. 0: not, and told. what: is wrong with it. */
static int restore(struct syncer *s, unsigned p, const char *what)
{
	struct loss *l = &s->loss[p];
	double now = syncer_now(s);
	int rc;

	if (l->since <= 0)
		l->since = now;
	if ((rc = remake(s, p)) == ERR_BUSY || rc == ERR_NOMEM)
		return rc;
	if (rc < 0) {
		l->retry = now + RETRY;
		return tell_lost(s, p, what, rc);
	}
	*l = (struct loss){ .since = 0 };
	say_warn(s->c.say, "%.300s: it was made again from its answers, the same", what);
	return 1;
}

/* ---- looking ---- */

static void found_again(struct syncer *s, unsigned p)
{
	char path[RUNDIR_PATH];

	if (s->loss[p].told)
		say_warn(s->c.say, "%s: is there again, as it was published",
			rundir_fragment(path, p, s->head.fragment[p].version));
	s->loss[p] = (struct loss){ .since = 0 };
}

int mend_fragment(struct syncer *s, unsigned p)
{
	const struct head_fragment *f = &s->head.fragment[p];
	char what[ERR_TEXT];
	int rc;

	if (syncer_now(s) < s->loss[p].retry)
		return 0;
	rc = commit_verify(p, f->version, &f->id, &s->makers, NULL);
	if (rc == 0)
		found_again(s, p);
	if (rc != ERR_DATA && rc != ERR_AUTH)
		return rc == ERR_NOMEM ? rc : 0;
	snprintf(what, sizeof what, "%s", err_text());
	return restore(s, p, what);
}

static int look(struct syncer *s, unsigned p)
{
	char path[RUNDIR_PATH];
	int fd, rc = place_open(rundir_fragment(path, p, s->head.fragment[p].version), &fd);

	if (rc > 0)
		close(fd);
	if (rc < 0)
		return rc == ERR_NOMEM ? rc : 0;
	return rc == 0 || s->loss[p].since > 0 ? mend_fragment(s, p) : 0;
}

/* A call that nobody has answered for a lease: perhaps nobody can read what it asks about. */
static bool suspicious(const struct syncer *s, const struct call *c)
{
	for (size_t i = 0; i < c->slots; i++)
		if (c->slot[i].state != SLOT_EMPTY)
			return false;
	return c->open && !c->verified && syncer_now(s) - c->called >= s->c.manifest->lease;
}

int mend_all(struct syncer *s)
{
	int rc = 0;

	if (syncer_now(s) < s->mend_due)
		return 0;
	s->mend_due = syncer_now(s) + LOOK;
	for (unsigned p = 0; p < s->fragments.n && rc >= 0; p++)
		rc = look(s, p);
	for (size_t i = 0; i < s->calls && rc >= 0; i++)
		if (suspicious(s, s->call[i])) {
			s->call[i]->verified = true;
			rc = mend_fragment(s, s->call[i]->fragment);
		}
	return rc < 0 ? rc : 0;
}

/* ---- when the run is done ---- */

/* The first of those that stay lost becomes the error. */
static void tell_done(struct syncer *s, struct err_note *first, const char *what)
{
	char ckpt[RUNDIR_PATH], text[ERR_TEXT], instead[RUNDIR_PATH + 64] = "";

	snprintf(text, sizeof text, "%.300s, and it can't be made again (%.300s)", what, err_text());
	if (first->code < 0) {
		say_warn(s->c.say, "%s", text);
		return;
	}
	if (finish_verify(s) == 0)
		snprintf(instead, sizeof instead, "; the model is whole in %s", rundir_ckpt(ckpt, s->head.step));
	err_save(first, err_set(ERR_AUTH, "%s: bring it back%s", text, instead));
}

/* 0 when it is, or is again, as it was published, or is told. */
static int mend_one(struct syncer *s, unsigned p, struct err_note *first)
{
	const struct head_fragment *f = &s->head.fragment[p];
	char what[ERR_TEXT];
	int rc = commit_verify(p, f->version, &f->id, &s->makers, wake_requested);

	if (rc != ERR_DATA && rc != ERR_AUTH)
		return rc;
	snprintf(what, sizeof what, "%s", err_text());
	rc = remake(s, p);
	if (rc == 0)
		say_warn(s->c.say, "%.300s: it was made again from its answers, the same", what);
	else if (rc == ERR_DATA || rc == ERR_AUTH)
		tell_done(s, first, what);
	else
		return rc;
	return 0;
}

int mend_done(struct syncer *s)
{
	struct err_note first = { .code = 0 };
	int rc = 0;

	for (unsigned p = 0; p < s->fragments.n && rc == 0; p++)
		rc = mend_one(s, p, &first);
	return rc < 0 || first.code == 0 ? rc : err_restore(&first);
}
