/*
 * dl-data - text or token ids in, packed training shards out
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/say.h"
#include "form/deal.h"
#include "form/key.h"
#include "form/trust.h"
#include "form/vocab.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"

#define PARTS_MAX 4096
#define PORTION 16384 /* ids unpacked at a time */

static struct {
	bool ids, contiguous, unpack, quiet, verbose;
	bool vocab_given, end_given, bytes_given, block_given, split_given, holdout_given;
	const char *binary, *tokenizer, *stem, *key, *trust;
	char vocabulary[VOCAB_DIGEST];
	uint64_t vocab, end, bytes, block, parts;
	double holdout;
} o = { .vocab = 256, .block = 8192, .parts = 1 };

static const struct opt table[] = {
	{ 0, "ids", OPT_FLAG, &o.ids, NULL, "input is token ids as text, a sentence a line" },
	{ 0, "binary", OPT_TEXT, &o.binary, "TYPE", "input is token ids of type u16 or u32, little-endian" },
	{ 0, "vocab", OPT_U64, &o.vocab, "N", "with ids: they are below N", 2, 1 << 24, &o.vocab_given },
	{ 0, "tokenizer", OPT_TEXT, &o.tokenizer, "FILE",
	  "with ids: the SentencePiece model that made them, or its digest" },
	{ 0, "eos", OPT_U64, &o.end, "ID", "with --ids: end every line with ID", 0, 1 << 24, &o.end_given },
	{ 0, "bytes", OPT_COUNT, &o.bytes, "N", "with ids: the text they stand for has N bytes", 1, 1e18,
	  &o.bytes_given },
	{ 0, "split", OPT_U64, &o.parts, "N", "write N shards", 1, PARTS_MAX, &o.split_given },
	{ 0, "contiguous", OPT_FLAG, &o.contiguous, NULL, "with --split: N regions, not every N-th block" },
	{ 0, "holdout", OPT_F64, &o.holdout, "F", "hold out the fraction F for validation", 1e-6, 0.5,
	  &o.holdout_given },
	{ 0, "block", OPT_COUNT, &o.block, "N", "tokens dealt out at a time, 8192 by default", 1, 1 << 30,
	  &o.block_given },
	{ 'o', "output", OPT_TEXT, &o.stem, "STEM", "write STEM.tok, or STEM.0.tok ... and STEM.valid.tok" },
	{ 'd', "unpack", OPT_FLAG, &o.unpack, NULL, "the other way: print what is in a shard" },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "secret key to sign with" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "with --unpack: trusted keys" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say what was written" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-data [--split N [--contiguous]] [--holdout F] [-o STEM] [FILE...]",
	"dl-data --ids [--vocab N] [--tokenizer FILE] [--eos ID] [--bytes N] ... [FILE...]",
	"dl-data --binary TYPE [--vocab N] [--tokenizer FILE] [--bytes N] ... [FILE...]",
	"dl-data -d [SHARD]",
	NULL
};
static const struct opt_prog prog = {
	"dl-data", "Packs text or token ids into signed training shards.", synopsis, table
};
static struct say say;

/* One file to be written. */
struct part {
	uint64_t number; /* for split.h */
	char *path;      /* NULL: standard output */
	struct output out;
	uint64_t tokens;
	digest id;
};

/* ---- options ---- */

/* The tokenizer says how many ids there are, unless there are to be more. */
static int ask_tokenizer(void)
{
	uint32_t n;
	int rc = vocab_identify(o.vocabulary, &n, o.tokenizer);

	if (rc < 0)
		return rc;
	if (n > o.vocab && o.vocab_given)
		return err_set(ERR_USAGE, "option --vocab: %s has %" PRIu32 " pieces", o.tokenizer, n);
	if (n == 0 && !o.vocab_given)
		return err_set(ERR_USAGE, "a digest does not tell the size of the vocabulary: --vocab N");
	if (!o.vocab_given)
		o.vocab = n;
	return 0;
}

static int needs(bool given, const char *option, bool there, const char *other)
{
	return given && !there ? err_set(ERR_USAGE, "option %s goes with %s", option, other) : 0;
}

/* STEM.tok is what STEM would be called: then its stem is meant. */
static int stem_length(void)
{
	size_t n = o.stem ? strlen(o.stem) : 0;

	return (int)(n > 4 && strcmp(o.stem + n - 4, ".tok") == 0 ? n - 4 : n);
}

/* With nothing, or a directory, to begin with, names would be hidden ones: DIR/.0.tok, DIR/..0.tok. */
static bool is_stem(void)
{
	int end = stem_length(), at = end;

	while (at > 0 && o.stem[at - 1] != '/')
		at--;
	return end > at && strspn(o.stem + at, ".") < (size_t)(end - at);
}

static int check_options(void)
{
	bool ids = o.ids || o.binary, many = o.split_given || o.holdout_given;
	int rc;

	if (o.unpack && (ids || many || o.stem))
		return err_set(ERR_USAGE, "--unpack prints on standard output, and the shard says the rest");
	if (o.ids && o.binary)
		return err_set(ERR_USAGE, "--ids is for text and --binary is not: one of them");
	if (o.binary && strcmp(o.binary, "u16") != 0 && strcmp(o.binary, "u32") != 0)
		return err_set(ERR_USAGE, "option --binary: u16 or u32");
	if (ids && !o.vocab_given && !o.tokenizer)
		return err_set(ERR_USAGE, "the size of the vocabulary is needed: --vocab N or --tokenizer FILE");
	if ((rc = needs(o.tokenizer, "--tokenizer", ids, "--ids or --binary")) < 0 ||
	    (rc = o.tokenizer ? ask_tokenizer() : 0) < 0 ||
	    (rc = needs(o.vocab_given, "--vocab", ids, "--ids or --binary")) < 0 ||
	    (rc = needs(o.bytes_given, "--bytes", ids, "--ids or --binary")) < 0 ||
	    (rc = needs(o.end_given, "--eos", o.ids, "--ids")) < 0 ||
	    (rc = needs(o.contiguous, "--contiguous", o.split_given, "--split")) < 0 ||
	    (rc = needs(o.block_given, "--block", many, "--split or --holdout")) < 0 ||
	    (rc = needs(o.trust, "--trust", o.unpack, "--unpack")) < 0 ||
	    (rc = needs(many, "--split or --holdout", o.stem, "--output STEM")) < 0)
		return rc;
	if (o.stem && strcmp(o.stem, "-") == 0 && (o.parts > 1 || o.holdout_given))
		return err_set(ERR_USAGE, "option --output: standard output takes one shard, not several: give the "
			"beginning of their names");
	if (o.end_given && o.end >= o.vocab)
		return err_set(ERR_USAGE, "option --eos: %" PRIu64 " is not below the vocabulary of %" PRIu64,
			       o.end, o.vocab);
	if (o.stem && strcmp(o.stem, "-") == 0)
		o.stem = NULL;
	if (o.stem && !is_stem())
		return err_set(ERR_USAGE, "option --output: '%s' is not the beginning of a file's name", o.stem);
	return 0;
}

static struct corpus_conf corpus_conf(void)
{
	enum corpus_format format = o.ids ? CORPUS_IDS : !o.binary ? CORPUS_BYTES
			: strcmp(o.binary, "u16") == 0 ? CORPUS_U16 : CORPUS_U32;

	return (struct corpus_conf){ .format = format, .vocab = (uint32_t)o.vocab, .ends = o.end_given,
				     .end = (uint32_t)o.end };
}

/* ---- reading ---- */

static int open_inputs(struct corpus_input *in, char **words, int n)
{
	for (int i = 0; i < n; i++) {
		int rc = fd_open_in(words[i], &in[i].fd);

		if (rc < 0)
			return rc;
		in[i].name = fd_name(words[i]);
		if (!o.stem && (rc = fd_output_fits("a shard", &in[i].fd, 1)) < 0)
			return rc;
	}
	return 0;
}

/* ---- writing ---- */

static struct shard_info describe(const struct part *p, const struct split *s)
{
	struct shard_info info = { .vocab = (uint32_t)o.vocab, .tokens = p->tokens };

	memcpy(info.vocabulary, o.vocabulary, sizeof info.vocabulary);
	if (p->number == SPLIT_VALID) { /* the same file, however many share the rest */
		info.valid = true;
	} else if (o.split_given) {
		info.part = p->number;
		info.parts = s->parts;
	}
	if (o.split_given || o.holdout_given)
		info.block = s->block;
	if (!o.ids && !o.binary)
		info.bytes = p->tokens;
	else if (o.bytes_given) /* ids do not say which bytes they are: each part gets its share */
		info.bytes = (uint64_t)llround((double)o.bytes * ((double)p->tokens / (double)s->tokens));
	return info;
}

static int write_part(struct part *p, struct corpus *c, const struct split *s, const struct key *key)
{
	struct shard_info info = describe(p, s);
	int rc = deal_part(p->out.fd, &info, c, s, p->number, &key->secret, &say, &p->id);

	return rc < 0 ? err_at(rc, "%s", output_name(p->path)) : 0;
}

static void report(const struct part *p)
{
	char hex[2 * SIG_DIGEST + 1];

	sig_hex(hex, p->id.b, sizeof p->id.b);
	say_note(&say, "%s: %" PRIu64 " tokens, shard %.16s", output_name(p->path), p->tokens, hex);
}

/* All files are complete before the first gets its name. */
static int write_parts(struct part *part, size_t n, struct corpus *c, const struct split *s,
		       const struct key *key)
{
	int rc = wake_catch();

	for (size_t i = 0; rc == 0 && i < n; i++) {
		part[i].tokens = split_tokens(s, part[i].number);
		rc = output_open(&part[i].out, part[i].path, "a shard", NULL, 0);
		if (rc == 0)
			rc = write_part(&part[i], c, s, key);
	}
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = output_commit(&part[i].out);
	for (size_t i = 0; rc == 0 && i < n; i++)
		report(&part[i]);
	for (size_t i = 0; i < n; i++)
		output_abort(&part[i].out);
	return rc;
}

/* ---- the plan ---- */

static int name_part(struct part *p, uint64_t number)
{
	int n = 0, stem = stem_length();

	*p = (struct part){ .number = number, .out = OUTPUT_INIT };
	if (number == SPLIT_VALID)
		n = asprintf(&p->path, "%.*s.valid.tok", stem, o.stem);
	else if (o.split_given && o.stem)
		n = asprintf(&p->path, "%.*s.%" PRIu64 ".tok", stem, o.stem, number);
	else if (o.stem)
		n = asprintf(&p->path, "%.*s.tok", stem, o.stem);
	if (n < 0)
		p->path = NULL;
	return n < 0 ? err_nomem() : key_apart(o.key, p->path);
}

/* Most parts are not there yet, and then no input is one of them. One shard of all bytes that one file has gives them
 * back (--unpack): nothing is lost. Of ids the lines would be. */
static int spare_inputs(const struct part *part, size_t parts, char *const *words, size_t n)
{
	const bool kept = parts == 1 && n == 1 && !o.ids && !o.binary;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < parts; i++) {
		if (!part[i].path || access(part[i].path, F_OK) < 0)
			continue;
		rc = vocab_apart(part[i].path, o.tokenizer);
		if (rc == 0 && !kept)
			rc = output_apart_all(part[i].path, words, n);
	}
	return rc;
}

static int share_out(struct corpus *c, const struct key *key, char *const *words, size_t inputs)
{
	struct split s = { .tokens = corpus_tokens(c), .block = o.block, .parts = o.parts,
			   .contiguous = o.contiguous };
	struct part *part = calloc(o.parts + 1, sizeof *part);
	size_t n = 0;
	int rc = part ? 0 : err_nomem();

	if (o.holdout_given)
		s.every = (uint64_t)llround(1 / o.holdout);
	if (rc == 0)
		rc = split_check(&s);
	for (; rc == 0 && n < s.parts; n++)
		rc = name_part(&part[n], n);
	if (rc == 0 && o.holdout_given)
		rc = name_part(&part[n++], SPLIT_VALID);
	if (rc == 0)
		rc = spare_inputs(part, n, words, inputs);
	if (rc == 0)
		rc = write_parts(part, n, c, &s, key);
	for (size_t i = 0; i < n; i++)
		free(part[i].path);
	free(part);
	return rc;
}

static int check_corpus(const struct corpus *c, const struct corpus_input *in, int n)
{
	if (corpus_tokens(c) > 0)
		return 0;
	return err_set(ERR_DATA, "%s%s: the corpus is empty", in[0].name, n > 1 ? " and the other inputs" : "");
}

static int pack(char **words, int n, const struct key *key)
{
	const struct corpus_conf conf = corpus_conf();
	struct corpus_input *in = malloc((size_t)n * sizeof *in);
	struct corpus *c = NULL;
	int rc;

	if (!in)
		return err_nomem();
	for (int i = 0; i < n; i++)
		in[i].fd = -1;
	fd_raise_limit(); /* every input and every output holds one */
	rc = open_inputs(in, words, n);
	if (rc == 0)
		rc = corpus_open(&c, &conf, in, (size_t)n);
	if (rc == 0)
		rc = check_corpus(c, in, n);
	if (rc == 0)
		rc = share_out(c, key, words, (size_t)n);
	corpus_close(c);
	for (int i = 0; i < n; i++)
		if (in[i].fd >= 0)
			close(in[i].fd);
	free(in);
	return rc;
}

/* ---- the other way ---- */

/* Bytes as they were, or ids as --ids takes them. */
static int print_tokens(struct shard *s)
{
	const struct shard_info *info = shard_info(s);
	bool bytes = info->vocab <= 256 && !info->vocabulary[0];
	uint32_t id[PORTION];
	int rc = bytes ? fd_output_fits("the content of a shard", NULL, 0) : 0;

	for (uint64_t at = 0, n; rc == 0 && at < info->tokens; at += n) {
		n = info->tokens - at < PORTION ? info->tokens - at : PORTION;
		rc = shard_read(s, id, at, (size_t)n);
		for (uint64_t i = 0; rc == 0 && i < n; i++)
			if (bytes)
				putchar((int)id[i]);
			else
				printf("%" PRIu32 "\n", id[i]);
		if (ferror(stdout))
			break;
	}
	return rc < 0 ? rc : fd_close_output();
}

static int unpack(char **words, int n)
{
	struct shard *s = NULL;
	struct trust t;
	int rc = trust_reader(&t, o.key, o.trust);

	if (rc == 0 && n > 1)
		rc = err_set(ERR_USAGE, "--unpack takes one shard, not %d", n);
	if (rc == 0)
		rc = shard_open(&s, words[0], &t);
	if (rc == 0)
		rc = print_tokens(s);
	shard_close(s);
	trust_release(&t);
	return rc;
}

static int run(char **words, int n)
{
	static char dash[] = "-";
	char *standard[] = { dash };
	struct key key;
	int rc;

	if (n == 0) {
		words = standard;
		n = 1;
	}
	if (o.unpack)
		return unpack(words, n);
	if ((rc = trust_signer(&key, o.key, o.trust, &say)) == 0)
		rc = pack(words, n, &key);
	key_wipe(&key);
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
		rc = check_options();
	if (rc == 0)
		rc = run(words, n);
	return rc < 0 ? wake_leave(say_error(&say, rc)) : 0;
}
