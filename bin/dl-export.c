/*
 * dl-export - a sealed file in, a format of others out.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/pool.h"
#include "base/say.h"
#include "form/frame.h"
#include "form/key.h"
#include "form/trust.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"
#include "round/format.h"

#define THREADS 4 /* at most: the disk is next, and each takes memory */

static struct {
	const char *format, *out, *dtype, *tokenizer, *key, *trust;
	uint64_t shard; /* megabytes */
	bool check, no_bos, quiet, verbose;
} o = { .shard = 5000 };

static const struct opt table[] = {
	{ 'f', "format", OPT_TEXT, &o.format, "FORMAT",
	  "hf: a directory for transformers; gguf: a file for llama.cpp; or safetensors: a file of tensors" },
	{ 'o', "output", OPT_TEXT, &o.out, "OUT", "what to write; '-' for standard output if it is a file" },
	{ 0, "dtype", OPT_TEXT, &o.dtype, "TYPE",
	  "of the values: f32, bf16 or f16, for gguf also q8_0 (as they are)" },
	{ 0, "tokenizer", OPT_TEXT, &o.tokenizer, "PATH",
	  "hf: copy what belongs to the tokenizer from this directory; gguf: take the vocabulary from there" },
	{ 0, "no-bos", OPT_FLAG, &o.no_bos, NULL, "gguf: texts do not begin with the tokenizer's begin piece" },
	{ 0, "shard-size", OPT_U64, &o.shard, "MB", "hf: most megabytes in a file (5000)", 1, 1e9 },
	{ 0, "check", OPT_FLAG, &o.check, NULL, "hf: run the model before and after, and compare" },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "one's own key, which is trusted" },
	{ 0, "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say what was written" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-export -f hf -o DIR [--dtype TYPE] [--tokenizer PATH] [--shard-size MB] [--check] "
		"[-k FILE] [--trust PATH] [CKPT]",
	"dl-export -f gguf -o OUT [--dtype TYPE] [--tokenizer PATH [--no-bos]] [-k FILE] [--trust PATH] [CKPT]",
	"dl-export -f safetensors -o OUT [--dtype TYPE] [-k FILE] [--trust PATH] [FILE]",
	NULL
};
static const struct opt_prog prog = {
	"dl-export", "Writes a checkpoint, or any sealed file, in a format of others.", synopsis, table
};
static struct say say;

static int check_options(const char *in, int n)
{
	int rc;

	if (!o.format || !o.out)
		return err_set(ERR_USAGE, "say which format and where: -f FORMAT -o OUT");
	if (!format_find(o.format))
		return format_unknown(o.format, true);
	if (n > 1)
		return err_set(ERR_USAGE, "one file to export, not %d", n);
	rc = output_apart(o.out, "the output", in, "the input");
	return rc < 0 ? rc : key_apart(o.key, o.out);
}

static int write_format(struct frame_reader *from, int fd, struct pool *pool)
{
	const struct export x = { .from = from, .fd = fd, .out = o.out, .dtype = o.dtype,
		.tokenizer = o.tokenizer, .no_bos = o.no_bos, .shard_bytes = o.shard * 1000000, .check = o.check,
		.pool = pool, .say = &say };

	return format_find(o.format)->write(&x);
}

static int run(const char *in)
{
	struct frame_reader *from = NULL;
	struct trust trust = { 0 };
	struct pool *pool = NULL;
	int fd = -1, rc = trust_reader(&trust, o.key, o.trust);

	if (rc == 0)
		rc = wake_catch();
	if (rc == 0)
		rc = pool_open(&pool, pool_cpus() < THREADS ? pool_cpus() : THREADS);
	if (rc == 0)
		rc = fd_open_in(in, &fd);
	if (rc == 0)
		rc = frame_open(&from, fd, fd_name(in), &trust, pool);
	if (rc == 0)
		rc = write_format(from, fd, pool);
	frame_reader_free(from);
	if (fd >= 0)
		close(fd);
	pool_close(pool);
	trust_release(&trust);
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
		rc = check_options(n > 0 ? words[0] : "-", n);
	if (rc == 0)
		rc = run(n > 0 ? words[0] : "-");
	return rc < 0 ? wake_leave(say_error(&say, rc)) : 0;
}
