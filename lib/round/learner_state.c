#include "round/learner_state.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/frame.h"
#include "io/atomic.h"
#include "io/fd.h"
#include "round/routed.h"

/* ---- reading ---- */

static int check_owner(const struct meta *have, const struct meta *want)
{
	int rc;

	if ((rc = meta_want(have, KIND_STATE)) < 0)
		return rc;
	if ((rc = meta_same_run(have, want)) < 0)
		return rc;
	if (strcmp(have->learner, want->learner) != 0)
		return err_set(ERR_DATA, "is of learner '%s', not '%s' (-i %s goes on with it)",
			have->learner, want->learner, have->learner);
	return 0;
}

static int read_routed(struct learner_state *s, const struct conf *keys)
{
	int rc = routed_read(s->routed, keys, ROUTED_KEY, s->layout, s->meta.tokens);

	s->uncounted = rc == 0 && s->meta.steps > 0;
	return rc < 0 ? rc : 0;
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
	return rc < 0 ? rc : read_routed(s, &h->keys);
}

static int read_values(struct learner_state *s, struct frame_reader *r, bool with_params)
{
	struct moments values = s->values;
	int rc;

	if (!with_params)
		values.p = NULL;
	rc = moments_read(&values, s->layout, r);
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
		rc = moments_check(h, s->layout, s->values.optimizer);
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
	const struct tensors *layout, const struct moments *values, const struct trust *trust,
	struct pool *pool)
{
	*s = (struct learner_state){ .meta = *begin, .values = *values, .layout = layout,
		.trust = trust, .path = path, .lock = LOCK_INIT };
	s->meta.kind = KIND_STATE;
	s->routed = calloc(layout->n, sizeof *s->routed);
	if (!s->routed)
		return err_nomem();
	return path ? read_existing(s, pool) : 0;
}

void learner_state_close(struct learner_state *s)
{
	if (s->path)
		lock_release(&s->lock);
	s->path = NULL;
	free(s->routed);
	s->routed = NULL;
}

/* ---- writing ---- */

int learner_state_routed(const struct learner_state *s, struct conf *to)
{
	return s->uncounted ? 0 : routed_write(to, ROUTED_KEY, s->layout, s->routed);
}

static int write_header(const struct learner_state *s, struct header *h)
{
	int rc;

	if ((rc = meta_write(&s->meta, h)) < 0)
		return rc;
	if ((rc = conf_set_u64(&h->keys, "updates", s->updates)) < 0)
		return rc;
	if ((rc = conf_set_f64(&h->keys, "loss_sum", s->loss_sum)) < 0)
		return rc;
	if ((rc = learner_state_routed(s, &h->keys)) < 0)
		return rc;
	return moments_header(h, s->layout, s->values.optimizer);
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
		rc = moments_write(&s->values, s->layout, w);
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
