/*
 * dl-learn - checkpoint in, inner steps, delta out; or a learner of a run directory.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/opt.h"
#include "base/pool.h"
#include "base/say.h"
#include "form/frame.h"
#include "form/key.h"
#include "form/shard.h"
#include "form/trust.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/ranks.h"
#include "io/wake.h"
#include "round/audit.h"
#include "round/checkpoint.h"
#include "round/estimate.h"
#include "round/learner.h"
#include "round/learner_run.h"
#include "round/rundir.h"
#include "round/spmd.h"
#include "round/trainer.h"

#define STEPS_MAX 1e12
#define SAVE_EVERY 60 /* seconds */

static struct {
	struct learner_conf learner;
	const char *ckpt, *shard, *out; /* out NULL: standard output */
	const char *encoding, *key, *trust;
	const char *run, *adopt; /* run NULL: a filter */
	const char *optimizer;
	enum optimizer_kind kind; /* that is it */
	uint64_t threads, max_stale;
	bool dry_run, json;
	bool quiet, verbose;
} o = {
	.learner = { .stop = wake_requested },
};

static const struct opt table[] = {
	{ 'n', "steps", OPT_COUNT, &o.learner.steps, "STEPS",
		"inner steps to run, counted from the checkpoint (with -r: from now)", .min = 1, .max = STEPS_MAX },
	{ 'd', "data", OPT_TEXT, &o.shard, "SHARD", "what to train on, made by dl-data" },
	{ 'r', "run", OPT_TEXT, &o.run, "RUN", "be a learner of this run directory" },
	{ 's', "state", OPT_TEXT, &o.learner.state, "STATE",
		"keep optimizer moments and place in the data here" },
	{ 'B', "batch", OPT_U64, &o.learner.batch, "N", "samples a step (the checkpoint's)",
		.min = 1, .max = 1 << 20 },
	{ 'T', "context", OPT_U64, &o.learner.context, "N", "tokens a sample (the checkpoint's)",
		.min = 1, .max = 1 << 24 },
	{ 'j', "threads", OPT_U64, &o.threads, "N", "threads (all processors)",
		.min = 1, .max = 1024 },
	{ 0, "lr", OPT_F64, &o.learner.lr, "X", "peak learning rate (the checkpoint's)",
		.min = 1e-12, .max = 1000 },
	{ 0, "optimizer", OPT_TEXT, &o.optimizer, "NAME",
		"adamw, or muon for the matrices of layers (the checkpoint's)" },
	{ 0, "recompute", OPT_FLAG, &o.learner.recompute, NULL,
		"compute activations twice instead of keeping them" },
	{ 0, "for", OPT_SECONDS, &o.learner.seconds, "TIME",
		"stop after this time, as 90s, 9m or 1.5h" },
	{ 'i', "id", OPT_TEXT, &o.learner.name, "NAME",
		"name of this learner (from key and shard)" },
	{ 'e', "encoding", OPT_TEXT, &o.encoding, "ENC",
		"of deltas: f32r (exact), f32 or bf16 (f32r; with -r what the run says)" },
	{ 'o', "output", OPT_TEXT, &o.out, "FILE",
		"write the delta here instead of standard output" },
	{ 0, "dry-run", OPT_FLAG, &o.dry_run, NULL,
		"say what memory, time and bytes it will take, and train nothing" },
	{ 0, "json", OPT_FLAG, &o.json, NULL, "with --dry-run: as one JSON object" },
	{ 0, "save-every", OPT_SECONDS, &o.learner.save_every, "TIME",
		"save the state under way (60s)" },
	{ 0, "metrics", OPT_TEXT, &o.learner.metrics, "FILE", "append a line of numbers a step" },
	{ 0, "adopt", OPT_TEXT, &o.adopt, "RULE",
		"with -r: overwrite, rebase or mix:A (what the run says)" },
	{ 0, "max-stale", OPT_COUNT, &o.max_stale, "N",
		"with -r: own steps without a sign of a syncer, then stop (20 H)",
		.min = 1, .max = STEPS_MAX },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "secret key to sign with" },
	{ 0, "trust", OPT_TEXT, &o.trust, "PATH",
		"trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say more" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-learn -n STEPS -d SHARD [-s STATE] [-B N] [-T N] [-j N] [--lr X] [--optimizer NAME] [--recompute] "
		"[--for TIME] [-i NAME] [-e ENC] [-o FILE] [--save-every TIME] [--metrics FILE] [-k FILE] "
		"[--trust PATH] [CKPT] > DELTA",
	"dl-learn --for TIME -d SHARD ... [CKPT] > DELTA",
	"dl-learn --dry-run [--json] -d SHARD ... [CKPT | -r RUN]",
	"dl-learn -r RUN -d SHARD [-i NAME] [-n STEPS] [-B N] [-T N] [-j N] [--lr X] [--optimizer NAME] [--recompute] "
		"[--for TIME] [--adopt RULE] [-e ENC] [--max-stale N] [--save-every TIME] [--metrics FILE] "
		"[-k FILE] [--trust PATH]",
	NULL
};
static const struct opt_prog prog = {
	"dl-learn", "Trains on a shard: checkpoint to delta, or as a learner of a run directory.", synopsis, table
};
static struct say say;

/* What is open while the program runs. */
struct work {
	struct ranks *ranks; /* NULL: not one of several */
	struct spmd *spmd;
	struct key key;
	struct trust trust;
	struct pool *pool;
	struct shard *shard;
	struct frame_reader *ckpt;
	int ckpt_fd;
	struct learner *learner;
	struct learner_run *member; /* of a run directory */
	char *metrics;              /* path of the table seen from anywhere */
};

static int parse_encoding(void)
{
	const char *text = o.encoding ? o.encoding : "f32r";

	if (encoding_parse(text, &o.learner.encoding) < 0 || o.learner.encoding == ENC_PLAIN)
		return err_set(ERR_USAGE, "option --encoding: '%s' is not f32r, f32 or bf16", text);
	return 0;
}

static int parse_optimizer(void)
{
	if (!o.optimizer)
		return 0;
	o.learner.optimizer = &o.kind;
	if (optimizer_kind_parse(o.optimizer, &o.kind) < 0)
		return err_set(ERR_USAGE, "option --optimizer: %s", err_text());
	return 0;
}

/* What goes with a run directory only, and what does not go with one. */
static int check_mode(char **words, int n)
{
	const struct learner_conf *c = &o.learner;

	if (o.json && !o.dry_run)
		return err_set(ERR_USAGE, "option --json goes with --dry-run");
	if (!o.run && (o.adopt || o.max_stale))
		return err_set(ERR_USAGE, "option --%s goes with -r RUN", o.adopt ? "adopt" : "max-stale");
	if (!o.run)
		return 0;
	if (n)
		return err_set(ERR_USAGE, "-r RUN takes no checkpoint: '%s'", words[0]);
	if (c->state || o.out)
		return err_set(ERR_USAGE, "option -%c does not go with -r RUN, where state and deltas "
			"have their places", c->state ? 's' : 'o');
	return 0;
}

static int check_named(const char *path)
{
	return path ? fd_named(path) : 0;
}

static int check_options(char **words, int n)
{
	struct learner_conf *c = &o.learner;
	int rc;

	if ((rc = check_mode(words, n)) < 0)
		return rc;
	if (n > 1)
		return err_set(ERR_USAGE, "one checkpoint at a time, not '%s' too", words[1]);
	o.ckpt = n == 1 ? words[0] : "-";
	if (!c->steps && !(c->seconds > 0) && !o.run && !o.dry_run)
		return err_set(ERR_USAGE, "how long? give -n STEPS, --for TIME or both");
	if (!o.shard)
		return err_set(ERR_USAGE, "train on what? give -d SHARD");
	if ((rc = check_named(c->state)) < 0 || (rc = check_named(o.out)) < 0 || (rc = check_named(c->metrics)) < 0 ||
		(rc = check_named(o.run)) < 0)
		return rc;
	if (c->save_every > 0 && !c->state && !o.run)
		return err_set(ERR_USAGE, "option --save-every goes with -s STATE");
	if (!(c->save_every > 0))
		c->save_every = SAVE_EVERY;
	if (!c->steps)
		c->steps = UINT64_MAX;
	if (o.out && strcmp(o.out, "-") == 0)
		o.out = NULL;
	if (parse_optimizer() < 0 || parse_encoding() < 0)
		return ERR_USAGE;
	if ((rc = key_apart(o.key, o.out)) < 0 || (rc = key_apart(o.key, c->state)) < 0)
		return rc;
	if ((rc = key_apart(o.key, c->metrics)) < 0)
		return rc;
	return c->metrics ? output_apart(c->metrics, "metrics", o.shard, "an input") : 0;
}

/* A file to be written, under whatever name, is none of the others. */
static int check_apart(const char *path, const char *what)
{
	const struct { const char *path, *is; } others[] = {
		{ o.ckpt, "an input" },
		{ o.shard, "an input" },
		{ o.learner.metrics, "the table of metrics" },
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof others / sizeof *others; i++)
		if (others[i].path != path)
			rc = output_apart(path, what, others[i].path, others[i].is);
	return rc < 0 ? rc : output_apart_state(path, what, o.learner.state);
}

/* Before the first step: what cannot be written is not worth the training. */
static int check_outputs(const struct work *w)
{
	struct output out;
	int rc;

	rc = output_open(&out, o.out, "a delta", &w->ckpt_fd, 1);
	output_abort(&out);
	if (rc == 0)
		rc = check_apart(o.out, "the delta");
	if (rc == 0 && o.learner.metrics)
		rc = check_apart(o.learner.metrics, "metrics");
	return rc;
}

static int open_common(struct work *w)
{
	int rc;

	if ((rc = trust_signer(&w->key, o.key, o.trust, &say)) < 0)
		return rc;
	if ((rc = trust_load(&w->trust, o.trust, &w->key)) < 0)
		return rc;
	return pool_open(&w->pool, o.threads ? (int)o.threads : ranks_threads(w->ranks));
}

static int open_inputs(struct work *w)
{
	int rc;

	if ((rc = open_common(w)) < 0)
		return rc;
	if ((rc = fd_open_in(o.ckpt, &w->ckpt_fd)) < 0)
		return rc;
	if ((rc = check_outputs(w)) < 0)
		return rc;
	if ((rc = shard_open(&w->shard, o.shard, &w->trust)) < 0)
		return rc;
	return frame_open(&w->ckpt, w->ckpt_fd, fd_name(o.ckpt), &w->trust, w->pool);
}

/* The file is opened for good only now: a learner killed before leaves no temporary name behind. */
static int deliver(const struct work *w)
{
	struct output out;
	int rc;

	if ((rc = output_open(&out, o.out, "a delta", &w->ckpt_fd, 1)) < 0)
		return rc;
	if ((rc = learner_answer(w->learner, out.fd)) < 0) {
		output_abort(&out);
		return rc == ERR_IO ? err_at(rc, "%s", output_name(o.out)) : rc;
	}
	return output_commit(&out);
}

/* The state first: whatever becomes of the delta, the same call then gives it again at once. And
 * the delta in any case: a full disk under the state does not cost the round its answer. */
static int finish(const struct work *w)
{
	struct err_note note;
	int rc;

	err_save(&note, learner_save(w->learner));
	rc = deliver(w);
	return rc < 0 ? rc : err_restore(&note);
}

static int learn(struct work *w)
{
	int rc;

	if ((rc = open_inputs(w)) < 0)
		return rc;
	o.learner.spmd = w->spmd;
	rc = learner_open(&w->learner, &o.learner, w->ckpt, w->shard, &w->key, &w->trust, w->pool,
		clock_monotonic(), &say);
	if (rc < 0)
		return rc;
	if ((rc = wake_catch()) < 0)
		return rc;
	signal(SIGPIPE, SIG_IGN); /* a reader of metrics who goes away does not cost the work */
	rc = learner_train(w->learner);
	signal(SIGPIPE, SIG_DFL);
	return rc < 0 ? rc : finish(w);
}

/* ---- only to say what it takes ---- */

static int tell_estimate(struct work *w, struct estimate_conf *c)
{
	struct buf text = BUF_INIT;
	struct estimate e;
	double seconds;
	int rc;

	c->use = o.learner.recompute ? MODEL_RECOMPUTE : MODEL_TRAIN;
	c->threads = pool_threads(w->pool);
	if ((rc = estimate(&e, c)) < 0)
		return rc;
	if ((rc = estimate_time(&seconds, c, w->shard, w->pool, clock_monotonic())) < 0)
		return rc;
	rc = o.json ? estimate_json(&text, &e, seconds) : estimate_text(&text, &e, seconds);
	if (rc == 0)
		rc = fd_write_output(text.data, text.len);
	buf_release(&text);
	return rc;
}

static int estimate_filter(struct work *w)
{
	struct estimate_conf c = { .encoding = o.learner.encoding };
	const struct learner_conf *f = &o.learner;
	struct checkpoint k;
	int rc;

	if ((rc = fd_open_in(o.ckpt, &w->ckpt_fd)) < 0)
		return rc;
	if ((rc = frame_open(&w->ckpt, w->ckpt_fd, fd_name(o.ckpt), &w->trust, w->pool)) < 0)
		return rc;
	if ((rc = checkpoint_open(&k, w->ckpt)) < 0)
		return rc;
	if ((rc = trainer_override(&k.train, f->batch, f->context, f->lr, f->optimizer)) < 0)
		return rc;
	c.model = &k.model;
	c.train = &k.train;
	return tell_estimate(w, &c);
}

static int estimate_member(struct work *w)
{
	struct manifest m = { 0 };
	struct estimate_conf c = { .model = &m.model, .train = &m.train };
	const struct learner_conf *f = &o.learner;
	int rc = rundir_enter(o.run);

	if (rc == 0)
		rc = manifest_load(&m, &w->trust);
	if (rc == 0)
		rc = trainer_override(&m.train, f->batch, f->context, f->lr, f->optimizer);
	c.fragments = m.fragments;
	c.encoding = o.encoding ? f->encoding : m.delta;
	if (rc == 0)
		rc = tell_estimate(w, &c);
	manifest_release(&m);
	return rc;
}

static int dry_run(struct work *w)
{
	int rc;

	if ((rc = open_common(w)) < 0)
		return rc;
	if ((rc = shard_open(&w->shard, o.shard, &w->trust)) < 0)
		return rc;
	return o.run ? estimate_member(w) : estimate_filter(w);
}

/* ---- in a run directory ---- */

static int member_conf(struct learner_run_conf *c)
{
	const struct learner_conf *f = &o.learner;
	int rc;

	*c = (struct learner_run_conf){ .name = f->name, .steps = f->steps, .seconds = f->seconds,
		.batch = f->batch, .context = f->context, .lr = f->lr,
		.optimizer = f->optimizer, .recompute = f->recompute, .encoded = o.encoding,
		.encoding = f->encoding, .adopting = o.adopt, .max_stale = o.max_stale,
		.save_every = f->save_every, .stop = f->stop };
	rc = o.adopt ? adopt_parse(o.adopt, &c->adopt) : 0;
	return rc < 0 ? err_set(ERR_USAGE, "option --adopt: %s", err_text()) : 0;
}

/* Paths of the user's count from where the program was started; then the run directory is entered. */
static int enter(struct work *w)
{
	int rc;

	if ((rc = open_common(w)) < 0)
		return rc;
	if ((rc = shard_open(&w->shard, o.shard, &w->trust)) < 0)
		return rc;
	if (o.learner.metrics && ((rc = check_apart(o.learner.metrics, "metrics")) < 0 ||
			(rc = rundir_apart(o.run, o.learner.metrics)) < 0))
		return rc;
	if (o.learner.metrics && (rc = rundir_absolute(o.learner.metrics, &w->metrics)) < 0)
		return rc;
	return rundir_enter(o.run);
}

/* Was there never a learner of this name in the run? */
static bool is_new(const struct work *w)
{
	char name[KEY_NAME + 1], path[RUNDIR_PATH];

	if (o.learner.name && key_name_check("learner", o.learner.name) < 0)
		return false;
	if (o.learner.name)
		snprintf(name, sizeof name, "%s", o.learner.name);
	else
		learner_name(name, &w->key, w->shard);
	snprintf(path, sizeof path, "learner/%s", name);
	return access(path, F_OK) < 0 && errno == ENOENT;
}

/* That the run is done is said, and one who comes only now leaves no trace in it: then true. What can't be read
 * is for learner_run_open to say. */
static bool comes_too_late(const struct work *w)
{
	struct manifest m = { 0 };
	struct audit a = { .manifest = NULL };
	bool over = false;

	if (manifest_load(&m, &w->trust) == 0 && audit_open(&a, &m, &w->trust) == 0)
		over = a.headed && a.head.phase == PHASE_DONE;
	if (over)
		say_warn(&say, "the run is done (step %" PRIu64 ")", a.head.step);
	audit_close(&a);
	manifest_release(&m);
	return over && is_new(w);
}

static int take_part(struct work *w)
{
	struct learner_run_conf c;
	int rc;

	heap_keep();
	if ((rc = member_conf(&c)) < 0)
		return rc;
	if ((rc = enter(w)) < 0)
		return rc;
	if (comes_too_late(w))
		return 0;
	c.metrics = w->metrics;
	c.spmd = w->spmd;
	if ((rc = wake_catch()) < 0)
		return rc;
	signal(SIGPIPE, SIG_IGN);
	rc = learner_run_open(&w->member, &c, w->shard, &w->key, &w->trust, w->pool,
		clock_monotonic(), &say);
	return rc < 0 ? rc : learner_run_train(w->member);
}

/* ---- as one of several ranks ---- */

/* A rank beyond the first reads no file: all it needs comes from the first. */
static int serve(struct work *w)
{
	int rc;

	if ((rc = wake_catch()) < 0)
		return rc;
	if ((rc = pool_open(&w->pool, o.threads ? (int)o.threads : ranks_threads(w->ranks))) < 0)
		return rc;
	rc = spmd_serve(w->ranks, w->pool);
	return rc < 0 ? err_at(rc, "rank %d", ranks_self(w->ranks)) : 0;
}

static int begin(struct work *w)
{
	int rc;

	if ((rc = ranks_open(&w->ranks, wake_requested)) < 0)
		return rc;
	if (ranks_self(w->ranks) > 0)
		return serve(w);
	if ((rc = spmd_open(&w->spmd, w->ranks)) < 0)
		return rc;
	return o.run ? take_part(w) : learn(w);
}

static void release(struct work *w)
{
	learner_close(w->learner);
	learner_run_close(w->member);
	spmd_close(w->spmd);
	free(w->metrics);
	frame_reader_free(w->ckpt);
	shard_close(w->shard);
	if (w->ckpt_fd >= 0)
		close(w->ckpt_fd);
	pool_close(w->pool);
	trust_release(&w->trust);
	key_wipe(&w->key);
}

int main(int argc, char **argv)
{
	struct work w = { .ckpt_fd = -1 };
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0)
		rc = check_options(words, n);
	if (rc == 0)
		rc = o.dry_run ? dry_run(&w) : begin(&w);
	release(&w);
	ranks_close(w.ranks, rc == 0 || ranks_self(w.ranks) == 0);
	return rc < 0 ? say_error(&say, rc) : 0;
}
