/* collect - the syncer's eyes: answers to its calls, in time and late. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "form/frame.h"
#include "io/place.h"
#include "round/claims.h"
#include "round/rundir.h"
#include "round/syncing.h"

#define LOOK_AGAIN 0.2  /* seconds: at a file that is not whole */
#define MISSING 2.0     /* leases that an answer may be said to be there, and not be seen */
#define LOOK_ABSENT 1.0 /* for an answer of who is not heard of, or a late one */
#define CLOSED_CALLS 3  /* of a fragment, for which late answers are looked for */

/* ---- calls ---- */

struct call *syncer_call(const struct syncer *s, uint64_t round)
{
	for (size_t i = s->calls; i-- > 0;)
		if (s->call[i]->round == round)
			return s->call[i];
	return NULL;
}

void call_free(struct call *c)
{
	if (!c)
		return;
	commit_release(&c->commit);
	free(c->invited);
	free(c->slot);
	free(c);
}

int syncer_add_call(struct syncer *s, struct call **out, uint64_t round, unsigned fragment,
	uint64_t version, const char *invited)
{
	struct call **v = realloc(s->call, (s->calls + 1) * sizeof *v), *c = calloc(1, sizeof *c);

	if (v)
		s->call = v;
	if (!v || !c || (invited && !(c->invited = strdup(invited)))) {
		free(c);
		return err_nomem();
	}
	c->round = round;
	c->fragment = fragment;
	c->version = version;
	c->open = true;
	c->quorum = -1;
	s->call[s->calls++] = c;
	*out = c;
	return 0;
}

int call_slot(struct call *c, struct slot **out, size_t learner, size_t learners)
{
	if (learner >= c->slots) {
		struct slot *slot = realloc(c->slot, learners * sizeof *slot);

		if (!slot)
			return err_nomem();
		memset(slot + c->slots, 0, (learners - c->slots) * sizeof *slot);
		c->slot = slot;
		c->slots = learners;
	}
	*out = &c->slot[learner];
	return 0;
}

bool call_invites(const struct call *c, const char *learner)
{
	const struct head_call h = { .invited = c->invited };

	return !c->invited || head_invites(&h, learner);
}

/* ---- one answer ---- */

/* What a file looks like from outside: another number when it has changed. Never 0. */
static uint64_t mark_of(const struct stat *st)
{
	uint64_t v[] = { (uint64_t)st->st_ino, (uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec };
	uint64_t mark;
	digest d;

	sig_digest(&d, v, sizeof v);
	memcpy(&mark, d.b, sizeof mark);
	return mark | 1;
}

static void set_round(struct guard_round *r, const struct syncer *s, const struct call *c)
{
	*r = (struct guard_round){ .round = c->round, .version = c->version,
		.layout = &s->fragments.v[c->fragment].layout };
	memcpy(r->run, s->c.manifest->meta.run, sizeof r->run);
	memcpy(r->model, s->c.manifest->meta.model, sizeof r->model);
	sig_hex(r->base, c->base.b, sizeof c->base.b);
	rundir_fragment_name(r->fragment, c->fragment);
}

static void judge_signer(struct answer *a, const struct syncer *s, const struct roster_learner *l)
{
	char print[33];

	if (trust_judge(&s->learners, &a->signer, NULL) < 0) {
		guard_refuse(a, VERDICT_NOT_AUTHENTIC, "%s", err_text());
	} else if (memcmp(&a->signer, &l->key, sizeof a->signer) != 0) {
		sig_fingerprint(print, &a->signer);
		guard_refuse(a, VERDICT_NOT_ITS_NAME, "signed by %s, and the name '%s' is another's", print,
			l->name);
	} else if (strcmp(a->meta.learner, l->name) != 0) {
		guard_refuse(a, VERDICT_NOT_ITS_NAME, "lies in the place of '%s', and says it is of '%s'",
			l->name, a->meta.learner);
	}
}

/* Of a process that another had replaced before this call; or tokens that were merged before. */
static void judge_tokens(struct answer *a, const struct call *c, const struct roster_learner *l)
{
	const struct meta *m = &a->meta;

	if (m->incarnation < l->told && (c->round >= l->first_round || m->trained > l->born))
		guard_refuse(a, VERDICT_OLD_INCARNATION, "of incarnation %" PRIu64 ", which %" PRIu64
			" replaced", m->incarnation, l->told);
	else if (m->tokens > m->trained || m->trained - m->tokens < l->covered[c->fragment])
		guard_refuse(a, VERDICT_OVERLAP, "has tokens that were merged before");
}

static int judge_claims(struct answer *a, const struct syncer *s, const struct call *c)
{
	struct claims claims;
	int rc;

	if (a->verdict != VERDICT_ACCEPTED)
		return 0;
	if ((rc = claims_gather(&claims, &s->roster, c->fragment, c->version)) == 0)
		claims_judge(a, &claims, s->head.step, s->c.manifest->interval, s->c.manifest->outlier);
	return rc;
}

/* Judges what lies under an answer's name. 1: judged, a says how; 0: it is not whole (yet). */
static int read_answer(struct answer *a, int fd, const char *path, const struct syncer *s,
	const struct call *c, const struct roster_learner *l)
{
	struct frame_reader *r = NULL;
	struct guard_round round;
	int rc = frame_open(&r, fd, path, NULL, NULL);

	*a = (struct answer){ .name = path };
	if (rc == 0 && (rc = frame_seekable(r)) == 0 && (rc = frame_id(r, &a->id)) == 0)
		rc = meta_read(&a->meta, frame_header(r));
	if (rc == 0) {
		a->signer = *frame_signer(r);
		set_round(&round, s, c);
		judge_signer(a, s, l);
		guard_header(a, &round, &frame_header(r)->tensors, &s->learners);
		judge_tokens(a, c, l);
		rc = judge_claims(a, s, c);
	}
	frame_reader_free(r);
	if (rc == ERR_NOMEM)
		return rc;
	return rc == 0;
}

/* 1: there, and judged; 0: not there, or not whole. */
static int find_answer(struct answer *a, struct slot *slot, char path[RUNDIR_PATH], struct syncer *s,
	const struct call *c, const struct roster_learner *l)
{
	struct stat st;
	int fd, rc = place_open(rundir_delta(path, l->name, c->fragment, c->round), &fd);

	if (rc <= 0) {
		if (rc == ERR_DATA) /* no regular file */
			slot->mark = 1;
		return rc == ERR_NOMEM ? rc : 0;
	}
	if (fstat(fd, &st) < 0 || mark_of(&st) == slot->mark) {
		close(fd);
		return 0;
	}
	rc = read_answer(a, fd, path, s, c, l);
	if (rc == 0) {
		slot->mark = mark_of(&st);
		slot->look = syncer_now(s) + LOOK_AGAIN;
	}
	close(fd);
	return rc;
}

/* ---- what becomes of it ---- */

static int tell_answer(struct syncer *s, const struct call *c, const struct answer *a)
{
	char name[5];

	tape_begin(s->tape, syncer_now(s) - s->began, "answer");
	tape_put_u64(s->tape, "round", c->round);
	tape_put(s->tape, "fragment", rundir_fragment_name(name, c->fragment));
	tape_put(s->tape, "learner", a->meta.learner);
	tape_put_id(s->tape, "id", &a->id);
	tape_put_u64(s->tape, "incarnation", a->meta.incarnation);
	tape_put_u64(s->tape, "steps", a->meta.steps);
	tape_put_u64(s->tape, "tokens", a->meta.tokens);
	tape_put_u64(s->tape, "trained", a->meta.trained);
	tape_put_u64(s->tape, "answered", a->meta.answered);
	tape_put_u64(s->tape, "step", a->meta.step);
	tape_put_f64(s->tape, "loss", a->meta.loss_mean);
	return tape_end(s->tape, false);
}

static int refuse(struct syncer *s, const struct call *c, size_t i, struct slot *slot,
	const struct answer *a)
{
	struct commit_answer told = { .id = a->id, .tokens = a->meta.tokens,
		.incarnation = a->meta.incarnation, .trained = a->meta.trained, .answered = a->meta.answered,
		.verdict = a->verdict };
	char name[5];
	int rc;

	/* A file that is of another round, under the name of this one, has its tokens there, and none here. */
	if (a->meta.round != c->round || strcmp(a->meta.fragment, rundir_fragment_name(name, c->fragment)) != 0)
		told.tokens = told.trained = 0;
	memcpy(told.learner, s->roster.v[i]->name, sizeof told.learner);
	memcpy(told.why, a->why, sizeof told.why);
	rc = commit_refuse(s->tape, syncer_now(s) - s->began, c->round, c->fragment, &told);
	if (rc < 0)
		return rc;
	slot->state = SLOT_REFUSED;
	slot->closed = true;
	if (a->verdict == VERDICT_LATE && !slot->told)
		s->roster.v[i]->shown[c->fragment] += a->meta.tokens;
	if (a->verdict == VERDICT_LATE)
		say_note(s->c.say, "round %" PRIu64 ": the answer of %s came too late", c->round, told.learner);
	else
		say_warn(s->c.say, "%s: refused: %s", a->name, a->why);
	return 0;
}

static int accept(struct syncer *s, struct call *c, size_t i, struct slot *slot, const struct answer *a)
{
	int rc = 0;

	if (!slot->told && (rc = tell_answer(s, c, a)) < 0)
		return rc;
	if (!slot->told)
		s->roster.v[i]->shown[c->fragment] += a->meta.tokens;
	slot->told = true;
	slot->state = SLOT_ANSWERED;
	slot->id = a->id;
	slot->tokens = a->meta.tokens;
	slot->trained = a->meta.trained;
	rc = policy_answer(s->policy, syncer_now(s), c->round, (unsigned)i);
	return rc < 0 ? rc : 0;
}

/*
 * Its learner says that it has answered, and no file is there: on its way, or lost, as when a file server
 * forgets its last second, or somebody removed it. It is not written again: without an end to the waiting
 * the round would stay open for good.
 */
static int wait_for_file(struct syncer *s, const struct call *c, size_t i, struct slot *slot, const char *path)
{
	const struct roster_learner *l = s->roster.v[i];
	struct answer a = { .name = path };
	double now = syncer_now(s);
	int rc;

	if (!l->seen || l->beat.fragment[c->fragment].round < c->round) {
		slot->missed = 0;
		return 0;
	}
	if (slot->missed <= 0)
		slot->missed = now;
	if (now - slot->missed < MISSING * s->c.manifest->lease)
		return 0;
	guard_refuse(&a, VERDICT_UNREADABLE, "is not there, and its learner says that it was written");
	if ((rc = refuse(s, c, i, slot, &a)) == 0)
		policy_refused(s->policy, now, c->round, (unsigned)i);
	return rc;
}

/* Looks for the answer of learner i to an open round. */
static int look(struct syncer *s, struct call *c, size_t i)
{
	const struct roster_learner *l = s->roster.v[i];
	char path[RUNDIR_PATH];
	struct slot *slot = NULL;
	struct answer a;
	int rc = call_slot(c, &slot, i, s->roster.n);

	if (rc < 0 || slot->state != SLOT_EMPTY || syncer_now(s) < slot->look || !call_invites(c, l->name))
		return rc;
	if (l->lost || l->gone)
		slot->look = syncer_now(s) + LOOK_ABSENT;
	rc = find_answer(&a, slot, path, s, c, l);
	if (rc == 0)
		return wait_for_file(s, c, i, slot, path);
	if (rc < 0)
		return rc;
	if (a.verdict == VERDICT_ACCEPTED)
		return accept(s, c, i, slot, &a);
	if ((rc = refuse(s, c, i, slot, &a)) == 0)
		policy_refused(s->policy, syncer_now(s), c->round, (unsigned)i);
	return rc;
}

/* The same for a round that is over: what is found is late. */
static int look_late(struct syncer *s, struct call *c, size_t i)
{
	const struct roster_learner *l = s->roster.v[i];
	const struct beat_fragment *f = l->seen ? &l->beat.fragment[c->fragment] : NULL;
	char path[RUNDIR_PATH];
	struct slot *slot = NULL;
	struct answer a;
	int rc = call_slot(c, &slot, i, s->roster.n);

	if (rc < 0 || slot->closed || slot->state != SLOT_EMPTY)
		return rc;
	if (syncer_now(s) < slot->look && !(f && f->round == c->round))
		return 0;
	slot->look = syncer_now(s) + LOOK_ABSENT;
	rc = find_answer(&a, slot, path, s, c, l);
	if (rc == 0 && f && f->round > c->round)
		slot->closed = true; /* it has answered a later one, so this is the last look */
	if (rc <= 0)
		return rc;
	guard_refuse(&a, VERDICT_LATE, "the round was merged without it");
	return refuse(s, c, i, slot, &a);
}

/* ---- all ---- */

static bool all_closed(const struct syncer *s, const struct call *c)
{
	for (size_t i = 0; i < s->roster.n; i++)
		if (i >= c->slots || !(c->slot[i].closed || c->slot[i].state != SLOT_EMPTY))
			return false;
	return true;
}

/* Calls over that nobody can answer any more, and of each fragment all but the last few. */
static void forget_calls(struct syncer *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->calls; i++) {
		struct call *c = s->call[i];
		size_t later = 0;

		for (size_t j = i + 1; j < s->calls && !c->open; j++)
			later += s->call[j]->fragment == c->fragment && !s->call[j]->open;
		if (!c->open && (later >= CLOSED_CALLS || all_closed(s, c)))
			call_free(c);
		else
			s->call[kept++] = c;
	}
	s->calls = kept;
}

int collect(struct syncer *s)
{
	int rc = 0;

	for (size_t k = 0; k < s->calls && rc == 0; k++) {
		struct call *c = s->call[k];

		if (c->open && (c->held || c->commit.decided))
			continue;
		for (size_t i = 0; i < s->roster.n && rc == 0; i++)
			rc = c->open ? look(s, c, i) : look_late(s, c, i);
	}
	if (rc == 0)
		forget_calls(s);
	return rc;
}

/* It was there, and no whole answer, when the round was merged without it. */
static int refuse_partial(struct syncer *s, struct call *c, size_t i)
{
	char path[RUNDIR_PATH];
	struct answer a = { .name = rundir_delta(path, s->roster.v[i]->name, c->fragment, c->round) };

	guard_refuse(&a, VERDICT_UNREADABLE, "is no whole delta");
	return refuse(s, c, i, &c->slot[i], &a);
}

int collect_close(struct syncer *s, struct call *c)
{
	int rc = 0;

	c->open = false;
	for (size_t i = 0; i < s->roster.n && rc == 0; i++) {
		struct slot *slot;

		if ((rc = call_slot(c, &slot, i, s->roster.n)) < 0)
			break;
		slot->closed |= !call_invites(c, s->roster.v[i]->name);
		slot->look = 0;
		if (slot->state == SLOT_EMPTY && slot->mark && !slot->closed)
			rc = refuse_partial(s, c, i);
	}
	return rc;
}
