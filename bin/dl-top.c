/*
 * dl-top - a run directory at a glance, once or again and again
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/say.h"
#include "form/trust.h"
#include "io/fd.h"
#include "io/term.h"
#include "io/usage.h"
#include "io/wake.h"
#include "round/board.h"
#include "round/rundir.h"

#define LOOK 3.0          /* seconds that a single shot watches for signs of life */
#define DISK_EVERY 10.0   /* seconds */
#define DISK_FILES 100000
#define COLUMNS_MOST 1000

static struct {
	const char *run, *key, *trust;
	double every;
	bool once, json, every_given, quiet, verbose;
} o = { .every = 1 };

static const struct opt table[] = {
	{ '1', "once", OPT_FLAG, &o.once, NULL, "print once, as plain text, and leave" },
	{ 0, "json", OPT_FLAG, &o.json, NULL, "print one JSON object; with -d one each time" },
	{ 'd', "delay", OPT_SECONDS, &o.every, "SECONDS", "between two looks (1)", .given = &o.every_given },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "one's own key, which is trusted" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say more" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-top [-1] [--json] [-d SECONDS] [-k FILE] [--trust PATH] RUN",
	NULL
};
static const struct opt_prog prog = {
	"dl-top", "Shows a run: learners, fragments, open rounds, loss, goodput.", synopsis, table
};
static struct say say;

struct work {
	struct trust trust;
	struct view *view;
	struct term term;
	struct board_conf board;
	struct buf text;
	double disk_at; /* when disk was summed up; negative: never */
};

static int check_words(char **words, int n)
{
	if (n != 1)
		return err_set(ERR_USAGE, n ? "one run at a time, not '%s' too" : "which run? give its directory",
			       n ? words[1] : "");
	o.run = words[0];
	if (o.once && o.every_given)
		return err_set(ERR_USAGE, "-1 looks once: no delay then");
	if (o.every < 0.1 || o.every > 86400)
		return err_set(ERR_USAGE, "option --delay: between 0.1 and 86400 seconds");
	return 0;
}

static int measure_disk(struct work *w)
{
	int rc;

	if (w->disk_at >= 0 && clock_seconds() - w->disk_at < DISK_EVERY)
		return 0;
	rc = usage_bytes(&w->board.disk, &w->board.disk_more, ".", DISK_FILES);
	w->disk_at = clock_seconds();
	return rc;
}

/* What the last reading saw, as text or JSON. */
static int compose(struct work *w)
{
	int rc = measure_disk(w);

	buf_clear(&w->text);
	if (rc == 0)
		rc = (o.json ? board_json : board_text)(&w->text, w->view, &w->board);
	return rc;
}

static int print(struct work *w)
{
	int rc = compose(w);

	if (rc == 0 && (fwrite(w->text.data, 1, w->text.len, stdout) != w->text.len || fflush(stdout) != 0))
		rc = err_sys("standard output");
	return rc;
}

/* Whoever looks once shall not take a head that can't be read for a run that has not begun. */
static int shot(struct work *w)
{
	int rc = view_look(w->view, LOOK);

	if (rc == 0)
		rc = print(w);
	return rc < 0 ? rc : err_restore(&w->view->head_trouble);
}

static void pause_for(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&t, NULL);
}

/* Objects, one a line, until the run is over. */
static int stream(struct work *w)
{
	int rc = view_look(w->view, LOOK);

	while (rc == 0 && (rc = print(w)) == 0 && !wake_requested() && !view_over(w->view)) {
		pause_for(o.every);
		if (wake_requested())
			break;
		rc = view_read(w->view);
	}
	return rc;
}

static int draw(struct work *w)
{
	int rc;

	term_size(STDOUT_FILENO, &w->board.columns, &w->board.rows);
	w->board.rows--; /* for the cursor */
	rc = compose(w);
	return rc < 0 ? rc : term_draw(&w->term, w->text.data, w->text.len);
}

static bool leave(int key)
{
	return key == 'q' || key == 'Q' || key == 4 || wake_requested();
}

static void resized(int signal_number)
{
	(void)signal_number; /* only ends the wait for a key */
}

static int screen(struct work *w)
{
	const struct sigaction action = { .sa_handler = resized };
	double next = clock_seconds();
	int rc = 0;

	sigaction(SIGWINCH, &action, NULL);
	term_begin(&w->term, STDIN_FILENO, STDOUT_FILENO);
	while (rc == 0) {
		if (clock_seconds() >= next) {
			rc = view_read(w->view);
			next = clock_seconds() + o.every;
		}
		if (rc == 0)
			rc = draw(w);
		if (rc < 0 || leave(term_key(&w->term, fmax(0, next - clock_seconds()))))
			break;
	}
	term_end(&w->term);
	return rc;
}

/* Of what is no terminal: what the environment says. */
static int columns(void)
{
	const char *text = getenv("COLUMNS");
	uint64_t n;

	return text && num_u64(text, &n) == 0 && n > 0 && n <= COLUMNS_MOST ? (int)n : 80;
}

static int run(struct work *w)
{
	int rc = trust_reader(&w->trust, o.key, o.trust);

	if (rc == 0)
		rc = rundir_enter(o.run);
	if (rc == 0)
		rc = view_open(&w->view, &w->trust, clock_monotonic());
	if (rc == 0)
		rc = wake_catch();
	if (rc < 0)
		return rc;
	w->board = (struct board_conf){ .run = o.run, .columns = columns() };
	if (o.json && o.every_given)
		return stream(w);
	if (o.json || o.once || isatty(STDOUT_FILENO) != 1)
		return shot(w);
	return screen(w);
}

int main(int argc, char **argv)
{
	struct work w = { .disk_at = -1 };
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0)
		rc = check_words(words, n);
	if (rc == 0)
		rc = run(&w);
	if (rc == 0)
		rc = fd_close_output();
	view_close(w.view);
	trust_release(&w.trust);
	buf_release(&w.text);
	return rc < 0 ? say_error(&say, rc) : 0;
}
