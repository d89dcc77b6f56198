/* Tables to curves: which columns are drawn, what is left out, and what is refused. */
#include "round/curves.h"

#include <stdlib.h>
#include <unistd.h>

#include "io/fd.h"
#include "unit.h"

static struct curves c;

static int add(const char *text, const char *label)
{
	int fd, rc;

	CHECK(fd_temporary(&fd) == 0);
	CHECK(fd_write(fd, text, strlen(text)) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	rc = curves_add(&c, fd, label);
	close(fd);
	return rc;
}

static void begin(struct curves_conf conf)
{
	curves_release(&c);
	if (conf.from == 0 && conf.until == 0) {
		conf.from = -HUGE_VAL;
		conf.until = HUGE_VAL;
	}
	c.conf = conf;
}

static bool is(size_t i, const char *label, size_t n, double x, double y)
{
	return i < c.n && strcmp(c.v[i].label, label) == 0 && c.v[i].n == n && c.v[i].x[n - 1] == x &&
		c.v[i].y[n - 1] == y;
}

static void by_the_kind_of_table(void)
{
	begin((struct curves_conf){ 0 });
	CHECK(add("tokens\tbits_per_byte\n0\t8\n10\t7.5\n", "") == 0);
	CHECK(c.n == 1 && is(0, "", 2, 10, 7.5));
	CHECK(add("bits_per_byte\tother\ttokens\n6\t1\t20\n", "b") == 0); /* by name, not by place */
	CHECK(c.n == 2 && is(1, "b", 1, 20, 6));
	begin((struct curves_conf){ 0 });
	CHECK(add("mode\tchips\tlearners\tgoodput\nx\t1\t2\t0.5\ny\t1\t2\t0.25\nx\t2\t2\t0.5\n", "s") == 0);
	CHECK(c.n == 2 && is(0, "s, mode x, learners 2", 2, 2, 0.5) && is(1, "s, mode y, learners 2", 1, 1, 0.25));
	begin((struct curves_conf){ .y = "chips", .x = "goodput" });
	CHECK(add("mode\tchips\tlearners\tgoodput\nx\t1\t2\t0.5\n", "") == 0);
	CHECK(c.n == 1 && is(0, "", 1, 0.5, 1));
}

static void left_out(void)
{
	begin((struct curves_conf){ .from = 1, .until = 3 });
	CHECK(add("x\ty\n0\t1\n1\t1\nnan\t2\n2\tinf\n2\t\n3\t4\n4\t1", "") == 0);
	CHECK(c.n == 1 && is(0, "", 2, 3, 4));
	begin((struct curves_conf){ .log_x = true, .log_y = true, .from = -1, .until = 9 });
	CHECK(add("x\ty\n0\t1\n-1\t1\n2\t0\n2\t-3\n5\t6\n", "") == 0);
	CHECK(c.n == 1 && is(0, "", 1, 5, 6));
}

static void intervals(void)
{
	const struct gnuplot_page page = { GNUPLOT_SVG, 300, 200, NULL };
	struct buf out = BUF_INIT;

	begin((struct curves_conf){ .y = "b,d", .log_y = true, .from = -HUGE_VAL, .until = HUGE_VAL });
	CHECK(add("a\tb_ci\tb\tc_ci\td\n1\t0.25\t2\t1\t3\n2\t-\t2\t1\t3\n3\t5\t2\t1\t3\n4\t-5\t2\t1\t3\n", "") == 0);
	CHECK(c.n == 2 && c.v[0].intervals && !c.v[1].intervals);
	CHECK(c.v[0].ci[0] == 0.25 && c.v[0].ci[1] == 0 && c.v[0].ci[2] == 5 && c.v[0].ci[3] == 0);
	CHECK(curves_script(&out, &c, &page) == 0);
	CHECK(strstr(out.data, "$c0 << END\n 1 2 1.75 2.25\n 2 2 2 2\n 3 2 2 7\n 4 2 2 2\nEND\n"));
	CHECK(strstr(out.data, "$c1 << END\n 1 3\n"));
	CHECK(strstr(out.data, "plot $c0 using 1:2:3:4 with yerrorbars ") && !strstr(out.data, "$c1 using 1:2:3:4"));
	buf_release(&out);
}

/* A curve of many points has a band, which is averaged as the curve is. */
static void a_band(void)
{
	const struct gnuplot_page page = { GNUPLOT_SVG, 300, 200, NULL };
	struct buf text = BUF_INIT, out = BUF_INIT;

	CHECK(buf_str(&text, "a\tb\tb_ci\n") == 0);
	for (int i = 0; i < 4000; i++)
		CHECK(buf_fmt(&text, "%d\t%d\t%d\n", i, i, 1 + i % 2) == 0);
	begin((struct curves_conf){ 0 });
	CHECK(add(text.data, "") == 0 && curves_script(&out, &c, &page) == 0);
	CHECK(strstr(out.data, "$c0 << END\n 0.5 0.5 -1 2\n 2.5 2.5 1 4\n"));
	CHECK(strstr(out.data, "plot $c0 using 1:3:4 with filledcurves "));
	buf_release(&text);
	buf_release(&out);
}

static int refused(const char *text)
{
	begin((struct curves_conf){ 0 });
	return add(text, "");
}

static void broken(void)
{
	char text[2048];
	size_t n = 0;

	CHECK(refused("") == ERR_DATA);
	CHECK(refused("\n") == ERR_DATA);
	CHECK(refused("one\n1\n") == ERR_DATA);
	CHECK_SAYS("line 1: not the names of two columns");
	CHECK(refused("a\tb\n1\t2\t3\n") == ERR_DATA);
	CHECK_SAYS("line 2: 3 columns, not 2");
	CHECK(refused("a\tb\n1\t2\n\n") == ERR_DATA);
	CHECK_SAYS("line 3: 1 columns");
	for (int i = 0; i < 300; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "a\t");
	CHECK(refused(text) == ERR_DATA);
	CHECK_SAYS("line 1: more than 256 columns");
	begin((struct curves_conf){ .y = "b,,c" });
	CHECK(add("a\tb\tc\n1\t2\t3\n", "") == ERR_DATA);
	CHECK_SAYS("no column ''");
	begin((struct curves_conf){ .by = "a" });
	CHECK(add("a\tb\n", "") == 0);
	for (int i = 0; i < CURVES_MOST; i++) {
		snprintf(text, sizeof text, "a\tb\n%d\t2\n", i);
		CHECK(add(text, "") == 0);
	}
	CHECK(add("a\tb\nz1\t2\n101\t3\n", "") == ERR_DATA);
	CHECK_SAYS("more than 100 curves");
}

static void a_script_of_nothing(void)
{
	const struct gnuplot_page page = { GNUPLOT_SVG, 300, 200, NULL };
	struct buf out = BUF_INIT;

	begin((struct curves_conf){ 0 });
	CHECK(add("a\tb\n-\t2\n", "") == 0);
	CHECK(curves_script(&out, &c, &page) == ERR_DATA);
	CHECK_SAYS("columns 'a' and 'b' have no numbers");
	CHECK(add("a\tb\n1\t2\n", "l'x") == 0);
	CHECK(curves_script(&out, &c, &page) == 0);
	CHECK(strstr(out.data, "title 'l''x'") && strstr(out.data, "$c0 << END\n 1 2\nEND\n"));
	buf_release(&out);
}

int main(void)
{
	by_the_kind_of_table();
	left_out();
	intervals();
	a_band();
	broken();
	a_script_of_nothing();
	curves_release(&c);
	return unit_done("curves");
}
