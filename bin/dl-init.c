/*
 * dl-init - a model configuration in, the first checkpoint of a run out, or a run directory
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/say.h"
#include "form/frame.h"
#include "form/key.h"
#include "form/trust.h"
#include "form/vocab.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"
#include "round/newrun.h"
#include "round/run.h"

#define CONF_LIMIT ((size_t)1 << 20)
#define SLICE 16384 /* values made at a time */

static struct {
	const char *conf, *tokenizer, *output, *label, *run, *key, *trust, *rule, *experts, *adopt, *delta;
	uint64_t seed, fragments, interval, quorum, tau, invite, target_steps, target_tokens, every, keep;
	double gamma, eta, mu, outlier, lease;
	bool print, tokenizer_given, seed_given, conf_given, quiet, verbose;
	struct {
		bool trust, fragments, interval, quorum, tau, invite, gamma, rule, experts, eta, mu, outlier;
		bool adopt, delta, target_steps, target_tokens, every, keep, lease;
	} of_run; /* given, and for run directories only */
} o = {
	.conf = "tiny", .interval = 24, .quorum = 1, .tau = 2, .keep = 2, .gamma = 1, .eta = 0.7, .mu = 0.9,
	.outlier = 100, .lease = 30, .rule = "rda", .experts = "tokens", .adopt = "rebase", .delta = "f32",
};

#define OF_RUN(option) .given = &o.of_run.option
static const struct opt table[] = {
	{ 'c', "conf", OPT_TEXT, &o.conf, "CONF",
	  "configuration: a file, '-', or tiny (the default), small, medium, moe",
	  .given = &o.conf_given },
	{ 0, "tokenizer", OPT_TEXT, &o.tokenizer, "FILE",
	  "SentencePiece model that makes the token ids, or its digest", .given = &o.tokenizer_given },
	{ 0, "seed", OPT_U64, &o.seed, "N", "seed of the initial values, 0 by default",
	  .given = &o.seed_given },
	{ 0, "label", OPT_TEXT, &o.label, "NAME", "tells runs of one configuration and seed apart" },
	{ 'o', "output", OPT_TEXT, &o.output, "FILE", "write there instead of to standard output" },
	{ 0, "print", OPT_FLAG, &o.print, NULL, "print the whole configuration as text and leave" },
	{ 'r', "run", OPT_TEXT, &o.run, "RUN", "make a run directory (not there yet, or empty)" },
	{ 'P', "fragments", OPT_U64, &o.fragments, "N",
	  "run: pieces that are merged one by one (24, or as many as there are tensors)", 1,
	  FRAGMENT_MAX, OF_RUN(fragments) },
	{ 'H', "interval", OPT_COUNT, &o.interval, "N", "run: inner steps between merges of a fragment (24)",
	  1, 1e9, OF_RUN(interval) },
	{ 'K', "quorum", OPT_U64, &o.quorum, "N", "run: answers a merge needs at least (1)", 1, 1e6,
	  OF_RUN(quorum) },
	{ 0, "tau", OPT_U64, &o.tau, "N",
	  "run: inner steps from call to merge, and rounds open at once (2)", 1, 1e6, OF_RUN(tau) },
	{ 0, "invite", OPT_U64, &o.invite, "N", "run: learners called for a round, drawn by lot (0: all)",
	  0, 1e6, OF_RUN(invite) },
	{ 0, "gamma", OPT_F64, &o.gamma, "X", "run: part of the slack that late answers get (1)", 0, 1e6,
	  OF_RUN(gamma) },
	{ 0, "rule", OPT_TEXT, &o.rule, "RULE", "run: rda (the default) or direct", OF_RUN(rule) },
	{ 0, "expert-weights", OPT_TEXT, &o.experts, "WEIGHTS",
	  "run: of answers for experts of a mixture: tokens (the default) or routed", OF_RUN(experts) },
	{ 0, "outer-lr", OPT_F64, &o.eta, "X", "run: outer learning rate (0.7)", 0, 100, OF_RUN(eta) },
	{ 0, "momentum", OPT_F64, &o.mu, "X", "run: outer momentum (0.9)", 0, 0.9999, OF_RUN(mu) },
	{ 0, "outlier", OPT_F64, &o.outlier, "X",
	  "run: refuse answers with X times the median norm (100; 0: none)", 0, 1e300, OF_RUN(outlier) },
	{ 0, "adopt", OPT_TEXT, &o.adopt, "RULE",
	  "run: how learners take a new version: rebase (the default), overwrite or mix:A", OF_RUN(adopt) },
	{ 0, "delta", OPT_TEXT, &o.delta, "ENC", "run: encoding of answers: f32 (the default), f32r or bf16",
	  OF_RUN(delta) },
	{ 0, "target-steps", OPT_COUNT, &o.target_steps, "N", "run: global steps to its end (0: endless)", 0,
	  1e15, OF_RUN(target_steps) },
	{ 0, "target-tokens", OPT_COUNT, &o.target_tokens, "N", "run: tokens of all learners to its end", 0,
	  1e15, OF_RUN(target_tokens) },
	{ 0, "checkpoint-every", OPT_COUNT, &o.every, "N",
	  "run: global steps between checkpoints (0: one at the end)", 0, 1e15, OF_RUN(every) },
	{ 0, "keep", OPT_U64, &o.keep, "N", "run: old versions of a fragment that stay (2; 0: all)", 0, 1e9,
	  OF_RUN(keep) },
	{ 0, "lease", OPT_SECONDS, &o.lease, "TIME", "run: silence after which one counts as lost (30s)",
	  OF_RUN(lease) },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "secret key to sign with" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default",
	  OF_RUN(trust) },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say what was made" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-init [-c CONF] [--tokenizer FILE] [--seed N] [--label NAME] [-o FILE]",
	"dl-init -r RUN [-c CONF] [--tokenizer FILE] [--seed N] [--label NAME] [-P N] [-H N] [-K N] [--tau N] "
	"... [CKPT]",
	"dl-init --print [-c CONF] [--tokenizer FILE]",
	NULL
};
static const struct opt_prog prog = {
	"dl-init", "Makes the first checkpoint of a run, or a run directory, from a configuration.",
	synopsis, table
};
static struct say say;

struct plan {
	struct model_conf model;
	struct train_conf train;
	struct tensors layout;
	struct meta meta;
	char vocabulary[VOCAB_DIGEST]; /* of --tokenizer */
	uint32_t pieces; /* 0: unknown */
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

/* Size and digest of the vocabulary; a preset's size is only an example. */
static int take_tokenizer(struct conf *conf, const struct plan *p)
{
	const uint32_t n = p->pieces;
	uint64_t vocab = 0;
	int rc = 0;

	if (!model_preset(o.conf))
		rc = conf_u64(conf, "vocab", 0, UINT32_MAX, &vocab);
	if (rc < 0)
		return rc;
	if (vocab && vocab < n)
		return err_set(ERR_DATA, "vocab %" PRIu64 " is fewer than the %" PRIu32 " pieces of %s", vocab, n,
			o.tokenizer);
	rc = vocab || n == 0 ? 0 : conf_set_u64(conf, "vocab", n);
	return rc < 0 ? rc : conf_set(conf, "vocabulary", p->vocabulary);
}

static int parse_conf(struct plan *p, const struct buf *text)
{
	struct conf conf = { 0 };
	int rc = conf_parse(&conf, text->data ? text->data : "", text->len);

	if (rc == 0)
		rc = check_keys(&conf);
	if (rc == 0 && o.tokenizer)
		rc = take_tokenizer(&conf, p);
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
	int rc = o.tokenizer ? vocab_identify(p->vocabulary, &p->pieces, o.tokenizer) : 0;

	if (rc == 0)
		rc = read_text(path, &text);
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
		{ "vocabulary", "digest of what the token ids stand for" },
		{ "lr", "largest learning rate" },
		{ "lr_min_ratio", "last rate, as a fraction of lr" },
		{ "warmup", "global steps up to the largest rate" },
		{ "decay_steps", "global step where the cosine ends; 0: constant rate" },
		{ "decay_tokens", "tokens trained by all where it ends, instead; 0: by steps" },
		{ "beta1", "of AdamW" },
		{ "beta2", "of AdamW" },
		{ "eps", "of AdamW" },
		{ "weight_decay", "for matrices only" },
		{ "clip", "longest gradient; 0: do not clip" },
		{ "optimizer", "adamw, or muon for the matrices of layers" },
		{ "muon_momentum", "of muon" },
		{ "batch", "samples a step" },
	};

	for (size_t i = 0; i < sizeof remarks / sizeof remarks[0]; i++)
		if (strcmp(remarks[i].key, key) == 0)
			return remarks[i].text;
	return "";
}

static void print_key(int width, const char *key, const char *value)
{
	printf("%-*s %-8s # %s\n", width, key, value, remark(key));
}

static int print_conf(const struct plan *p)
{
	const int width = p->model.experts ? 20 : 13;
	struct conf conf = { 0 };
	int rc = model_conf_write(&p->model, &conf);

	if (rc == 0)
		rc = train_conf_write(&p->train, &conf);
	for (size_t i = 0; rc == 0 && i < conf.n; i++) {
		print_key(width, conf.v[i].key, conf.v[i].value);
		if (strcmp(conf.v[i].key, "decay_steps") == 0 && !p->train.sched.decay_tokens)
			print_key(width, "decay_tokens", "0"); /* not in files, which have been without it */
	}
	conf_release(&conf);
	return rc < 0 ? rc : fd_close_output();
}

/* What the files of the run have in common, but for its id. */
static int describe(struct plan *p)
{
	p->meta.seed = o.seed;
	snprintf(p->meta.label, sizeof p->meta.label, "%s", o.label ? o.label : "");
	return run_model_digest(p->meta.model, &p->model, &p->layout);
}

static int make_header(struct header *h, struct plan *p)
{
	int rc = describe(p);

	p->meta.kind = KIND_CHECKPOINT;
	if (rc == 0)
		rc = run_id(p->meta.run, p->meta.model, &p->train, o.seed, p->meta.label);
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

/* ---- run directories ---- */

/* The checkpoint a run begins from. */
struct origin {
	int fd;
	struct trust trust;
	struct frame_reader *reader; /* NULL: from fresh values */
	struct meta meta;
	struct model_conf model;
	struct train_conf train;
	digest id;
};
#define ORIGIN_INIT { .fd = -1 }

static int read_origin(struct origin *from)
{
	const struct header *h = frame_header(from->reader);
	int rc = meta_read(&from->meta, h);

	if (rc == 0)
		rc = meta_want(&from->meta, KIND_CHECKPOINT);
	if (rc == 0)
		rc = run_conf_read(&from->model, &from->train, h);
	return rc < 0 ? err_at(rc, "%s", frame_name(from->reader)) : 0;
}

static int open_origin(struct origin *from, const char *path, const struct key *own)
{
	int rc = fd_open_random(path, &from->fd);

	if (rc == 0)
		rc = trust_load(&from->trust, o.trust, own);
	if (rc == 0)
		rc = frame_open(&from->reader, from->fd, fd_name(path), &from->trust, NULL);
	if (rc == 0)
		rc = read_origin(from);
	if (rc == 0)
		rc = frame_seekable(from->reader);
	return rc < 0 ? rc : frame_id(from->reader, &from->id);
}

static void close_origin(struct origin *from)
{
	frame_reader_free(from->reader);
	trust_release(&from->trust);
	if (from->fd >= 0)
		close(from->fd);
}

/* What one of checkpoint and options leaves open about the vocabulary, the other says. */
static int follow_vocabulary(struct plan *p, struct origin *from, const char *given)
{
	char *known = from->model.vocabulary;

	if (*given && *known && strcmp(given, known) != 0)
		return err_set(ERR_USAGE, "%s: another vocabulary than the checkpoint's: %.16s, and that is %.16s",
			o.tokenizer ? o.tokenizer : fd_name(o.conf), given, known);
	if (p->pieces > p->model.vocab)
		return err_set(ERR_USAGE, "%s: its vocab %" PRIu32 " is fewer than the %" PRIu32 " pieces of %s",
			frame_name(from->reader), p->model.vocab, p->pieces, o.tokenizer);
	memcpy(p->model.vocabulary, *given ? given : known, VOCAB_DIGEST);
	return 0;
}

/* Model and training are those of the checkpoint; but with -c, training is as that says. */
static int follow_origin(struct plan *p, struct origin *from)
{
	char digest_text[65], given[VOCAB_DIGEST];
	int rc = 0;

	memcpy(given, p->model.vocabulary, sizeof given);
	memcpy(p->model.vocabulary, from->model.vocabulary, sizeof given);
	if (o.conf_given)
		rc = run_model_digest(digest_text, &p->model, &p->layout);
	if (rc == 0 && o.conf_given && strcmp(digest_text, from->meta.model) != 0)
		return err_set(ERR_USAGE, "%s: describes another model than %s", fd_name(o.conf),
			frame_name(from->reader));
	if (rc == 0 && !o.conf_given) {
		p->model = from->model;
		p->train = from->train;
		tensors_release(&p->layout);
		rc = model_layout(&p->model, &p->layout);
	}
	if (rc == 0)
		rc = follow_vocabulary(p, from, given);
	if (!o.seed_given)
		o.seed = from->meta.seed;
	sig_hex(p->meta.base, from->id.b, sizeof from->id.b);
	return rc;
}

static int read_words(struct manifest *m)
{
	int rc = merge_rule_parse(o.rule, &m->rule);

	if (rc < 0)
		return err_at(ERR_USAGE, "option --rule");
	if (merge_experts_parse(o.experts, &m->experts) < 0)
		return err_at(ERR_USAGE, "option --expert-weights");
	if (adopt_parse(o.adopt, &m->adopt) < 0)
		return err_at(ERR_USAGE, "option --adopt");
	if (encoding_parse(o.delta, &m->delta) < 0 || m->delta == ENC_PLAIN)
		return err_set(ERR_USAGE, "option --delta: '%s' is not f32, f32r or bf16", o.delta);
	return 0;
}

/* The plan becomes the manifest's, the table of tensors too. */
static int fill_manifest(struct manifest *m, struct plan *p, const struct key *owner)
{
	int rc;

	m->meta = p->meta;
	m->model = p->model;
	m->train = p->train;
	m->layout = p->layout;
	p->layout = (struct tensors){ 0 };
	m->owner = owner->secret.pub;
	manifest_defaults(m);
	if (o.of_run.fragments)
		m->fragments = (unsigned)o.fragments;
	else if (m->fragments < 24)
		say_note(&say, "%u fragments: the model has no more tensors", m->fragments);
	m->interval = o.interval;
	m->quorum = (unsigned)o.quorum;
	m->overlap = (unsigned)o.tau;
	m->invite = (unsigned)o.invite;
	m->grace = o.gamma;
	m->outer = (struct merge_outer){ .eta = o.eta, .mu = o.mu };
	m->outlier = o.outlier;
	m->target_steps = o.target_steps;
	m->target_tokens = o.target_tokens;
	m->checkpoint_every = o.every;
	m->keep = o.keep;
	m->lease = o.lease;
	m->serial = 1; /* as it will be */
	rc = read_words(m);
	if (rc == 0 && manifest_check(m) < 0)
		rc = ERR_USAGE;
	m->serial = 0;
	return rc;
}

static void tell_run(const struct manifest *m, const struct fragments *f)
{
	uint64_t total = tensors_total(&m->layout);
	double mean = (double)total / f->n;

	say_note(&say, "%s: run %s: %" PRIu64 " parameters in %u fragments of %.0f on average, the largest "
		"%.0f (%.2f times)", o.run, m->meta.run, total, f->n, mean, mean * f->imbalance,
		f->imbalance);
}

static int make_directory(struct manifest *m, const struct key *owner, struct frame_reader *from)
{
	struct fragments fragments = { 0 };
	struct newrun n = { .manifest = m, .fragments = &fragments, .owner = owner, .from = from };
	int rc = fragments_cut(&fragments, &m->layout, m->fragments);

	if (rc == 0)
		rc = pool_open(&n.pool, pool_cpus());
	if (rc == 0)
		rc = newrun_make(&n, o.run);
	if (rc == 0)
		tell_run(m, &fragments);
	pool_close(n.pool);
	fragments_release(&fragments);
	return rc;
}

static int make_run(struct plan *p, const char *ckpt)
{
	struct origin from = ORIGIN_INIT;
	struct manifest m = { 0 };
	struct key owner;
	int rc = trust_signer(&owner, o.key, o.trust, &say);

	if (rc == 0)
		rc = wake_catch();
	if (rc == 0 && ckpt && (rc = open_origin(&from, ckpt, &owner)) == 0)
		rc = follow_origin(p, &from);
	if (rc == 0)
		rc = describe(p);
	if (rc == 0)
		rc = fill_manifest(&m, p, &owner);
	if (rc == 0)
		rc = make_directory(&m, &owner, from.reader);
	close_origin(&from);
	manifest_release(&m);
	key_wipe(&owner);
	return rc;
}

/* ---- */

static void check_schedule(const struct sched *s)
{
	if (s->decay_tokens == 0 && s->decay_steps > 0 && s->warmup > s->decay_steps)
		say_warn(&say, "warmup %" PRIu64 " is longer than decay_steps %" PRIu64
			 ": the rate drops to its last value at once", s->warmup, s->decay_steps);
}

static int check_apart(void)
{
	int rc = key_apart(o.key, o.output);

	if (rc == 0 && !model_preset(o.conf))
		rc = output_apart(o.output, "the output", o.conf, "an input");
	return rc < 0 ? rc : vocab_apart(o.output, o.tokenizer);
}

/* An option that was given and is for run directories only, or NULL. */
static const struct opt *option_of_run(void)
{
	const bool *first = (const bool *)&o.of_run, *end = (const bool *)(&o.of_run + 1);

	for (const struct opt *t = table; t->name; t++)
		if (t->given && t->given >= first && t->given < end && *t->given)
			return t;
	return NULL;
}

static int check_options(int n)
{
	if (n > 0 && !o.run)
		return err_set(ERR_USAGE, "no operands are taken: the configuration goes with -c");
	if (n > 1)
		return err_set(ERR_USAGE, "one checkpoint to begin from, not %d", n);
	if (!o.run && option_of_run())
		return err_set(ERR_USAGE, "option --%s is for run directories, and goes with -r RUN",
			option_of_run()->name);
	if (o.run && o.output)
		return err_set(ERR_USAGE, "--output is for a checkpoint, not with --run");
	if (o.print && (o.output || o.label || o.seed_given || o.key || o.run))
		return err_set(ERR_USAGE, "--print goes with -c and --tokenizer alone");
	if (o.label && key_name_check("label", o.label) < 0)
		return ERR_USAGE;
	return o.run || o.print ? 0 : check_apart();
}

static int run(char **words, int n)
{
	struct plan p = { 0 };
	int rc = check_options(n);

	if (rc == 0)
		rc = read_conf(&p, o.conf);
	if (rc == 0)
		check_schedule(&p.train.sched);
	if (rc == 0)
		rc = o.print ? print_conf(&p) : o.run ? make_run(&p, n ? words[0] : NULL)
			: make_checkpoint(&p);
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
		rc = run(words, n);
	return rc < 0 ? wake_leave(say_error(&say, rc)) : 0;
}
