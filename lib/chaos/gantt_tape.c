#include <math.h>
#include <string.h>

#include "chaos/gantt_inside.h"

/*
 * Each epoch of a tape has a clock of its own, which begins with it. When that was by the wall clock is said in its
 * first line; on the picture's axis an epoch begins so much later, and never before the one before it has ended.
 *
 * Between two epochs nobody wrote down who trains. A learner did if it shows in the later one, by an answer, that
 * it is the process that it was; else its bar ends where it was known of last. What proves that is an answer to a
 * round that was called since: an older answer may have lain there.
 */
struct known { /* of a learner */
	uint64_t incarnation;
	bool here;   /* it was heard of in this epoch, which would tell if it had left */
	double sure; /* it is not: until then it was there */
};
struct reading {
	struct gantt *g;
	double origin; /* of the epoch's clock, on the axis */
	double wall;   /* of the first epoch */
	bool any;
	uint64_t round, round_before; /* the first that was called in this epoch, in one before; 0: none was */
	double before;                /* where that one began */
	struct known known[GANTT_LANES + 1]; /* by lane */
};

static int lane_of(struct gantt *g, const char *name, unsigned *lane)
{
	for (*lane = 1; *lane < g->lanes; ++*lane)
		if (strcmp(g->lane[*lane].name, name) == 0)
			return 0;
	return gantt_lane(g, name);
}

/* Whom this epoch has heard of was there until its end. */
static void leave_epoch(struct reading *r)
{
	for (unsigned i = 1; i < r->g->lanes; i++)
		if (r->known[i].here) {
			r->known[i].here = false;
			r->known[i].sure = r->g->end;
		}
	if (r->round) {
		r->round_before = r->round;
		r->before = r->origin;
	}
	r->round = 0;
}

static int begin_epoch(struct reading *r, const struct tape_line *l)
{
	double wall = tape_f64(l, "at");
	int rc = r->any ? gantt_bar(r->g, GANTT_SYNCS, 0, r->origin, r->g->end) : 0;

	leave_epoch(r);
	if (!r->any)
		r->wall = wall;
	r->any = true;
	r->origin = fmax(wall - r->wall, r->g->end);
	return rc;
}

/* Ends the bar of a learner of which nothing was heard in this epoch where it was known of last. */
static int end_unheard(struct reading *r, unsigned lane)
{
	if (r->known[lane].here || !r->g->lane[lane].up)
		return 0;
	return gantt_down(r->g, lane, r->known[lane].sure, false);
}

static int come(struct reading *r, const struct tape_line *l, unsigned lane, double at)
{
	int rc = end_unheard(r, lane);

	r->known[lane].here = true;
	r->known[lane].incarnation = tape_u64(l, "incarnation");
	return rc < 0 ? rc : gantt_up(r->g, lane, at);
}

static int leave(struct reading *r, unsigned lane, double at, bool dead)
{
	int rc = end_unheard(r, lane);

	return rc < 0 ? rc : gantt_down(r->g, lane, at, dead);
}

static int answer(struct reading *r, const struct tape_line *l, unsigned lane, double at)
{
	struct known *k = &r->known[lane];
	uint64_t round = tape_u64(l, "round");

	if (tape_u64(l, "incarnation") == k->incarnation && !k->here) {
		k->here = r->round && round >= r->round;
		if (r->round_before && round >= r->round_before)
			k->sure = fmax(k->sure, r->before);
	}
	return gantt_mark(r->g, GANTT_ANSWER, lane, at);
}

static int learner(struct reading *r, const struct tape_line *l, double at)
{
	const char *name = tape_text(l, "learner");
	unsigned lane;
	int rc = lane_of(r->g, name, &lane);

	if (rc < 0)
		return rc;
	if (strcmp(l->kind, "join") == 0 || strcmp(l->kind, "back") == 0)
		return come(r, l, lane, at);
	if (strcmp(l->kind, "lost") == 0 || strcmp(l->kind, "gone") == 0)
		return leave(r, lane, at, strcmp(l->kind, "lost") == 0);
	if (strcmp(l->kind, "answer") == 0)
		return answer(r, l, lane, at);
	if (strcmp(l->kind, "refuse") == 0 && strcmp(tape_text(l, "verdict"), "late") == 0)
		return gantt_mark(r->g, GANTT_LATE, lane, at);
	return 0;
}

static int line(struct reading *r, const struct tape_line *l)
{
	double at;
	int rc = strcmp(l->kind, "epoch") == 0 ? begin_epoch(r, l) : 0;

	at = r->origin + l->seconds;
	gantt_see(r->g, at);
	if (rc < 0)
		return rc;
	if (strcmp(l->kind, "call") == 0 && !r->round)
		r->round = tape_u64(l, "round");
	if (strcmp(l->kind, "publish") == 0)
		return gantt_mark(r->g, GANTT_MERGE, 0, at);
	return *tape_text(l, "learner") ? learner(r, l, at) : 0;
}

int gantt_tape(struct gantt *g, struct tape_reader *tape)
{
	struct reading r = { .g = g };
	const struct tape_line *l;
	int rc = gantt_lane(g, "syncer");

	if (rc < 0)
		return rc;
	while ((rc = tape_read(tape, &l)) == 1)
		if ((rc = line(&r, l)) < 0)
			return rc;
	if (rc == 0 && r.any)
		rc = gantt_bar(g, GANTT_SYNCS, 0, r.origin, g->end);
	for (unsigned i = 1; i < g->lanes && rc == 0; i++)
		rc = end_unheard(&r, i);
	return rc < 0 ? rc : gantt_end(g);
}
