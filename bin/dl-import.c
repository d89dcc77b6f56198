/*
 * dl-import - a model or a list of tensors in a format of others in, a sealed file out.
 */
#include "base/opt.h"
#include "base/pool.h"
#include "base/say.h"
#include "form/key.h"
#include "form/trust.h"
#include "io/fd.h"
#include "io/wake.h"
#include "round/format.h"

#define THREADS 4 /* at most: the disk is next, and each takes memory */

static struct {
	const char *format, *out, *conf, *label, *key;
	uint64_t seed;
	bool check, quiet, verbose;
} o;

static const struct opt table[] = {
	{ 'f', "format", OPT_TEXT, &o.format, "FORMAT",
	  "hf: a directory with config.json; or safetensors: a file of tensors" },
	{ 'o', "output", OPT_TEXT, &o.out, "FILE", "write there instead of to standard output" },
	{ 'c', "conf", OPT_TEXT, &o.conf, "CONF", "hf: how it will be trained, a file of training keys" },
	{ 0, "seed", OPT_U64, &o.seed, "N", "hf: seed of the training to come (0)" },
	{ 0, "label", OPT_TEXT, &o.label, "NAME", "hf: tells runs from one model apart" },
	{ 0, "check", OPT_FLAG, &o.check, NULL, "hf: run the model before and after, and compare" },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "secret key to sign with" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say what was made" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-import -f hf [-c CONF] [--seed N] [--label NAME] [--check] [-o FILE] [-k FILE] DIR",
	"dl-import -f safetensors [-o FILE] [-k FILE] FILE",
	NULL
};
static const struct opt_prog prog = {
	"dl-import", "Makes a checkpoint of a model in a format of others.", synopsis, table
};
static struct say say;

static int check_options(int n)
{
	const struct format *f = o.format ? format_find(o.format) : NULL;

	if (!o.format)
		return err_set(ERR_USAGE, "say which format: -f hf or -f safetensors");
	if (!f || !f->read)
		return format_unknown(o.format, false);
	if (n != 1)
		return err_set(ERR_USAGE, "say what to import, one directory or file");
	if (o.label && key_name_check("label", o.label) < 0)
		return ERR_USAGE;
	return key_apart(o.key, o.out);
}

static int run(const char *in)
{
	struct import x = { .in = in, .out = o.out, .conf = o.conf, .label = o.label, .seed = o.seed,
		.check = o.check, .say = &say };
	struct key key = { 0 };
	int rc;

	fd_raise_limit();
	rc = trust_signer(&key, o.key, NULL, &say);
	if (rc == 0)
		rc = wake_catch();
	if (rc == 0)
		rc = pool_open(&x.pool, pool_cpus() < THREADS ? pool_cpus() : THREADS);
	x.key = &key;
	if (rc == 0)
		rc = format_find(o.format)->read(&x);
	pool_close(x.pool);
	key_wipe(&key);
	return rc;
}

int main(int argc, char **argv)
{
	char **words;
	int n = 0, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0 && (rc = check_options(n)) == 0)
		rc = run(words[0]);
	return rc < 0 ? wake_leave(say_error(&say, rc)) : 0;
}
