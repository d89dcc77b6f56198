/* Any text is a table or is refused; of what has points a script is made. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/fd.h"
#include "round/curves.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct gnuplot_page page = { GNUPLOT_SVG, 300, 200, "t" };
	struct curves c = { .conf = { .from = -HUGE_VAL, .until = HUGE_VAL } };
	struct buf out = BUF_INIT;
	int fd;

	must(fd_temporary(&fd) == 0 && fd_write(fd, data, n) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	if (curves_add(&c, fd, "label") == 0)
		must((curves_script(&out, &c, &page) == 0) == (c.n > 0));
	buf_release(&out);
	curves_release(&c);
	close(fd);
	return 0;
}
