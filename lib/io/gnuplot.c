#include "io/gnuplot.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "io/fd.h"
#include "io/proc.h"
#include "io/tool.h"

int gnuplot_quote(struct buf *out, const char *text)
{
	int rc = buf_str(out, "'");

	for (; rc == 0 && *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '\'')
			rc = buf_str(out, "''");
		else
			rc = c < ' ' || c == 127 ? buf_str(out, "?") : buf_add(out, text, 1);
	}
	return rc < 0 ? rc : buf_str(out, "'");
}

int gnuplot_number(struct buf *out, double x)
{
	char text[32];

	num_f64_text(text, x);
	return buf_fmt(out, " %s", text);
}

int gnuplot_begin(struct buf *out, const struct gnuplot_page *p)
{
	int rc = p->format == GNUPLOT_PNG
		? buf_fmt(out, "set terminal pngcairo noenhanced size %u,%u\n", p->width, p->height)
		: buf_fmt(out, "set terminal svg noenhanced size %u,%u background 'white'\n", p->width, p->height);

	if (rc == 0)
		rc = buf_str(out, "set encoding utf8\nset grid back lt 1 lw 1 lc rgb '#dddddd'\n");
	if (rc == 0 && p->title && (rc = buf_str(out, "set title ")) == 0 && (rc = gnuplot_quote(out, p->title)) == 0)
		rc = buf_str(out, "\n");
	return rc;
}

static int missing(void)
{
	return err_set(ERR_IO, "gnuplot is not here (package gnuplot-nox): install it, or take --script to where "
		"it is");
}

int gnuplot_run(const struct buf *script, int fd)
{
	/* Labels are UTF-8, and it has a warning wherever the locale is not. -d: no one's own settings. */
	static const char *const words[] = { "env", "LC_ALL=C.UTF-8", "gnuplot", "-d", "-", NULL };
	char *path;
	int in, rc;

	if (proc_find(&path, "gnuplot") < 0)
		return missing();
	free(path);
	if ((rc = fd_temporary(&in)) < 0)
		return rc;
	rc = fd_write(in, script->data, script->len);
	if (rc == 0 && lseek(in, 0, SEEK_SET) < 0)
		rc = err_sys("temporary file");
	if (rc == 0)
		rc = tool_run(words, in, fd);
	close(in);
	return rc;
}
