#include "round/board.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/say.h"
#include "round/explain.h"
#include "round/plot.h"

#define CELL 19        /* columns of a fragment */
#define PLOT_ROWS 8
#define LEAST_ROWS 3   /* learners that are shown however small the screen is */

/* "31.2k", "4.05M" */
static const char *short_number(char out[32], double x)
{
	static const char *const units[] = { "", "k", "M", "G", "T", "P" };
	size_t u = 0;

	for (; x >= 9999.5 && u + 1 < sizeof units / sizeof *units; u++)
		x /= 1000;
	snprintf(out, 32, "%.*f%s", u && x < 99.95 ? 1 : 0, x, units[u]);
	return out;
}

/* "31 ms", "2.4 s" */
static const char *short_time(char out[32], bool known, double s)
{
	if (!known)
		return "-";
	if (s < 1 && s > -1)
		snprintf(out, 32, "%.0f ms", s * 1000);
	else if (s > -120 && s < 120)
		snprintf(out, 32, "%.3g s", s);
	else
		snprintf(out, 32, "%.0f s", s);
	return out;
}

static const char *percent(char out[32], double part, double whole)
{
	if (!(whole > 0))
		return "-";
	snprintf(out, 32, "%.1f%%", 100 * part / whole);
	return out;
}

/* ---- text: the run ---- */

static int put_run(struct buf *out, const struct view *v, const struct board_conf *c)
{
	const struct head *h = &v->head;
	char shown[256], time[32];
	int rc;

	say_escape(shown, sizeof shown, c->run);
	rc = buf_fmt(out, "run %s   %.16s   %s\n", shown, v->manifest.meta.run, view_phase_name(v));
	if (rc < 0)
		return rc;
	rc = buf_fmt(out, "step %" PRIu64, h->step);
	if (rc == 0 && v->manifest.target_steps)
		rc = buf_fmt(out, " of %" PRIu64, v->manifest.target_steps);
	if (rc == 0)
		rc = buf_fmt(out, "   learners %zu of %zu alive   syncer ", view_alive(v), v->learners);
	if (rc == 0)
		rc = h->fragment && (v->syncer == VIEW_SILENT || v->syncer == VIEW_UNKNOWN)
			? buf_fmt(out, "not moved for %s", explain_seconds(time, v->syncer_silent))
			: buf_str(out, v->syncer == VIEW_GONE ? "done" : view_life_name(v->syncer));
	if (rc == 0 && h->fragment)
		rc = buf_fmt(out, ", epoch %" PRIu64, h->epoch);
	return rc < 0 ? rc : buf_str(out, "\n");
}

static int put_tokens(struct buf *out, const struct view *v)
{
	const struct head *h = &v->head;
	char trained[32], merged[32], rate[32], target[48] = "", good[32] = "-";

	if (v->manifest.target_tokens)
		snprintf(target, sizeof target, " of %s", short_number(good, (double)v->manifest.target_tokens));
	if (v->goodput >= 0)
		snprintf(good, sizeof good, "%.1f%%", 100 * v->goodput);
	else
		snprintf(good, sizeof good, "-");
	return buf_fmt(out, "tokens %s%s trained, %s merged   goodput %s   %s tokens/s\n",
		       short_number(trained, v->trained), target,
		       short_number(merged, (double)h->tokens), good, short_number(rate, v->tokens_per_s));
}

static int put_pace(struct buf *out, const struct view *v, const struct board_conf *c)
{
	const struct policy_times *t = &v->head.times;
	char step[32], quorum[32], sync[32], slack[32], window[32], achieved[32] = "-", disk[32];
	bool known = t->step > 0;
	int rc;

	if (v->achieved > 0)
		snprintf(achieved, sizeof achieved, "%.1f", v->achieved);
	rc = buf_fmt(out, "merges %" PRIu64 ", refused %" PRIu64 " (%" PRIu64 " late)   H %s of %" PRIu64
		     "   K %u   tau %u   disk %s%s\n", v->merges, v->refusals, v->late, achieved,
		     v->manifest.interval, v->manifest.quorum, v->manifest.overlap,
		     short_number(disk, (double)c->disk), c->disk_more ? "+" : "");
	if (rc == 0 && v->head.fragment)
		rc = buf_fmt(out, "xi step %s   quorum %s   sync %s   slack %s   window %s\n",
			     short_time(step, known, t->step), short_time(quorum, t->quorum > 0, t->quorum),
			     short_time(sync, t->sync > 0, t->sync), short_time(slack, known, t->slack),
			     short_time(window, known, t->window));
	return rc;
}

/* ---- text: learners ---- */

static const char *state_of(const struct view_learner *l)
{
	if (l->life == VIEW_ALIVE && l->beat.state == BEAT_IDLE)
		return "idle";
	if (l->life == VIEW_UNKNOWN)
		return "?";
	return view_life_name(l->life);
}

static int put_learner(struct buf *out, const struct view_learner *l)
{
	const struct books_learner *b = &l->books;
	char rate[32], loss[32] = "-", answered[32] = "-", merged[32], refused[32], lost[32];
	char step[32] = "-", behind[32] = "-";

	if (l->beat.fragment && l->beat.loss > 0)
		snprintf(loss, sizeof loss, "%.4f", l->beat.loss);
	if (l->answered)
		snprintf(answered, sizeof answered, "%" PRIu64, l->answered);
	if (l->beat.fragment) {
		snprintf(step, sizeof step, "%" PRIu64, l->beat.step);
		snprintf(behind, sizeof behind, "%" PRIu64, l->stale);
	}
	return buf_fmt(out, "%-14.14s %-6s %6s %6s %6s %7s %6s %6s %6s %6s\n", l->name, state_of(l), step, behind,
		       l->beat.fragment ? short_number(rate, l->rate) : "-", loss, answered,
		       percent(merged, b->merged, b->trained), percent(refused, b->refused, b->trained),
		       percent(lost, b->lost, b->trained));
}

static int put_learners(struct buf *out, const struct view *v, size_t most)
{
	int rc = buf_fmt(out, "\n%-14s %-6s %6s %6s %6s %7s %6s %6s %6s %6s\n", "LEARNER", "STATE", "STEP",
			 "BEHIND", "TOK/S", "LOSS", "ANSWER", "MERGED", "REFUSD", "LOST");

	for (size_t i = 0; rc == 0 && i < v->learners && i < most; i++)
		rc = put_learner(out, &v->learner[i]);
	if (rc == 0 && v->learners > most)
		rc = buf_fmt(out, "and %zu more\n", v->learners - most);
	return rc;
}

/* ---- text: fragments, rounds, loss ---- */

static uint64_t age(const struct view *v, unsigned p)
{
	uint64_t step = v->head.fragment[p].step;

	return v->head.step > step ? v->head.step - step : 0;
}

static int put_fragments(struct buf *out, const struct view *v, int columns, size_t most)
{
	unsigned each = (unsigned)(columns / CELL > 0 ? columns / CELL : 1), n = v->head.fragments;
	char cell[64];
	int rc = buf_fmt(out, "\nFRAGMENT, version, age in steps\n");

	for (unsigned p = 0; rc == 0 && p < n && p / each < most; p++) {
		bool last = p % each == each - 1 || p == n - 1;

		snprintf(cell, sizeof cell, "f%03u v%" PRIu64 " %" PRIu64, p, v->head.fragment[p].version, age(v, p));
		rc = last ? buf_fmt(out, "%s\n", cell) : buf_fmt(out, "%-*s", CELL, cell);
	}
	if (rc == 0 && n > each * most)
		rc = buf_fmt(out, "and %zu more\n", n - each * most);
	return rc;
}

static const char *awaited(const struct view *v, const struct view_call *c)
{
	if (c->answers < v->manifest.quorum)
		return "quorum";
	if (v->syncer != VIEW_ALIVE)
		return "syncer";
	return v->head.times.window > 0 ? "grace" : "merge";
}

static int put_calls(struct buf *out, const struct view *v)
{
	char time[32];
	int rc = buf_fmt(out, "\n%-12s %-9s %7s %9s %8s  %s\n", "OPEN ROUND", "FRAGMENT", "VERSION", "OPEN FOR",
			 "ANSWERS", "WAITS FOR");

	for (size_t i = 0; rc == 0 && i < v->calls; i++) {
		const struct view_call *c = &v->call[i];

		rc = buf_fmt(out, "%-12" PRIu64 " f%03u      %7" PRIu64 " %9s %4zu/%-3u  %s\n", c->round, c->fragment,
			     c->version, c->open >= 0 ? explain_seconds(time, c->open) : "-", c->answers,
			     v->manifest.quorum, awaited(v, c));
	}
	return rc < 0 || v->calls ? rc : buf_str(out, "none\n");
}

static int put_loss(struct buf *out, const struct view *v, int columns)
{
	double *x = malloc((2 * v->losses + 2) * sizeof *x), *y = x ? x + v->losses + 1 : NULL;
	struct buf curve = BUF_INIT;
	int rc = x ? 0 : err_nomem();

	for (size_t i = 0; rc == 0 && i < v->losses; i++) {
		x[i] = (double)v->loss[i].step;
		y[i] = v->loss[i].loss;
	}
	if (rc == 0)
		rc = plot_text(&curve, x, y, v->losses, columns, PLOT_ROWS);
	if (rc == 0 && curve.len)
		rc = buf_fmt(out, "\ntraining loss of merged answers (nats a token) over global step\n%s", curve.data);
	buf_release(&curve);
	free(x);
	return rc;
}

/* ---- text: all of it ---- */

/* Lines are cut at the edge, and at the bottom. */
static int fit(struct buf *out, const struct buf *text, int columns, int rows)
{
	const char *at = text->data, *end = text->data + text->len;
	int rc = 0;

	for (int row = 0; rc == 0 && at < end && (rows == 0 || row < rows); row++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((stop ? stop : end) - at);

		rc = buf_add(out, at, n < (size_t)columns ? n : (size_t)columns);
		if (rc == 0)
			rc = buf_str(out, "\n");
		at += n + 1;
	}
	return rc;
}

/* In lines that fit, broken at blanks where there are some. */
static int put_wrapped(struct buf *out, const char *text, size_t columns)
{
	int rc = 0;

	while (rc == 0 && strlen(text) > columns) {
		size_t n = columns;

		while (n > 0 && text[n] != ' ')
			n--;
		n = n ? n : columns;
		rc = buf_fmt(out, "%.*s\n", (int)n, text);
		text += n + (text[n] == ' ');
	}
	return rc < 0 ? rc : buf_fmt(out, "%s\n", text);
}

static int put_trouble(struct buf *out, const struct view *v, int columns)
{
	char shown[1024], text[1100];

	if (v->trouble == 0)
		return 0;
	say_escape(shown, sizeof shown, v->trouble_why);
	snprintf(text, sizeof text, "%" PRIu64 " unreadable: %s", v->trouble, shown);
	return buf_str(out, "\n") < 0 ? ERR_NOMEM : put_wrapped(out, text, (size_t)columns);
}

static int put_room(struct buf *out, const struct view *v, int columns)
{
	char text[80];

	if (!view_full(v) || view_over(v))
		return 0;
	snprintf(text, sizeof text, "disk full: %.3g MiB left, the run waits for room", (double)v->room / (1 << 20));
	return buf_str(out, "\n") < 0 ? ERR_NOMEM : put_wrapped(out, text, (size_t)columns);
}

int board_text(struct buf *out, const struct view *v, const struct board_conf *c)
{
	int columns = c->columns < 40 ? 40 : c->columns, rows = c->rows && c->rows < 10 ? 10 : c->rows;
	/* What the other parts take, when there is room for all. */
	size_t most = rows == 0 ? SIZE_MAX : rows > 24 + LEAST_ROWS ? (size_t)(rows - 24) : LEAST_ROWS;
	struct buf text = BUF_INIT;
	int rc = put_run(&text, v, c);

	if (rc == 0)
		rc = put_tokens(&text, v);
	if (rc == 0)
		rc = put_pace(&text, v, c);
	if (rc == 0)
		rc = put_learners(&text, v, most);
	if (rc == 0 && v->head.fragment)
		rc = put_calls(&text, v);
	if (rc == 0 && v->head.fragment)
		rc = put_fragments(&text, v, columns, rows == 0 ? 1000 : 2);
	if (rc == 0)
		rc = put_loss(&text, v, columns < 80 ? columns : 80);
	if (rc == 0)
		rc = put_room(&text, v, columns);
	if (rc == 0)
		rc = put_trouble(&text, v, columns);
	if (rc == 0)
		rc = fit(out, &text, columns, rows);
	buf_release(&text);
	return rc;
}
