/*
 * gnuplot - words and numbers of a script for gnuplot(1), and its run.
 */
#ifndef GNUPLOT_H
#define GNUPLOT_H

#include "base/buf.h"
#include "base/err.h"

enum gnuplot_format { GNUPLOT_SVG, GNUPLOT_PNG };
struct gnuplot_page {
	enum gnuplot_format format;
	unsigned width, height; /* pixels */
	const char *title;      /* NULL: none */
};

/* Appends text in quotes that nothing in it can leave; what is not printable becomes '?'. */
int gnuplot_quote(struct buf *out, const char *text) ERR_MUST;
int gnuplot_number(struct buf *out, double x) ERR_MUST; /* and a blank before it */
/* The first lines of a script: size and kind of picture, title, grid. */
int gnuplot_begin(struct buf *out, const struct gnuplot_page *p) ERR_MUST;
/* Draws: the picture goes to `fd`. ERR_IO when there is no gnuplot, or with what it complains of. */
int gnuplot_run(const struct buf *script, int fd) ERR_MUST;

#endif
