#include "chaos/play_job.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/trust.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"
#include "round/trainer.h"

/* What is open while it plays. */
struct playing {
	const struct play_options *o;
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
	bool stuck; /* a row could not be written */
};

static int put_row(void *ctx, const struct play_row *row)
{
	struct playing *w = ctx;
	int rc = w->o->row(NULL, row);

	w->stuck = rc < 0;
	return rc;
}

static int make_conf(struct playing *w, struct play_conf *c)
{
	const struct play_options *o = w->o;

	*c = (struct play_conf){ .outer = { o->outer_lr, o->momentum }, .tokens = o->tokens,
		.outlier = o->outlier, .until = o->until > 0 ? o->until : HUGE_VAL, .every = o->every,
		.finish = o->finish, .row = put_row, .ctx = w, .stop = wake_requested };
	if (merge_rule_parse(o->rule, &c->rule) < 0)
		return err_set(ERR_USAGE, "option --rule: %s", err_text());
	if (merge_experts_parse(o->experts, &c->experts) < 0)
		return err_set(ERR_USAGE, "option --expert-weights: %s", err_text());
	if (o->outlier > 0 && o->outlier < 1)
		return err_set(ERR_USAGE, "option --outlier: 0, or at least 1: not %g", o->outlier);
	if (encoding_parse(o->encoding, &c->encoding) < 0 || c->encoding == ENC_PLAIN)
		return err_set(ERR_USAGE, "option --encoding: '%s' is not f32r, f32 or bf16", o->encoding);
	return 0;
}

/* It is read twice. */
static int open_trace(struct playing *w, const char *path)
{
	int rc = fd_open_random(path, &w->trace_fd);

	if (rc < 0)
		return rc;
	rc = adoptions_scan(&w->adoptions, &w->trace, w->trace_fd);
	return rc < 0 ? err_at(rc, "%s", fd_name(path)) : 0;
}

static int open_checkpoint(struct playing *w, const char *path)
{
	int rc = fd_open_in(path, &w->ckpt_fd);

	if (rc < 0 || (rc = frame_open(&w->ckpt, w->ckpt_fd, fd_name(path), &w->trust, w->pool)) < 0)
		return rc;
	if ((rc = checkpoint_open(&w->c, w->ckpt)) < 0)
		return rc;
	if ((rc = trainer_override(&w->c.train, w->o->batch, w->o->context, w->o->lr, NULL)) < 0)
		return rc;
	return checkpoint_load(&w->model, &w->c, w->ckpt, MODEL_FORWARD, NULL);
}

/* A reader for each learner: they read at the same time. */
static int open_shards(struct playing *w, const char *trace, char **paths, int n)
{
	unsigned want;
	int rc = play_shards(&want, trace_head(w->trace), (unsigned)n);

	if (rc < 0)
		return err_at(rc, "%s", fd_name(trace));
	if (!(w->shard = calloc(want, sizeof(struct shard *))))
		return err_nomem();
	for (; w->shards < want && rc == 0; w->shards += rc == 0)
		rc = shard_open(&w->shard[w->shards], paths[w->shards % (unsigned)n], &w->trust);
	if (rc == 0 && w->o->valid)
		rc = shard_open(&w->valid, w->o->valid, &w->trust);
	return rc;
}

static int check_output(const struct play_options *o, char **words, int n)
{
	int rc;

	if (!o->out)
		return 0;
	if (strcmp(o->out, "-") == 0)
		return err_set(ERR_USAGE, "-o -: standard output has the table; give -o a file");
	if ((rc = key_apart(o->key, o->out)) < 0 || (rc = output_apart_all(o->out, words, (size_t)n)) < 0)
		return rc;
	return output_apart(o->out, "the output", o->valid, "an input");
}

/* Before the first step: what cannot be written is not worth the training. */
static int try_output(const struct playing *w)
{
	struct output out;
	int rc;

	if (!w->o->out)
		return 0;
	rc = output_open(&out, w->o->out, "a checkpoint", &w->ckpt_fd, 1);
	output_abort(&out);
	return rc;
}

/* A key of one's own is needed only where something is written. */
static int open_keys(struct playing *w)
{
	const struct play_options *o = w->o;
	int rc;

	if (!o->out)
		return trust_reader(&w->trust, o->key, o->trust);
	rc = trust_signer(&w->key, o->key, o->trust, o->say);
	return rc < 0 ? rc : trust_load(&w->trust, o->trust, &w->key);
}

static int open_all(struct playing *w, const struct play_conf *c, char **words, int n)
{
	int rc;

	if ((rc = open_keys(w)) < 0)
		return rc;
	if ((rc = pool_open(&w->pool, w->o->threads ? (int)w->o->threads : pool_cpus())) < 0)
		return rc;
	if ((rc = open_trace(w, words[0])) < 0)
		return rc;
	if ((rc = open_checkpoint(w, words[1])) < 0)
		return rc;
	if ((rc = try_output(w)) < 0)
		return rc;
	if ((rc = open_shards(w, words[0], words + 2, n - 2)) < 0)
		return rc;
	return play_open(&w->play, c, w->trace, &w->adoptions, &w->c, w->model, w->shard, w->shards, w->valid,
		w->pool, w->o->say);
}

static int deliver(const struct playing *w)
{
	struct output out;
	int rc = output_open(&out, w->o->out, "a checkpoint", &w->ckpt_fd, 1);

	if (rc < 0)
		return rc;
	if ((rc = play_write(w->play, out.fd, frame_header(w->ckpt), &w->key)) < 0) {
		output_abort(&out);
		return rc == ERR_IO ? err_at(rc, "%s", w->o->out) : rc;
	}
	return output_commit(&out);
}

static int play_all(struct playing *w, const char *trace)
{
	int rc;

	if ((rc = wake_catch()) < 0)
		return rc;
	if ((rc = play_run(w->play)) < 0)
		return w->stuck ? rc : err_at(rc, "%s", fd_name(trace));
	if (w->o->tokens && play_tokens(w->play) < w->o->tokens)
		say_warn(w->o->say, "%s: ends after %" PRIu64 " tokens, before %" PRIu64, fd_name(trace),
			play_tokens(w->play), w->o->tokens);
	return w->o->out ? deliver(w) : 0;
}

static void release(struct playing *w)
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

int play_job(const struct play_options *o, char **words, int n)
{
	struct playing w = { .o = o, .trace_fd = -1, .ckpt_fd = -1 };
	struct play_conf c;
	int rc = make_conf(&w, &c);

	if (rc == 0 && n < 3)
		rc = err_set(ERR_USAGE, "play takes a trace, a checkpoint and at least one shard");
	if (rc == 0 && strcmp(words[0], "-") == 0 && strcmp(words[1], "-") == 0)
		rc = err_set(ERR_USAGE, "standard input can be read only once");
	if (rc == 0)
		rc = check_output(o, words, n);
	if (rc == 0)
		rc = open_all(&w, &c, words, n);
	if (rc == 0)
		rc = play_all(&w, words[0]);
	release(&w);
	return rc;
}
