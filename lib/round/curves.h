/*
 * curves - columns of tables as curves: what is in tab-separated files with names of columns in their first line,
 * as dl-chaos sim and play and dl-learn --metrics write them, becomes a script for gnuplot.
 *
 *     curves_add      each file
 *     curves_script   all that is there
 *     curves_release
 */
#ifndef CURVES_H
#define CURVES_H

#include <stdbool.h>
#include <stddef.h>

#include "io/gnuplot.h"

#define CURVES_MOST 100
#define CURVES_FILE ((size_t)256 << 20) /* largest file */

struct curve {
	char *label;
	double *x, *y, *ci; /* (n); ci: half of an interval about y, 0 where there is none */
	size_t n, room;
	bool intervals;     /* one of ci is not 0 */
};
struct curves_conf {
	/* Names of columns, commas between those of y and by; NULL: what suits the first file. A file with several y
	 * has a curve of each, and each set of values in the columns `by` has curves of its own. */
	const char *x, *y, *by;
	bool log_x, log_y;
	double from, until;    /* of x; infinite: as far as there is something */
};
struct curves {
	struct curves_conf conf;
	char *x, *y, *by;      /* what was chosen; owned */
	struct curve *v;       /* (n); owned */
	size_t n;
};

/*
 * All of a table, read from an open file. label: what its curves are called, with the values of `by` or the column
 * behind it. Values that are no numbers, like "-", are left out. Where there is a column y_ci beside a column y, it
 * is the half width of an interval about it. ERR_DATA: "line 17: ...", or a column that is not there.
 */
int curves_add(struct curves *c, int fd, const char *label) ERR_MUST;
/* ERR_DATA when there is no point at all. Of more than 2000 points of a curve means are drawn. Intervals are bars at
 * the points, or a band about a curve of so many that it is drawn without them. */
int curves_script(struct buf *out, const struct curves *c, const struct gnuplot_page *page) ERR_MUST;
void curves_release(struct curves *c);

#endif
