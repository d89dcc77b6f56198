#include <math.h>
#include <string.h>

#include "chaos/gantt_inside.h"

/* Each epoch of a tape has a clock of its own, which begins with it. When that was by the wall clock is said in its
 * first line; on the picture's axis an epoch begins so much later, and never before the one before it has ended. */
struct reading {
	struct gantt *g;
	double origin; /* of the epoch's clock, on the axis */
	double wall;   /* of the first epoch */
	bool any;
};

static int lane_of(struct gantt *g, const char *name, unsigned *lane)
{
	for (*lane = 1; *lane < g->lanes; ++*lane)
		if (strcmp(g->lane[*lane].name, name) == 0)
			return 0;
	return gantt_lane(g, name);
}

static int begin_epoch(struct reading *r, const struct tape_line *l)
{
	double wall = tape_f64(l, "at");
	int rc = r->any ? gantt_bar(r->g, GANTT_SYNCS, 0, r->origin, r->g->end) : 0;

	if (!r->any)
		r->wall = wall;
	r->any = true;
	r->origin = fmax(wall - r->wall, r->g->end);
	return rc;
}

static int learner(struct reading *r, const struct tape_line *l, double at)
{
	const char *name = tape_text(l, "learner");
	unsigned lane;
	int rc = lane_of(r->g, name, &lane);

	if (rc < 0)
		return rc;
	if (strcmp(l->kind, "join") == 0 || strcmp(l->kind, "back") == 0)
		return gantt_up(r->g, lane, at);
	if (strcmp(l->kind, "lost") == 0 || strcmp(l->kind, "gone") == 0)
		return gantt_down(r->g, lane, at, strcmp(l->kind, "lost") == 0);
	if (strcmp(l->kind, "answer") == 0)
		return gantt_mark(r->g, GANTT_ANSWER, lane, at);
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
	return rc < 0 ? rc : gantt_end(g);
}
