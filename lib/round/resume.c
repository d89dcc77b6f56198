/* resume - where a run stands, for a syncer that starts: from head and tape. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/wake.h"
#include "round/rundir.h"
#include "round/syncing.h"

#define LOOK 100000 /* microseconds between looks at another syncer's head */

/* ---- the head ---- */

int resume_head(struct head *h, const struct syncer *s)
{
	int rc;

	*h = (struct head){ 0 };
	rc = head_load(h, syncer_run_id(s), s->fragments.n, &s->makers);
	if (rc >= 0 || rc == ERR_IO || rc == ERR_NOMEM)
		return rc;
	say_warn(s->c.say, "%s: going on from the tape alone", err_text());
	return 0;
}

/* ---- is anybody there? ---- */

/* Does the head change within a lease of our own clock? */
static int watch(struct syncer *s, const struct head *before)
{
	double until = syncer_now(s) + s->c.manifest->lease;
	struct head h;
	int rc;

	say_note(s->c.say, "waiting %g s to see whether another syncer lives", s->c.manifest->lease);
	while (syncer_now(s) < until) {
		if (wake_requested())
			return err_set(ERR_AGAIN, "interrupted");
		usleep(LOOK);
		if ((rc = resume_head(&h, s)) < 0)
			return rc;
		if (rc > 0 && head_newer(&h, before))
			rc = err_set(ERR_BUSY, "another syncer lives (epoch %" PRIu64
				"); --take-over takes its place", h.epoch);
		head_release(&h);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The lock is ours, so whoever took the last epoch on this machine has ended. */
int resume_alone(struct syncer *s, const struct head *head, const struct epoch *last)
{
	if (s->c.take_over || last->number == 0 || (s->lock.held && epoch_is_here(last)))
		return 0;
	return watch(s, head);
}

/* ---- the tape ---- */

struct reading {
	struct syncer *s;
	uint64_t at;  /* wall clock when the epoch of the line began; 0: unknown */
	bool ended;   /* by its syncer, tidily */
};

static int fragment_of(const struct reading *r, const struct tape_line *l, unsigned *p)
{
	int rc = rundir_fragment_parse(tape_text(l, "fragment"), p);

	if (rc == 0 && *p >= r->s->fragments.n)
		rc = err_set(ERR_DATA, "there is no fragment '%s'", tape_text(l, "fragment"));
	return rc;
}

static struct roster_learner *learner_of(const struct reading *r, const struct tape_line *l)
{
	long i = roster_find(&r->s->roster, tape_text(l, "learner"));

	return i < 0 ? NULL : r->s->roster.v[i];
}

static int read_epoch(struct reading *r, const struct tape_line *l)
{
	r->at = tape_u64(l, "at");
	return 0;
}

static int read_end(struct reading *r, const struct tape_line *l)
{
	(void)l;
	r->ended = true;
	return 0;
}

static int read_manifest(struct reading *r, const struct tape_line *l)
{
	uint64_t serial = tape_u64(l, "serial");

	if (serial > r->s->serial)
		r->s->serial = serial;
	return 0;
}

static int read_join(struct reading *r, const struct tape_line *l)
{
	const char *name = tape_text(l, "learner");
	struct sig_public key;
	size_t i;
	int rc;

	if (learner_of(r, l))
		return 0;
	if ((rc = key_name_check("learner", name)) < 0 ||
		(rc = sig_unbase64(key.b, sizeof key.b, tape_text(l, "key"))) < 0 ||
		(rc = roster_add(&r->s->roster, &i, name, &key)) < 0)
		return rc;
	r->s->roster.v[i]->told = tape_u64(l, "incarnation");
	r->s->roster.v[i]->first_round = r->s->rounds + 1;
	return 0;
}

static int read_back(struct reading *r, const struct tape_line *l)
{
	struct roster_learner *who = learner_of(r, l);
	uint64_t incarnation = tape_u64(l, "incarnation");

	if (!who)
		return 0;
	who->lost = who->gone = false;
	if (incarnation > who->told) {
		who->told = incarnation;
		who->first_round = r->s->rounds + 1;
	}
	return 0;
}

static int read_lost(struct reading *r, const struct tape_line *l)
{
	struct roster_learner *who = learner_of(r, l);

	if (who)
		who->lost = true;
	return 0;
}

static int read_gone(struct reading *r, const struct tape_line *l)
{
	struct roster_learner *who = learner_of(r, l);

	if (who)
		who->gone = true;
	return 0;
}

static int read_call(struct reading *r, const struct tape_line *l)
{
	struct syncer *s = r->s;
	const char *invited = tape_text(l, "invited");
	uint64_t round = tape_u64(l, "round");
	struct call *c = syncer_call(s, round);
	unsigned p;
	int rc = fragment_of(r, l, &p);

	if (rc < 0)
		return rc;
	if (strcmp(invited, "all") == 0)
		invited = NULL;
	if (c) { /* with more that are invited */
		free(c->invited);
		c->invited = invited ? strdup(invited) : NULL;
		return invited && !c->invited ? err_nomem() : 0;
	}
	if ((rc = syncer_add_call(s, &c, round, p, tape_u64(l, "version"), invited)) < 0)
		return rc;
	c->base = s->head.fragment[p].id;
	c->epoch = l->epoch;
	c->at = r->at ? r->at + (uint64_t)l->seconds : 0;
	if (round > s->rounds)
		s->rounds = round;
	return 0;
}

static int slot_of(struct reading *r, const struct tape_line *l, struct call *c, struct slot **slot)
{
	long i = roster_find(&r->s->roster, tape_text(l, "learner"));

	if (!c || i < 0)
		return 0;
	return call_slot(c, slot, (size_t)i, r->s->roster.n) < 0 ? ERR_NOMEM : 1;
}

/* Tokens that an answer has shown. */
static void add_shown(const struct reading *r, const struct tape_line *l)
{
	struct roster_learner *who = learner_of(r, l);
	unsigned p;

	if (who && fragment_of(r, l, &p) == 0)
		who->shown[p] += tape_u64(l, "tokens");
}

static int read_answer(struct reading *r, const struct tape_line *l)
{
	struct call *c = syncer_call(r->s, tape_u64(l, "round"));
	struct roster_learner *who = learner_of(r, l);
	struct slot *slot;
	int rc = slot_of(r, l, c, &slot);

	if (rc < 0)
		return rc;
	add_shown(r, l);
	if (rc == 0)
		return 0;
	slot->told = true;
	slot->trained = tape_u64(l, "trained");
	slot->tokens = tape_u64(l, "tokens");
	if (slot->trained > who->trained)
		who->trained = slot->trained;
	return sig_unhex(slot->id.b, sizeof slot->id.b, tape_text(l, "id"));
}

static int read_refuse(struct reading *r, const struct tape_line *l)
{
	struct call *c = syncer_call(r->s, tape_u64(l, "round"));
	struct slot *slot;
	int rc = slot_of(r, l, c, &slot);

	if (rc >= 0 && strcmp(tape_text(l, "verdict"), verdict_name(VERDICT_LATE)) == 0 &&
		!(rc && slot->told))
		add_shown(r, l);
	if (rc <= 0)
		return rc;
	slot->state = SLOT_REFUSED;
	slot->closed = true;
	return 0;
}

static int read_merge(struct reading *r, const struct tape_line *l)
{
	struct call *c = syncer_call(r->s, tape_u64(l, "round"));
	struct commit commit;
	int rc;

	if (!c || !c->open)
		return err_set(ERR_DATA, "line %" PRIu64 ": a merge of a round that is not open", l->number);
	if ((rc = commit_parse(&commit, l)) < 0)
		return rc;
	if (commit.fragment != c->fragment || commit.version != c->version + 1) {
		commit_release(&commit);
		return err_set(ERR_DATA, "line %" PRIu64 ": a merge of another fragment or version", l->number);
	}
	commit_release(&c->commit);
	c->commit = commit;
	r->s->head.times = (struct policy_times){ tape_f64(l, "xi_step"), tape_f64(l, "xi_quorum"),
		tape_f64(l, "xi_sync"), tape_f64(l, "slack"), tape_f64(l, "window") };
	return 0;
}

/* Marks the answers of a merge as merged. */
static int count_merged(struct syncer *s, struct call *c)
{
	for (size_t k = 0; k < c->commit.answers; k++) {
		long i = roster_find(&s->roster, c->commit.answer[k].learner);
		struct slot *slot;

		if (i < 0)
			continue;
		if (call_slot(c, &slot, (size_t)i, s->roster.n) < 0)
			return ERR_NOMEM;
		slot->state = SLOT_ANSWERED;
		if (slot->trained > s->roster.v[i]->covered[c->fragment])
			s->roster.v[i]->covered[c->fragment] = slot->trained;
	}
	return 0;
}

static int read_publish(struct reading *r, const struct tape_line *l)
{
	struct syncer *s = r->s;
	struct call *c = syncer_call(s, tape_u64(l, "round"));
	struct head_fragment *f;
	int rc;

	if (!c || !c->commit.decided)
		return err_set(ERR_DATA, "line %" PRIu64 ": published, and not merged before", l->number);
	f = &s->head.fragment[c->fragment];
	f->version = c->commit.version;
	f->round = c->round;
	f->step = c->commit.step;
	f->tokens = c->commit.tokens;
	if ((rc = sig_unhex(f->id.b, sizeof f->id.b, tape_text(l, "id"))) < 0)
		return rc;
	rc = count_merged(s, c);
	commit_release(&c->commit);
	c->open = false;
	return rc;
}

static int read_abandon(struct reading *r, const struct tape_line *l)
{
	struct call *c = syncer_call(r->s, tape_u64(l, "round"));

	if (c) {
		commit_release(&c->commit);
		c->open = false;
	}
	return 0;
}

static int read_checkpoint(struct reading *r, const struct tape_line *l)
{
	r->s->ckpt = tape_u64(l, "step");
	return 0;
}

static int read_finish(struct reading *r, const struct tape_line *l)
{
	(void)l;
	r->s->head.phase = PHASE_CLOSING;
	return 0;
}

static int read_done(struct reading *r, const struct tape_line *l)
{
	(void)l;
	r->s->head.phase = PHASE_DONE;
	return 0;
}

static int read_line(struct reading *r, const struct tape_line *l)
{
	static const struct {
		const char *kind;
		int (*read)(struct reading *r, const struct tape_line *l);
	} kinds[] = {
		{ "answer", read_answer }, { "call", read_call }, { "merge", read_merge },
		{ "publish", read_publish }, { "refuse", read_refuse }, { "join", read_join },
		{ "back", read_back }, { "lost", read_lost }, { "gone", read_gone }, { "epoch", read_epoch },
		{ "end", read_end }, { "manifest", read_manifest },
		{ "abandon", read_abandon }, { "checkpoint", read_checkpoint },
		{ "finish", read_finish }, { "done", read_done },
	};

	r->ended = false;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(l->kind, kinds[i].kind) == 0)
			return kinds[i].read(r, l);
	return 0;
}

/* Old calls are over, and of no use but for late answers to the last of them. */
static void forget_old(struct syncer *s)
{
	size_t kept = 0, most = 4 * (size_t)s->fragments.n + 64;

	if (s->calls < 2 * most)
		return;
	for (size_t i = 0; i < s->calls; i++)
		if (s->call[i]->open || i + most >= s->calls)
			s->call[kept++] = s->call[i];
		else
			call_free(s->call[i]);
	s->calls = kept;
}

/* Is what the head knows of the tape still there? What a power failure took was acted on by nobody. */
static int check_against(const struct syncer *s, const struct head *head, uint64_t lines)
{
	for (unsigned p = 0; p < head->fragments; p++)
		if (head->fragment[p].version > s->head.fragment[p].version)
			return err_set(ERR_AUTH, "syncer/: the tape ends at line %" PRIu64
				", before f%03u.%" PRIu64 ", which the head knows: bring back what is missing",
				lines, p, head->fragment[p].version);
	if (lines < head->tape_lines)
		say_warn(s->c.say, "the tape ends at line %" PRIu64 ", the head knew %" PRIu64
			": going on from there", lines, head->tape_lines);
	return 0;
}

/* What stands behind all that the head knows may be cut off: it was acted on by nobody. */
static int advise(int rc, const struct tape_reader *t, const struct head *head)
{
	char text[ERR_TEXT];
	uint64_t n = tape_read_number(t);

	if (rc != ERR_AUTH || !head->tape_lines || n < head->tape_lines)
		return rc;
	snprintf(text, sizeof text, "%s", err_text());
	return err_set(ERR_AUTH, "%.800s: the head knows no more than line %" PRIu64
		": cut off what is behind line %" PRIu64, text, head->tape_lines, n);
}

static int read_all(struct reading *r, struct tape_reader *t, const struct head *head)
{
	const struct tape_line *l;
	char want[65], have[65];
	int rc;

	while ((rc = tape_read(t, &l)) > 0) {
		if ((rc = read_line(r, l)) < 0)
			return err_at(rc, "syncer/tape.%" PRIu64, l->epoch);
		forget_old(r->s);
		if (l->number != head->tape_lines)
			continue;
		sig_hex(want, head->tape_hash.b, SIG_DIGEST);
		sig_hex(have, l->hash.b, SIG_DIGEST);
		if (l->epoch <= head->epoch && strcmp(want, have) != 0)
			return err_set(ERR_AUTH, "syncer/tape.%" PRIu64 ": line %" PRIu64
				" is not the one that the head knows", l->epoch, l->number);
	}
	return advise(rc, t, head);
}

int resume_tape(struct syncer *s, const struct head *head, uint64_t last, uint64_t *number, digest *hash,
	bool *ended)
{
	struct reading r = { .s = s };
	struct tape_reader *t = NULL;
	int rc = tape_read_open(&t, s->c.manifest->meta.run, last);

	if (rc == 0)
		rc = read_all(&r, t, head);
	if (rc == 0) {
		*number = tape_read_number(t);
		tape_read_hash(t, hash);
		*ended = r.ended;
		rc = check_against(s, head, *number);
	}
	tape_read_close(t);
	return rc;
}
