/*
 * dl-forge - makes sealed files of any kind and content for tests: what no honest program would write, too.
 *
 *     dl-forge [-k KEY] [-b BASE] [-e ENC] [-l] KIND WORD... > FILE
 *
 * A word KEY=VALUE goes into the header as it is; NAME:SHAPE:VALUES is a tensor. VALUES is a list of
 * numbers with commas (nan and inf are numbers here), the last one repeated as often as needed, or
 * "normal,SEED,SIGMA". -b takes run, model, round, step, seed and base from a checkpoint; with -l the values
 * are those of a learner, and what is written is their difference from the base.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/rng.h"
#include "base/say.h"
#include "form/ckpt.h"
#include "form/codec.h"
#include "form/meta.h"
#include "io/fd.h"

#define RUN 65536 /* values made at once */

static struct {
	const char *key, *base, *encoding;
	bool local;
} o = { .encoding = "f32" };

static const struct opt table[] = {
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "seal with this key", 0, 0, 0 },
	{ 'b', "base", OPT_TEXT, &o.base, "FILE", "an answer to this checkpoint", 0, 0, 0 },
	{ 'e', "encoding", OPT_TEXT, &o.encoding, "ENC", "f32, f32r or bf16", 0, 0, 0 },
	{ 'l', "local", OPT_FLAG, &o.local, 0, "values are a learner's parameters", 0, 0, 0 },
	OPT_END
};
static const char *const synopsis[] = { "dl-forge [-k KEY] [-b BASE] [-e ENC] [-l] KIND WORD...", NULL };
static const struct opt_prog prog = { "dl-forge", "Makes files for tests.", synopsis, table };

struct forge {
	struct header header;
	const char **values; /* (tensors) */
	struct key key;
	float *base; /* all its values, with -l */
};

static int read_base(struct forge *f)
{
	struct frame_reader *r = NULL;
	struct meta m;
	float zero = 0;
	digest id;
	int fd, rc;

	if ((rc = fd_open_in(o.base, &fd)) < 0 || (rc = frame_open(&r, fd, o.base, NULL, NULL)) < 0)
		return rc;
	f->base = calloc(tensors_total(&frame_header(r)->tensors) + 1, sizeof zero);
	if (!f->base)
		return err_nomem();
	if ((rc = meta_read(&m, frame_header(r))) < 0 || (rc = ckpt_read(r, f->base)) < 0 ||
		(rc = frame_id(r, &id)) < 0)
		return rc;
	m.kind = KIND_DELTA;
	m.tokens = 0;
	m.merge[0] = '\0';
	sig_hex(m.base, id.b, sizeof id.b);
	frame_reader_free(r);
	return meta_write(&m, &f->header);
}

static int add_tensor(struct forge *f, char *word)
{
	struct tensor t = { .dtype = DTYPE_F32 };
	const char *name = strsep(&word, ":"), *shape = strsep(&word, ":");
	int rc;

	if (!shape || !word)
		return err_set(ERR_USAGE, "'%s' is neither KEY=VALUE nor NAME:SHAPE:VALUES", name);
	snprintf(t.name, sizeof t.name, "%s", name);
	if ((rc = tensor_shape_parse(&t, shape)) < 0 || (rc = encoding_parse(o.encoding, &t.enc)) < 0)
		return rc;
	f->values[f->header.tensors.n] = word;
	return tensors_push(&f->header.tensors, &t);
}

static int add_word(struct forge *f, char *word)
{
	char *equals = strchr(word, '=');

	if (!equals)
		return add_tensor(f, word);
	*equals = '\0';
	return conf_set(&f->header.keys, word, equals + 1);
}

struct values {
	unsigned long long seed;
	double sigma;
	bool normal;
	const char *rest; /* of a list */
	double last;
};

static struct values values_of(const char *text)
{
	struct values v = { .rest = text };

	v.normal = sscanf(text, "normal,%llu,%lf", &v.seed, &v.sigma) == 2;
	return v;
}

static void next_values(struct values *v, float *out, uint64_t first, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *end;

		if (v->normal) {
			out[i] = (float)v->sigma * rng_normal_at(v->seed, 0, first + i);
			continue;
		}
		if (*v->rest) {
			v->last = strtod(v->rest, &end);
			v->rest = *end == ',' ? end + 1 : "";
		}
		out[i] = (float)v->last;
	}
}

static int write_tensor(struct frame_writer *w, const struct tensor *t, const char *text, const float *base)
{
	static float local[RUN], value[RUN], rest[RUN];
	struct values v = values_of(text);

	for (uint64_t at = 0; at < t->count; at += RUN) {
		size_t n = t->count - at < RUN ? (size_t)(t->count - at) : RUN;
		int rc;

		next_values(&v, local, at, n);
		if (o.local)
			codec_difference(value, rest, base + at, local, n);
		rc = frame_write(w, o.local ? value : local, o.local && t->enc == ENC_F32R ? rest : NULL, n);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int write_file(struct forge *f)
{
	const struct tensors *ts = &f->header.tensors;
	const float *base = f->base;
	struct frame_writer *w = NULL;
	int rc = frame_create(&w, STDOUT_FILENO, &f->header, &f->key.secret, NULL);

	for (size_t i = 0; i < ts->n && rc == 0; i++) {
		rc = write_tensor(w, &ts->v[i], f->values[i], base);
		base += f->base ? ts->v[i].count : 0;
	}
	if (rc == 0)
		rc = frame_finish(w, NULL);
	frame_writer_free(w);
	return rc;
}

static int forge(struct forge *f, char **words, int n)
{
	int rc = key_find(&f->key, o.key, NULL);

	f->values = calloc((size_t)n, sizeof *f->values);
	if (rc == 0 && !f->values)
		rc = err_nomem();
	if (rc == 0 && o.base)
		rc = read_base(f);
	if (rc == 0)
		rc = conf_set(&f->header.keys, "kind", words[0]);
	for (int i = 1; i < n && rc == 0; i++)
		rc = add_word(f, words[i]);
	return rc == 0 ? write_file(f) : rc;
}

int main(int argc, char **argv)
{
	struct forge f = { .base = NULL };
	struct say say;
	char **words;
	int n, rc;

	say_init(&say, "dl-forge", false, false);
	rc = opt_parse(&prog, argc, argv, &words, &n);
	if (rc == 0 && n < 1)
		rc = err_set(ERR_USAGE, "%s", synopsis[0]);
	if (rc == 0 && o.local && !o.base)
		rc = err_set(ERR_USAGE, "-l needs -b BASE");
	if (rc == 0)
		rc = forge(&f, words, n);
	if (rc == 0)
		rc = fd_close_output();
	header_release(&f.header);
	key_wipe(&f.key);
	free(f.base);
	free(f.values);
	return rc < 0 ? say_error(&say, rc) : 0;
}
