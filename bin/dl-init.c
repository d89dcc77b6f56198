/*
 * dl-init - a model configuration in, the first checkpoint of a run out
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/say.h"
#include "form/frame.h"
#include "form/trust.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"
#include "round/run.h"

#define CONF_LIMIT ((size_t)1 << 20)
#define SLICE 16384 /* values made at a time */

static struct {
	const char *conf, *output, *label, *run, *key;
	uint64_t seed;
	bool print, seed_given, quiet, verbose;
} o = { .conf = "tiny" };

static const struct opt table[] = {
	{ 'c', "conf", OPT_TEXT, &o.conf, "CONF",
	  "configuration: a file, '-', or tiny (the default), small, medium, moe" },
	{ 0, "seed", OPT_U64, &o.seed, "N", "seed of the initial values, 0 by default",
	  .given = &o.seed_given },
	{ 0, "label", OPT_TEXT, &o.label, "NAME", "tells runs of one configuration and seed apart" },
	{ 'o', "output", OPT_TEXT, &o.output, "FILE", "write there instead of to standard output" },
	{ 0, "print", OPT_FLAG, &o.print, NULL, "print the whole configuration as text and leave" },
	{ 'r', "run", OPT_TEXT, &o.run, "RUN", "make a run directory (not there yet)" },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "secret key to sign with" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say what was made" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-init [-c CONF] [--seed N] [--label NAME] [-o FILE]",
	"dl-init --print [-c CONF]",
	NULL
};
static const struct opt_prog prog = {
	"dl-init", "Makes the first checkpoint of a training run from a configuration.", synopsis, table
};
static struct say say;

struct plan {
	struct model_conf model;
	struct train_conf train;
	struct tensors layout;
	struct meta meta;
};

static int read_text(const char *path, struct buf *text)
{
	const char *preset = model_preset(path);
	int fd, rc;

	if (preset)
		return buf_str(text, preset);
	rc = fd_open_in(path, &fd);
	if (rc < 0) /* a word that is no preset was meant as one */
		return strpbrk(path, "./-") ? rc : err_at(ERR_USAGE, "neither tiny, small, medium or moe nor a file");
	rc = fd_slurp(fd, CONF_LIMIT, text);
	close(fd);
	return rc < 0 ? err_at(rc, "%s", fd_name(path)) : 0;
}

static int check_keys(const struct conf *conf)
{
	const char *known[128];
	size_t n = 0;

	for (const char *const *key = model_keys; *key; key++)
		known[n++] = *key;
	for (const char *const *key = train_keys; *key; key++)
		known[n++] = *key;
	known[n] = NULL;
	return conf_known(conf, known);
}

static int parse_conf(struct plan *p, const struct buf *text)
{
	struct conf conf = { 0 };
	int rc = conf_parse(&conf, text->data ? text->data : "", text->len);

	if (rc == 0)
		rc = check_keys(&conf);
	if (rc == 0)
		rc = model_conf_read(&p->model, &conf);
	if (rc == 0)
		rc = train_conf_read(&p->train, &conf);
	if (rc == 0)
		rc = model_layout(&p->model, &p->layout);
	conf_release(&conf);
	return rc;
}

/* A configuration that makes no sense is wrong usage: status 2. */
static int read_conf(struct plan *p, const char *path)
{
	struct buf text = BUF_INIT;
	int rc = read_text(path, &text);

	if (rc == 0 && (rc = parse_conf(p, &text)) < 0)
		rc = err_at(rc, "%s", fd_name(path));
	buf_release(&text);
	return rc == ERR_DATA ? ERR_USAGE : rc;
}

/* What to know of a key without dl-model(5), as a comment. */
static const char *remark(const char *key)
{
	static const struct { const char *key, *text; } remarks[] = {
		{ "vocab", "different tokens; 256 for bytes" },
		{ "d_model", "width: channels between layers" },
		{ "layers", "how many" },
		{ "heads", "of attention, for queries" },
		{ "kv_heads", "of attention, for keys and values" },
		{ "head_dim", "channels of a head" },
		{ "ff", "width of the feed-forward part" },
		{ "context", "tokens a sample" },
		{ "tied", "yes: embedding and output share one matrix" },
		{ "rope_theta", "base of the rotary angles" },
		{ "norm_eps", "added to the mean square" },
		{ "init_std", "standard deviation of the first values" },
		{ "experts", "feed-forward parts of a layer to choose from; 0: dense" },
		{ "experts_per_token", "how many each token goes to" },
		{ "router_aux_loss_coef", "what the load-balancing loss counts" },
		{ "lr", "largest learning rate" },
		{ "lr_min_ratio", "last rate, as a fraction of lr" },
		{ "warmup", "global steps up to the largest rate" },
		{ "decay_steps", "global step where the cosine ends; 0: constant rate" },
		{ "beta1", "of AdamW" },
		{ "beta2", "of AdamW" },
		{ "eps", "of AdamW" },
		{ "weight_decay", "of AdamW, for matrices only" },
		{ "clip", "longest gradient; 0: do not clip" },
		{ "batch", "samples a step" },
	};

	for (size_t i = 0; i < sizeof remarks / sizeof remarks[0]; i++)
		if (strcmp(remarks[i].key, key) == 0)
			return remarks[i].text;
	return "";
}

static int print_conf(const struct plan *p)
{
	const int width = p->model.experts ? 20 : 12;
	struct conf conf = { 0 };
	int rc = model_conf_write(&p->model, &conf);

	if (rc == 0)
		rc = train_conf_write(&p->train, &conf);
	for (size_t i = 0; rc == 0 && i < conf.n; i++)
		printf("%-*s %-8s # %s\n", width, conf.v[i].key, conf.v[i].value, remark(conf.v[i].key));
	conf_release(&conf);
	return rc < 0 ? rc : fd_close_output();
}

static int make_header(struct header *h, struct plan *p)
{
	int rc = run_model_digest(p->meta.model, &p->model, &p->layout);

	if (rc == 0) {
		p->meta.kind = KIND_CHECKPOINT;
		p->meta.seed = o.seed;
		snprintf(p->meta.label, sizeof p->meta.label, "%s", o.label ? o.label : "");
		rc = run_id(p->meta.run, p->meta.model, &p->train, o.seed, p->meta.label);
	}
	if (rc == 0)
		rc = meta_write(&p->meta, h);
	if (rc == 0)
		rc = run_conf_write(&p->model, &p->train, h);
	return rc < 0 ? rc : tensors_copy(&h->tensors, &p->layout);
}

static int write_tensor(struct frame_writer *w, const struct plan *p, uint32_t t)
{
	uint64_t count = p->layout.v[t].count;
	float value[SLICE];

	for (uint64_t first = 0, n; first < count; first += n) {
		int rc;

		n = count - first < SLICE ? count - first : SLICE;
		model_init_slice(&p->model, &p->layout, o.seed, t, first, value, n);
		rc = frame_write(w, value, NULL, n);
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
		if (rc < 0)
			return rc;
		if (say_due(&say))
			say_progress(&say, "tensor %" PRIu32 " of %zu", t + 1, p->layout.n);
	}
	return 0;
}

static int write_checkpoint(struct plan *p, int fd, const struct key *key)
{
	struct frame_writer *w = NULL;
	struct header h = { 0 };
	char hex[2 * SIG_DIGEST + 1];
	digest id;
	int rc = make_header(&h, p);

	if (rc == 0)
		rc = frame_create(&w, fd, &h, &key->secret, NULL);
	for (uint32_t t = 0; rc == 0 && t < p->layout.n; t++)
		rc = write_tensor(w, p, t);
	if (rc == 0)
		rc = frame_finish(w, &id);
	say_progress_end(&say);
	if (rc == 0) {
		sig_hex(hex, id.b, sizeof id.b);
		say_note(&say, "checkpoint %.16s of run %s: %" PRIu64 " parameters in %zu tensors", hex,
			 p->meta.run, tensors_total(&p->layout), p->layout.n);
	}
	frame_writer_free(w);
	header_release(&h);
	return rc;
}

static int make_checkpoint(struct plan *p)
{
	struct output out = OUTPUT_INIT;
	struct key key;
	int rc = trust_signer(&key, o.key, NULL, &say);

	if (rc == 0)
		rc = wake_catch();
	if (rc == 0)
		rc = output_open(&out, o.output, "a checkpoint", NULL, 0);
	if (rc == 0 && (rc = write_checkpoint(p, out.fd, &key)) < 0)
		rc = err_at(rc, "%s", output_name(o.output));
	if (rc == 0)
		rc = output_commit(&out);
	output_abort(&out);
	key_wipe(&key);
	return rc;
}

static void check_schedule(const struct sched *s)
{
	if (s->decay_steps > 0 && s->warmup > s->decay_steps)
		say_warn(&say, "warmup %" PRIu64 " is longer than decay_steps %" PRIu64
			 ": the rate drops to its last value at once", s->warmup, s->decay_steps);
}

static int run(int n)
{
	struct plan p = { 0 };
	int rc;

	if (n > 0)
		return err_set(ERR_USAGE, "no operands are taken: the configuration goes with -c");
	if (o.run)
		return err_set(ERR_USAGE, "run directories are not there yet");
	if (o.print && (o.output || o.label || o.seed_given || o.key))
		return err_set(ERR_USAGE, "--print goes with -c alone");
	rc = o.label ? key_name_check("label", o.label) : 0;
	if (rc == 0)
		rc = read_conf(&p, o.conf);
	if (rc == 0)
		check_schedule(&p.train.sched);
	if (rc == 0)
		rc = o.print ? print_conf(&p) : make_checkpoint(&p);
	tensors_release(&p.layout);
	return rc;
}

int main(int argc, char **argv)
{
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0)
		rc = run(n);
	return rc < 0 ? say_error(&say, rc) : 0;
}
