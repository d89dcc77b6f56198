#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "chaos/sweep.h"

enum unit { PLAIN, PERCENT, COUNT, RATE, HOURS };
static const struct column {
	const char *key, *title; /* title NULL: not in the table for people */
	enum unit unit;
	size_t offset;
} columns[] = {
	{ "goodput", "GOODPUT", PERCENT, offsetof(struct sim_result, goodput) },
	{ "uptime", "UPTIME", PERCENT, offsetof(struct sim_result, uptime) },
	{ "answers", "ANSWERS", PLAIN, offsetof(struct sim_result, answers) },
	{ "staleness", "STALE", PLAIN, offsetof(struct sim_result, staleness) },
	{ "interval", "H", PLAIN, offsetof(struct sim_result, interval) },
	{ "merged_tokens", "MERGED", COUNT, offsetof(struct sim_result, merged) },
	{ "link_bytes_per_s", "LINK", RATE, offsetof(struct sim_result, link) },
	{ "syncer_bytes_per_s", "SYNCER", RATE, offsetof(struct sim_result, syncer) },
	{ "budget_seconds", "TIME", HOURS, offsetof(struct sim_result, budget_at) },
	{ "trained_tokens", NULL, COUNT, offsetof(struct sim_result, trained) },
	{ "steps", NULL, COUNT, offsetof(struct sim_result, steps) },
	{ "failures", NULL, COUNT, offsetof(struct sim_result, failures) },
	{ "stops", NULL, COUNT, offsetof(struct sim_result, stops) },
	{ "merges", NULL, COUNT, offsetof(struct sim_result, merges) },
	{ "late", NULL, COUNT, offsetof(struct sim_result, late) },
	{ "stall_seconds", NULL, PLAIN, offsetof(struct sim_result, stall) },
	{ "seconds", NULL, PLAIN, offsetof(struct sim_result, seconds) },
};
#define COLUMNS (sizeof columns / sizeof columns[0])

struct value {
	double mean, half; /* of the confidence interval; NaN: one seed only */
};

/* ---- means ---- */

/* Two-sided 95 % quantile of Student's t, n degrees of freedom: within 0.2 % of it. */
static double student(unsigned n)
{
	static const double few[] = { 0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228 };
	const double z = 1.959964, d = n;

	if (n < sizeof few / sizeof few[0])
		return few[n];
	return z + (z * z * z + z) / (4 * d) + (5 * pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * d * d);
}

static double field(const struct sim_result *r, const struct column *col)
{
	double x;

	memcpy(&x, (const char *)r + col->offset, sizeof x);
	return x;
}

static double sample(const struct sweep_cell *cell, unsigned k, const struct column *col)
{
	return field(&cell->result[k], col);
}

static struct value value_of(const struct sweep *s, const struct sweep_cell *cell, const struct column *col)
{
	struct value v = { 0, NAN };
	double squares = 0;

	if (!cell) /* measured */
		return (struct value){ field(s->measured, col), NAN };
	for (unsigned k = 0; k < s->seeds; k++)
		v.mean += sample(cell, k, col) / s->seeds;
	for (unsigned k = 0; k < s->seeds; k++)
		squares += pow(sample(cell, k, col) - v.mean, 2);
	if (s->seeds > 1)
		v.half = student(s->seeds - 1) * sqrt(squares / (s->seeds - 1) / s->seeds);
	return v;
}

/* ---- lines: what was measured, if there is such, and the cells ---- */

struct line {
	const char *mode;
	double chips;
	unsigned learners;
	const struct sweep_cell *cell; /* NULL: measured */
};

static size_t lines(const struct sweep *s)
{
	return s->cells + (s->measured != NULL);
}

static struct line line_at(const struct sweep *s, size_t i)
{
	const struct sweep_cell *cell;

	if (s->measured && i == 0)
		return (struct line){ "measured", s->measured_learners, s->measured_learners, NULL };
	cell = &s->cell[i - (s->measured != NULL)];
	return (struct line){ trace_mode_name(cell->conf.mode), cell->conf.chips, cell->conf.learners, cell };
}

/* ---- for people ---- */

static void in_thousands(char out[32], double x)
{
	static const char unit[] = " kMGTPE";
	int i = 0;

	while (fabs(x) >= 999.5 && unit[i + 1]) {
		x /= 1000;
		i++;
	}
	snprintf(out, 32, "%.3g%.*s", x, i > 0, unit + i);
}

static void show(char out[32], enum unit unit, double x)
{
	if (isnan(x))
		snprintf(out, 32, "-");
	else if (unit == PERCENT)
		snprintf(out, 32, "%.1f %%", 100 * x);
	else if (unit == PLAIN)
		snprintf(out, 32, "%.2f", x);
	else if (unit == HOURS)
		snprintf(out, 32, "%.2f h", x / 3600);
	else
		in_thousands(out, x);
	if (unit == RATE && !isnan(x))
		snprintf(out + strlen(out), 8, "B/s");
}

#define TEXT 40 /* longest cell */
struct table {
	char (*cell)[TEXT]; /* (rows, width): the first row has the titles */
	size_t rows, width;
};

static char *at(const struct table *t, size_t row, size_t col)
{
	return t->cell[row * t->width + col];
}

static void fill_cell(char *out, const struct sweep *s, const struct sweep_cell *cell, const struct column *col)
{
	struct value v = value_of(s, cell, col);
	char mean[32];

	show(mean, col->unit, v.mean);
	if (isnan(v.half) || col->unit != PERCENT)
		snprintf(out, TEXT, "%s", mean);
	else
		snprintf(out, TEXT, "%s +-%4.1f", mean, 100 * v.half);
}

static void fill(struct table *t, const struct sweep *s)
{
	size_t n = 3;

	snprintf(at(t, 0, 0), TEXT, "MODE");
	snprintf(at(t, 0, 1), TEXT, "CHIPS");
	snprintf(at(t, 0, 2), TEXT, "M");
	for (size_t k = 0; k + 1 < t->rows; k++) {
		struct line l = line_at(s, k);

		snprintf(at(t, k + 1, 0), TEXT, "%s", l.mode);
		in_thousands(at(t, k + 1, 1), l.chips);
		snprintf(at(t, k + 1, 2), TEXT, "%u", l.learners);
	}
	for (size_t i = 0; i < COLUMNS; i++) {
		if (!columns[i].title)
			continue;
		snprintf(at(t, 0, n), TEXT, "%s", columns[i].title);
		for (size_t k = 0; k + 1 < t->rows; k++)
			fill_cell(at(t, k + 1, n), s, line_at(s, k).cell, &columns[i]);
		n++;
	}
}

/* Columns in which nothing applies are left out: width 0. */
static size_t width_of(const struct table *t, size_t col)
{
	size_t width = 0;
	bool any = false;

	for (size_t row = 0; row < t->rows; row++) {
		size_t n = strlen(at(t, row, col));

		width = n > width ? n : width;
		any |= row > 0 && strcmp(at(t, row, col), "-") != 0;
	}
	return any ? width : 0;
}

static int put_row(struct buf *out, const struct table *t, size_t row, const size_t *width)
{
	int rc = buf_fmt(out, "%-*s", (int)width[0], at(t, row, 0));

	for (size_t col = 1; rc == 0 && col < t->width; col++)
		if (width[col])
			rc = buf_fmt(out, "  %*s", (int)width[col], at(t, row, col));
	return rc < 0 ? rc : buf_str(out, "\n");
}

static int print_text(const struct sweep *s, struct buf *out)
{
	struct table t = { .rows = lines(s) + 1, .width = 3 };
	size_t width[COLUMNS + 3];
	int rc = 0;

	for (size_t i = 0; i < COLUMNS; i++)
		t.width += columns[i].title != NULL;
	if (!(t.cell = calloc(t.rows * t.width, sizeof *t.cell)))
		return err_nomem();
	fill(&t, s);
	for (size_t col = 0; col < t.width; col++)
		width[col] = width_of(&t, col);
	for (size_t row = 0; rc == 0 && row < t.rows; row++)
		rc = put_row(out, &t, row, width);
	free(t.cell);
	return rc;
}

/* ---- for programs ---- */

static int put_number(struct buf *out, double x)
{
	char text[32];

	if (isnan(x))
		return buf_str(out, "-");
	num_f64_text(text, x);
	return buf_str(out, text);
}

static int tsv_names(const struct sweep *s, struct buf *out)
{
	int rc = buf_str(out, "mode\tchips\tlearners");

	for (size_t i = 0; rc == 0 && i < COLUMNS; i++)
		rc = s->seeds > 1 ? buf_fmt(out, "\t%s\t%s_ci", columns[i].key, columns[i].key)
				  : buf_fmt(out, "\t%s", columns[i].key);
	return rc < 0 ? rc : buf_str(out, "\n");
}

static int print_tsv(const struct sweep *s, struct buf *out)
{
	int rc = tsv_names(s, out);

	for (size_t k = 0; rc == 0 && k < lines(s); k++) {
		struct line l = line_at(s, k);

		rc = buf_fmt(out, "%s\t%.0f\t%u", l.mode, l.chips, l.learners);
		for (size_t i = 0; rc == 0 && i < COLUMNS; i++) {
			struct value v = value_of(s, l.cell, &columns[i]);

			rc = buf_str(out, "\t");
			if (rc == 0)
				rc = put_number(out, v.mean);
			if (rc == 0 && s->seeds > 1)
				rc = buf_str(out, "\t");
			if (rc == 0 && s->seeds > 1)
				rc = put_number(out, v.half);
		}
		if (rc == 0)
			rc = buf_str(out, "\n");
	}
	return rc;
}

static int json_line(const struct sweep *s, const struct line *l, struct buf *out)
{
	int rc = buf_fmt(out, "{\"mode\":\"%s\",\"chips\":%.0f,\"learners\":%u,\"seeds\":%u", l->mode, l->chips,
		l->learners, l->cell ? s->seeds : 0);

	for (size_t i = 0; rc == 0 && i < COLUMNS; i++) {
		struct value v = value_of(s, l->cell, &columns[i]);

		rc = buf_fmt(out, ",\"%s\":", columns[i].key);
		if (rc == 0)
			rc = json_f64(out, v.mean);
		if (rc == 0 && s->seeds > 1)
			rc = buf_fmt(out, ",\"%s_ci\":", columns[i].key);
		if (rc == 0 && s->seeds > 1)
			rc = json_f64(out, v.half);
	}
	return rc < 0 ? rc : buf_str(out, "}\n");
}

static int print_json(const struct sweep *s, struct buf *out)
{
	int rc = 0;

	for (size_t k = 0; rc == 0 && k < lines(s); k++) {
		struct line l = line_at(s, k);

		rc = json_line(s, &l, out);
	}
	return rc;
}

int sweep_print(const struct sweep *s, enum sweep_form form, struct buf *out)
{
	return form == SWEEP_TSV ? print_tsv(s, out) : form == SWEEP_JSON ? print_json(s, out) : print_text(s, out);
}
