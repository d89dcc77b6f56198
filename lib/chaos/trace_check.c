#include "chaos/trace_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct learner {
	bool known, there, gone, dead, kept, back; /* back: without a step since */
};
struct fragment {
	uint64_t version, made; /* the newest, and the round it was made by */
	uint64_t round, called; /* the last round called, and from which version */
	bool open, all;
};
struct cell { /* a learner and a fragment */
	uint64_t version, steps; /* it trains from; since then, or since its last answer */
	uint64_t answered, invited; /* the last round it answered, and was invited to */
	uint64_t counted; /* the version that has its last answer */
	bool out, snap; /* an answer is out that its base does not hold; and its snapshot is in memory */
};
struct trace_check {
	struct trace_head head;
	struct learner *learner;
	struct fragment *fragment;
	struct cell *cell;
	uint64_t round;
	double at;
	bool rebase;
};

static int bad_head(const char *what)
{
	return err_set(ERR_DATA, "%s", what);
}

static int check_head(const struct trace_head *h)
{
	if (!h->learners || h->learners > TRACE_LEARNERS)
		return bad_head("learners are 1 to 65536");
	if (!h->fragments || h->fragments > TRACE_FRAGMENTS ||
		(uint64_t)h->learners * h->fragments > TRACE_CELLS)
		return bad_head("fragments are at least 1, and with all learners at most 4194304");
	if (!h->interval || !h->overlap || !h->quorum || !h->step_tokens)
		return bad_head("interval, overlap, quorum and step_tokens are at least 1");
	if (h->quorum > h->learners)
		return bad_head("quorum is more than there are learners");
	if (!(h->grace >= 0))
		return bad_head("grace is not negative");
	return 0;
}

int trace_check_open(struct trace_check **out, const struct trace_head *h)
{
	struct trace_check *c;
	int rc = check_head(h);

	*out = NULL;
	if (rc < 0)
		return rc;
	if (!(c = calloc(1, sizeof *c)))
		return err_nomem();
	c->head = *h;
	c->rebase = strcmp(h->adopt, "rebase") == 0;
	c->learner = calloc(h->learners, sizeof *c->learner);
	c->fragment = calloc(h->fragments, sizeof *c->fragment);
	c->cell = calloc((size_t)h->learners * h->fragments, sizeof *c->cell);
	if (!c->learner || !c->fragment || !c->cell) {
		trace_check_close(c);
		return err_nomem();
	}
	*out = c;
	return 0;
}

void trace_check_close(struct trace_check *c)
{
	if (!c)
		return;
	free(c->learner);
	free(c->fragment);
	free(c->cell);
	free(c);
}

static struct cell *cell_of(struct trace_check *c, unsigned learner, unsigned fragment)
{
	return &c->cell[(size_t)learner * c->head.fragments + fragment];
}

/* ---- learners ---- */

static void take_newest(struct trace_check *c, unsigned learner)
{
	for (unsigned f = 0; f < c->head.fragments; f++) {
		struct cell *x = cell_of(c, learner, f);

		x->version = c->fragment[f].version;
		x->steps = 0;
		x->out = x->answered > c->fragment[f].made;
	}
}

/* Snapshots are no part of what is saved. */
static void forget_snapshots(struct trace_check *c, unsigned learner)
{
	for (unsigned f = 0; f < c->head.fragments; f++)
		cell_of(c, learner, f)->snap = false;
}

static int check_life(struct trace_check *c, const struct trace_event *e)
{
	struct learner *l = &c->learner[e->learner];

	if (l->gone)
		return err_set(ERR_DATA, "learner %u is gone", e->learner);
	if (e->kind == TRACE_JOIN ? l->known : e->kind == TRACE_BACK ? !l->dead : !l->there)
		return err_set(ERR_DATA, "learner %u is %s", e->learner, l->there ? "there already" :
			l->dead ? "lost" : "not there");
	if (e->kind == TRACE_JOIN || (e->kind == TRACE_BACK && !l->kept))
		take_newest(c, e->learner);
	if (e->kind == TRACE_BACK)
		forget_snapshots(c, e->learner);
	l->back = e->kind == TRACE_BACK && l->kept;
	l->known = true;
	l->gone = e->kind == TRACE_GONE;
	l->dead = e->kind == TRACE_LOST;
	l->kept = e->kind == TRACE_LOST && e->kept;
	l->there = !l->gone && !l->dead;
	return 0;
}

static int check_step(struct trace_check *c, const struct trace_event *e)
{
	c->learner[e->learner].back = false;
	for (unsigned f = 0; f < c->head.fragments; f++)
		cell_of(c, e->learner, f)->steps++;
	return 0;
}

/* ---- rounds ---- */

static int check_call(struct trace_check *c, const struct trace_event *e)
{
	struct fragment *f = &c->fragment[e->fragment];
	bool again = f->open && f->round == e->round;

	if (!again && e->round <= c->round)
		return err_set(ERR_DATA, "round %" PRIu64 " was called before", e->round);
	if (!again && f->open)
		return err_set(ERR_DATA, "round %" PRIu64 " is open for fragment %u", f->round, e->fragment);
	if (e->version != f->version)
		return err_set(ERR_DATA, "version of fragment %u is %" PRIu64 " by now", e->fragment, f->version);
	if (!again)
		c->round = e->round;
	f->round = e->round;
	f->called = e->version;
	f->open = true;
	f->all = !e->who;
	for (size_t i = 0; e->who && i < e->n; i++)
		cell_of(c, e->who[i], e->fragment)->invited = e->round;
	return 0;
}

/* It may be too late, as it is on its way: the round need not be open. A learner that has died since its answer may not
 * have sent it, and gives another one. */
static int check_answer(struct trace_check *c, const struct trace_event *e)
{
	const struct fragment *f = &c->fragment[e->fragment];
	struct cell *x = cell_of(c, e->learner, e->fragment);

	if (!f->round || e->round != f->round)
		return err_set(ERR_DATA, "round %" PRIu64 " is not the last of fragment %u", e->round, e->fragment);
	if (!f->all && x->invited != e->round)
		return err_set(ERR_DATA, "learner %u was not invited to round %" PRIu64, e->learner, e->round);
	if (x->answered == e->round && x->snap)
		return err_set(ERR_DATA, "learner %u has answered round %" PRIu64 " before", e->learner, e->round);
	if (x->version != f->called)
		return err_set(ERR_DATA, "learner %u trains fragment %u from version %" PRIu64 ", not %" PRIu64,
			e->learner, e->fragment, x->version, f->called);
	if (!x->steps)
		return err_set(ERR_DATA, "learner %u has made no step that it could answer with", e->learner);
	x->answered = e->round;
	x->steps = 0;
	x->out = x->snap = true;
	return 0;
}

static int check_end(struct trace_check *c, const struct trace_event *e)
{
	struct fragment *f = &c->fragment[e->fragment];

	if (!f->open || f->round != e->round)
		return err_set(ERR_DATA, "round %" PRIu64 " is not open for fragment %u", e->round, e->fragment);
	f->open = false;
	if (e->kind == TRACE_ABANDON)
		return 0;
	if (e->version != f->version + 1)
		return err_set(ERR_DATA, "the next version of fragment %u is %" PRIu64, e->fragment, f->version + 1);
	if (!e->n)
		return err_set(ERR_DATA, "a merge of no answers");
	for (size_t i = 0; i < e->n; i++) {
		struct cell *x = cell_of(c, e->who[i], e->fragment);

		if (x->answered != e->round)
			return err_set(ERR_DATA, "learner %u has not answered round %" PRIu64, e->who[i], e->round);
		x->counted = e->version;
	}
	f->version = e->version;
	f->made = e->round;
	return 0;
}

/* What was trained since the last answer stays, where a learner can tell it from what the answer had (replica.c). */
static bool keeps(const struct trace_check *c, const struct cell *x, const struct trace_event *e)
{
	if (!c->rebase || c->learner[e->learner].back)
		return false;
	return !x->out || x->snap || (e->version == x->version + 1 && x->counted != e->version);
}

static int check_adopt(struct trace_check *c, const struct trace_event *e)
{
	struct cell *x = cell_of(c, e->learner, e->fragment);

	if (e->version > c->fragment[e->fragment].version)
		return err_set(ERR_DATA, "version %" PRIu64 " of fragment %u is not published yet", e->version,
			e->fragment);
	if (e->version <= x->version)
		return err_set(ERR_DATA, "learner %u trains fragment %u from version %" PRIu64 " by now", e->learner,
			e->fragment, x->version);
	if (!keeps(c, x, e))
		x->steps = 0;
	x->version = e->version;
	x->out = x->snap = false;
	return 0;
}

/* ---- each ---- */

static bool names_fragment(enum trace_kind k)
{
	return k == TRACE_CALL || k == TRACE_ANSWER || k == TRACE_MERGE || k == TRACE_ABANDON || k == TRACE_ADOPT;
}

static bool names_learner(enum trace_kind k)
{
	return k != TRACE_CALL && k != TRACE_MERGE && k != TRACE_ABANDON;
}

static int check_names(const struct trace_check *c, const struct trace_event *e)
{
	if (names_learner(e->kind) && e->learner >= c->head.learners)
		return err_set(ERR_DATA, "learner %u, of %u", e->learner, c->head.learners);
	if (names_fragment(e->kind) && e->fragment >= c->head.fragments)
		return err_set(ERR_DATA, "fragment %u, of %u", e->fragment, c->head.fragments);
	for (size_t i = 0; i < e->n; i++)
		if (e->who[i] >= c->head.learners || (i && e->who[i] <= e->who[i - 1]))
			return err_set(ERR_DATA, "learners of a list ascend, and are less than %u", c->head.learners);
	return 0;
}

int trace_check_event(struct trace_check *c, const struct trace_event *e)
{
	int rc = check_names(c, e);

	if (rc < 0)
		return rc;
	if (!(e->at >= c->at))
		return err_set(ERR_DATA, "time goes back");
	c->at = e->at;
	if (names_learner(e->kind) && (e->kind == TRACE_STOP || e->kind == TRACE_STEP || e->kind == TRACE_ANSWER ||
		e->kind == TRACE_ADOPT) && !c->learner[e->learner].there)
		return err_set(ERR_DATA, "learner %u is not there", e->learner);
	switch (e->kind) {
	case TRACE_JOIN:
	case TRACE_GONE:
	case TRACE_LOST:
	case TRACE_BACK:
		return check_life(c, e);
	case TRACE_STEP:
		return check_step(c, e);
	case TRACE_CALL:
		return check_call(c, e);
	case TRACE_ANSWER:
		return check_answer(c, e);
	case TRACE_MERGE:
	case TRACE_ABANDON:
		return check_end(c, e);
	case TRACE_ADOPT:
		return check_adopt(c, e);
	default:
		return 0;
	}
}
