#include "round/curves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/say.h"
#include "io/fd.h"

#define COLUMNS 256
#define POINTS 2000 /* that are drawn of a curve */
#define DOTS 40     /* points of a curve that are drawn as such, too */
#define TICS 12     /* places that are named, where there are no more */
#define ROOM 0.08   /* of the axis, that the name of one of them takes */
#define SHOWN 80    /* bytes of a word in a message */

/* A line of a table: its words are pieces of the text. */
struct line {
	char *word[COLUMNS];
	size_t words, number;
};
/* A table under way. */
struct table {
	struct curves *curves;
	const char *label;
	char *at; /* of the text: the next line */
	struct line head, line;
	size_t x, y[COLUMNS], ys, by[COLUMNS], bys; /* columns */
	size_t ci[COLUMNS];                         /* (ys); COLUMNS: none */
};

void curves_release(struct curves *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].label);
		free(c->v[i].x);
		free(c->v[i].y);
		free(c->v[i].ci);
	}
	free(c->v);
	free(c->x);
	free(c->y);
	free(c->by);
	*c = (struct curves){ .v = NULL };
}

/* ---- a table ---- */

static int no_column(const char *name, size_t n)
{
	char word[SHOWN], shown[4 * SHOWN];

	snprintf(word, sizeof word, "%.*s", (int)n, name);
	say_escape(shown, sizeof shown, word);
	return err_set(ERR_DATA, "line 1: no column '%s'", shown);
}

/* Takes the next line apart: 1; 0 at the end. */
static int next_line(struct table *t, struct line *l)
{
	char *end, *word;

	if (!*t->at)
		return 0;
	end = t->at + strcspn(t->at, "\n");
	if (*end)
		*end++ = '\0';
	word = t->at;
	t->at = end;
	l->number++;
	for (l->words = 0; word; l->words++) {
		char *tab = strchr(word, '\t');

		if (l->words == COLUMNS)
			return err_set(ERR_DATA, "line %zu: more than %d columns", l->number, COLUMNS);
		if (tab)
			*tab++ = '\0';
		l->word[l->words] = word;
		word = tab;
	}
	return 1;
}

static int find_column(const struct table *t, const char *name, size_t n, size_t *out)
{
	for (size_t i = 0; i < t->head.words; i++)
		if (strlen(t->head.word[i]) == n && memcmp(t->head.word[i], name, n) == 0) {
			*out = i;
			return 0;
		}
	return no_column(name, n);
}

static int find_columns(const struct table *t, const char *names, size_t *out, size_t *n)
{
	for (*n = 0; *names; (*n)++) {
		size_t length = strcspn(names, ",");
		int rc;

		if (*n == COLUMNS)
			return err_set(ERR_DATA, "line 1: more than %d columns", COLUMNS);
		if ((rc = find_column(t, names, length, &out[*n])) < 0)
			return rc;
		names += length + (names[length] == ',');
	}
	return 0;
}

static bool has(const struct table *t, const char *name)
{
	size_t unused;

	return find_column(t, name, strlen(name), &unused) == 0;
}

/* What suits a table of this kind. */
static const struct kind {
	const char *has[2], *x, *y, *by;
} kinds[] = {
	{ { "chips", "goodput" }, "chips", "goodput", "mode,learners" }, /* dl-chaos sim */
	{ { "tokens", "bits_per_byte" }, "tokens", "bits_per_byte", "" }, /* dl-chaos play */
	{ { "global_step", "loss" }, "global_step", "loss", "" },         /* dl-learn --metrics */
};

static const struct kind *kind_of(const struct table *t)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (has(t, kinds[i].has[0]) && has(t, kinds[i].has[1]))
			return &kinds[i];
	return NULL;
}

static int choose(char **to, const char *wish, const char *suits)
{
	*to = strdup(wish ? wish : suits);
	return *to ? 0 : err_nomem();
}

/* By the first table, for all of them. */
static int choose_columns(struct table *t)
{
	struct curves *c = t->curves;
	const struct kind *k = kind_of(t);
	int rc;

	if (c->x)
		return 0;
	if (!k && (t->head.words < 2 || !*t->head.word[0] || !*t->head.word[1]) && !(c->conf.x && c->conf.y))
		return err_set(ERR_DATA, "line 1: not the names of two columns or more, with tabs between");
	if ((rc = choose(&c->x, c->conf.x, k ? k->x : t->head.word[0])) < 0)
		return rc;
	if ((rc = choose(&c->y, c->conf.y, k ? k->y : t->head.word[1])) < 0)
		return rc;
	return choose(&c->by, c->conf.by, k && !c->conf.y ? k->by : "");
}

/* Half widths of intervals are beside what they belong to, as goodput_ci beside goodput. */
static void find_intervals(struct table *t)
{
	for (size_t i = 0; i < t->ys; i++) {
		const char *y = t->head.word[t->y[i]];
		size_t n = strlen(y), k = 0;

		while (k < t->head.words &&
			(strncmp(t->head.word[k], y, n) != 0 || strcmp(t->head.word[k] + n, "_ci") != 0))
			k++;
		t->ci[i] = k < t->head.words ? k : COLUMNS;
	}
}

static int find_all(struct table *t)
{
	struct curves *c = t->curves;
	int rc;

	if ((rc = choose_columns(t)) < 0)
		return rc;
	if ((rc = find_column(t, c->x, strlen(c->x), &t->x)) < 0)
		return rc;
	if ((rc = find_columns(t, c->y, t->y, &t->ys)) < 0)
		return rc;
	find_intervals(t);
	return find_columns(t, c->by, t->by, &t->bys);
}

/* ---- points ---- */

static int put_label(struct buf *out, const struct table *t, size_t y)
{
	int rc = buf_str(out, t->label);

	for (size_t i = 0; i < t->bys && rc == 0; i++)
		rc = buf_fmt(out, "%s%s %s", out->len ? ", " : "", t->head.word[t->by[i]],
			t->line.word[t->by[i]]);
	if (rc == 0 && t->ys > 1)
		rc = buf_fmt(out, "%s%s", out->len ? ", " : "", t->head.word[t->y[y]]);
	return rc;
}

static int new_curve(struct curves *c, const char *label, struct curve **out)
{
	struct curve *v;

	if (c->n == CURVES_MOST)
		return err_set(ERR_DATA, "more than %d curves", CURVES_MOST);
	if (!(v = realloc(c->v, (c->n + 1) * sizeof *v)))
		return err_nomem();
	c->v = v;
	v[c->n] = (struct curve){ .label = strdup(label) };
	*out = &v[c->n++];
	return (*out)->label ? 0 : err_nomem();
}

static int curve_called(struct curves *c, const char *label, struct curve **out)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].label, label) == 0) {
			*out = &c->v[i];
			return 0;
		}
	return new_curve(c, label, out);
}

static bool lengthen(double **v, size_t room)
{
	double *to = realloc(*v, room * sizeof *to);

	if (to)
		*v = to;
	return to;
}

static int add_point(struct curve *c, double x, double y, double ci)
{
	if (c->n == c->room) {
		size_t room = c->room ? 2 * c->room : 64;

		if (!lengthen(&c->x, room) || !lengthen(&c->y, room) || !lengthen(&c->ci, room))
			return err_nomem();
		c->room = room;
	}
	c->x[c->n] = x;
	c->y[c->n] = y;
	c->ci[c->n++] = ci;
	c->intervals |= ci > 0;
	return 0;
}

/* Of one seed it is no number. */
static double interval(const struct table *t, size_t y)
{
	double ci;

	if (t->ci[y] == COLUMNS || num_f64(t->line.word[t->ci[y]], &ci) < 0 || !isfinite(ci) || ci < 0)
		return 0;
	return ci;
}

static int add_value(struct table *t, double x, size_t y)
{
	struct curves *c = t->curves;
	struct buf label = BUF_INIT;
	struct curve *curve = NULL;
	double value;
	int rc;

	if (num_f64(t->line.word[t->y[y]], &value) < 0 || (c->conf.log_y && value <= 0))
		return 0;
	rc = put_label(&label, t, y);
	if (rc == 0)
		rc = curve_called(c, label.len ? label.data : "", &curve);
	if (rc == 0)
		rc = add_point(curve, x, value, interval(t, y));
	buf_release(&label);
	return rc;
}

static int add_line(struct table *t)
{
	const struct curves_conf *c = &t->curves->conf;
	double x;
	int rc = 0;

	if (t->line.words != t->head.words)
		return err_set(ERR_DATA, "line %zu: %zu columns, not %zu as in the first line", t->line.number,
			t->line.words, t->head.words);
	if (num_f64(t->line.word[t->x], &x) < 0 || x < c->from || x > c->until || (c->log_x && x <= 0))
		return 0;
	for (size_t i = 0; i < t->ys && rc == 0; i++)
		rc = add_value(t, x, i);
	return rc;
}

static int add_lines(struct table *t)
{
	int rc = next_line(t, &t->head);

	if (rc == 0)
		return err_set(ERR_DATA, "empty");
	if (rc < 0 || (rc = find_all(t)) < 0)
		return rc;
	t->line.number = t->head.number;
	while ((rc = next_line(t, &t->line)) == 1)
		if ((rc = add_line(t)) < 0)
			return rc;
	return rc;
}

int curves_add(struct curves *c, int fd, const char *label)
{
	struct table *t = calloc(1, sizeof *t);
	struct buf text = BUF_INIT;
	int rc = t ? fd_slurp(fd, CURVES_FILE, &text) : err_nomem();

	if (rc == 0 && (!text.len || memchr(text.data, '\0', text.len)))
		rc = err_set(ERR_DATA, text.len ? "is no table: it has NULs" : "empty");
	if (rc == 0) {
		t->curves = c;
		t->label = label;
		t->at = text.data;
		rc = add_lines(t);
	}
	free(t);
	buf_release(&text);
	return rc;
}

/* ---- the script ---- */

/* A logarithmic axis has no place for what is not positive: such an interval ends at the curve. */
static int put_interval(struct buf *out, const struct curves_conf *conf, double y, double ci)
{
	double low = conf->log_y && y - ci <= 0 ? y : y - ci;
	int rc = gnuplot_number(out, low);

	return rc < 0 ? rc : gnuplot_number(out, y + ci);
}

/* Means of `each` points in turn. */
static int put_points(struct buf *out, const struct curves_conf *conf, const struct curve *c)
{
	size_t each = (c->n + POINTS - 1) / POINTS;
	int rc = 0;

	for (size_t at = 0; at < c->n && rc == 0; at += each) {
		double x = 0, y = 0, ci = 0;
		size_t n = c->n - at < each ? c->n - at : each;

		for (size_t i = 0; i < n; i++) {
			x += c->x[at + i] / (double)n;
			y += c->y[at + i] / (double)n;
			ci += c->ci[at + i] / (double)n;
		}
		if ((rc = gnuplot_number(out, x)) == 0 && (rc = gnuplot_number(out, y)) == 0 && c->intervals)
			rc = put_interval(out, conf, y, ci);
		if (rc == 0)
			rc = buf_str(out, "\n");
	}
	return rc;
}

static int put_data(struct buf *out, const struct curves *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->n && rc == 0; i++) {
		if ((rc = buf_fmt(out, "$c%zu << END\n", i)) == 0 && (rc = put_points(out, &c->conf, &c->v[i])) == 0)
			rc = buf_str(out, "END\n");
	}
	return rc;
}

/* Underscores of names are blanks for people. */
static int put_axis(struct buf *out, const char *axis, const char *name)
{
	char shown[SHOWN];
	int rc;

	snprintf(shown, sizeof shown, "%s", name);
	for (char *s = shown; *s; s++)
		if (*s == '_')
			*s = ' ';
	if ((rc = buf_fmt(out, "set %slabel ", axis)) == 0 && (rc = gnuplot_quote(out, shown)) == 0)
		rc = buf_str(out, "\n");
	return rc;
}

/* Distinct x of all curves, ascending: their number, or TICS + 1 when there are more. */
static size_t distinct(double x[TICS + 1], const struct curves *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		for (size_t j = 0; j < c->v[i].n; j++) {
			double v = c->v[i].x[j];
			size_t at = 0;

			while (at < n && x[at] < v)
				at++;
			if (at < n && x[at] == v)
				continue;
			if (n == TICS)
				return TICS + 1;
			memmove(x + at + 1, x + at, (n++ - at) * sizeof *x);
			x[at] = v;
		}
	return n;
}

/* 150000 as 150k */
static int put_short(struct buf *out, double x)
{
	const char *unit = fabs(x) >= 1e9 ? "G" : fabs(x) >= 1e6 ? "M" : fabs(x) >= 1e4 ? "k" : "";
	double of = *unit == 'G' ? 1e9 : *unit == 'M' ? 1e6 : *unit == 'k' ? 1e3 : 1;

	return buf_fmt(out, "'%.6g%s'", x / of, unit);
}

/* Is there room for a name at each? */
static bool apart(const double *x, size_t n, bool log)
{
	bool scaled = log && n && x[0] > 0;
	double range = n ? (scaled ? log2(x[n - 1] / x[0]) : x[n - 1] - x[0]) : 0;

	for (size_t i = 1; i < n; i++)
		if ((scaled ? log2(x[i] / x[i - 1]) : x[i] - x[i - 1]) < range * ROOM)
			return false;
	return true;
}

static bool are_short(const struct curves *c)
{
	for (size_t i = 0; i < c->n; i++)
		for (size_t j = 0; j < c->v[i].n; j++)
			if (fabs(c->v[i].x[j]) >= 1e4)
				return false;
	return true;
}

/* Few places along the axis are named one by one. */
static int put_tics(struct buf *out, const struct curves *c)
{
	double x[TICS + 1];
	size_t n = distinct(x, c);
	int rc;

	if (n > TICS || !apart(x, n, c->conf.log_x))
		return buf_str(out, are_short(c) ? "set format x '%g'\n" : "set format x '%.1s%c'\n");
	rc = buf_str(out, "set xtics (");
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (i)
			rc = buf_str(out, ", ");
		if (rc == 0 && (rc = put_short(out, x[i])) == 0)
			rc = gnuplot_number(out, x[i]);
	}
	return rc < 0 ? rc : buf_str(out, ")\n");
}

static int put_axes(struct buf *out, const struct curves *c)
{
	int rc = put_axis(out, "x", c->x);

	if (rc == 0)
		rc = put_axis(out, "y", c->y);
	if (rc == 0)
		rc = buf_str(out, c->n == 1 && !*c->v[0].label ? "unset key\n" : "set key outside right top\n");
	if (rc == 0)
		rc = put_tics(out, c);
	if (rc == 0 && c->conf.log_x)
		rc = buf_str(out, "set logscale x 2\n");
	if (rc == 0 && c->conf.log_y)
		rc = buf_str(out, "set logscale y\n");
	return rc;
}

/* In the colour of the curve, and before it. */
static int put_plot_intervals(struct buf *out, size_t i, bool dots)
{
	return buf_fmt(out, " $c%zu using %s lt %zu notitle,", i,
		dots ? "1:2:3:4 with yerrorbars ps 0 lw 1"
		     : "1:3:4 with filledcurves fs transparent solid 0.2 noborder", i + 1);
}

static int put_plot(struct buf *out, const struct curves *c)
{
	int rc = buf_str(out, "plot");

	for (size_t i = 0; i < c->n && rc == 0; i++) {
		bool dots = c->v[i].n <= DOTS;
		const char *style = dots ? "linespoints pt 7 ps 0.5" : "lines";

		if (i)
			rc = buf_str(out, ",");
		if (rc == 0 && c->v[i].intervals)
			rc = put_plot_intervals(out, i, dots);
		if (rc == 0)
			rc = buf_fmt(out, " $c%zu using 1:2 with %s lt %zu lw 2 title ", i, style, i + 1);
		if (rc == 0)
			rc = gnuplot_quote(out, c->v[i].label);
	}
	return rc < 0 ? rc : buf_str(out, "\n");
}

int curves_script(struct buf *out, const struct curves *c, const struct gnuplot_page *page)
{
	int rc = c->n ? gnuplot_begin(out, page) : err_set(ERR_DATA, "no point to draw: columns '%s' and '%s' have "
		"no numbers in one line", c->x ? c->x : "", c->y ? c->y : "");

	if (rc == 0)
		rc = put_axes(out, c);
	if (rc == 0)
		rc = put_data(out, c);
	return rc < 0 ? rc : put_plot(out, c);
}
