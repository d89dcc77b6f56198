/*
 * dl-eval - how good a checkpoint is on a shard, or what it writes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/pool.h"
#include "base/say.h"
#include "form/frame.h"
#include "form/shard.h"
#include "form/trust.h"
#include "io/fd.h"
#include "round/checkpoint.h"
#include "round/evaluate.h"
#include "round/transcript.h"

#define SAMPLE_MAX 100000000

static struct {
	char **ckpts; /* names of n files */
	int n;
	const char *shard, *key, *trust;
	uint64_t batch, context, threads; /* 0: the checkpoint's; all processors */
	bool json, logprobs;
	uint64_t sample, top_k, seed; /* sample: tokens to write, 0: none */
	double temperature;
	const char *prompt; /* NULL: the start of a line, or id 1 */
	bool of_data, of_sample; /* an option was given that only makes sense there */
	bool quiet, verbose;
} o = { .temperature = 1 };

static const struct opt table[] = {
	{ 'd', "data", OPT_TEXT, &o.shard, "SHARD", "measure on this, made by dl-data" },
	{ 0, "json", OPT_FLAG, &o.json, NULL, "print one JSON object a checkpoint", .given = &o.of_data },
	{ 0, "logprobs", OPT_FLAG, &o.logprobs, NULL,
		"print position, id and log-probability of each token instead", .given = &o.of_data },
	{ 'B', "batch", OPT_U64, &o.batch, "N", "windows at a time (the checkpoint's)",
		.min = 1, .max = 1 << 20, .given = &o.of_data },
	{ 'T', "context", OPT_U64, &o.context, "N", "tokens a window (the checkpoint's)",
		.min = 1, .max = 1 << 24 },
	{ 'j', "threads", OPT_U64, &o.threads, "N", "threads (all processors)",
		.min = 1, .max = 1024 },
	{ 0, "sample", OPT_COUNT, &o.sample, "N", "write N tokens instead",
		.min = 1, .max = SAMPLE_MAX },
	{ 0, "prompt", OPT_TEXT, &o.prompt, "TEXT",
		"what to go on from: text, or ids if the vocabulary is not bytes",
		.given = &o.of_sample },
	{ 0, "temperature", OPT_F64, &o.temperature, "X", "0 takes the likeliest token (1)",
		.min = 0, .max = 100, .given = &o.of_sample },
	{ 0, "top-k", OPT_U64, &o.top_k, "K", "choose among the K likeliest (all)",
		.min = 1, .max = UINT32_MAX, .given = &o.of_sample },
	{ 0, "seed", OPT_U64, &o.seed, "N", "of the choices (0)", .given = &o.of_sample },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "one's own key, which is trusted" },
	{ 0, "trust", OPT_TEXT, &o.trust, "PATH",
		"trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say more" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-eval -d SHARD [--json | --logprobs] [-B N] [-T N] [-j N] [-k FILE] [--trust PATH] [CKPT...]",
	"dl-eval --sample N [--prompt TEXT] [--temperature X] [--top-k K] [--seed N] [-T N] [-j N] "
		"[-k FILE] [--trust PATH] [CKPT]",
	NULL
};
static const struct opt_prog prog = {
	"dl-eval", "Measures a checkpoint on a shard, or lets it write.", synopsis, table
};
static struct say say;

/* What is open while the program runs. */
struct work {
	struct trust trust;
	struct pool *pool;
	struct shard *shard; /* NULL: it writes */
};

static int check_words(char **words, int n)
{
	static char standard_input[] = "-", *alone[] = { standard_input };
	int i, standard = 0;

	for (i = 0; i < n; i++)
		standard += strcmp(words[i], "-") == 0;
	if (standard > 1)
		return err_set(ERR_USAGE, "standard input can be read only once");
	if (o.logprobs && n > 1)
		return err_set(ERR_USAGE, "--logprobs takes one checkpoint, not '%s' too", words[1]);
	if (o.sample && n > 1)
		return err_set(ERR_USAGE, "--sample takes one checkpoint, not '%s' too", words[1]);
	o.ckpts = n ? words : alone;
	o.n = n ? n : 1;
	return 0;
}

static int check_options(void)
{
	if (!o.shard == !o.sample)
		return err_set(ERR_USAGE, "give one of -d SHARD and --sample N");
	if (o.shard && o.of_sample)
		return err_set(ERR_USAGE,
			"--prompt, --temperature, --top-k and --seed are for --sample");
	if (o.sample && o.of_data)
		return err_set(ERR_USAGE, "--json, --logprobs and --batch are for -d");
	if (o.json && o.logprobs)
		return err_set(ERR_USAGE, "--json and --logprobs: one of them");
	return 0;
}

/* ---- measuring ---- */

/* Of one file among several the name comes first, and an empty line before that. */
static void print_name(int i)
{
	char shown[4 * ERR_TEXT];

	say_escape(shown, sizeof shown, fd_name(o.ckpts[i]));
	printf("%sfile           %s\n", i ? "\n" : "", shown);
}

static void print_text(const struct evaluate_result *r, int i)
{
	if (o.n > 1)
		print_name(i);
	printf("loss           %.6f\n", r->loss);
	printf("perplexity     %.6g\n", r->perplexity);
	if (r->bits_per_byte > 0)
		printf("bits per byte  %.6f\n", r->bits_per_byte);
	else
		printf("bits per byte  unknown\n");
	printf("tokens         %" PRIu64 "\n", r->tokens);
}

static int print_json(const struct evaluate_result *r, const struct checkpoint *c, int i)
{
	char loss[32], perplexity[32], bits[32] = "null", id[2 * SIG_DIGEST + 1];
	struct buf file = BUF_INIT;
	int rc = json_text(&file, fd_name(o.ckpts[i]));

	num_f64_text(loss, r->loss);
	num_f64_text(perplexity, r->perplexity);
	if (r->bits_per_byte > 0)
		num_f64_text(bits, r->bits_per_byte);
	sig_hex(id, c->id.b, sizeof c->id.b);
	if (rc == 0)
		printf("{\"file\":%s,\"loss\":%s,\"perplexity\":%s,\"bits_per_byte\":%s,"
		       "\"tokens\":%" PRIu64 ",\"step\":%" PRIu64 ",\"round\":%" PRIu64
		       ",\"checkpoint\":\"%s\"}\n",
		       file.data, loss, perplexity, bits, r->tokens, c->meta.step, c->meta.round, id);
	buf_release(&file);
	return rc;
}

/* Shortest decimals that read back as the same float: more the model's arithmetic does not give. */
static int print_logprob(void *ctx, uint64_t position, uint32_t id, double logprob)
{
	char text[32];

	(void)ctx;
	num_f32_text(text, (float)logprob);
	return printf("%" PRIu64 "\t%" PRIu32 "\t%s\n", position, id, text) < 0 ? err_sys("standard output") : 0;
}

static int measure(struct model *m, const struct checkpoint *c, struct shard *shard, int i)
{
	const struct evaluate_pass how = { .batch = (int)c->train.batch, .context = (int)c->train.context,
		.each = o.logprobs ? print_logprob : NULL, .model = o.n > 1 ? NULL : fd_name(o.ckpts[i]) };
	struct evaluate_result result;
	int rc;

	if (o.logprobs)
		printf("position\tid\tlogprob\n");
	rc = evaluate_shard(&result, m, &c->model, shard, &how, &say);
	if (rc < 0) /* of several it is always told which */
		return o.n > 1 ? err_at(rc, "%s", fd_name(o.ckpts[i])) : rc;
	if (o.logprobs)
		return 0;
	if (o.json)
		return print_json(&result, c, i);
	print_text(&result, i);
	return 0;
}

/* ---- writing ---- */

static int emit(void *ctx, uint32_t id)
{
	return transcript_add(ctx, id);
}

/* Are ids more than bytes? Then a tokenizer elsewhere knows what they stand for. */
static bool has_tokenizer(const struct checkpoint *c)
{
	return c->model.vocab > 256 || c->model.vocabulary[0];
}

/* The prompt as it was given, then what the model makes of it. */
static int write_out(struct model *m, const struct checkpoint *c, uint32_t *ids, size_t have)
{
	const struct evaluate_draw draw = { { o.temperature, (uint32_t)o.top_k }, o.seed,
		(int)c->train.context };
	struct transcript t;
	size_t i;
	int rc = 0;

	transcript_init(&t, STDOUT_FILENO, has_tokenizer(c), isatty(STDOUT_FILENO) == 1);
	for (i = 0; rc == 0 && o.prompt && i < have; i++)
		rc = transcript_add(&t, ids[i]);
	if (rc == 0)
		rc = evaluate_sample(m, &c->model, ids, have, o.sample, &draw, emit, &t);
	if (rc == 0)
		rc = transcript_end(&t);
	transcript_release(&t);
	return rc < 0 ? err_at(rc, rc == ERR_IO ? "standard output" : "sample") : 0; /* it reads nothing */
}

static int sample(struct model *m, const struct checkpoint *c)
{
	const char *prompt = o.prompt ? o.prompt : has_tokenizer(c) ? "1" : "\n";
	uint32_t *ids;
	size_t have;
	int rc;

	if ((rc = transcript_prompt(&ids, &have, prompt, has_tokenizer(c), c->model.vocab, o.sample)) < 0)
		return rc;
	if (have > c->train.context)
		say_warn(&say, "prompt: of its %zu tokens the model sees the last %" PRIu64, have,
			c->train.context);
	rc = write_out(m, c, ids, have);
	free(ids);
	return rc;
}

/* ---- both ---- */

static int use_checkpoint(const struct work *w, struct frame_reader *r, int i)
{
	struct checkpoint c;
	struct model *m;
	int rc;

	if ((rc = checkpoint_open(&c, r)) < 0)
		return rc;
	if (o.batch)
		c.train.batch = o.batch;
	if (o.context)
		c.train.context = o.context;
	if ((rc = checkpoint_load(&m, &c, r, MODEL_FORWARD, w->pool)) < 0)
		return rc;
	rc = o.shard ? measure(m, &c, w->shard, i) : sample(m, &c);
	model_close(m);
	return rc;
}

static int evaluate(const struct work *w, int i)
{
	struct frame_reader *r;
	int fd, rc;

	if ((rc = fd_open_in(o.ckpts[i], &fd)) < 0)
		return rc;
	rc = frame_open(&r, fd, fd_name(o.ckpts[i]), &w->trust, w->pool);
	if (rc == 0) {
		rc = use_checkpoint(w, r, i);
		frame_reader_free(r);
	}
	close(fd);
	return rc;
}

static int prepare(struct work *w)
{
	int rc = trust_reader(&w->trust, o.key, o.trust);

	if (rc == 0)
		rc = pool_open(&w->pool, o.threads ? (int)o.threads : pool_cpus());
	if (rc == 0 && o.shard)
		rc = shard_open(&w->shard, o.shard, &w->trust);
	return rc;
}

static void release(struct work *w)
{
	shard_close(w->shard);
	pool_close(w->pool);
	trust_release(&w->trust);
}

int main(int argc, char **argv)
{
	struct work w = { .pool = NULL };
	char **words;
	int i, n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0)
		rc = check_options();
	if (rc == 0)
		rc = check_words(words, n);
	if (rc == 0)
		rc = prepare(&w);
	for (i = 0; rc == 0 && i < o.n; i++)
		rc = evaluate(&w, i);
	if (rc == 0)
		rc = fd_close_output();
	release(&w);
	return rc < 0 ? say_error(&say, rc) : 0;
}
