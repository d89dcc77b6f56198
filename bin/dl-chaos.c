/*
 * dl-chaos - break real runs, simulate clusters that nobody can afford, train under simulated disasters
 *
 * Each sub-command is a section: its options, their table and synopsis, one function. A new one needs a line in
 * `commands` and one in `synopsis` besides.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/opt.h"
#include "base/pool.h"
#include "base/say.h"
#include "chaos/inject_job.h"
#include "chaos/like.h"
#include "chaos/play.h"
#include "chaos/setting.h"
#include "chaos/sweep.h"
#include "form/trust.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"
#include "round/audit.h"
#include "round/rundir.h"
#include "round/trainer.h"

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
	if (rc == 0 && asked && fd_close_output() == 0) { /* who started us shall know why we left */
		signal(asked, SIG_DFL);
		raise(asked);
	}
	return rc;
}

/* ---- sim ---- */

static struct {
	const char *setting[SETTINGS];
	const char *mode, *chips, *learners, *speeds, *trace, *like, *without, *key, *trust;
	bool rigid, fresh, forget, json, tsv;
	uint64_t seed, seeds, threads;
} so = { .mode = "decoupled", .seed = 1, .seeds = 1, .threads = 1 };

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

/* The tape of a run that has been entered. */
static int sim_read_tape(struct like *l, const struct trust *trust)
{
	struct manifest m = { 0 };
	struct tape_reader *tape = NULL;
	struct audit audit = { 0 };
	int rc = manifest_load(&m, trust);

	if (rc == 0)
		rc = audit_open(&audit, &m, trust);
	if (rc == 0)
		rc = audit_tape(&audit, &tape);
	if (rc == 0)
		rc = like_read(l, &m, tape);
	tape_read_close(tape);
	audit_close(&audit);
	manifest_release(&m);
	return rc < 0 ? err_at(rc, "%s", so.like) : 0;
}

static int sim_like(struct like *l)
{
	int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = home < 0 ? err_sys("the current directory") : 0;
	struct trust trust = { 0 };
	struct buf text = BUF_INIT;

	if (rc == 0)
		rc = trust_reader(&trust, so.key, so.trust); /* relative paths are as given */
	if (rc == 0)
		rc = rundir_enter(so.like);
	if (rc == 0)
		rc = sim_read_tape(l, &trust);
	if (rc == 0 && verbose && !so.json && !so.tsv && (rc = like_text(l, &text)) == 0)
		rc = fd_write(STDOUT_FILENO, text.data, text.len);
	if (rc == 0 && so.without)
		rc = err_at(like_without(l, so.without), "option --without");
	if (home >= 0 && fchdir(home) < 0 && rc == 0)
		rc = err_sys("the directory where it began");
	if (home >= 0)
		close(home);
	trust_release(&trust);
	buf_release(&text);
	return rc;
}

static int sim_settings(struct sim_conf *c)
{
	c->seed = so.seed;
	c->rigid = so.rigid;
	c->fresh |= so.fresh;
	c->forget = so.forget;
	for (unsigned k = 0; k < SETTINGS; k++)
		if (so.setting[k] && setting_apply(c, (enum setting)k, so.setting[k]) < 0)
			return err_at(ERR_USAGE, "option --%s", setting_name((enum setting)k));
	return 0;
}

static int sim_list(double *out, size_t *n, const char *name, const char *text, double usual, double most)
{
	int count = text ? sweep_numbers(out, text, most) : 1;

	if (count < 0)
		return err_at(count, "option --%s", name);
	if (!text)
		out[0] = usual;
	*n = (size_t)count;
	return 0;
}

static int sim_lists(struct sweep *s, const struct sim_conf *c)
{
	int rc = sweep_modes(s, so.mode);

	if (rc < 0)
		return err_at(rc, "option --mode");
	rc = sim_list(s->chips, &s->chip_counts, "chips", so.chips, c->chips, 1e9);
	if (rc == 0)
		rc = sim_list(s->learners, &s->learner_counts, "learners", so.learners, c->learners, SIM_LEARNERS);
	s->seeds = (unsigned)so.seeds;
	s->alike = so.like;
	return rc;
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
	if (rc < 0)
		return rc;
	rc = trace_create(&w, out.fd, &h);
	if (rc == 0)
		rc = sim_run(c, w, &r);
	if (rc == 0)
		rc = trace_finish(w);
	trace_discard(w);
	if (rc < 0)
		err_at(rc, "%s", output_name(so.trace));
	else
		rc = output_commit(&out);
	output_abort(&out);
	return rc;
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

static int sim_speeds(struct sim_conf *c, double **speeds)
{
	int n = so.speeds ? setting_speeds(so.speeds, speeds) : 0;

	if (n < 0)
		return err_at(n, "option --speeds");
	if (so.speeds) {
		c->speed = *speeds;
		c->speeds = (unsigned)n;
	}
	return 0;
}

static int sim_check(char **words, int n)
{
	char shown[80];

	if (n > 0) {
		say_escape(shown, sizeof shown, words[0]);
		return err_set(ERR_USAGE, "'sim' has no use for '%s'", shown);
	}
	if (so.json && so.tsv)
		return err_set(ERR_USAGE, "--json or --tsv");
	if (so.like && so.chips)
		return err_set(ERR_USAGE, "the chips of a run are its learners: --learners, not --chips, with --like");
	if (!so.like && (so.without || so.key || so.trust))
		return err_set(ERR_USAGE, "--without, --key and --trust go with --like");
	return 0;
}

static int sim(char **words, int n)
{
	struct sweep s = { .seeds = 1 };
	struct like like = { .learners = 0 };
	double *speeds = NULL;
	struct sim_conf c;
	int rc = sim_check(words, n);

	sim_conf_defaults(&c);
	if (rc == 0 && so.like && (rc = sim_like(&like)) == 0) {
		c = like.conf;
		s.measured = &like.measured;
		s.measured_learners = like.learners;
	}
	if (rc == 0)
		rc = sim_settings(&c);
	if (rc == 0)
		rc = sim_lists(&s, &c);
	if (rc == 0)
		rc = sim_speeds(&c, &speeds);
	if (rc == 0)
		rc = sim_all(&s, &c);
	sweep_release(&s);
	like_release(&like);
	free(speeds);
	return rc;
}

/* ---- play ---- */

static struct {
	const char *out, *valid, *rule, *encoding, *key, *trust;
	uint64_t tokens, every, batch, context, threads;
	double until, lr, outer_lr, momentum, outlier;
	bool finish;
} po = { .rule = "rda", .encoding = "f32", .outer_lr = 0.7, .momentum = 0.9, .outlier = 100 };

static const struct opt play_table[] = {
	{ 'o', "output", OPT_TEXT, &po.out, "FILE", "write the checkpoint that is reached here" },
	{ 0, "valid", OPT_TEXT, &po.valid, "SHARD", "measure bits per byte on this, at each line of the table" },
	{ 0, "eval-every", OPT_U64, &po.every, "N", "tokens from line to line (none but the first and the last)",
		.min = 1, .max = 1e15 },
	{ 0, "tokens", OPT_U64, &po.tokens, "N", "end when so many are trained", .min = 1, .max = 1e15 },
	{ 0, "until", OPT_SECONDS, &po.until, "TIME", "end at this time of the trace, as 90s, 9m or 1.5h" },
	{ 0, "finish", OPT_FLAG, &po.finish, NULL, "merge what is under way at the end, as a run at its target" },
	{ 0, "rule", OPT_TEXT, &po.rule, "RULE", "of merges: rda or direct (rda)" },
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
		"[--rule RULE] [--outer-lr X] [--momentum X] [--outlier X] [-e ENC] [-B N] [-T N] [--lr X] [-j N] "
		"[-k FILE] [--trust PATH] TRACE CKPT SHARD... > TABLE",
	NULL
};
static const struct opt_prog play_prog = {
	"dl-chaos", "Trains models by a trace, in virtual time.", play_synopsis, play_table
};

/* What is open while it plays. */
struct playing {
	struct key key;
	struct trust trust;
	struct pool *pool;
	int trace_fd, ckpt_fd;
	struct trace_reader *trace;
	struct adoptions adoptions;
	struct frame_reader *ckpt;
	struct checkpoint c;
	struct model *model;
	struct shard **shard, *valid; /* (shards) */
	unsigned shards;
	struct play *play;
};

static int play_conf(struct play_conf *c)
{
	*c = (struct play_conf){ .outer = { po.outer_lr, po.momentum }, .tokens = po.tokens,
		.outlier = po.outlier, .until = po.until > 0 ? po.until : HUGE_VAL, .every = po.every,
		.finish = po.finish, .stop = wake_requested };
	if (merge_rule_parse(po.rule, &c->rule) < 0)
		return err_set(ERR_USAGE, "option --rule: %s", err_text());
	if (po.outlier > 0 && po.outlier < 1)
		return err_set(ERR_USAGE, "option --outlier: 0, or at least 1: not %g", po.outlier);
	if (encoding_parse(po.encoding, &c->encoding) < 0 || c->encoding == ENC_PLAIN)
		return err_set(ERR_USAGE, "option --encoding: '%s' is not f32r, f32 or bf16", po.encoding);
	return 0;
}

static void print_number(double x)
{
	char text[32];

	num_f64_text(text, x);
	printf("\t%s", x > 0 ? text : "-");
}

static int print_row(void *ctx, const struct play_row *row)
{
	char seconds[32];

	(void)ctx;
	num_f64_text(seconds, row->seconds);
	printf("%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, seconds, row->tokens, row->step, row->merges);
	print_number(row->loss);
	print_number(row->bits_per_byte);
	printf("\n");
	return fflush(stdout) == 0 ? 0 : err_sys("standard output");
}

/* It is read twice: what comes from a pipe is copied. */
static int play_open_trace(struct playing *w, const char *path)
{
	uint64_t size;
	int fd, rc = fd_open_in(path, &fd);

	if (rc < 0)
		return rc;
	if (fd_regular(fd, &size)) {
		w->trace_fd = fd;
	} else {
		rc = fd_spool(fd, &w->trace_fd);
		close(fd);
	}
	if (rc == 0)
		rc = adoptions_scan(&w->adoptions, &w->trace, w->trace_fd);
	return rc < 0 ? err_at(rc, "%s", fd_name(path)) : 0;
}

static int play_open_checkpoint(struct playing *w, const char *path)
{
	int rc = fd_open_in(path, &w->ckpt_fd);

	if (rc < 0 || (rc = frame_open(&w->ckpt, w->ckpt_fd, fd_name(path), &w->trust, w->pool)) < 0)
		return rc;
	if ((rc = checkpoint_open(&w->c, w->ckpt)) < 0)
		return rc;
	if ((rc = trainer_override(&w->c.train, po.batch, po.context, po.lr, NULL)) < 0)
		return rc;
	return checkpoint_load(&w->model, &w->c, w->ckpt, MODEL_FORWARD, NULL);
}

/* A reader for each learner: they read at the same time. */
static int play_open_shards(struct playing *w, const char *trace, char **paths, int n)
{
	unsigned want;
	int rc = play_shards(&want, trace_head(w->trace), (unsigned)n);

	if (rc < 0)
		return err_at(rc, "%s", fd_name(trace));
	if (!(w->shard = calloc(want, sizeof(struct shard *))))
		return err_nomem();
	for (; w->shards < want && rc == 0; w->shards += rc == 0)
		rc = shard_open(&w->shard[w->shards], paths[w->shards % (unsigned)n], &w->trust);
	if (rc == 0 && po.valid)
		rc = shard_open(&w->valid, po.valid, &w->trust);
	return rc;
}

/* Before the first step: what cannot be written is not worth the training. */
static int play_check_output(const struct playing *w, char **words, int n)
{
	struct output out;
	int rc = 0;

	for (int i = 0; i < n && rc == 0; i++)
		if (atomic_same(po.out, words[i]))
			rc = err_set(ERR_USAGE, "%s: is an input: the checkpoint would overwrite it", po.out);
	if (rc == 0 && po.valid && atomic_same(po.out, po.valid))
		rc = err_set(ERR_USAGE, "%s: is an input: the checkpoint would overwrite it", po.out);
	if (rc == 0 && strcmp(po.out, "-") == 0)
		rc = err_set(ERR_USAGE, "-o -: standard output has the table; give -o a file");
	if (rc < 0)
		return rc;
	rc = output_open(&out, po.out, "a checkpoint", &w->ckpt_fd, 1);
	output_abort(&out);
	return rc;
}

static int play_open_all(struct playing *w, const struct play_conf *c, char **words, int n)
{
	int rc;

	if ((rc = po.out ? trust_signer(&w->key, po.key, po.trust, &say) : 0) < 0)
		return rc;
	if ((rc = po.out ? trust_load(&w->trust, po.trust, &w->key) : trust_reader(&w->trust, po.key, po.trust)) < 0)
		return rc;
	if ((rc = pool_open(&w->pool, po.threads ? (int)po.threads : pool_cpus())) < 0)
		return rc;
	if ((rc = play_open_trace(w, words[0])) < 0)
		return rc;
	if ((rc = play_open_checkpoint(w, words[1])) < 0)
		return rc;
	if ((rc = po.out ? play_check_output(w, words, n) : 0) < 0)
		return rc;
	if ((rc = play_open_shards(w, words[0], words + 2, n - 2)) < 0)
		return rc;
	return play_open(&w->play, c, w->trace, &w->adoptions, &w->c, w->model, w->shard, w->shards, w->valid,
		w->pool, &say);
}

static int play_deliver(const struct playing *w)
{
	struct output out;
	int rc = output_open(&out, po.out, "a checkpoint", &w->ckpt_fd, 1);

	if (rc < 0)
		return rc;
	if ((rc = play_write(w->play, out.fd, frame_header(w->ckpt), &w->key)) < 0) {
		output_abort(&out);
		return rc == ERR_IO ? err_at(rc, "%s", po.out) : rc;
	}
	return output_commit(&out);
}

static int play_all(struct playing *w, const char *trace)
{
	int rc;

	printf("seconds\ttokens\tstep\tmerges\tloss\tbits_per_byte\n");
	if ((rc = wake_catch()) < 0)
		return rc;
	if ((rc = play_run(w->play)) < 0)
		return err_at(rc, "%s", fd_name(trace));
	if (po.tokens && play_tokens(w->play) < po.tokens)
		say_warn(&say, "%s: ends after %" PRIu64 " tokens, before %" PRIu64, fd_name(trace),
			play_tokens(w->play), po.tokens);
	return po.out ? play_deliver(w) : 0;
}

static void play_release(struct playing *w)
{
	play_close(w->play);
	for (unsigned i = 0; i < w->shards; i++)
		shard_close(w->shard[i]);
	free(w->shard);
	shard_close(w->valid);
	model_close(w->model);
	frame_reader_free(w->ckpt);
	trace_close(w->trace);
	adoptions_release(&w->adoptions);
	if (w->ckpt_fd >= 0)
		close(w->ckpt_fd);
	if (w->trace_fd >= 0)
		close(w->trace_fd);
	pool_close(w->pool);
	trust_release(&w->trust);
	key_wipe(&w->key);
}

static int play(char **words, int n)
{
	struct playing w = { .trace_fd = -1, .ckpt_fd = -1 };
	struct play_conf c;
	int rc = play_conf(&c);

	if (rc == 0 && n < 3)
		rc = err_set(ERR_USAGE, "play takes a trace, a checkpoint and at least one shard");
	if (rc == 0 && strcmp(words[0], "-") == 0 && strcmp(words[1], "-") == 0)
		rc = err_set(ERR_USAGE, "standard input can be read only once");
	c.row = print_row;
	if (rc == 0)
		rc = play_open_all(&w, &c, words, n);
	if (rc == 0)
		rc = play_all(&w, words[0]);
	play_release(&w);
	return rc;
}

/* ---- all of them ---- */

static const struct command {
	const char *name;
	const struct opt_prog *prog; /* its name is dl-chaos */
	int (*run)(char **words, int n);
} commands[] = {
	{ "inject", &inject_prog, run_inject },
	{ "sim", &sim_prog, sim },
	{ "play", &play_prog, play },
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
