/*
 * dl-merge - checkpoint and deltas in, next checkpoint out: one outer step of DiLoCo
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/say.h"
#include "io/fd.h"
#include "io/lock.h"
#include "io/output.h"
#include "io/wake.h"
#include "round/merging.h"

#define THREADS 4 /* more only on request: each takes memory */

static struct {
	bool strict, report, dry, partial, finish, quiet, verbose, momentum_given;
	const char *state, *rule, *experts, *output, *key, *trust;
	double eta, mu, outlier, wait;
	uint64_t quorum, threads;
} o = { .rule = "rda", .experts = "tokens", .eta = 0.7, .mu = 0.9, .outlier = 100 };

static const struct opt table[] = {
	{ 's', "state", OPT_TEXT, &o.state, "STATE", "keep the momentum in this file" },
	{ 0, "rule", OPT_TEXT, &o.rule, "RULE", "rda (default) or direct" },
	{ 0, "expert-weights", OPT_TEXT, &o.experts, "WEIGHTS",
	  "experts of a mixture count by all tokens (default) or by those routed to them" },
	{ 0, "outer-lr", OPT_F64, &o.eta, "X", "outer learning rate, 0.7 by default", 0, 100 },
	{ 0, "momentum", OPT_F64, &o.mu, "X", "outer momentum, 0.9 by default, 0 without -s", 0, 0.9999,
	  &o.momentum_given },
	{ 'K', "quorum", OPT_U64, &o.quorum, "N", "write nothing unless N deltas are accepted", 1, 1e9 },
	{ 0, "strict", OPT_FLAG, &o.strict, NULL, "write nothing if any delta is refused" },
	{ 0, "outlier", OPT_F64, &o.outlier, "X",
	  "refuse norms above X times the median, 100 by default; 0: none", 0, 1e18 },
	{ 0, "wait", OPT_SECONDS, &o.wait, "TIME", "refuse pipes that are not at their end after TIME" },
	{ 0, "report", OPT_FLAG, &o.report, NULL, "print a line of TSV for each delta" },
	{ 'n', "dry-run", OPT_FLAG, &o.dry, NULL, "judge and report, but write nothing" },
	{ 0, "partial", OPT_FLAG, &o.partial, NULL, "write a sum for another merge (not there yet)" },
	{ 0, "finish", OPT_FLAG, &o.finish, NULL, "merge such sums (not there yet)" },
	{ 'o', "output", OPT_TEXT, &o.output, "FILE", "write here, not to standard output" },
	{ 'j', "threads", OPT_U64, &o.threads, "N", "threads; the result is the same for any number", 1, 1024 },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "secret key to sign with" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say more" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-merge [-s STATE] [--rule RULE] [--expert-weights WEIGHTS] [--outer-lr X] [--momentum X] [-K N] "
		"[--strict] [--outlier X] [--wait TIME] [--report] [-n] [-j N] [-o FILE] CKPT DELTA...",
	NULL
};
static const struct opt_prog prog = {
	"dl-merge", "Merges the deltas of learners into the next checkpoint.", synopsis, table
};
static struct say say;

struct merge {
	struct merging_conf conf;
	struct key key;
	struct trust trust;
	struct pool *pool;
	int base_fd;
	struct frame_reader *base;
	struct meta meta;
	struct answers_input *in; /* (n) */
	char (*why)[ERR_TEXT];    /* (n) */
	size_t n;
	struct answers answers;
	bool merged;
	struct lock lock;
	struct outer outer;
	struct output out;
	struct atomic state;
};

/* ---- inputs ---- */

static int open_base(struct merge *m, const char *path)
{
	int rc = fd_open_random(path, &m->base_fd);

	if (rc == 0)
		rc = frame_open(&m->base, m->base_fd, fd_name(path), &m->trust, NULL);
	if (rc == 0)
		rc = frame_seekable(m->base);
	if (rc == 0)
		rc = frame_strict(m->base);
	if (rc == 0 && (rc = meta_read(&m->meta, frame_header(m->base))) < 0)
		err_at(rc, "%s", fd_name(path));
	return rc;
}

/* A delta that cannot be opened is refused like one that makes no sense. */
static int open_deltas(struct merge *m, char **words, size_t n)
{
	m->in = calloc(n, sizeof *m->in);
	m->why = calloc(n, sizeof *m->why);
	if (!m->in || !m->why)
		return err_nomem();
	for (m->n = 0; m->n < n; m->n++) {
		struct answers_input *in = &m->in[m->n];

		in->name = fd_name(words[m->n]);
		in->why = m->why[m->n];
		if (fd_open_in(words[m->n], &in->fd) < 0) {
			snprintf(m->why[m->n], sizeof m->why[m->n], "%s", err_text());
			in->fd = -1;
		}
	}
	return 0;
}

static int open_state(struct merge *m)
{
	int rc;

	if (!o.state)
		return 0;
	if ((!o.dry && (rc = lock_take(&m->lock, o.state)) < 0) ||
		(rc = outer_open(&m->outer, o.state, m->base, &m->meta, &m->trust, &say)) < 0)
		return rc;
	if (m->outer.repeat)
		say_note(&say, "%s: this round was merged before, and is merged again", o.state);
	return o.dry ? 0 : atomic_open(&m->state, o.state, 0666);
}

static int open_answers(struct merge *m)
{
	struct answers_conf conf = { .wait = o.wait, .clock = clock_monotonic() };
	struct guard_round round;
	int rc;

	if ((rc = merging_round(&round, m->base, &m->meta)) < 0 ||
		(rc = answers_open(&m->answers, &conf, m->in, m->n, &round, &m->trust, m->pool)) < 0)
		return rc;
	answers_settle(&m->answers);
	return answers_enough(&m->answers, o.quorum, o.strict);
}

/* ---- output ---- */

static int open_output(struct merge *m)
{
	int *inputs = calloc(m->n + 1, sizeof *inputs), rc;

	if (!inputs)
		return err_nomem();
	inputs[0] = m->base_fd;
	for (size_t i = 0; i < m->n; i++)
		inputs[i + 1] = m->in[i].fd;
	rc = output_open(&m->out, o.output, "a checkpoint", inputs, m->n + 1);
	free(inputs);
	return rc;
}

static void say_result(const struct merging *g, const digest *id, size_t accepted)
{
	const struct meta *m = merging_meta(g);
	char hex[2 * SIG_DIGEST + 1];

	sig_hex(hex, id->b, sizeof id->b);
	say_note(&say, "checkpoint %.16s: round %" PRIu64 ", step %" PRIu64 ", %" PRIu64
		" tokens, from %zu delta%s", hex, m->round, m->step, m->tokens, accepted, accepted == 1 ? "" : "s");
}

/* The state gets its name before the checkpoint is complete: see merging.h. */
static int write_files(struct merge *m, struct merging *g)
{
	struct merging_output checkpoint = { m->out.fd, output_name(o.output) };
	struct merging_output state = { m->state.fd, o.state };
	digest id;
	int rc = merging_write(g, &checkpoint, o.state ? &state : NULL, &m->key, &say);

	m->merged = rc == 0;
	if (rc == 0 && o.state)
		rc = outer_publish(&m->outer, &m->state);
	if (rc == 0)
		rc = merging_finish(g, &id);
	if (rc == 0 && m->out.file.path)
		rc = output_commit(&m->out);
	if (rc == 0)
		say_result(g, &id, m->answers.accepted);
	return rc;
}

static int merge(struct merge *m)
{
	struct merging *g = NULL;
	int rc = merging_open(&g, &m->conf, m->base, &m->meta, &m->answers, &m->outer, m->pool);

	if (rc == 0)
		rc = o.dry ? merging_judge(g, &say) : write_files(m, g);
	merging_close(g);
	return rc;
}

/* ---- the report ---- */

static void print_number(FILE *to, bool known, double x)
{
	if (known)
		fprintf(to, "\t%.9g", x);
	else
		fputs("\t-", to);
}

static void print_answer(FILE *to, const struct answer *a, const struct trust *trust, bool merged)
{
	static const struct sig_public nobody;
	enum verdict v = guard_standing(a);
	bool signer = memcmp(&a->signer, &nobody, sizeof nobody) != 0, counts = v == VERDICT_ACCEPTED;
	char file[512], why[2 * sizeof a->why], print[33] = "-";
	const char *name = print;

	say_escape(file, sizeof file, a->name);
	say_escape(why, sizeof why, a->why[0] ? a->why : "-");
	if (signer)
		sig_fingerprint(print, &a->signer);
	if (signer && trust_judge(trust, &a->signer, &name) < 0)
		name = print;
	fprintf(to, "%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64, file, a->meta.learner[0] ? a->meta.learner : "-", name,
		a->meta.tokens, a->meta.steps);
	print_number(to, v != VERDICT_NOT_CHECKED, a->weight);
	print_number(to, a->norm > 0 || counts, a->norm);
	print_number(to, merged && counts, a->cosine);
	fprintf(to, "\t%s\t%s\n", verdict_name(v), why);
}

/* To standard output, unless that is where the checkpoint goes. */
static void report(const struct merge *m)
{
	FILE *to = o.output || o.dry ? stdout : stderr;

	fputs("file\tlearner\tsigner\ttokens\tsteps\tweight\tnorm\tcosine\tverdict\twhy\n", to);
	for (size_t i = 0; i < m->answers.n; i++)
		print_answer(to, &m->answers.v[i], &m->trust, m->merged);
}

/* ---- */

static int check_options(struct merge *m, char **words, int n)
{
	int standard = 0, rc;

	if (o.partial || o.finish)
		return err_set(ERR_USAGE, "merging by parts, %s, is not there yet",
			o.partial ? "--partial" : "--finish");
	if (n < 2)
		return err_set(ERR_USAGE, "a checkpoint and at least one delta are needed, see -h");
	for (int i = 0; i < n; i++) {
		if ((rc = fd_named(words[i])) < 0)
			return rc;
		standard += strcmp(words[i], "-") == 0;
	}
	if (standard > 1)
		return err_set(ERR_USAGE, "standard input can be only one of the files");
	if (o.output && strcmp(o.output, "-") == 0)
		o.output = NULL;
	if (merge_rule_parse(o.rule, &m->conf.rule) < 0)
		return err_at(ERR_USAGE, "option --rule");
	if (merge_experts_parse(o.experts, &m->conf.experts) < 0)
		return err_at(ERR_USAGE, "option --expert-weights");
	if (!o.state && !o.momentum_given)
		o.mu = 0; /* nowhere to keep it */
	m->conf.outer = (struct merge_outer){ o.eta, o.mu };
	o.report |= o.dry;
	m->conf.cosine = o.report;
	m->conf.outlier = o.outlier;
	m->conf.quorum = o.quorum;
	m->conf.strict = o.strict;
	if (!o.threads)
		o.threads = (uint64_t)(pool_cpus() < THREADS ? pool_cpus() : THREADS);
	if ((rc = key_apart(o.key, o.output)) < 0 || (rc = key_apart(o.key, o.state)) < 0)
		return rc;
	return o.dry ? 0 : output_apart_state(o.output, "the checkpoint", o.state);
}

/* A dry run makes no key either. */
static int open_keys(struct merge *m)
{
	int rc;

	if (o.dry)
		return trust_reader(&m->trust, o.key, o.trust);
	rc = trust_signer(&m->key, o.key, o.trust, &say);
	return rc < 0 ? rc : trust_load(&m->trust, o.trust, &m->key);
}

static int run(struct merge *m, char **words, int n)
{
	int rc;

	if ((rc = open_keys(m)) < 0 || (rc = pool_open(&m->pool, (int)o.threads)) < 0 ||
		(rc = wake_catch()) < 0)
		return rc;
	fd_raise_limit(); /* every delta holds a descriptor, or two */
	if ((rc = open_base(m, words[0])) < 0 || (rc = open_deltas(m, words + 1, (size_t)n - 1)) < 0 ||
		(rc = open_state(m)) < 0 || (!o.dry && (rc = open_output(m)) < 0))
		return rc;
	rc = open_answers(m);
	if (rc == 0)
		rc = merge(m);
	answers_say(&m->answers, &say);
	if (rc == 0)
		answers_say_weight(&m->answers, &say);
	if (o.report)
		report(m);
	return rc == 0 && (o.report || !o.output) ? fd_close_output() : rc;
}

static void release(struct merge *m)
{
	output_abort(&m->out);
	atomic_abort(&m->state);
	outer_close(&m->outer);
	lock_release(&m->lock);
	answers_release(&m->answers);
	frame_reader_free(m->base);
	for (size_t i = 0; i < m->n; i++)
		if (m->in[i].fd >= 0)
			close(m->in[i].fd);
	if (m->base_fd >= 0)
		close(m->base_fd);
	free(m->in);
	free(m->why);
	pool_close(m->pool);
	trust_release(&m->trust);
	key_wipe(&m->key);
}

int main(int argc, char **argv)
{
	struct merge m = { .base_fd = -1, .lock = LOCK_INIT, .outer = OUTER_INIT, .out = OUTPUT_INIT,
		.state = ATOMIC_INIT };
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0 && (rc = check_options(&m, words, n)) == 0)
		rc = run(&m, words, n);
	release(&m);
	return rc < 0 ? wake_leave(say_error(&say, rc)) : 0;
}
