#include "round/hfexport.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/finite.h"
#include "base/json.h"
#include "form/jsondoc.h"
#include "form/safetensors.h"
#include "form/vocab.h"
#include "io/atomic.h"
#include "io/fd.h"
#include "io/newdir.h"
#include "io/wake.h"
#include "round/checkpoint.h"
#include "round/hfconfig.h"
#include "round/hfset.h"
#include "round/probe.h"

#define CONFIG "config.json"
#define TOKENIZER_BYTES ((uint64_t)256 << 20) /* of a file; the largest in use have 40 MB */
#define NAME 64 /* of a file of weights, with NUL */

struct work {
	const struct export *x;
	struct checkpoint c;
	const struct tensors *ts;
	enum safetensors_type *type; /* of each tensor */
	uint32_t *shard;             /* and the file it goes to */
	uint32_t shards;
	struct newdir dir;
	struct buf like; /* the config.json that came with the tokenizer */
};

/* ---- the plan ---- */

static int choose_types(struct work *w)
{
	enum safetensors_type all = SAFETENSORS_F32;

	w->type = malloc((w->ts->n + 1) * sizeof *w->type);
	if (!w->type)
		return err_nomem();
	if (w->x->dtype && safetensors_float_type(&all, w->x->dtype) < 0)
		return err_at(ERR_USAGE, "option --dtype");
	for (size_t t = 0; t < w->ts->n; t++)
		w->type[t] = w->x->dtype ? all : safetensors_type_of(&w->ts->v[t]);
	return 0;
}

/* A file is full when the next tensor would make it too large; none is empty. */
static int cut_shards(struct work *w)
{
	uint64_t bytes = 0;

	w->shard = malloc((w->ts->n + 1) * sizeof *w->shard);
	if (!w->shard)
		return err_nomem();
	for (size_t t = 0; t < w->ts->n; t++) {
		const uint64_t more = w->ts->v[t].count * safetensors_size(w->type[t]);

		if (t > 0 && (bytes > w->x->shard_bytes || more > w->x->shard_bytes - bytes)) {
			w->shards++;
			bytes = 0;
		}
		w->shard[t] = w->shards;
		bytes += more;
	}
	w->shards++;
	return w->shards <= HFSET_FILES ? 0
		: err_set(ERR_USAGE, "option --shard-size: that makes %" PRIu32 " files, at most %d", w->shards,
			HFSET_FILES);
}

static void file_name(char out[NAME], const struct work *w, uint32_t shard)
{
	if (w->shards == 1)
		snprintf(out, NAME, "%s", HFSET_SINGLE);
	else
		snprintf(out, NAME, "model-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", shard + 1, w->shards);
}

/* ---- weights ---- */

/* The file that is being written. */
struct shard_file {
	struct atomic file;
	char *path;
	struct finite finite; /* of the tensor under way */
};

/* An error of writing belongs to the directory as the user named it. */
static int at_output(const struct work *w, int rc)
{
	return rc < 0 ? err_at(rc, "%s", w->x->out) : 0;
}

static int write_header(const struct work *w, uint32_t shard, int fd)
{
	struct safetensors s = { 0 };
	struct buf header = BUF_INIT;
	int rc = conf_set(&s.metadata, "format", "pt");

	for (size_t t = 0; t < w->ts->n && rc == 0; t++)
		if (w->shard[t] == shard)
			rc = safetensors_add(&s, &w->ts->v[t], w->type[t]);
	if (rc == 0)
		rc = safetensors_header(&s, &header);
	if (rc == 0)
		rc = fd_write(fd, header.data, header.len);
	buf_release(&header);
	safetensors_release(&s);
	return rc;
}

static int open_shard(struct shard_file *f, const struct work *w, uint32_t shard)
{
	char name[NAME];
	int rc;

	file_name(name, w, shard);
	free(f->path);
	rc = hfset_join(&f->path, w->dir.temp, name);
	if (rc == 0)
		rc = atomic_open(&f->file, f->path, 0666);
	if (rc == 0)
		rc = write_header(w, shard, f->file.fd);
	return at_output(w, rc);
}

static int write_slice(struct shard_file *f, const struct work *w, const struct frame_slice *s)
{
	const struct tensor *t = &w->ts->v[s->tensor];
	int rc;

	finite_look(&f->finite, s->value, s->n);
	rc = safetensors_put(f->file.fd, w->type[s->tensor], s->first, s->value, s->n);
	if (rc != ERR_DATA && rc < 0)
		return at_output(w, rc);
	if (rc == 0 && s->first + s->n == t->count) {
		rc = finite_check(&f->finite);
		f->finite = (struct finite){ 0 };
	}
	return rc < 0 ? err_at(err_at(rc, "tensor '%s'", t->name), "%s", frame_name(w->x->from)) : 0;
}

/* Slices come in the order of the tensors, tensors of one file after the other. */
static int take_slice(struct shard_file *f, const struct work *w, const struct frame_slice *s)
{
	const uint32_t t = s->tensor;
	const bool starts = s->first == 0 && (t == 0 || w->shard[t] != w->shard[t - 1]);
	const bool ends = s->first + s->n == w->ts->v[t].count &&
		(t + 1 == w->ts->n || w->shard[t] != w->shard[t + 1]);
	int rc = 0;

	if (!s->value || s->rest)
		return err_set(ERR_DATA, "%s: tensor '%s' is not f32 or bf16", frame_name(w->x->from),
			w->ts->v[t].name);
	if (starts)
		rc = open_shard(f, w, w->shard[t]);
	if (rc == 0)
		rc = write_slice(f, w, s);
	if (rc == 0 && ends)
		rc = at_output(w, atomic_commit(&f->file));
	return rc;
}

/* Up to the verified end of the input. */
static int write_weights(const struct work *w)
{
	struct shard_file f = { .file = ATOMIC_INIT };
	struct frame_slice s;
	int rc = 0, more = 0;

	while (rc == 0 && (more = frame_next(w->x->from, &s)) > 0) {
		rc = take_slice(&f, w, &s);
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
		if (say_due(w->x->say))
			say_progress(w->x->say, "tensor %" PRIu32 " of %zu", s.tensor + 1, w->ts->n);
	}
	say_progress_end(w->x->say);
	atomic_abort(&f.file);
	free(f.path);
	return rc < 0 ? rc : more;
}

/* ---- the other files ---- */

static int put_file(const struct work *w, const char *name, const struct buf *text)
{
	char *path = NULL;
	int rc = hfset_join(&path, w->dir.temp, name);

	if (rc == 0)
		rc = atomic_put(path, 0666, text->data, text->len, atomic_commit);
	free(path);
	return at_output(w, rc);
}

static int write_index(const struct work *w)
{
	struct buf text = BUF_INIT;
	uint64_t total = 0;
	char name[NAME];
	int rc;

	for (size_t t = 0; t < w->ts->n; t++)
		total += w->ts->v[t].count * safetensors_size(w->type[t]);
	rc = buf_fmt(&text, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {", total);
	for (size_t t = 0; t < w->ts->n && rc == 0; t++) {
		file_name(name, w, w->shard[t]);
		rc = buf_fmt(&text, "%s\n    \"%s\": \"%s\"", t ? "," : "", w->ts->v[t].name, name);
	}
	if (rc == 0)
		rc = buf_str(&text, "\n  }\n}\n");
	if (rc == 0)
		rc = put_file(w, HFSET_INDEX, &text);
	buf_release(&text);
	return rc;
}

static int write_config(const struct work *w)
{
	static const char *const names[] = { [SAFETENSORS_F32] = "float32", [SAFETENSORS_BF16] = "bfloat16",
		[SAFETENSORS_F16] = "float16" };
	struct buf text = BUF_INIT;
	int rc = hfconfig_write(&w->c.model, names[w->type[0]], w->like.data, w->like.len, &text);

	if (rc == 0)
		rc = put_file(w, CONFIG, &text);
	buf_release(&text);
	return rc;
}

/* ---- the tokenizer ---- */

static const char *const tokenizer_files[] = { "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
	"special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja",
	"chat_template.json", "generation_config.json" };

static int open_file(const char *path, uint64_t limit, int *fd)
{
	uint64_t size;
	int rc = fd_open_in(path, fd);

	if (rc == 0 && !fd_regular(*fd, &size))
		rc = err_set(ERR_DATA, "%s: not a regular file", path);
	else if (rc == 0 && size > limit)
		rc = err_set(ERR_DATA, "%s: %" PRIu64 " bytes, where at most %" PRIu64 " make sense", path, size,
			limit);
	return rc;
}

static int copy_bytes(int to, int from)
{
	char block[65536];
	ssize_t got;
	int rc = 0;

	while (rc == 0 && (got = fd_read(from, block, sizeof block)) != 0) {
		rc = got < 0 ? (int)got : fd_write(to, block, (size_t)got);
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
	}
	return rc;
}

static int copy_file(const struct work *w, const char *from, const char *name)
{
	struct atomic file = ATOMIC_INIT;
	char *path = NULL;
	int fd = -1, rc = hfset_join(&path, w->dir.temp, name);

	if (rc == 0)
		rc = open_file(from, TOKENIZER_BYTES, &fd);
	if (rc == 0)
		rc = atomic_open(&file, path, 0666);
	if (rc == 0 && (rc = copy_bytes(file.fd, fd)) < 0)
		rc = err_at(rc, "%s: copying %s", w->x->out, from);
	if (rc == 0)
		rc = atomic_commit(&file);
	atomic_abort(&file);
	if (fd >= 0)
		close(fd);
	free(path);
	return rc;
}

/* A file that is said to be one. */
static int copy_model(const struct work *w, const char *from)
{
	struct vocab v = { .n = 0 };
	int fd = -1, rc = open_file(from, TOKENIZER_BYTES, &fd);

	if (rc == 0)
		rc = vocab_load(&v, from);
	vocab_release(&v);
	if (fd >= 0)
		close(fd);
	return rc < 0 ? rc : copy_file(w, from, "tokenizer.model");
}

static int copy_named(const struct work *w, const char *name, size_t *copied)
{
	char *from = NULL;
	int rc = hfset_join(&from, w->x->tokenizer, name);

	if (rc == 0 && access(from, F_OK) == 0) {
		rc = copy_file(w, from, name);
		*copied += rc == 0;
	}
	free(from);
	return rc;
}

/* A directory, of which everything is taken that concerns tokens, or one SentencePiece model. */
static int copy_tokenizer(const struct work *w)
{
	const char *from = w->x->tokenizer;
	size_t copied = 0;
	struct stat st;
	int rc = 0;

	if (!from)
		return 0;
	if (stat(from, &st) < 0)
		return err_sys("%s", from);
	if (!S_ISDIR(st.st_mode))
		return copy_model(w, from);
	for (size_t i = 0; i < sizeof tokenizer_files / sizeof tokenizer_files[0] && rc == 0; i++)
		rc = copy_named(w, tokenizer_files[i], &copied);
	if (rc == 0 && copied == 0)
		rc = err_set(ERR_DATA, "%s: there are no files of a tokenizer in it", from);
	return rc;
}

static int slurp_json(const char *path, struct buf *text)
{
	struct jsondoc *doc = NULL;
	int fd = -1, rc = open_file(path, HFCONFIG_BYTES, &fd);

	if (rc == 0) {
		rc = fd_slurp(fd, HFCONFIG_BYTES, text);
		if (rc == 0)
			rc = jsondoc_parse(&doc, text->data ? text->data : "", text->len);
		rc = rc < 0 ? err_at(rc, "%s", path) : 0;
	}
	jsondoc_free(doc);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* What config.json says of special tokens. */
static int read_like(struct work *w)
{
	char *path = NULL;
	int rc = w->x->tokenizer ? hfset_join(&path, w->x->tokenizer, CONFIG) : 0;

	if (rc == 0 && path && access(path, F_OK) == 0)
		rc = slurp_json(path, &w->like);
	free(path);
	return rc;
}

/* ---- both sides ---- */

static int load_sealed(void *ctx, real *params)
{
	const struct work *w = ctx;
	struct frame_scratch *scratch = NULL;
	struct frame_slice s;
	int rc = frame_seekable(w->x->from);

	if (rc == 0)
		rc = frame_scratch_new(&scratch);
	for (uint32_t t = 0; t < w->ts->n && rc == 0; t++)
		for (uint32_t i = 0; i < frame_slices(w->x->from, t) && rc == 0; i++) {
			rc = frame_slice_at(w->x->from, scratch, t, i, &s);
			if (rc == 0) {
				memcpy(params, s.value, s.n * sizeof *s.value);
				params += s.n;
			}
		}
	frame_scratch_free(scratch);
	return rc;
}

static int load_set(void *ctx, real *params)
{
	const struct work *w = ctx;
	struct hfset set;
	int rc = hfset_open(&set, w->dir.temp, w->ts, w->c.model.tied);

	for (size_t t = 0; t < w->ts->n && rc == 0; t++) {
		rc = hfset_read(&set, t, 0, params, (size_t)w->ts->v[t].count);
		params += w->ts->v[t].count;
	}
	hfset_close(&set);
	return rc;
}

static bool is_lossless(const struct work *w)
{
	for (size_t t = 0; t < w->ts->n; t++)
		if (w->type[t] != SAFETENSORS_F32 && w->type[t] != safetensors_type_of(&w->ts->v[t]))
			return false;
	return true;
}

static int compare(const struct work *w, const struct probe *ours, const struct probe *theirs)
{
	const double difference = probe_difference(ours, theirs);

	if (is_lossless(w) && !probe_same(ours, theirs))
		return err_set(ERR_DATA, "--check: the model says something else after the export: loss %.9g, not %.9g",
			theirs->loss, ours->loss);
	say_note(w->x->say, "checked: on tokens at random losses of %.6f here and %.6f there, logits up to %.2g "
		"of the largest apart",
		ours->loss, theirs->loss, difference);
	return 0;
}

static int check_sides(struct work *w)
{
	struct probe ours = { 0 }, theirs = { 0 };
	int rc = probe_run(&ours, &w->c.model, w->x->pool, load_sealed, w);

	if (rc == 0)
		rc = probe_run(&theirs, &w->c.model, w->x->pool, load_set, w);
	if (rc == 0)
		rc = compare(w, &ours, &theirs);
	probe_release(&ours);
	probe_release(&theirs);
	return rc;
}

/* ---- */

static int check_options(const struct export *x)
{
	if (strcmp(x->out, "-") == 0)
		return err_set(ERR_USAGE, "option --output: -f hf makes a directory");
	if (x->check && !fd_regular(x->fd, &(uint64_t){ 0 }))
		return err_set(ERR_USAGE, "option --check: the checkpoint must come from a file, to be read again");
	return 0;
}

static int make_plan(struct work *w)
{
	int rc = check_options(w->x);

	if (rc == 0)
		rc = checkpoint_open(&w->c, w->x->from);
	if (rc == 0)
		rc = choose_types(w);
	if (rc == 0)
		rc = cut_shards(w);
	return rc == 0 ? read_like(w) : rc;
}

/* The tokenizer first, which takes no time and may be refused; config.json and index last, as those that say how to
 * read the rest. */
static int make_files(struct work *w)
{
	int rc = copy_tokenizer(w);

	if (rc == 0)
		rc = write_weights(w);
	if (rc == 0 && w->shards > 1)
		rc = write_index(w);
	if (rc == 0)
		rc = write_config(w);
	return rc == 0 && w->x->check ? check_sides(w) : rc;
}

int hfexport(const struct export *x)
{
	struct work w = { .x = x, .ts = &frame_header(x->from)->tensors };
	int rc = make_plan(&w);

	if (rc == 0)
		rc = newdir_open(&w.dir, x->out);
	if (rc == 0)
		rc = make_files(&w);
	if (rc == 0)
		rc = newdir_commit(&w.dir);
	newdir_abort(&w.dir);
	if (rc == 0)
		say_note(x->say, "%s: %" PRIu64 " parameters in %" PRIu32 " file%s", x->out, tensors_total(w.ts),
			w.shards, w.shards > 1 ? "s" : "");
	buf_release(&w.like);
	free(w.type);
	free(w.shard);
	return rc;
}
