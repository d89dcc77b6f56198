#include "round/tensorimport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/meta.h"
#include "form/safetensors.h"
#include "io/fd.h"
#include "io/output.h"
#include "round/run.h"

#define OURS "dl."          /* keys that tensorexport wrote */
#define THEIRS "metadata."  /* before keys of others */

struct work {
	const struct import *x;
	struct safetensors st;
	struct header header;
	size_t *order; /* of each tensor of the header: which of st */
	bool checkpoint;
};

static int at_file(const struct work *w, int rc)
{
	return rc < 0 ? err_at(rc, "%s", fd_name(w->x->in)) : 0;
}

/* ---- the header ---- */

/* Of the metadata of a checkpoint the keys that were its header's. */
static int take_ours(struct header *h, const struct conf *metadata)
{
	int rc = 0;

	for (size_t i = 0; i < metadata->n && rc == 0; i++) {
		const char *key = metadata->v[i].key;

		if (strncmp(key, OURS, sizeof OURS - 1) != 0)
			continue;
		key += sizeof OURS - 1;
		if (*key && strlen(key) <= CONF_KEY && strcmp(key, "format") != 0 && strcmp(key, "tensor") != 0)
			rc = conf_set(&h->keys, key, metadata->v[i].value);
	}
	return rc;
}

/* Of any other file those that are not ours. */
static int take_theirs(struct header *h, const struct conf *metadata)
{
	char key[sizeof THEIRS + CONF_KEY];
	struct meta m = { .kind = KIND_TENSORS };
	int rc = meta_write(&m, h);

	for (size_t i = 0; i < metadata->n && rc == 0; i++) {
		snprintf(key, sizeof key, THEIRS "%s", metadata->v[i].key);
		if (strlen(key) <= CONF_KEY && strncmp(metadata->v[i].key, OURS, sizeof OURS - 1) != 0)
			rc = conf_set(&h->keys, key, metadata->v[i].value);
	}
	return rc;
}

/* ---- the table ---- */

struct named {
	const char *name;
	size_t at;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* Fills w->order: the tensors of the layout where the file has them. */
static int find_layout(struct work *w, const struct tensors *layout)
{
	const struct tensors *ts = &w->st.tensors;
	struct named *sorted = malloc(ts->n * sizeof *sorted), *found;
	int rc = sorted ? 0 : err_nomem();

	if (rc == 0 && ts->n != layout->n)
		rc = err_set(ERR_DATA, "%zu tensors, its model has %zu", ts->n, layout->n);
	for (size_t t = 0; rc == 0 && t < ts->n; t++)
		sorted[t] = (struct named){ ts->v[t].name, t };
	if (rc == 0)
		qsort(sorted, ts->n, sizeof *sorted, by_name);
	for (size_t t = 0; rc == 0 && t < layout->n; t++) {
		struct named key = { layout->v[t].name, 0 };

		found = bsearch(&key, sorted, ts->n, sizeof *sorted, by_name);
		if (found)
			w->order[t] = found->at;
		else
			rc = err_set(ERR_DATA, "tensor '%s' is missing", key.name);
	}
	free(sorted);
	return rc;
}

/* As the model has them, if it is one of ours. */
static int order_tensors(struct work *w)
{
	struct tensors layout = { 0 };
	struct model_conf model;
	struct train_conf train;
	int rc = run_conf_parse(&model, &train, &w->header);

	if (rc == 0)
		rc = model_layout(&model, &layout);
	if (rc == 0)
		rc = find_layout(w, &layout);
	tensors_release(&layout);
	return rc;
}

static int check_checkpoint(const struct work *w)
{
	struct model_conf model;
	struct train_conf train;
	struct meta m;
	int rc = meta_read(&m, &w->header);

	return rc < 0 ? rc : run_conf_read(&model, &train, &w->header);
}

static int make_table(struct work *w)
{
	const struct tensors *ts = &w->st.tensors;
	int rc = 0;

	w->order = malloc(ts->n * sizeof *w->order);
	if (!w->order)
		return err_nomem();
	for (size_t t = 0; t < ts->n; t++)
		w->order[t] = t;
	if (w->checkpoint)
		rc = order_tensors(w);
	for (size_t t = 0; t < ts->n && rc == 0; t++)
		rc = tensors_push(&w->header.tensors, &ts->v[w->order[t]]);
	return rc;
}

static int make_header(struct work *w)
{
	const char *kind = conf_get(&w->st.metadata, OURS "kind");
	int rc;

	w->checkpoint = kind && strcmp(kind, kind_name(KIND_CHECKPOINT)) == 0;
	rc = w->checkpoint ? take_ours(&w->header, &w->st.metadata) : take_theirs(&w->header, &w->st.metadata);
	if (rc == 0)
		rc = make_table(w);
	if (rc == 0 && w->checkpoint)
		rc = check_checkpoint(w);
	if (rc < 0 && w->checkpoint)
		rc = err_at(rc, "says it is a checkpoint of dl-export, but");
	return at_file(w, rc);
}

/* ---- values ---- */

static int read_floats(void *ctx, size_t t, uint64_t first, float *out, size_t n)
{
	struct work *w = ctx;

	return at_file(w, safetensors_floats(&w->st, w->order[t], first, out, n));
}

static int read_integers(void *ctx, size_t t, uint64_t first, void *out, size_t n)
{
	struct work *w = ctx;

	return at_file(w, safetensors_integers(&w->st, w->order[t], first, out, n));
}

static int read_end(void *ctx)
{
	struct work *w = ctx;

	return at_file(w, safetensors_end(&w->st));
}

static int at_tensor(void *ctx, int code, size_t t)
{
	struct work *w = ctx;

	return err_at(code, "%s: tensor '%s'", fd_name(w->x->in), w->header.tensors.v[t].name);
}

static int check_options(const struct import *x)
{
	if (x->conf || x->label || x->seed)
		return err_set(ERR_USAGE,
			"-c, --label and --seed are for -f hf: a mere list of tensors has no training");
	if (x->check)
		return err_set(ERR_USAGE, "option --check: there is no model in a mere list of tensors to run");
	return output_apart(x->out, "the output", x->in, "the input");
}

int tensorimport(const struct import *x)
{
	struct work w = { .x = x };
	struct import_source source = { .header = &w.header, .ctx = &w, .floats = read_floats,
		.integers = read_integers, .end = read_end, .where = at_tensor, .n = 1 };
	int fd = -1, rc = check_options(x);

	if (rc == 0)
		rc = fd_open_in(x->in, &fd);
	if (rc == 0)
		rc = at_file(&w, safetensors_open(&w.st, fd));
	if (rc == 0)
		rc = make_header(&w);
	source.inputs = &fd;
	source.finite = w.checkpoint;
	if (rc == 0)
		rc = import_seal(x, &source);
	safetensors_release(&w.st);
	header_release(&w.header);
	free(w.order);
	if (fd >= 0)
		close(fd);
	return rc;
}
