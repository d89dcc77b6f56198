#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/gantt_inside.h"

#define PLACES 4000 /* along the axis, where marks are told apart */

void gantt_release(struct gantt *g)
{
	for (unsigned i = 0; i < g->lanes; i++)
		free(g->lane[i].name);
	for (int k = 0; k < GANTT_BARS; k++)
		free(g->bars[k].v);
	for (int k = 0; k < GANTT_MARKS; k++)
		free(g->marks[k].v);
	free(g->lane);
	*g = (struct gantt){ .lane = NULL };
}

/* ---- putting it together ---- */

int gantt_lane(struct gantt *g, const char *name)
{
	if (g->lanes == GANTT_LANES + 1)
		return err_set(ERR_DATA, "more than %d learners: too many for a picture", GANTT_LANES);
	if (!g->lane && !(g->lane = calloc(GANTT_LANES + 1, sizeof *g->lane)))
		return err_nomem();
	g->lane[g->lanes].name = strdup(name);
	return g->lane[g->lanes++].name ? 0 : err_nomem();
}

/* Room for one more of n items. */
static int make_room(void **v, size_t n, size_t *room, size_t size)
{
	size_t more = *room ? 2 * *room : 256;
	void *to;

	if (n < *room)
		return 0;
	if (n >= GANTT_ITEMS)
		return err_set(ERR_DATA, "more than %d bars or marks: choose a part of it (--from, --until)",
			GANTT_ITEMS);
	if (!(to = realloc(*v, more * size)))
		return err_nomem();
	*v = to;
	*room = more;
	return 0;
}

int gantt_bar(struct gantt *g, enum gantt_bar_kind k, unsigned lane, double from, double to)
{
	struct gantt_bars *b = &g->bars[k];
	void *v = b->v;
	int rc;

	from = fmax(from, g->from);
	to = fmin(to, g->until);
	if (from >= to)
		return 0;
	if ((rc = make_room(&v, b->n, &b->room, sizeof *b->v)) < 0)
		return rc;
	b->v = v;
	b->v[b->n++] = (struct gantt_bar){ lane, from, to };
	return 0;
}

int gantt_mark(struct gantt *g, enum gantt_mark_kind k, unsigned lane, double at)
{
	struct gantt_marks *m = &g->marks[k];
	void *v = m->v;
	int rc;

	if (at < g->from || at > g->until)
		return 0;
	if ((rc = make_room(&v, m->n, &m->room, sizeof *m->v)) < 0)
		return rc;
	m->v = v;
	m->v[m->n++] = (struct gantt_mark){ lane, at };
	return 0;
}

void gantt_see(struct gantt *g, double at)
{
	g->end = fmax(g->end, at);
}

/* The bar that ends now. */
static int end_bar(struct gantt *g, unsigned lane, double at)
{
	struct gantt_lane *l = &g->lane[lane];
	enum gantt_bar_kind k = l->up ? GANTT_TRAINS : GANTT_DEAD;
	bool any = l->up || l->dead;

	l->up = l->dead = false;
	return any ? gantt_bar(g, k, lane, l->since, at) : 0;
}

int gantt_up(struct gantt *g, unsigned lane, double at)
{
	int rc = end_bar(g, lane, at);

	g->lane[lane].up = true;
	g->lane[lane].since = at;
	return rc;
}

int gantt_down(struct gantt *g, unsigned lane, double at, bool dead)
{
	int rc = end_bar(g, lane, at);

	g->lane[lane].dead = dead;
	g->lane[lane].since = at;
	return rc;
}

int gantt_end(struct gantt *g)
{
	int rc = 0;

	for (unsigned i = 0; i < g->lanes && rc == 0; i++)
		rc = end_bar(g, i, g->end);
	return rc;
}

/* ---- the script ---- */

static const struct {
	const char *name, *colour;
	double half; /* of its height; a lane has 1 */
} bar_looks[GANTT_BARS] = {
	[GANTT_TRAINS] = { "trains", "#9ecae1", 0.3 }, [GANTT_STOPS] = { "stopped", "#636363", 0.3 },
	[GANTT_DEAD] = { "dead", "#e34a33", 0.12 }, [GANTT_SYNCS] = { "syncer", "#d9d9d9", 0.3 },
};
/* Marks are strokes, from and to in heights of the lane. */
static const struct {
	const char *name, *colour;
	double low, high;
} mark_looks[GANTT_MARKS] = {
	[GANTT_ANSWER] = { "answers", "#08519c", 0, 0.42 }, [GANTT_LATE] = { "too late", "#e6550d", 0, 0.42 },
	[GANTT_ADOPT] = { "adopts", "#31a354", -0.42, 0 }, [GANTT_MERGE] = { "merges", "#54278f", -0.3, 0.3 },
};

/* Lane 0 is at the top. */
static double height(const struct gantt *g, unsigned lane)
{
	return (double)(g->lanes - 1 - lane);
}

static int put_numbers(struct buf *out, const double *x, int n)
{
	int rc = 0;

	for (int i = 0; i < n && rc == 0; i++)
		rc = gnuplot_number(out, x[i]);
	return rc < 0 ? rc : buf_str(out, "\n");
}

static int put_bars(struct buf *out, const struct gantt *g, int k)
{
	int rc = buf_fmt(out, "$bar%d << END\n", k);

	for (size_t i = 0; i < g->bars[k].n && rc == 0; i++) {
		const struct gantt_bar *b = &g->bars[k].v[i];
		double y = height(g, b->lane), half = bar_looks[k].half;

		rc = put_numbers(out, (const double[]){ b->from, y, b->from, b->to, y - half, y + half }, 6);
	}
	return rc < 0 ? rc : buf_str(out, "END\n");
}

/* Those that would be drawn over each other once. */
static int put_marks(struct buf *out, const struct gantt *g, int k, double from, double until)
{
	double last[GANTT_LANES + 1], place;
	int rc = buf_fmt(out, "$mark%d << END\n", k);

	for (unsigned i = 0; i < g->lanes; i++)
		last[i] = -1;
	for (size_t i = 0; i < g->marks[k].n && rc == 0; i++) {
		const struct gantt_mark *m = &g->marks[k].v[i];
		double y = height(g, m->lane);

		place = until > from ? floor((m->at - from) / (until - from) * PLACES) : 0;
		if (place == last[m->lane])
			continue;
		last[m->lane] = place;
		rc = put_numbers(out, (const double[]){ m->at, y + mark_looks[k].low, 0,
			mark_looks[k].high - mark_looks[k].low }, 4);
	}
	return rc < 0 ? rc : buf_str(out, "END\n");
}

static int put_axes(struct buf *out, const struct gantt *g, double from, double until)
{
	int rc = buf_str(out, "set xlabel 'seconds'\nset key outside right top\nset style fill solid noborder\n"
		"set xrange [");

	if (rc == 0 && (rc = gnuplot_number(out, from)) == 0 && (rc = buf_str(out, " :")) == 0)
		rc = gnuplot_number(out, until > from ? until : from + 1);
	if (rc == 0)
		rc = buf_fmt(out, " ]\nset yrange [-0.6:%u.4]\nset ytics (", g->lanes - 1);
	for (unsigned i = 0; i < g->lanes && rc == 0; i++) {
		if (i)
			rc = buf_str(out, ", ");
		if (rc == 0 && (rc = gnuplot_quote(out, g->lane[i].name)) == 0)
			rc = gnuplot_number(out, height(g, i));
	}
	return rc < 0 ? rc : buf_str(out, ")\n");
}

/* Bars first: marks lie over them. */
static int put_plot(struct buf *out, const struct gantt *g)
{
	const char *before = "plot";
	int rc = 0;

	for (int k = 0; k < GANTT_BARS && rc == 0; k++)
		if (g->bars[k].n) {
			rc = buf_fmt(out, "%s $bar%d using 1:2:3:4:5:6 with boxxyerror lc rgb '%s' title '%s'", before,
				k, bar_looks[k].colour, bar_looks[k].name);
			before = ",";
		}
	for (int k = 0; k < GANTT_MARKS && rc == 0; k++)
		if (g->marks[k].n) {
			rc = buf_fmt(out, "%s $mark%d using 1:2:3:4 with vectors nohead lw 1 lc rgb '%s' title '%s'",
				before, k, mark_looks[k].colour, mark_looks[k].name);
			before = ",";
		}
	return rc < 0 ? rc : buf_str(out, "\n");
}

static bool is_empty(const struct gantt *g)
{
	size_t n = 0;

	for (int k = 0; k < GANTT_BARS; k++)
		n += g->bars[k].n;
	for (int k = 0; k < GANTT_MARKS; k++)
		n += g->marks[k].n;
	return n == 0;
}

int gantt_script(struct buf *out, const struct gantt *g, const struct gnuplot_page *page)
{
	double from = fmax(g->from, 0), until = fmin(g->until, g->end);
	int rc = is_empty(g) ? err_set(ERR_DATA, "nothing happened in it") : gnuplot_begin(out, page);

	if (rc == 0)
		rc = put_axes(out, g, from, until);
	for (int k = 0; k < GANTT_BARS && rc == 0; k++)
		if (g->bars[k].n)
			rc = put_bars(out, g, k);
	for (int k = 0; k < GANTT_MARKS && rc == 0; k++)
		if (g->marks[k].n)
			rc = put_marks(out, g, k, from, until);
	return rc < 0 ? rc : put_plot(out, g);
}
