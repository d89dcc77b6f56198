/*
 * dl-chaos - break real runs, simulate clusters that nobody can afford, train under simulated disasters
 *
 * Each sub-command is a section: its options, their table and synopsis, one function. A new one needs a line in
 * `commands` and one in `synopsis` besides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/say.h"
#include "chaos/setting.h"
#include "chaos/sweep.h"
#include "io/fd.h"
#include "io/output.h"

static bool quiet, verbose;
static struct say say;

/* The end of each table. */
#define OPT_COMMON \
	{ 'q', "quiet", OPT_FLAG, &quiet, NULL, "say errors only" }, \
	{ 'v', "verbose", OPT_FLAG, &verbose, NULL, "say what happens" }, \
	OPT_END

/* ---- sim ---- */

static struct {
	const char *setting[SETTINGS];
	const char *mode, *chips, *learners, *speeds, *trace;
	bool rigid, fresh, forget, json, tsv;
	uint64_t seed, seeds, threads;
} so = { .mode = "decoupled", .chips = "1.2M", .learners = "8", .seed = 1, .seeds = 1, .threads = 1 };

#define SETTING(letter, k, name, arg, help) { letter, name, OPT_TEXT, &so.setting[k], arg, help }
static const struct opt sim_table[] = {
	{ 0, "mode", OPT_TEXT, &so.mode, "LIST", "lockstep, elastic, diloco, decoupled (the default)" },
	{ 0, "chips", OPT_TEXT, &so.chips, "LIST", "chips of all learners (1.2M): 150k,300k,...,2.4M" },
	{ 'm', "learners", OPT_TEXT, &so.learners, "LIST", "learners (8)" },
	SETTING(0, SETTING_SLICE, "slice", "N", "chips that fail together (256)"),
	SETTING(0, SETTING_MTBI, "mtbi", "TIME", "time between interruptions of a chip (365d), or never"),
	SETTING(0, SETTING_SCALE_DOWN, "scale-down", "TIME", "stop to go on without a slice (9.5s)"),
	SETTING(0, SETTING_SCALE_UP, "scale-up", "TIME", "stop to take a slice in again (9.5s)"),
	SETTING(0, SETTING_REPAIR, "repair", "LOW-HIGH", "time until a slice is back (30m-90m)"),
	SETTING(0, SETTING_RESTART, "restart", "TIME", "stop at a failure where nothing is elastic (63s)"),
	{ 0, "rigid", OPT_FLAG, &so.rigid, NULL, "learners of diloco and decoupled are not elastic" },
	{ 0, "fresh", OPT_FLAG, &so.fresh, NULL, "all slices live at first, not as many as on average" },
	{ 0, "forget", OPT_FLAG, &so.forget, NULL, "a learner without slices loses its state, too" },
	SETTING(0, SETTING_STEP, "step", "TIME", "an inner step (1s)"),
	SETTING(0, SETTING_SPREAD, "spread", "X", "relative standard deviation of a step (0.02)"),
	{ 0, "speeds", OPT_TEXT, &so.speeds, "LIST", "of the learners, over and over (1)" },
	SETTING(0, SETTING_UNEVEN, "uneven", "X", "learners are slower in even steps, the last by X"),
	SETTING('H', SETTING_INTERVAL, "interval", "N", "inner steps between merges of a fragment (24)"),
	SETTING('P', SETTING_FRAGMENTS, "fragments", "N", "fragments (24)"),
	SETTING(0, SETTING_TAU, "tau", "N", "inner steps of overlap, and rounds open at once (2)"),
	SETTING('K', SETTING_QUORUM, "quorum", "N", "answers that a merge needs at least (1)"),
	SETTING(0, SETTING_GAMMA, "gamma", "X", "part of the slack that late answers get (1)"),
	SETTING(0, SETTING_INVITE, "invite", "N", "learners called for a round, drawn by lot (0: all)"),
	SETTING(0, SETTING_ADOPT, "adopt", "RULE", "rebase (the default) or overwrite"),
	SETTING(0, SETTING_LEASE, "lease", "TIME", "silence after which a learner counts as lost (30s)"),
	SETTING(0, SETTING_BEAT, "beat", "TIME", "between signs of life of a learner (1s)"),
	SETTING(0, SETTING_PARAMS, "params", "N", "parameters of the model (1G)"),
	SETTING(0, SETTING_DELTA_BITS, "delta-bits", "X", "of a parameter in an answer (4)"),
	SETTING(0, SETTING_FRAGMENT_BITS, "fragment-bits", "X", "of a parameter in a version (16)"),
	SETTING(0, SETTING_BANDWIDTH, "bandwidth", "N", "of a learner's link, bits per second (10G)"),
	SETTING(0, SETTING_LATENCY, "latency", "TIME", "until what one wrote is seen by the other (0.02)"),
	SETTING(0, SETTING_MERGE, "merge", "TIME", "of the syncer for a merge (0.05)"),
	SETTING(0, SETTING_TOKENS, "tokens", "N", "of an inner step of all chips (8388608)"),
	SETTING(0, SETTING_BUDGET, "budget", "N", "stop when so many tokens are merged"),
	SETTING(0, SETTING_JOIN, "join", "LIST", "learners that come and go: 2@6h-18h,1@20h"),
	SETTING(0, SETTING_FOR, "for", "TIME", "how long (1d)"),
	{ 0, "seed", OPT_U64, &so.seed, "N", "of all that is random (1)" },
	{ 0, "seeds", OPT_U64, &so.seeds, "N", "simulate with N seeds: means and intervals", 1, SWEEP_SEEDS },
	{ 'j', "threads", OPT_U64, &so.threads, "N", "threads; the result is the same for any number", 1, 1024 },
	{ 0, "trace", OPT_TEXT, &so.trace, "FILE", "write all that happened there: dl-trace(5)" },
	{ 0, "tsv", OPT_FLAG, &so.tsv, NULL, "tab-separated values, all digits" },
	{ 0, "json", OPT_FLAG, &so.json, NULL, "an object a line" },
	OPT_COMMON
};
static const char *const sim_synopsis[] = { "dl-chaos sim [OPTION...]", NULL };
static const struct opt_prog sim_prog = {
	"dl-chaos", "Simulates clusters whose chips fail, and the training on them.", sim_synopsis, sim_table
};

static int sim_settings(struct sim_conf *c)
{
	sim_conf_defaults(c);
	c->seed = so.seed;
	c->rigid = so.rigid;
	c->fresh = so.fresh;
	c->forget = so.forget;
	for (unsigned k = 0; k < SETTINGS; k++)
		if (so.setting[k] && setting_apply(c, (enum setting)k, so.setting[k]) < 0)
			return err_at(ERR_USAGE, "option --%s", setting_name((enum setting)k));
	return 0;
}

static int sim_lists(struct sweep *s)
{
	int rc = sweep_modes(s, so.mode), n;

	if (rc < 0)
		return err_at(ERR_USAGE, "option --mode");
	if ((n = sweep_numbers(s->chips, so.chips, 1e9)) < 0)
		return err_at(ERR_USAGE, "option --chips");
	s->chip_counts = (size_t)n;
	if ((n = sweep_numbers(s->learners, so.learners, SIM_LEARNERS)) < 0)
		return err_at(ERR_USAGE, "option --learners");
	s->learner_counts = (size_t)n;
	s->seeds = (unsigned)so.seeds;
	return 0;
}

/* The one simulation again, written down. */
static int sim_trace(const struct sim_conf *c)
{
	struct output out = OUTPUT_INIT;
	struct trace_writer *w = NULL;
	struct sim_result r;
	struct trace_head h;
	int rc = output_open(&out, so.trace, "a trace", NULL, 0);

	sim_conf_head(c, &h);
	if (rc == 0)
		rc = trace_create(&w, out.fd, &h);
	if (rc == 0)
		rc = sim_run(c, w, &r);
	if (rc == 0)
		rc = trace_finish(w);
	trace_discard(w);
	if (rc == 0)
		rc = output_commit(&out);
	output_abort(&out);
	return rc < 0 ? err_at(rc, "%s", output_name(so.trace)) : 0;
}

static int sim_table_out(const struct sweep *s)
{
	struct buf text = BUF_INIT;
	int rc = sweep_print(s, so.json ? SWEEP_JSON : so.tsv ? SWEEP_TSV : SWEEP_TEXT, &text);

	if (rc == 0)
		rc = fd_write(STDOUT_FILENO, text.data, text.len);
	buf_release(&text);
	return rc;
}

static int sim_all(struct sweep *s, const struct sim_conf *c)
{
	struct pool *pool = NULL;
	int rc = pool_open(&pool, (int)so.threads);

	if (rc == 0)
		rc = sweep_run(s, c, pool);
	if (rc == 0 && so.trace && s->cells * s->seeds > 1)
		rc = err_set(ERR_USAGE, "--trace is for one simulation, not for %zu", s->cells * s->seeds);
	if (rc == 0 && so.trace)
		rc = sim_trace(&s->cell[0].conf);
	if (rc == 0)
		rc = sim_table_out(s);
	pool_close(pool);
	return rc;
}

static int sim(char **words, int n)
{
	struct sweep s = { .seeds = 1 };
	double *speeds = NULL;
	struct sim_conf c;
	int rc = sim_settings(&c);

	if (rc == 0 && n > 0)
		return err_set(ERR_USAGE, "'sim' has no use for '%s'", words[0]);
	if (rc == 0 && so.json && so.tsv)
		rc = err_set(ERR_USAGE, "--json or --tsv");
	if (rc == 0)
		rc = sim_lists(&s);
	if (rc == 0 && so.speeds && (rc = setting_speeds(so.speeds, &speeds)) < 0)
		rc = err_at(rc, "option --speeds");
	if (rc >= 0) {
		c.speed = speeds;
		c.speeds = (unsigned)rc;
		rc = sim_all(&s, &c);
	}
	sweep_release(&s);
	free(speeds);
	return rc;
}

/* ---- all of them ---- */

static const struct command {
	const char *name;
	const struct opt_prog *prog; /* its name is dl-chaos */
	int (*run)(char **words, int n);
} commands[] = {
	{ "inject", NULL, NULL },
	{ "sim", &sim_prog, sim },
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
	"dl-chaos", "Breaks runs, simulates clusters, trains in disasters; see 'dl-chaos sim -h'.",
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
