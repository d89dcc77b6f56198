/*
 * plot - a curve in characters: numbers over numbers, a few lines high.
 */
#ifndef PLOT_H
#define PLOT_H

#include <stddef.h>

#include "base/buf.h"

/*
 * n points (x, y), x ascending, as `rows` lines of at most `columns` characters and an axis below. Points
 * that fall into one column become their mean. Nothing for fewer than two different x. Not finite: left out.
 */
int plot_text(struct buf *out, const double *x, const double *y, size_t n, int columns, int rows) ERR_MUST;

#endif
