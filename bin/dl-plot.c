/*
 * dl-plot - curves from tables, and who did what when from a trace or the tape of a run, as SVG or PNG.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/opt.h"
#include "base/say.h"
#include "base/utf8.h"
#include "chaos/gantt.h"
#include "form/key.h"
#include "form/trust.h"
#include "io/dir.h"
#include "io/fd.h"
#include "io/gnuplot.h"
#include "io/output.h"
#include "round/curves.h"
#include "round/manifest.h"
#include "round/rundir.h"

static struct {
	const char *out, *x, *y, *by, *labels, *log, *from, *until, *title, *size, *key, *trust;
	bool png, script, quiet, verbose;
} o = { .size = "960x480" };

static const struct opt table[] = {
	{ 'o', "output", OPT_TEXT, &o.out, "FILE", "write here: PNG if it ends in .png, else SVG" },
	{ 0, "png", OPT_FLAG, &o.png, NULL, "PNG, whatever the name" },
	{ 0, "script", OPT_FLAG, &o.script, NULL, "the script for gnuplot instead of what it draws" },
	{ 0, "x", OPT_TEXT, &o.x, "COLUMN", "across (what suits the first table)" },
	{ 0, "y", OPT_TEXT, &o.y, "LIST", "columns, up (what suits the first table)" },
	{ 0, "by", OPT_TEXT, &o.by, "LIST", "a curve for each set of values in these columns" },
	{ 0, "labels", OPT_TEXT, &o.labels, "LIST", "what the tables are called (their names)" },
	{ 0, "log", OPT_TEXT, &o.log, "AXES", "logarithmic: x, y or xy" },
	{ 0, "from", OPT_TEXT, &o.from, "X", "leave out what is before; in seconds, in pictures of runs" },
	{ 0, "until", OPT_TEXT, &o.until, "X", "leave out what is after" },
	{ 0, "title", OPT_TEXT, &o.title, "TEXT", "above it" },
	{ 0, "size", OPT_TEXT, &o.size, "WxH", "pixels (960x480)" },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "one's own key, which is trusted" },
	{ 0, "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say more" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-plot [-o FILE] [--png] [--script] [--x COLUMN] [--y LIST] [--by LIST] [--labels LIST] [--log AXES] "
		"[--from X] [--until X] [--title TEXT] [--size WxH] TABLE...",
	"dl-plot [-o FILE] [--png] [--script] [--from X] [--until X] [--title TEXT] [--size WxH] [-k FILE] "
		"[--trust PATH] TRACE | RUN",
	NULL
};
static const struct opt_prog prog = {
	"dl-plot", "Draws curves of tables, or who did what when in a run.", synopsis, table
};
static struct say say;

/* ---- options ---- */

static int parse_size(struct gnuplot_page *p)
{
	char text[32];
	char *x;
	uint64_t w, h;

	snprintf(text, sizeof text, "%s", o.size);
	x = strchr(text, 'x');
	if (x)
		*x++ = '\0';
	if (!x || strlen(o.size) >= sizeof text || num_u64(text, &w) < 0 || num_u64(x, &h) < 0 || w < 100 ||
		h < 100 || w > 10000 || h > 10000)
		return err_set(ERR_USAGE, "option --size: '%s' is not WIDTHxHEIGHT, 100 to 10000 pixels each", o.size);
	p->width = (unsigned)w;
	p->height = (unsigned)h;
	return 0;
}

static int parse_bound(const char *name, const char *text, double *out)
{
	if (text && num_f64(text, out) < 0)
		return err_at(ERR_USAGE, "option --%s", name);
	return 0;
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* A name says what it is to hold; one without a suffix says nothing. */
static int parse_format(struct gnuplot_page *p)
{
	const char *slash = o.out ? strrchr(o.out, '/') : NULL, *name = slash ? slash + 1 : o.out;
	const char *dot = name && *name ? strrchr(name + 1, '.') : NULL;

	if (o.png || (dot && strcmp(dot, ".png") == 0))
		p->format = GNUPLOT_PNG;
	else if (dot && !o.script && strcmp(dot, ".svg") != 0)
		return err_set(ERR_USAGE, "option -o: '%s': SVG and PNG can be written: let it end in .svg or .png, or "
			"say --png or --script", o.out);
	return 0;
}

static int parse_options(struct gnuplot_page *p, struct curves_conf *c)
{
	int rc;

	*p = (struct gnuplot_page){ .title = o.title };
	*c = (struct curves_conf){ .x = o.x, .y = o.y, .by = o.by, .from = -HUGE_VAL, .until = HUGE_VAL };
	if ((rc = key_apart(o.key, o.out)) < 0 || (rc = parse_size(p)) < 0)
		return rc;
	if ((rc = parse_bound("from", o.from, &c->from)) < 0 || (rc = parse_bound("until", o.until, &c->until)) < 0)
		return rc;
	if (!(c->from < c->until))
		return err_set(ERR_USAGE, "--from is not before --until");
	if (o.log && strcmp(o.log, "x") != 0 && strcmp(o.log, "y") != 0 && strcmp(o.log, "xy") != 0)
		return err_set(ERR_USAGE, "option --log: '%s' is not x, y or xy", o.log);
	c->log_x = o.log && strchr(o.log, 'x');
	c->log_y = o.log && strchr(o.log, 'y');
	return 0;
}

/* ---- runs ---- */

static int read_tape(struct gantt *g, const struct trust *trust)
{
	struct manifest m = { .serial = 0 };
	struct tape_reader *r = NULL;
	uint64_t epoch;
	int rc = manifest_load(&m, trust);

	if (rc == 0)
		rc = tape_newest(&epoch);
	if (rc == 0)
		rc = tape_read_open(&r, m.meta.run, epoch);
	if (rc == 0)
		rc = gantt_tape(g, r);
	tape_read_close(r);
	manifest_release(&m);
	return rc;
}

/* What is written is written where the program was started, so that directory is come back to. */
static int draw_run(struct buf *script, struct gantt *g, const char *name, const struct gnuplot_page *page)
{
	struct trust trust = { .v = NULL };
	int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = home < 0 ? err_sys("the current directory") : trust_reader(&trust, o.key, o.trust);

	if (rc == 0 && ((rc = rundir_enter(name)) < 0 || (rc = read_tape(g, &trust)) < 0))
		rc = err_at(rc, "%s", name);
	if (home >= 0 && fchdir(home) < 0 && rc == 0)
		rc = err_sys("the directory where it began");
	if (home >= 0)
		close(home);
	trust_release(&trust);
	return rc < 0 ? rc : gantt_script(script, g, page);
}

static int draw_trace(struct buf *script, struct gantt *g, int fd, const struct gnuplot_page *page)
{
	struct trace_reader *r = NULL;
	int rc = trace_open(&r, fd);

	if (rc == 0)
		rc = gantt_trace(g, r);
	trace_close(r);
	return rc < 0 ? rc : gantt_script(script, g, page);
}

/* ---- tables ---- */

/* The name of a file without its directory and ".tsv". */
static void short_name(char out[256], const char *path)
{
	const char *slash = strrchr(path, '/');

	snprintf(out, 256, "%s", slash && slash[1] ? slash + 1 : fd_name(path));
	if (ends_in(out, ".tsv"))
		out[strlen(out) - 4] = '\0';
}

/* The next of the labels, or the file's name; a single table needs none when its columns say enough. */
static void label(char out[256], const char **labels, const char *path, int n)
{
	size_t length;

	if (*labels) {
		length = strcspn(*labels, ",");
		snprintf(out, 256, "%.*s", (int)(length < 255 ? length : 255), *labels);
		*labels = (*labels)[length] ? *labels + length + 1 : NULL;
	} else if (n > 1) {
		short_name(out, path);
	} else {
		out[0] = '\0';
	}
}

static int add_table(struct curves *c, const char *path, const char *name)
{
	int fd, rc = fd_open_in(path, &fd);

	if (rc < 0)
		return rc;
	if ((rc = curves_add(c, fd, name)) < 0)
		rc = err_at(rc, "%s", fd_name(path));
	close(fd);
	return rc;
}

static int draw_tables(struct buf *script, const struct curves_conf *conf, char **words, int n,
	const struct gnuplot_page *page)
{
	struct curves c = { .conf = *conf };
	const char *labels = o.labels;
	char name[256];
	int rc = 0;

	for (int i = 0; i < n && rc == 0; i++) {
		label(name, &labels, words[i], n);
		rc = add_table(&c, words[i], name);
	}
	if (rc == 0)
		rc = curves_script(script, &c, page);
	curves_release(&c);
	return rc;
}

/* ---- which of them ---- */

static bool is_run(const char *path)
{
	return strcmp(path, "-") != 0 && dir_is(path);
}

/* The first line of a trace, and of nothing else here. */
static int is_trace(int fd)
{
	char head[32];
	ssize_t n = fd_read_at(fd, head, sizeof head - 1, 0);
	char *word;

	if (n < 0)
		return (int)n;
	head[n] = '\0';
	word = strchr(head, ' ');
	return word && strncmp(word, " trace ", 7) == 0;
}

static int refuse_option(const char *name, const char *value, const char *of, const char *what)
{
	return value ? err_set(ERR_USAGE, "--%s is for %s, not for %s", name, of, what) : 0;
}

/* Options that mean nothing for what is drawn. */
static int check_tables(void)
{
	int rc = refuse_option("key", o.key, "runs", "tables and traces");

	return rc < 0 ? rc : refuse_option("trust", o.trust, "runs", "tables and traces");
}

static int check_lanes(const char *what)
{
	const char *const of_tables[][2] = { { "x", o.x }, { "y", o.y }, { "by", o.by }, { "labels", o.labels },
		{ "log", o.log } };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof of_tables / sizeof *of_tables; i++)
		rc = refuse_option(of_tables[i][0], of_tables[i][1], "tables", what);
	return rc;
}

/* What is looked at has to be read again. */
static int draw_file(struct buf *script, struct gantt *g, const char *path, const struct curves_conf *conf,
	const struct gnuplot_page *page)
{
	struct curves c = { .conf = *conf };
	char name[256];
	int fd, rc = fd_open_random(path, &fd);
	const char *labels = o.labels;

	if (rc < 0)
		return rc;
	label(name, &labels, path, 1);
	if ((rc = is_trace(fd)) == 1 && (rc = check_lanes("a trace")) == 0)
		rc = draw_trace(script, g, fd, page);
	else if (rc == 0 && (rc = curves_add(&c, fd, name)) == 0)
		rc = curves_script(script, &c, page);
	curves_release(&c);
	close(fd);
	return rc < 0 ? err_at(rc, "%s", fd_name(path)) : 0;
}

static int check_words(char **words, int n)
{
	int rc;

	if (n == 0)
		return err_set(ERR_USAGE, "what to draw? give tables, a trace or a run directory");
	if ((rc = output_apart_all(o.out, words, (size_t)n)) < 0)
		return rc;
	for (int i = 0; i < n; i++)
		if (n > 1 && is_run(words[i]))
			return err_set(ERR_USAGE, "one run at a time: '%s'", words[i]);
	if (!is_run(words[0]))
		return check_tables();
	rc = check_lanes("a run");
	return rc < 0 ? rc : rundir_apart(words[0], o.out);
}

static int draw(struct buf *script, char **words, int n)
{
	struct gantt g = { .lanes = 0 };
	struct gnuplot_page page;
	struct curves_conf conf;
	int rc;

	if ((rc = parse_options(&page, &conf)) < 0 || (rc = check_words(words, n)) < 0 ||
		(rc = parse_format(&page)) < 0)
		return rc;
	g.from = conf.from;
	g.until = conf.until;
	if (is_run(words[0]))
		rc = draw_run(script, &g, words[0], &page);
	else
		rc = n == 1 ? draw_file(script, &g, words[0], &conf, &page)
			    : draw_tables(script, &conf, words, n, &page);
	gantt_release(&g);
	return rc;
}

/* Words come from names of files and from tables: a byte that is of no character would spoil the picture, and the
 * script for other programs. */
static int clean(struct buf *script)
{
	struct buf out = BUF_INIT;
	int rc = utf8_clean(&out, script->data);

	buf_release(script);
	*script = out;
	return rc;
}

/* gnuplot does not notice a full disk, so the writing is ours. */
static int picture(const struct buf *script, const struct output *out)
{
	int fd, rc = fd_temporary(&fd);

	if (rc < 0)
		return rc;
	if ((rc = gnuplot_run(script, fd)) == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_sys("temporary file");
	if (rc == 0 && (rc = fd_copy(fd, out->fd)) < 0)
		err_at(rc, "%s", output_name(o.out));
	close(fd);
	return rc;
}

static int deliver(const struct buf *script)
{
	struct output out;
	int rc = output_open(&out, o.out, o.script ? "a script" : "a picture", NULL, 0);

	if (rc < 0)
		return rc;
	if (!o.script)
		rc = picture(script, &out);
	else if ((rc = fd_write(out.fd, script->data, script->len)) < 0)
		err_at(rc, "%s", output_name(o.out));
	if (rc == 0)
		return output_commit(&out);
	output_abort(&out);
	return rc;
}

int main(int argc, char **argv)
{
	struct buf script = BUF_INIT;
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0)
		rc = draw(&script, words, n);
	if (rc == 0)
		rc = clean(&script);
	if (rc == 0)
		rc = deliver(&script);
	buf_release(&script);
	return rc < 0 ? say_error(&say, rc) : 0;
}
