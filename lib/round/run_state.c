#include "round/run_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/frame.h"
#include "io/place.h"
#include "round/routed.h"
#include "round/rundir.h"

int run_state_init(struct run_state *s, const struct fragments *cut, const struct tensors *layout,
	enum optimizer_kind optimizer)
{
	uint64_t n = tensors_total(layout);

	*s = (struct run_state){ .cut = cut, .layout = layout };
	s->base = calloc(cut->n, sizeof *s->base);
	s->routed = calloc(layout->n, sizeof *s->routed);
	s->counted = calloc(cut->n, sizeof *s->counted);
	s->values.m = calloc(n, sizeof(float));
	s->values.optimizer = optimizer;
	s->values.v = calloc(optimizer_size_v(optimizer, layout) + 1, sizeof(float));
	s->values.p = calloc(n, sizeof(float));
	if (!s->base || !s->routed || !s->counted || !s->values.m || !s->values.v || !s->values.p)
		return err_nomem();
	return beat_init(&s->books, cut->n);
}

void run_state_release(struct run_state *s)
{
	beat_release(&s->books);
	free(s->base);
	free(s->routed);
	free(s->counted);
	free(s->values.m);
	free(s->values.v);
	free(s->values.p);
	*s = (struct run_state){ 0 };
}

/* ---- writing ---- */

static char *key_of(char to[16], const char *what, unsigned p)
{
	char name[5];

	snprintf(to, 16, "%s.%s", what, rundir_fragment_name(name, p));
	return to;
}

static int write_place(const struct run_state *s, struct conf *to, const struct meta *about)
{
	int rc = conf_set(to, "kind", kind_name(KIND_STATE));

	if (rc == 0)
		rc = conf_set(to, "model", about->model);
	if (rc == 0)
		rc = conf_set_u64(to, "seed", about->seed);
	if (rc == 0)
		rc = conf_set(to, "shard", s->shard);
	if (rc == 0)
		rc = conf_set_u64(to, "context", s->context);
	if (rc == 0)
		rc = conf_set_u64(to, "cursor", s->cursor);
	if (rc == 0)
		rc = conf_set_u64(to, "of_all", s->of_all);
	return rc == 0 ? conf_set_u64(to, "updates", s->updates) : rc;
}

static int write_routed(const struct run_state *s, struct conf *to)
{
	const uint64_t *count = s->routed;
	char key[16];
	int rc = 0;

	for (unsigned p = 0; p < s->cut->n && rc == 0; count += s->cut->v[p++].n)
		if (s->counted[p])
			rc = routed_write(to, key_of(key, ROUTED_KEY, p), &s->cut->v[p].layout, count);
	return rc;
}

static int write_header(const struct run_state *s, struct header *h, const struct meta *about)
{
	char key[16], hex[65];
	int rc = beat_write(&s->books, h);

	if (rc == 0)
		rc = write_place(s, &h->keys, about);
	for (unsigned p = 0; rc == 0 && p < s->books.fragments; p++) {
		sig_hex(hex, s->base[p].b, SIG_DIGEST);
		rc = conf_set(&h->keys, key_of(key, "base", p), hex);
	}
	if (rc == 0)
		rc = write_routed(s, &h->keys);
	return rc == 0 ? moments_header(h, s->layout, s->values.optimizer) : rc;
}

int run_state_write(const struct run_state *s, int fd, const struct meta *about,
	const struct sig_secret *key)
{
	struct frame_writer *w = NULL;
	struct header h = { 0 };
	int rc = write_header(s, &h, about);

	if (rc == 0)
		rc = frame_create(&w, fd, &h, key, NULL);
	header_release(&h);
	if (rc == 0)
		rc = moments_write(&s->values, s->layout, w);
	if (rc == 0)
		rc = frame_finish(w, NULL);
	frame_writer_free(w);
	return rc;
}

/* ---- reading ---- */

/* Is it a state of this run and model at all? */
static int check_kind(const struct header *h, struct meta *m, const struct meta *about,
	const struct tensors *layout, enum optimizer_kind optimizer)
{
	int rc = meta_read(m, h);

	if (rc == 0)
		rc = meta_want(m, KIND_STATE);
	if (rc == 0)
		rc = meta_same_run(m, about);
	return rc == 0 ? moments_check(h, layout, optimizer) : rc;
}

static int check_owner(const struct frame_reader *r, const struct meta *m, const char *learner,
	const struct sig_public *own)
{
	if (strcmp(m->learner, learner) != 0)
		return err_set(ERR_DATA, "is of learner '%s', not '%s'", m->learner, learner);
	if (memcmp(frame_signer(r), own, sizeof *own) != 0)
		return err_set(ERR_AUTH, "is signed by another key than this learner's");
	return 0;
}

/* The books are read as a beat's. */
static int read_books(struct run_state *s, const struct header *h)
{
	struct header copy = { 0 };
	unsigned fragments = s->books.fragments;
	struct beat books = { 0 };
	int rc = header_copy(&copy, h);

	if (rc == 0)
		rc = conf_set(&copy.keys, "kind", kind_name(KIND_BEAT));
	if (rc == 0)
		rc = beat_read(&books, &copy, fragments);
	header_release(&copy);
	if (rc < 0)
		return rc;
	beat_release(&s->books);
	s->books = books;
	return 0;
}

static int read_bases(struct run_state *s, const struct conf *keys)
{
	const char *hex;
	char key[16];
	int rc;

	for (unsigned p = 0; p < s->books.fragments; p++) {
		hex = conf_get(keys, key_of(key, "base", p));
		if (!hex)
			return err_set(ERR_DATA, "key '%s' is missing", key);
		if ((rc = sig_unhex(s->base[p].b, SIG_DIGEST, hex)) < 0)
			return err_at(rc, "key '%s'", key);
	}
	return 0;
}

static int read_routed(struct run_state *s, const struct conf *keys)
{
	uint64_t *count = s->routed;
	char key[16];
	int rc = 0;

	for (unsigned p = 0; p < s->cut->n && rc >= 0; count += s->cut->v[p++].n) {
		rc = routed_read(count, keys, key_of(key, ROUTED_KEY, p), &s->cut->v[p].layout,
			s->books.fragment[p].tokens);
		s->counted[p] = rc == 1;
	}
	return rc < 0 ? rc : 0;
}

static int read_header(struct run_state *s, const struct frame_reader *r, const struct meta *about,
	const char *learner, const struct sig_public *own)
{
	const struct header *h = frame_header(r);
	struct meta m;
	int rc = check_kind(h, &m, about, s->layout, s->values.optimizer);

	if (rc == 0)
		rc = conf_u64(&h->keys, "updates", 0, UINT64_MAX, &s->updates);
	if (rc < 0 || !learner)
		return rc < 0 ? rc : 0;
	if ((rc = check_owner(r, &m, learner, own)) < 0)
		return rc;
	if ((rc = read_books(s, h)) < 0)
		return rc;
	snprintf(s->shard, sizeof s->shard, "%s", m.shard);
	s->context = m.context;
	s->cursor = m.cursor;
	if ((rc = conf_u64(&h->keys, "of_all", 0, UINT64_MAX, &s->of_all)) < 0)
		return rc;
	rc = read_bases(s, &h->keys);
	return rc == 0 ? read_routed(s, &h->keys) : rc;
}

int run_state_read(struct run_state *s, const char *path, const struct meta *about, const char *learner,
	const struct sig_public *own, const struct trust *trust, struct pool *pool)
{
	struct frame_reader *r = NULL;
	int fd, rc = place_open(path, &fd);

	if (rc <= 0)
		return rc;
	rc = frame_open(&r, fd, path, trust, pool);
	if (rc == 0 && (rc = read_header(s, r, about, learner, own)) < 0)
		rc = err_at(rc, "%s", path);
	if (rc == 0)
		rc = moments_read(&s->values, s->layout, r);
	frame_reader_free(r);
	close(fd);
	return rc < 0 ? rc : 1;
}

int run_state_look(const char *path, const struct meta *about, const struct tensors *layout,
	enum optimizer_kind optimizer, const struct trust *trust, uint64_t *step)
{
	struct frame_reader *r = NULL;
	struct meta m;
	int fd;
	bool good;

	if (place_open(path, &fd) != 1)
		return 0;
	good = frame_open(&r, fd, path, trust, NULL) == 0 &&
		check_kind(frame_header(r), &m, about, layout, optimizer) == 0 && frame_seekable(r) == 0;
	frame_reader_free(r);
	close(fd);
	if (good)
		*step = m.step;
	return good;
}
