#include "round/plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MARGIN 9 /* columns of the numbers at the left and of the axis */
#define WIDEST 400
#define HIGHEST 60

struct column {
	double sum;
	size_t n;
};
struct range {
	double low, high;
};

static bool usable(double x, double y)
{
	return isfinite(x) && isfinite(y);
}

static struct range range_of(const double *v, const double *other, size_t n)
{
	struct range r = { HUGE_VAL, -HUGE_VAL };

	for (size_t i = 0; i < n; i++)
		if (usable(v[i], other[i])) {
			r.low = fmin(r.low, v[i]);
			r.high = fmax(r.high, v[i]);
		}
	return r;
}

static void gather(struct column *c, int width, const double *x, const double *y, size_t n, struct range rx)
{
	for (size_t i = 0; i < n; i++)
		if (usable(x[i], y[i])) {
			int at = (int)((x[i] - rx.low) / (rx.high - rx.low) * (width - 1) + 0.5);

			c[at].sum += y[i];
			c[at].n++;
		}
}

static struct range columns_range(const struct column *c, int width)
{
	struct range r = { HUGE_VAL, -HUGE_VAL };

	for (int i = 0; i < width; i++)
		if (c[i].n) {
			r.low = fmin(r.low, c[i].sum / (double)c[i].n);
			r.high = fmax(r.high, c[i].sum / (double)c[i].n);
		}
	if (!(r.high > r.low))
		r.high = r.low + (r.low ? fabs(r.low) : 1);
	return r;
}

/* Row 0 is the highest. */
static int row_of(const struct column *c, struct range r, int rows)
{
	return (int)((r.high - c->sum / (double)c->n) / (r.high - r.low) * (rows - 1) + 0.5);
}

static int put_row(struct buf *out, const struct column *c, int width, struct range r, int row, int rows)
{
	char line[WIDEST + 1];
	int end = 0, rc;

	for (int i = 0; i < width; i++) {
		line[i] = c[i].n && row_of(&c[i], r, rows) == row ? '*' : ' ';
		if (line[i] == '*')
			end = i + 1;
	}
	line[end] = '\0';
	if (row == 0 || row == rows - 1)
		rc = buf_fmt(out, "%7.4g", row == 0 ? r.high : r.low);
	else
		rc = buf_str(out, "       ");
	return rc < 0 ? rc : buf_fmt(out, " |%s\n", line);
}

static int put_axis(struct buf *out, int width, struct range rx)
{
	char low[32], high[32];
	int rc = buf_str(out, "        +"), gap;

	for (int i = 0; rc == 0 && i < width; i++)
		rc = buf_str(out, "-");
	snprintf(low, sizeof low, "%.6g", rx.low);
	snprintf(high, sizeof high, "%.6g", rx.high);
	gap = width - (int)strlen(low);
	if (rc == 0 && gap > (int)strlen(high))
		rc = buf_fmt(out, "\n         %s%*s\n", low, gap, high);
	else if (rc == 0)
		rc = buf_str(out, "\n");
	return rc;
}

int plot_text(struct buf *out, const double *x, const double *y, size_t n, int columns, int rows)
{
	struct column c[WIDEST] = { { 0, 0 } };
	struct range rx = range_of(x, y, n), ry;
	int width = columns - MARGIN, rc = 0;

	if (width > WIDEST)
		width = WIDEST;
	if (rows > HIGHEST)
		rows = HIGHEST;
	if (width < 8 || rows < 2 || !(rx.high > rx.low))
		return 0;
	gather(c, width, x, y, n, rx);
	ry = columns_range(c, width);
	for (int row = 0; rc == 0 && row < rows; row++)
		rc = put_row(out, c, width, ry, row, rows);
	return rc < 0 ? rc : put_axis(out, width, rx);
}
