#include "round/hfset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "form/jsondoc.h"
#include "io/fd.h"
#include "io/output.h"

#define INDEX_BYTES ((size_t)16 << 20) /* of the index: a hundred thousand tensors */
#define HEAD "lm_head.weight"
#define EMBEDDING "model.embed_tokens.weight"
#define PIECE 16384 /* values compared at a time */

/* ---- files of the directory ---- */

int hfset_join(char **out, const char *dir, const char *name)
{
	int rc = fd_named(dir);

	*out = NULL;
	if (rc == 0 && asprintf(out, "%s/%s", dir, name) < 0) {
		*out = NULL;
		rc = err_nomem();
	}
	return rc;
}

int hfset_slurp(const char *dir, const char *name, size_t limit, struct buf *out)
{
	char *path = NULL;
	int fd = -1, rc = hfset_join(&path, dir, name);

	if (rc == 0)
		rc = fd_open_in(path, &fd);
	if (rc == 0 && (rc = fd_slurp(fd, limit, out)) < 0)
		rc = err_at(rc, "%s", path);
	if (fd >= 0)
		close(fd);
	free(path);
	return rc;
}

static bool is_there(const char *dir, const char *name)
{
	char *path = NULL;
	bool there = hfset_join(&path, dir, name) == 0 && access(path, F_OK) == 0;

	free(path);
	return there;
}

static int add_file(struct hfset *s, const char *dir, const char *name)
{
	struct hfset_file *file = realloc(s->file, (s->n + 1) * sizeof *file), *f;
	int rc;

	if (!file)
		return err_nomem();
	s->file = file;
	f = &file[s->n++];
	*f = (struct hfset_file){ .fd = -1, .name = strdup(name) };
	rc = f->name ? hfset_join(&f->path, dir, name) : err_nomem();
	if (rc == 0)
		rc = fd_open_in(f->path, &f->fd);
	if (rc == 0 && !fd_regular(f->fd, &(uint64_t){ 0 }))
		rc = err_set(ERR_IO, "%s: not a regular file", f->path);
	else if (rc == 0 && (rc = safetensors_open(&f->st, f->fd)) < 0)
		rc = err_at(rc, "%s", f->path);
	return rc;
}

void hfset_close(struct hfset *s)
{
	for (size_t i = 0; i < s->n; i++) {
		safetensors_release(&s->file[i].st);
		if (s->file[i].fd >= 0)
			close(s->file[i].fd);
		free(s->file[i].name);
		free(s->file[i].path);
	}
	free(s->file);
	free(s->place);
	*s = (struct hfset){ 0 };
}

/* ---- the index ---- */

struct claim { /* of the index: this tensor is in that file */
	char *tensor, *file;
};
struct claims {
	struct claim *v;
	size_t n, cap;
	bool seen; /* the key weight_map */
};

static bool is_file_name(const char *name)
{
	static const char suffix[] = ".safetensors";
	const size_t n = strlen(name), end = sizeof suffix - 1;

	return n > end && n < 256 && name[0] != '.' && name[0] != '-' && strcmp(name + n - end, suffix) == 0 &&
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int take_claim(void *ctx, const char *tensor, const struct jsondoc *value)
{
	struct claims *c = ctx;
	const char *file = jsondoc_text(value);
	char shown[300];

	if (!file || !is_file_name(file)) {
		jsondoc_show(shown, sizeof shown, value);
		return err_set(ERR_DATA, "%s is not the name of a safetensors file of this directory", shown);
	}
	if (c->n == c->cap) {
		size_t cap = c->cap ? 2 * c->cap : 256;
		struct claim *v = realloc(c->v, cap * sizeof *v);

		if (!v)
			return err_nomem();
		c->v = v;
		c->cap = cap;
	}
	c->v[c->n] = (struct claim){ strdup(tensor), strdup(file) };
	c->n++;
	return c->v[c->n - 1].tensor && c->v[c->n - 1].file ? 0 : err_nomem();
}

static int take_index(void *ctx, const char *key, const struct jsondoc *value)
{
	struct claims *c = ctx;

	if (strcmp(key, "weight_map") != 0)
		return 0;
	if (c->seen)
		return err_set(ERR_DATA, "weight_map is there twice");
	c->seen = true;
	if (!jsondoc_is_object(value))
		return err_set(ERR_DATA, "weight_map is not an object");
	return jsondoc_each(value, take_claim, c);
}

static int read_index(struct claims *c, const char *dir)
{
	struct buf text = BUF_INIT;
	int rc = hfset_slurp(dir, HFSET_INDEX, INDEX_BYTES, &text);

	if (rc == 0) {
		rc = jsondoc_members(text.data, text.len, INDEX_BYTES, take_index, c);
		if (rc == 0 && c->n == 0)
			rc = err_set(ERR_DATA, "no weight_map, or an empty one");
		rc = rc < 0 ? err_at(rc, "%s/%s", dir, HFSET_INDEX) : 0;
	}
	buf_release(&text);
	return rc;
}

static void release_claims(struct claims *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].tensor);
		free(c->v[i].file);
	}
	free(c->v);
}

static int by_file(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	int order = strcmp(x->file, y->file);

	return order ? order : strcmp(x->tensor, y->tensor);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in the table of a file, sorted. The caller frees *out. */
static int sort_names(const char ***out, const struct tensors *ts)
{
	const char **names = malloc((ts->n + 1) * sizeof *names);

	if (!names)
		return err_nomem();
	for (size_t i = 0; i < ts->n; i++)
		names[i] = ts->v[i].name;
	qsort(names, ts->n, sizeof *names, by_name);
	*out = names;
	return 0;
}

/* A file has the tensors that the index puts there, and no others: v (n), sorted. */
static int check_claims(const struct hfset_file *f, const struct claim *v, size_t n)
{
	const struct tensors *ts = &f->st.tensors;
	const char **names = NULL;
	char shown[300];
	int rc = sort_names(&names, ts);

	for (size_t i = 0; rc == 0 && (i < n || i < ts->n); i++) {
		int order = i == n ? 1 : i == ts->n ? -1 : strcmp(v[i].tensor, names[i]);

		if (order < 0) {
			say_escape(shown, sizeof shown, v[i].tensor);
			rc = err_set(ERR_DATA, "tensor '%s' is missing, which the index puts there", shown);
		} else if (order > 0) {
			rc = err_set(ERR_DATA, "tensor '%s' is not in the index, or in another file", names[i]);
		}
	}
	free(names);
	return rc < 0 ? err_at(rc, "%s", f->path) : 0;
}

static int open_sharded(struct hfset *s, const char *dir)
{
	struct claims c = { 0 };
	int rc = read_index(&c, dir);

	if (rc == 0)
		qsort(c.v, c.n, sizeof *c.v, by_file);
	for (size_t i = 0, end; rc == 0 && i < c.n; i = end) {
		for (end = i; end < c.n && strcmp(c.v[end].file, c.v[i].file) == 0;)
			end++;
		if (s->n == HFSET_FILES)
			rc = err_set(ERR_DATA, "%s/%s: more than %d files", dir, HFSET_INDEX, HFSET_FILES);
		if (rc == 0)
			rc = add_file(s, dir, c.v[i].file);
		if (rc == 0)
			rc = check_claims(&s->file[s->n - 1], c.v + i, end - i);
	}
	release_claims(&c);
	return rc;
}

/* As other loaders: one file goes before several. */
static int open_files(struct hfset *s, const char *dir)
{
	if (is_there(dir, HFSET_SINGLE))
		return add_file(s, dir, HFSET_SINGLE);
	if (is_there(dir, HFSET_INDEX))
		return open_sharded(s, dir);
	return err_set(ERR_IO, "%s: neither %s nor %s is there%s", dir, HFSET_SINGLE, HFSET_INDEX,
		is_there(dir, "pytorch_model.bin") || is_there(dir, "pytorch_model.bin.index.json") ?
		"; save it with safe_serialization=True, pickled files are not read" : "");
}

/* ---- the table ---- */

struct found { /* a tensor of some file */
	const char *name;
	struct hfset_place at;
	bool used;
};

static int by_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->at.file > y->at.file) - (x->at.file < y->at.file);
}

static const struct tensor *tensor_at(const struct hfset *s, struct hfset_place at)
{
	return &s->file[at.file].st.tensors.v[at.tensor];
}

/* All tensors of all files by name; the caller frees *out. */
static int list_found(struct found **out, size_t *count, const struct hfset *s)
{
	size_t n = 0;
	struct found *v;

	for (size_t f = 0; f < s->n; f++)
		n += s->file[f].st.tensors.n;
	if (!(*out = v = malloc((n + 1) * sizeof *v)))
		return err_nomem();
	*count = n;
	n = 0;
	for (uint32_t f = 0; f < s->n; f++)
		for (uint32_t t = 0; t < s->file[f].st.tensors.n; t++)
			v[n++] = (struct found){ s->file[f].st.tensors.v[t].name, { f, t }, false };
	qsort(v, n, sizeof *v, by_found);
	for (size_t i = 1; i < n; i++)
		if (strcmp(v[i - 1].name, v[i].name) == 0)
			return err_set(ERR_DATA, "%s: tensor '%s' is in %s, too", s->file[v[i].at.file].path,
				v[i].name, s->file[v[i - 1].at.file].name);
	return 0;
}

static struct found *look_up(struct found *v, size_t n, const char *name)
{
	const struct found key = { .name = name };
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(key.name, v[middle].name);

		if (order == 0)
			return &v[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static int check_tensor(const struct hfset *s, const struct tensor *want, struct hfset_place at)
{
	const struct tensor *have = tensor_at(s, at);
	char shape_w[96], shape_h[96];
	int rc = 0;

	tensor_shape_text(want, shape_w);
	tensor_shape_text(have, shape_h);
	if (have->dtype != DTYPE_F32)
		rc = err_set(ERR_DATA, "tensor '%s' is of type %s, not F32, BF16 or F16", want->name,
			safetensors_type_name(s->file[at.file].st.part[at.tensor].type));
	else if (strcmp(shape_w, shape_h) != 0)
		rc = err_set(ERR_DATA, "tensor '%s' has shape %s, config.json makes it %s", want->name, shape_h,
			shape_w);
	return rc < 0 ? err_at(rc, "%s", s->file[at.file].path) : 0;
}

static int place_tensors(struct hfset *s, const char *dir, struct found *v, size_t n,
	const struct tensors *layout)
{
	s->place = malloc((layout->n + 1) * sizeof *s->place);
	if (!s->place)
		return err_nomem();
	for (size_t t = 0; t < layout->n; t++) {
		struct found *f = look_up(v, n, layout->v[t].name);
		int rc = f ? check_tensor(s, &layout->v[t], f->at) : 0;

		if (!f)
			return err_set(ERR_DATA, "%s: tensor '%s' is missing", s->n == 1 ? s->file[0].path : dir,
				layout->v[t].name);
		if (rc < 0)
			return rc;
		f->used = true;
		s->place[t] = f->at;
	}
	return 0;
}

/* Old files keep what the rotary embeddings turn by, which follows from the configuration. */
static bool is_derived(const char *name)
{
	static const char suffix[] = ".self_attn.rotary_emb.inv_freq";
	const size_t n = strlen(name), end = sizeof suffix - 1;

	return n > end && strncmp(name, "model.layers.", 13) == 0 && strcmp(name + n - end, suffix) == 0;
}

/* An output head that is stored although it is tied. */
static int check_head(struct hfset *s, struct hfset_place head, struct hfset_place embedding)
{
	const struct tensor *h = tensor_at(s, head), *e = tensor_at(s, embedding);
	struct safetensors *file_h = &s->file[head.file].st, *file_e = &s->file[embedding.file].st;
	float a[PIECE], b[PIECE];
	bool same = h->dtype == DTYPE_F32 && h->rank == e->rank && h->count == e->count &&
		memcmp(h->dim, e->dim, e->rank * sizeof e->dim[0]) == 0;
	int rc = 0;

	for (uint64_t at = 0, n; same && rc == 0 && at < e->count; at += n) {
		n = e->count - at < PIECE ? e->count - at : PIECE;
		rc = safetensors_floats(file_h, head.tensor, at, a, n);
		if (rc == 0)
			rc = safetensors_floats(file_e, embedding.tensor, at, b, n);
		same = rc == 0 && memcmp(a, b, n * sizeof *a) == 0;
	}
	if (rc == 0 && !same)
		rc = err_set(ERR_DATA, "tensor '%s' is not the embedding, to which config.json ties it", HEAD);
	return rc < 0 ? err_at(rc, "%s", s->file[head.file].path) : 0;
}

static int check_rest(struct hfset *s, struct found *v, size_t n, bool tied)
{
	const struct found *first = NULL;
	size_t extra = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i].used || is_derived(v[i].name))
			continue;
		if (tied && strcmp(v[i].name, HEAD) == 0) {
			int rc = check_head(s, v[i].at, look_up(v, n, EMBEDDING)->at);

			if (rc < 0)
				return rc;
			continue;
		}
		first = first ? first : &v[i];
		extra++;
	}
	if (extra == 0)
		return 0;
	return err_set(ERR_DATA, "%s: tensor '%s'%s: the model that config.json describes has no such thing",
		s->file[first->at.file].path, first->name, extra > 1 ? " and others" : "");
}

int hfset_open(struct hfset *s, const char *dir, const struct tensors *layout, bool tied)
{
	struct found *v = NULL;
	size_t n = 0;
	int rc;

	*s = (struct hfset){ 0 };
	rc = open_files(s, dir);
	if (rc == 0)
		rc = list_found(&v, &n, s);
	if (rc == 0)
		rc = place_tensors(s, dir, v, n, layout);
	if (rc == 0)
		rc = check_rest(s, v, n, tied);
	free(v);
	return rc;
}

/* ---- values ---- */

enum safetensors_type hfset_type(const struct hfset *s, size_t t)
{
	return s->file[s->place[t].file].st.part[s->place[t].tensor].type;
}

const char *hfset_path(const struct hfset *s, size_t t)
{
	return s->file[s->place[t].file].path;
}

int hfset_read(struct hfset *s, size_t t, uint64_t first, float *out, size_t n)
{
	int rc = safetensors_floats(&s->file[s->place[t].file].st, s->place[t].tensor, first, out, n);

	return rc < 0 ? err_at(rc, "%s: tensor '%s'", hfset_path(s, t), tensor_at(s, s->place[t])->name) : 0;
}

int hfset_apart(const struct hfset *s, const char *output)
{
	int rc = 0;

	for (size_t i = 0; i < s->n && rc == 0; i++)
		rc = output_apart(output, "the output", s->file[i].path, "an input");
	return rc;
}
