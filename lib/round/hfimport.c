#include "round/hfimport.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/ckpt.h"
#include "form/frame.h"
#include "form/meta.h"
#include "form/vocab.h"
#include "io/fd.h"
#include "io/output.h"
#include "round/hfconfig.h"
#include "round/hfset.h"
#include "round/probe.h"
#include "round/run.h"

#define CONFIG "config.json"
#define TOKENIZER "tokenizer.model"
#define TO_A_FILE "the checkpoint must go to a file (-o) to be read again"
#define TASTE 1024 /* values of each tensor that make up the origin */

struct work {
	const struct import *x;
	struct model_conf model;
	struct train_conf train;
	struct header header;
	struct hfset set;
};

/* ---- what it is ---- */

static int read_config(struct work *w)
{
	struct buf text = BUF_INIT;
	int rc = hfset_slurp(w->x->in, CONFIG, HFCONFIG_BYTES, &text);

	if (rc == 0 && (rc = hfconfig_read(&w->model, text.data ? text.data : "", text.len)) < 0)
		rc = err_at(rc, "%s/" CONFIG, w->x->in);
	buf_release(&text);
	return rc;
}

static int check_vocabulary(struct work *w, const struct vocab *v)
{
	if (v->n > w->model.vocab)
		return err_set(ERR_DATA, "%s/" TOKENIZER ": %zu pieces, and the embedding has %" PRIu32 " rows",
			w->x->in, v->n, w->model.vocab);
	vocab_digest(w->model.vocabulary, v);
	return 0;
}

/* What the ids stand for, if a model of SentencePiece tells; other tokenizers are not read here. */
static int read_vocabulary(struct work *w)
{
	struct vocab v = { .n = 0 };
	char *path;
	int rc = asprintf(&path, "%s/" TOKENIZER, w->x->in) < 0 ? err_nomem() : 0;

	if (rc < 0)
		return rc;
	if (access(path, F_OK) == 0) {
		rc = vocab_load(&v, path);
		if (rc == 0)
			rc = check_vocabulary(w, &v);
		else if (rc == ERR_DATA) {
			say_warn(w->x->say, "%s; the checkpoint will not know its vocabulary", err_text());
			rc = 0;
		}
	}
	vocab_release(&v);
	free(path);
	return rc;
}

static int parse_training(struct train_conf *train, const struct buf *text)
{
	struct conf conf = { 0 };
	int rc = text->len ? conf_parse(&conf, text->data, text->len) : 0;

	if (rc == 0)
		rc = conf_known(&conf, train_keys);
	if (rc == 0)
		rc = train_conf_read(train, &conf);
	conf_release(&conf);
	return rc == ERR_DATA ? ERR_USAGE : rc;
}

/* A sample is as long as the context of the model, unless a program is told otherwise. */
static int read_training(struct work *w)
{
	struct buf text = BUF_INIT;
	int fd = -1, rc = w->x->conf ? fd_open_in(w->x->conf, &fd) : 0;

	if (rc == 0 && fd >= 0)
		rc = fd_slurp(fd, HFCONFIG_BYTES, &text);
	if (rc == 0)
		rc = parse_training(&w->train, &text);
	if (rc < 0 && fd >= 0)
		rc = err_at(rc, "%s", fd_name(w->x->conf));
	if (fd >= 0)
		close(fd);
	buf_release(&text);
	w->train.context = w->model.context;
	return rc;
}

/* Where the values come from, without reading all of them before the first is written. */
static int taste(struct work *w, char hex[2 * SIG_DIGEST + 1])
{
	const struct tensors *ts = &w->header.tensors;
	float value[TASTE];
	struct sig_hash hash;
	digest d;
	int rc = 0;

	sig_hash_init(&hash);
	for (size_t t = 0; t < ts->n && rc == 0; t++) {
		size_t n = ts->v[t].count < TASTE ? (size_t)ts->v[t].count : TASTE;

		rc = hfset_read(&w->set, t, 0, value, n);
		sig_hash_add(&hash, value, rc == 0 ? n * sizeof *value : 0);
	}
	sig_hash_end(&hash, &d);
	sig_hex(hex, d.b, sizeof d.b);
	return rc;
}

static int identify(struct work *w, struct meta *m)
{
	const char *label = w->x->label ? w->x->label : "";
	char hex[2 * SIG_DIGEST + 1], text[KEY_NAME + 2 * SIG_DIGEST + 16];
	int rc = run_model_digest(m->model, &w->model, &w->header.tensors);

	m->kind = KIND_CHECKPOINT;
	m->seed = w->x->seed;
	snprintf(m->label, sizeof m->label, "%s", label);
	if (rc == 0)
		rc = taste(w, hex);
	if (rc == 0) {
		snprintf(text, sizeof text, "%s\norigin %s", label, hex);
		rc = run_id(m->run, m->model, &w->train, m->seed, text);
	}
	return rc;
}

static int make_header(struct work *w)
{
	struct tensors *ts = &w->header.tensors;
	struct meta m = { 0 };
	int rc;

	for (size_t t = 0; t < ts->n; t++)
		ts->v[t].enc = hfset_type(&w->set, t) == SAFETENSORS_BF16 ? ENC_BF16 : ENC_F32;
	rc = identify(w, &m);
	if (rc == 0)
		rc = meta_write(&m, &w->header);
	return rc < 0 ? rc : run_conf_write(&w->model, &w->train, &w->header);
}

/* ---- both sides ---- */

static int load_set(void *ctx, real *params)
{
	struct work *w = ctx;
	int rc = 0;

	for (size_t t = 0; t < w->header.tensors.n && rc == 0; t++) {
		rc = hfset_read(&w->set, t, 0, params, (size_t)w->header.tensors.v[t].count);
		params += w->header.tensors.v[t].count;
	}
	return rc;
}

static int load_sealed(void *ctx, real *params)
{
	return ckpt_read(ctx, params);
}

static int probe_sealed(struct probe *p, const struct work *w, int fd)
{
	struct frame_reader *r = NULL;
	struct trust own = { 0 };
	struct key_pub pub;
	int rc;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(ERR_USAGE, "option --check: " TO_A_FILE);
	key_public(&pub, w->x->key);
	rc = trust_put(&own, &pub, true);
	if (rc == 0)
		rc = frame_open(&r, fd, "the checkpoint just written", &own, NULL);
	if (rc == 0)
		rc = probe_run(p, &w->model, w->x->pool, load_sealed, r);
	frame_reader_free(r);
	trust_release(&own);
	return rc;
}

static int check_sides(void *ctx, int fd)
{
	struct work *w = ctx;
	struct probe theirs = { 0 }, ours = { 0 };
	int rc = probe_run(&theirs, &w->model, w->x->pool, load_set, w);

	if (rc == 0)
		rc = probe_sealed(&ours, w, fd);
	if (rc == 0 && !probe_same(&theirs, &ours))
		rc = err_set(ERR_DATA, "--check: the model says something else after the import: loss %.9g, not %.9g",
			ours.loss, theirs.loss);
	if (rc == 0)
		say_note(w->x->say, "checked: a loss of %.6f on tokens at random on both sides, and the same logits",
			ours.loss);
	probe_release(&theirs);
	probe_release(&ours);
	return rc;
}

/* ---- */

static int read_values(void *ctx, size_t t, uint64_t first, float *out, size_t n)
{
	return hfset_read(&((struct work *)ctx)->set, t, first, out, n);
}

static int at_tensor(void *ctx, int code, size_t t)
{
	struct work *w = ctx;

	return err_at(code, "%s: tensor '%s'", hfset_path(&w->set, t), w->header.tensors.v[t].name);
}

/* Whatever of the input says more than weights: the output must be none of it. */
static int check_replaced(const struct work *w)
{
	static const char *const names[] = { CONFIG, TOKENIZER, HFSET_INDEX };
	const char *out = w->x->out;
	int rc = hfset_apart(&w->set, out);

	if (rc == 0)
		rc = output_apart(out, "the output", w->x->conf, "an input");
	for (size_t i = 0; i < sizeof names / sizeof names[0] && rc == 0; i++) {
		char *path = NULL;

		rc = hfset_join(&path, w->x->in, names[i]);
		if (rc == 0)
			rc = output_apart(out, "the output", path, "an input");
		free(path);
	}
	return rc;
}

static int check_output(const struct work *w)
{
	const bool file = w->x->out && strcmp(w->x->out, "-") != 0;

	if (w->x->check && !file)
		return err_set(ERR_USAGE, "option --check: " TO_A_FILE);
	return file ? check_replaced(w) : 0;
}

static int seal_set(struct work *w)
{
	struct import_source source = { .header = &w->header, .ctx = w, .floats = read_values, .finite = true,
		.where = at_tensor, .check = w->x->check ? check_sides : NULL, .n = w->set.n };
	int *inputs = malloc((w->set.n + 1) * sizeof *inputs), rc;

	if (!inputs)
		return err_nomem();
	for (size_t i = 0; i < w->set.n; i++)
		inputs[i] = w->set.file[i].fd;
	source.inputs = inputs;
	rc = import_seal(w->x, &source);
	free(inputs);
	return rc;
}

int hfimport(const struct import *x)
{
	struct work w = { .x = x };
	int rc = read_config(&w);

	if (rc == 0)
		rc = read_vocabulary(&w);
	if (rc == 0)
		rc = read_training(&w);
	if (rc == 0)
		rc = model_layout(&w.model, &w.header.tensors);
	if (rc == 0)
		rc = hfset_open(&w.set, x->in, &w.header.tensors, w.model.tied);
	if (rc == 0)
		rc = check_output(&w);
	if (rc == 0)
		rc = make_header(&w);
	if (rc == 0)
		rc = seal_set(&w);
	hfset_close(&w.set);
	header_release(&w.header);
	return rc;
}
