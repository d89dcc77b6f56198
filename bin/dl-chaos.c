/*
 * dl-chaos - break real runs, simulate clusters that nobody can afford, train under simulated disasters
 *
 * Each sub-command is a section: its options, their table and synopsis, and what it prints; the work is in
 * lib/chaos/NAME_job. A new one needs a line in `commands` and one in `synopsis` besides.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/opt.h"
#include "base/say.h"
#include "chaos/inject_job.h"
#include "chaos/play_job.h"
#include "chaos/sim_job.h"
#include "chaos/sweep.h"
#include "io/fd.h"
#include "io/wake.h"

static bool quiet, verbose;
static struct say say;

/* The end of each table. */
#define OPT_COMMON \
	{ 'q', "quiet", OPT_FLAG, &quiet, NULL, "say errors only" }, \
	{ 'v', "verbose", OPT_FLAG, &verbose, NULL, "say what happens" }, \
	OPT_END

/* ---- inject ---- */

static struct inject_options inject = {
	.kinds = "kill", .out = "chaos", .faults = { .mtbf = 60, .repair = 10, .lasts = 5, .clock = 3600 }
};

static const struct opt inject_table[] = {
	{ 0, "mtbf", OPT_SECONDS, &inject.faults.mtbf, "TIME", "mean time between faults, of all together (1m)" },
	{ 0, "repair", OPT_SECONDS, &inject.faults.repair, "TIME", "mean time until a killed one starts again (10s)" },
	{ 0, "lasts", OPT_SECONDS, &inject.faults.lasts, "TIME", "mean length of all other faults (5s)" },
	{ 0, "faults", OPT_TEXT, &inject.kinds, "LIST", "kinds, as kill:5,pause,flip:2; or all (kill)" },
	{ 0, "on", OPT_TEXT, &inject.on, "LIST", "break these processes only, as learner-0,syncer" },
	{ 0, "slow", OPT_F64, &inject.faults.slow, "X", "share of time that a slowed one runs (drawn)", 0.01, 0.99 },
	{ 0, "clock", OPT_SECONDS, &inject.faults.clock, "TIME", "clocks are off by as much, at most (1h)" },
	{ 0, "seed", OPT_U64, &inject.faults.seed, "N", "seed of the plan (0)" },
	{ 0, "from", OPT_SECONDS, &inject.faults.from, "TIME", "no fault before" },
	{ 0, "plan", OPT_TEXT, &inject.plan, "FILE", "faults of this table, as faults.tsv has them" },
	{ 0, "print", OPT_FLAG, &inject.print, NULL, "print the plan for the time of --for, and leave" },
	{ 0, "for", OPT_SECONDS, &inject.most, "TIME", "stop all after this time" },
	{ 0, "list", OPT_TEXT, &inject.list, "FILE", "run the processes of this file, one a line" },
	{ 'o', "out", OPT_TEXT, &inject.out, "DIR", "logs and the table of faults go there (chaos)" },
	{ 0, "json", OPT_FLAG, &inject.json, NULL, "report as one JSON object" },
	{ 'k', "key", OPT_TEXT, &inject.key, "FILE", "one's own key, which is trusted" },
	{ 'T', "trust", OPT_TEXT, &inject.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	OPT_COMMON
};
static const char *const inject_synopsis[] = {
	"dl-chaos inject [OPTION...] -- COMMAND...",
	"dl-chaos inject [OPTION...] --list FILE",
	NULL
};
static const struct opt_prog inject_prog = {
	"dl-chaos", "Runs commands, or all of a dl-run, breaks them by a plan, and tells what held.", inject_synopsis,
	inject_table
};

static int run_inject(char **words, int n)
{
	struct buf text = BUF_INIT;
	int asked = 0, rc;

	inject.say = &say;
	rc = inject_job(&inject, words, (size_t)n, &text, &asked);
	if (text.data)
		fputs(text.data, stdout);
	buf_release(&text);
	if (rc == 0 && asked && fd_close_output() == 0)
		wake_die_by(asked);
	return rc;
}

/* ---- sim ---- */

static struct sim_options so = { .mode = "decoupled", .seed = 1, .seeds = 1, .threads = 1 };

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
	SETTING(0, SETTING_LOOK, "look", "TIME", "between looks of the syncer at what has come (0.05)"),
	SETTING(0, SETTING_TOKENS, "tokens", "N", "of an inner step of all chips (8388608)"),
	SETTING(0, SETTING_BUDGET, "budget", "N", "stop when so many tokens are merged"),
	SETTING(0, SETTING_JOIN, "join", "LIST", "learners that come and go: 2@6h-18h,1@20h"),
	SETTING(0, SETTING_FOR, "for", "TIME", "how long (1d)"),
	{ 0, "seed", OPT_U64, &so.seed, "N", "of all that is random (1)" },
	{ 0, "seeds", OPT_U64, &so.seeds, "N", "simulate with N seeds: means and intervals", 1, SWEEP_SEEDS },
	{ 'j', "threads", OPT_U64, &so.threads, "N", "threads; the result is the same for any number", 1, 1024 },
	{ 0, "like", OPT_TEXT, &so.like, "RUN", "fit all that to the tape of a run directory" },
	{ 0, "without", OPT_TEXT, &so.without, "LIST", "--like: leave these learners out" },
	{ 'k', "key", OPT_TEXT, &so.key, "FILE", "--like: own secret key, which is trusted" },
	{ 'T', "trust", OPT_TEXT, &so.trust, "PATH", "--like: trusted keys" },
	{ 0, "trace", OPT_TEXT, &so.trace, "FILE", "write all that happened there: dl-trace(5)" },
	{ 0, "tsv", OPT_FLAG, &so.tsv, NULL, "tab-separated values, all digits" },
	{ 0, "json", OPT_FLAG, &so.json, NULL, "an object a line" },
	OPT_COMMON
};
static const char *const sim_synopsis[] = { "dl-chaos sim [OPTION...]", NULL };
static const struct opt_prog sim_prog = {
	"dl-chaos", "Simulates clusters whose chips fail, and the training on them.", sim_synopsis, sim_table
};

static int run_sim(char **words, int n)
{
	struct buf text = BUF_INIT;
	char shown[80];
	int rc;

	if (n > 0) {
		say_escape(shown, sizeof shown, words[0]);
		return err_set(ERR_USAGE, "'sim' has no use for '%s'", shown);
	}
	so.verbose = verbose;
	rc = sim_job(&so, &text);
	if (rc == 0)
		rc = fd_write_output(text.data, text.len);
	buf_release(&text);
	return rc;
}

/* ---- play ---- */

static void print_number(double x)
{
	char text[32];

	num_f64_text(text, x);
	printf("\t%s", x > 0 ? text : "-");
}

static int print_row(void *ctx, const struct play_row *row)
{
	static bool headed;
	char seconds[32];

	(void)ctx;
	if (!headed)
		printf("seconds\ttokens\tstep\tmerges\tloss\tbits_per_byte\n");
	headed = true;
	num_f64_text(seconds, row->seconds);
	printf("%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, seconds, row->tokens, row->step, row->merges);
	print_number(row->loss);
	print_number(row->bits_per_byte);
	printf("\n");
	return fflush(stdout) == 0 ? 0 : err_sys("standard output");
}

static struct play_options po = { .row = print_row, .say = &say, .rule = "rda", .experts = "tokens", .encoding = "f32",
	.outer_lr = 0.7, .momentum = 0.9, .outlier = 100 };

static const struct opt play_table[] = {
	{ 'o', "output", OPT_TEXT, &po.out, "FILE", "write the checkpoint that is reached here" },
	{ 0, "valid", OPT_TEXT, &po.valid, "SHARD", "measure bits per byte on this, at each line of the table" },
	{ 0, "eval-every", OPT_COUNT, &po.every, "N", "tokens from line to line (none but the first and the last)",
		.min = 1, .max = 1e15 },
	{ 0, "tokens", OPT_COUNT, &po.tokens, "N", "end when so many are trained", .min = 1, .max = 1e15 },
	{ 0, "until", OPT_SECONDS, &po.until, "TIME", "end at this time of the trace, as 90s, 9m or 1.5h" },
	{ 0, "finish", OPT_FLAG, &po.finish, NULL, "merge what is under way at the end, as a run at its target" },
	{ 0, "rule", OPT_TEXT, &po.rule, "RULE", "of merges: rda or direct (rda)" },
	{ 0, "expert-weights", OPT_TEXT, &po.experts, "WEIGHTS", "of answers for experts: tokens or routed (tokens)" },
	{ 0, "outer-lr", OPT_F64, &po.outer_lr, "X", "outer learning rate (0.7)", .min = 1e-12, .max = 1000 },
	{ 0, "momentum", OPT_F64, &po.momentum, "X", "outer momentum (0.9)", .min = 0, .max = 0.9999999 },
	{ 0, "outlier", OPT_F64, &po.outlier, "X", "refuse answers with X times the median norm (100; 0: none)",
		.min = 0, .max = 1e300 },
	{ 'e', "encoding", OPT_TEXT, &po.encoding, "ENC", "of deltas: f32r (exact), f32 or bf16 (f32)" },
	{ 'B', "batch", OPT_U64, &po.batch, "N", "samples of a whole step (the checkpoint's)",
		.min = 1, .max = 1 << 20 },
	{ 'T', "context", OPT_U64, &po.context, "N", "tokens a sample (the checkpoint's)", .min = 1, .max = 1 << 24 },
	{ 0, "lr", OPT_F64, &po.lr, "X", "peak learning rate (the checkpoint's)", .min = 1e-12, .max = 1000 },
	{ 'j', "threads", OPT_U64, &po.threads, "N", "threads (all processors)", .min = 1, .max = 1024 },
	{ 'k', "key", OPT_TEXT, &po.key, "FILE", "secret key to sign with" },
	{ 0, "trust", OPT_TEXT, &po.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	OPT_COMMON
};
static const char *const play_synopsis[] = {
	"dl-chaos play [-o FILE] [--valid SHARD] [--eval-every N] [--tokens N] [--until TIME] [--finish] "
		"[--rule RULE] [--expert-weights WEIGHTS] [--outer-lr X] [--momentum X] [--outlier X] [-e ENC] [-B N] "
		"[-T N] [--lr X] [-j N] [-k FILE] [--trust PATH] TRACE CKPT SHARD... > TABLE",
	NULL
};
static const struct opt_prog play_prog = {
	"dl-chaos", "Trains models by a trace, in virtual time.", play_synopsis, play_table
};

static int run_play(char **words, int n)
{
	return play_job(&po, words, n);
}

/* ---- all of them ---- */

static const struct command {
	const char *name;
	const struct opt_prog *prog; /* its name is dl-chaos */
	int (*run)(char **words, int n);
} commands[] = {
	{ "inject", &inject_prog, run_inject },
	{ "sim", &sim_prog, run_sim },
	{ "play", &play_prog, run_play },
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static const struct opt table[] = { OPT_COMMON };
static const char *const synopsis[] = {
	"dl-chaos inject [OPTION...] -- COMMAND...",
	"dl-chaos sim [OPTION...]",
	"dl-chaos play [OPTION...] TRACE CKPT SHARD...",
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
	return rc < 0 ? wake_leave(say_error(&say, rc)) : 0;
}
