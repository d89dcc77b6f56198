/* plot - a curve in characters. */
#include "round/plot.h"

#include <math.h>

#include "unit.h"

static void expect(const double *x, const double *y, size_t n, int columns, int rows, const char *want)
{
	struct buf out = BUF_INIT;

	CHECK(plot_text(&out, x, y, n, columns, rows) == 0);
	CHECK_STR(out.data ? out.data : "", want);
	buf_release(&out);
}

static void a_line_falls(void)
{
	const double x[] = { 0, 1, 2, 3, 4, 5, 6, 7 }, y[] = { 7, 6, 5, 4, 3, 2, 1, 0 };

	expect(x, y, 8, 17, 4,
		"      7 |**\n"
		"        |  **\n"
		"        |    **\n"
		"      0 |      **\n"
		"        +--------\n"
		"         0      7\n");
}

static void points_of_one_column_are_averaged(void)
{
	const double x[] = { 0, 0, 0, 7 }, y[] = { 1, 2, 9, 0 };

	expect(x, y, 4, 17, 2,
		"      4 |*\n"
		"      0 |       *\n"
		"        +--------\n"
		"         0      7\n");
}

static void a_flat_curve_and_odd_numbers_do_no_harm(void)
{
	const double x[] = { 0, 1, 2, 7 }, y[] = { 2, NAN, INFINITY, 2 };

	expect(x, y, 4, 17, 2,
		"      4 |\n"
		"      2 |*      *\n"
		"        +--------\n"
		"         0      7\n");
}

static void too_little_is_nothing(void)
{
	const double x[] = { 3, 3 }, y[] = { 1, 2 };

	expect(x, y, 0, 80, 8, "");
	expect(x, y, 1, 80, 8, "");
	expect(x, y, 2, 80, 8, "");
	expect(x, y, 2, 10, 8, "");
}

int main(void)
{
	a_line_falls();
	points_of_one_column_are_averaged();
	a_flat_curve_and_odd_numbers_do_no_harm();
	too_little_is_nothing();
	return unit_done("plot");
}
