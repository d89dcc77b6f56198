/*
 * dl-chaos - break real runs, simulate clusters that nobody can afford, train under simulated disasters
 *
 * Each sub-command is a section: its options, their table and synopsis, one function. A new one needs a line in
 * `commands` and one in `synopsis` besides.
 */
#include <stdio.h>
#include <string.h>

#include "base/opt.h"
#include "base/say.h"
#include "io/fd.h"

static bool quiet, verbose;
static struct say say;

/* The end of each table. */
#define OPT_COMMON \
	{ 'q', "quiet", OPT_FLAG, &quiet, NULL, "say errors only" }, \
	{ 'v', "verbose", OPT_FLAG, &verbose, NULL, "say what happens" }, \
	OPT_END

/* ---- all of them ---- */

static const struct command {
	const char *name;
	const struct opt_prog *prog; /* its name is dl-chaos */
	int (*run)(char **words, int n);
} commands[] = {
	{ "inject", NULL, NULL },
	{ "sim", NULL, NULL },
	{ "play", NULL, NULL },
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static const struct opt table[] = { OPT_COMMON };
static const char *const synopsis[] = {
	"dl-chaos inject [OPTION...] -- COMMAND...",
	"dl-chaos sim [OPTION...]",
	"dl-chaos play [OPTION...] TRACE",
	NULL
};
static const struct opt_prog prog = {
	"dl-chaos", "Breaks runs, simulates clusters, trains in disasters; 'dl-chaos sim -h' and so on.",
	synopsis, table
};

static const struct command *find(const char *name)
{
	for (const struct command *c = commands; c < commands + COMMANDS; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

/* No sub-command: help, or what is wrong. */
static int run_none(int argc, char **argv)
{
	char **words, shown[80];
	int n, rc = opt_parse(&prog, argc, argv, &words, &n);

	if (rc != 0)
		return rc;
	if (n == 0)
		return err_set(ERR_USAGE, "what to do? inject, sim or play; see -h");
	say_escape(shown, sizeof shown, words[0]);
	return find(words[0]) ? err_set(ERR_USAGE, "'%s' comes first, before all options", shown)
			      : err_set(ERR_USAGE, "'%s' is none of inject, sim and play", shown);
}

static int run(const struct command *c, int argc, char **argv)
{
	char **words;
	int n, rc;

	if (!c->run)
		return err_set(ERR_USAGE, "'%s' is not there yet", c->name);
	rc = opt_parse(c->prog, argc, argv, &words, &n);
	say_init(&say, prog.name, quiet, verbose);
	return rc == 0 ? c->run(words, n) : rc;
}

int main(int argc, char **argv)
{
	const struct command *c = argc > 1 ? find(argv[1]) : NULL;
	int rc = fd_standard();

	say_init(&say, prog.name, false, false);
	if (rc == 0)
		rc = c ? run(c, argc - 1, argv + 1) : run_none(argc, argv);
	if (rc >= 0) {
		int closed = fd_close_output();

		rc = closed < 0 ? closed : rc;
	}
	return rc < 0 ? say_error(&say, rc) : 0;
}
