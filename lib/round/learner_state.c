#include "round/learner_state.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/frame.h"
#include "io/atomic.h"
#include "io/fd.h"
#include "math/merge.h"

/* The tensors of a state are those of the model three times over. */
static const char *const groups[] = { "m.", "v.", "p." };
#define GROUPS 3

static float *group(const struct learner_state *s, size_t g)
{
	return g == 0 ? s->m : g == 1 ? s->v : s->local;
}

static int push_group(struct tensors *out, const struct tensors *layout, const char *prefix)
{
	struct tensor t;
	int n, rc;

	for (size_t i = 0; i < layout->n; i++) {
		t = layout->v[i];
		t.enc = ENC_F32;
		n = snprintf(t.name, sizeof t.name, "%s%s", prefix, layout->v[i].name);
		if (n > TENSOR_NAME)
			return err_set(ERR_DATA, "tensor name '%s' is too long", layout->v[i].name);
		if ((rc = tensors_push(out, &t)) < 0)
			return rc;
	}
	return 0;
}

static int state_table(struct tensors *out, const struct tensors *layout)
{
	int rc = 0;

	for (size_t g = 0; rc == 0 && g < GROUPS; g++)
		rc = push_group(out, layout, groups[g]);
	return rc;
}

/* ---- reading ---- */

static int same_word(const char *what, const char *have, const char *want)
{
	if (strcmp(have, want) == 0)
		return 0;
	return err_set(ERR_DATA, "is of another %s (%.16s, not %.16s)", what, have, want);
}

static int check_owner(const struct meta *have, const struct meta *want)
{
	int rc;

	if ((rc = meta_want(have, KIND_STATE)) < 0)
		return rc;
	if ((rc = same_word("run", have->run, want->run)) < 0)
		return rc;
	if ((rc = same_word("model", have->model, want->model)) < 0)
		return rc;
	if (strcmp(have->learner, want->learner) != 0)
		return err_set(ERR_DATA, "is of learner '%s', not '%s' (-i %s goes on with it)",
			have->learner, want->learner, have->learner);
	return 0;
}

static int check_layout(const struct header *h, const struct tensors *layout)
{
	struct tensors want = { 0 };
	int rc = state_table(&want, layout);

	if (rc == 0)
		rc = tensors_same(&want, &h->tensors);
	tensors_release(&want);
	return rc;
}

static int read_counters(struct learner_state *s, const struct meta *have, const struct header *h)
{
	struct meta *now = &s->meta;
	int rc;

	if ((rc = conf_u64(&h->keys, "updates", 0, UINT64_MAX, &s->updates)) < 0)
		return rc;
	s->new_data = strcmp(have->shard, now->shard) != 0 || have->context != now->context;
	if (!s->new_data)
		now->cursor = have->cursor;
	if (strcmp(have->base, now->base) != 0)
		return 0;
	now->steps = have->steps;
	now->tokens = have->tokens;
	now->loss_first = have->loss_first;
	now->loss_last = have->loss_last;
	rc = conf_f64(&h->keys, "loss_sum", -HUGE_VAL, HUGE_VAL, &s->loss_sum);
	return rc < 0 ? rc : 0;
}

static int check_finite(const struct tensor *t, uint64_t first, const float *value, size_t n)
{
	size_t bad;

	merge_norm2(value, NULL, n, &bad);
	if (bad == n)
		return 0;
	return err_set(ERR_DATA, "tensor %s: element %" PRIu64 " is not finite", t->name,
		first + bad);
}

static int read_values(struct learner_state *s, struct frame_reader *r, bool with_local)
{
	const struct header *h = frame_header(r);
	struct frame_slice slice;
	uint64_t start = 0; /* of the slice's tensor in its group */
	uint32_t seen = 0;  /* the tensor that start belongs to */
	size_t g;
	int rc;

	while ((rc = frame_next(r, &slice)) == 1) {
		for (; seen < slice.tensor; seen++)
			start = (seen + 1) % s->layout->n ? start + h->tensors.v[seen].count : 0;
		rc = check_finite(&h->tensors.v[slice.tensor], slice.first, slice.value, slice.n);
		if (rc < 0)
			return err_at(rc, "%s", s->path);
		g = slice.tensor / s->layout->n;
		if (g < GROUPS - 1 || with_local)
			memcpy(group(s, g) + start + slice.first, slice.value,
				slice.n * sizeof(float));
	}
	return rc < 0 ? rc : frame_id(r, &s->id);
}

static int read_file(struct learner_state *s, int fd, struct pool *pool)
{
	struct frame_reader *r;
	const struct header *h;
	struct meta have;
	uint64_t size;
	int rc;

	if (!fd_regular(fd, &size))
		return err_set(ERR_DATA, "%s: not a regular file", s->path);
	if ((rc = frame_open(&r, fd, s->path, s->trust, pool)) < 0)
		return rc;
	h = frame_header(r);
	rc = meta_read(&have, h);
	if (rc == 0)
		rc = check_owner(&have, &s->meta);
	if (rc == 0)
		rc = check_layout(h, s->layout);
	if (rc == 0)
		rc = read_counters(s, &have, h);
	if (rc < 0)
		rc = err_at(rc, "%s", s->path);
	else
		rc = read_values(s, r, strcmp(have.base, s->meta.base) == 0);
	frame_reader_free(r);
	return rc;
}

/* 1 open, 0 no such file. */
static int open_existing(const char *path, int *fd)
{
	int rc;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	rc = fd_open_in(path, fd);
	return rc < 0 ? rc : 1;
}

static int read_existing(struct learner_state *s, struct pool *pool)
{
	int fd, rc;

	if ((rc = lock_take(&s->lock, s->path)) < 0)
		return rc;
	if ((rc = open_existing(s->path, &fd)) <= 0)
		return rc;
	rc = read_file(s, fd, pool);
	close(fd);
	s->on_disk = rc == 0;
	return rc;
}

int learner_state_open(struct learner_state *s, const char *path, const struct meta *begin,
	const struct tensors *layout, float *local, const struct trust *trust, struct pool *pool)
{
	uint64_t n = tensors_total(layout);

	*s = (struct learner_state){ .meta = *begin, .local = local, .layout = layout,
		.trust = trust, .path = path, .lock = LOCK_INIT };
	s->meta.kind = KIND_STATE;
	s->m = calloc(n, sizeof *s->m);
	s->v = calloc(n, sizeof *s->v);
	if (!s->m || !s->v)
		return err_nomem();
	return path ? read_existing(s, pool) : 0;
}

void learner_state_close(struct learner_state *s)
{
	free(s->m);
	free(s->v);
	s->m = s->v = NULL;
	if (s->path)
		lock_release(&s->lock);
	s->path = NULL;
}

/* ---- writing ---- */

static int write_header(const struct learner_state *s, struct header *h)
{
	int rc;

	if ((rc = meta_write(&s->meta, h)) < 0)
		return rc;
	if ((rc = conf_set_u64(&h->keys, "updates", s->updates)) < 0)
		return rc;
	if ((rc = conf_set_f64(&h->keys, "loss_sum", s->loss_sum)) < 0)
		return rc;
	return state_table(&h->tensors, s->layout);
}

/* What is not finite is not kept: a file that nobody can go on from would replace a good one. */
static int write_values(const struct learner_state *s, struct frame_writer *w)
{
	const struct tensor *t;
	const float *at;
	size_t g, i;
	int rc;

	for (g = 0; g < GROUPS; g++)
		for (at = group(s, g), i = 0; i < s->layout->n; at += t->count, i++) {
			t = &s->layout->v[i];
			if ((rc = check_finite(t, 0, at, t->count)) < 0)
				return rc;
			if ((rc = frame_write(w, at, NULL, t->count)) < 0)
				return rc;
		}
	return 0;
}

static int write_file(const struct learner_state *s, int fd, digest *id,
	const struct sig_secret *key, struct pool *pool)
{
	struct frame_writer *w = NULL;
	struct header h = { 0 };
	int rc = write_header(s, &h);

	if (rc == 0)
		rc = frame_create(&w, fd, &h, key, pool);
	header_release(&h);
	if (rc == 0)
		rc = write_values(s, w);
	if (rc == 0)
		rc = frame_finish(w, id);
	frame_writer_free(w);
	return rc;
}

/* 1 and the identity of the file at s->path, or 0 when there is none. */
static int identity_on_disk(const struct learner_state *s, digest *id)
{
	struct frame_reader *r;
	int fd, rc;

	if ((rc = open_existing(s->path, &fd)) <= 0)
		return rc;
	rc = frame_open(&r, fd, s->path, s->trust, NULL);
	if (rc == 0) {
		rc = frame_seekable(r);
		if (rc == 0)
			rc = frame_id(r, id);
		frame_reader_free(r);
	}
	close(fd);
	return rc < 0 ? rc : 1;
}

static int check_unchanged(const struct learner_state *s)
{
	digest now;
	int rc = identity_on_disk(s, &now);

	if (rc < 0)
		return rc;
	if ((rc == 1) == s->on_disk && (rc == 0 || memcmp(&now, &s->id, sizeof now) == 0))
		return 0;
	return err_set(ERR_BUSY, "%s: changed by another process meanwhile: left as it is",
		s->path);
}

int learner_state_save(struct learner_state *s, const struct sig_secret *key, struct pool *pool)
{
	struct atomic out;
	digest id;
	int rc;

	if (!s->path)
		return 0;
	s->meta.loss_mean = s->meta.steps ? s->loss_sum / (double)s->meta.steps : 0;
	if ((rc = check_unchanged(s)) < 0)
		return rc;
	if ((rc = atomic_open(&out, s->path, 0666)) < 0)
		return rc;
	rc = write_file(s, out.fd, &id, key, pool);
	if (rc < 0) {
		atomic_abort(&out);
		return err_at(rc, "%s", s->path);
	}
	if ((rc = atomic_commit(&out)) < 0)
		return rc;
	s->id = id;
	s->on_disk = true;
	return 0;
}
