#include "round/revive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/card.h"
#include "form/frame.h"
#include "io/place.h"
#include "round/difference.h"
#include "round/rundir.h"

#define LIST_MOST 100000 /* entries of a directory */

static void raise_to(uint64_t *to, uint64_t value)
{
	if (value > *to)
		*to = value;
}

/* ---- its beat ---- */

/* 1 and its beat, 0 when there is none that is any good. */
static int read_beat(struct beat *b, const struct meta *about, const struct trust *learners,
	const struct sig_public *own, unsigned fragments, struct say *say)
{
	struct header h = { 0 };
	struct sig_public signer;
	char path[RUNDIR_PATH];
	int rc = card_read(&h, &signer, rundir_beat(path, about->learner), learners);
	bool taken = rc == 1 && memcmp(&signer, own, sizeof signer) != 0;

	if (rc == 1 && !taken)
		rc = beat_read(b, &h, fragments) < 0 ? err_at(ERR_DATA, "%s", path) : 1;
	header_release(&h);
	if (taken)
		return err_set(ERR_AUTH, "the name '%s' is in use by another key: choose one with -i", about->learner);
	if (rc == 1 && strcmp(b->run, about->run) == 0)
		return 1;
	if (rc == 1)
		beat_release(b);
	if (rc < 0)
		say_warn(say, "%s: ignored", err_text());
	return 0;
}

static void take_beat(struct revived *v, const struct beat *b)
{
	v->was = true;
	raise_to(&v->incarnation, b->incarnation);
	raise_to(&v->steps, b->steps);
	raise_to(&v->trained, b->trained);
	raise_to(&v->of_all, b->trained);
	raise_to(&v->serial, b->serial);
}

/* ---- its state ---- */

static void take_state(struct revived *v, const struct run_state *s, const struct meta *about)
{
	const struct beat *b = &s->books;

	take_beat(v, b);
	v->whole = true;
	v->step = b->step;
	raise_to(&v->of_all, s->of_all);
	if (strcmp(s->shard, about->shard) == 0 && s->context == about->context)
		v->cursor = s->cursor;
	for (unsigned p = 0; p < b->fragments; p++)
		v->part[p] = b->fragment[p];
}

static void read_state(struct revived *v, struct run_state *s, const struct meta *about,
	const struct trust *learners, const struct sig_public *own, struct pool *pool, struct say *say)
{
	char path[RUNDIR_PATH];
	int rc = run_state_read(s, rundir_state(path, about->learner), about, about->learner, own,
		learners, pool);

	if (rc == 1)
		take_state(v, s, about);
	else if (rc < 0)
		say_warn(say, "%s: ignored, a new one will replace it", err_text());
}

/* What beat or a delta says of answers that the state does not know: it is older, and so is the work that
 * was under way in it. */
static void take_answers(struct beat_fragment *f, uint64_t round, uint64_t answered)
{
	if (round > f->round) {
		f->round = round;
		f->steps = f->tokens = 0;
	}
	raise_to(&f->answered, answered);
}

/* ---- its deltas ---- */

struct own_delta {
	unsigned fragment;
	uint64_t round;
};

static bool is_delta(void *ctx, const char *name)
{
	struct own_delta d;

	(void)ctx;
	return rundir_delta_parse(name, &d.fragment, &d.round);
}

static int newest_first(const void *a, const void *b)
{
	const struct own_delta *x = a, *y = b;

	if (x->fragment != y->fragment)
		return x->fragment < y->fragment ? -1 : 1;
	return (y->round > x->round) - (y->round < x->round);
}

/* One that is whole, ours and of this run. Whatever comes of it, the caller frees the reader and closes the file. */
static bool open_delta(struct frame_reader **r, int *fd, struct meta *m, const struct own_delta *d,
	const struct meta *about, const struct trust *learners, const struct sig_public *own)
{
	char path[RUNDIR_PATH], name[5];

	*r = NULL;
	if (place_open(rundir_delta(path, about->learner, d->fragment, d->round), fd) != 1) {
		*fd = -1;
		return false;
	}
	return frame_open(r, *fd, path, learners, NULL) == 0 && frame_seekable(*r) == 0 &&
		memcmp(frame_signer(*r), own, sizeof *own) == 0 &&
		meta_read(m, frame_header(*r)) == 0 && m->kind == KIND_DELTA &&
		strcmp(m->run, about->run) == 0 && strcmp(m->learner, about->learner) == 0 &&
		strcmp(m->fragment, rundir_fragment_name(name, d->fragment)) == 0 &&
		m->round == d->round;
}

static void close_delta(struct frame_reader *r, int fd)
{
	frame_reader_free(r);
	if (fd >= 0)
		close(fd);
}

static bool look_at_delta(struct meta *m, const struct own_delta *d, const struct meta *about,
	const struct trust *learners, const struct sig_public *own)
{
	struct frame_reader *r;
	int fd;
	bool good = open_delta(&r, &fd, m, d, about, learners, own);

	close_delta(r, fd);
	return good;
}

bool revive_snapshot(float *snap, const struct fragment *f, unsigned p, uint64_t round, const digest *id,
	const float *base, const struct meta *about, const struct trust *learners, const struct sig_public *own)
{
	const struct own_delta d = { p, round };
	struct frame_reader *r;
	struct meta m;
	char hex[65];
	bool good;
	int fd;

	sig_hex(hex, id->b, sizeof id->b);
	good = open_delta(&r, &fd, &m, &d, about, learners, own) && strcmp(m.base, hex) == 0 &&
		tensors_same(&f->layout, &frame_header(r)->tensors) == 0 && difference_undo(r, base, snap) == 0;
	close_delta(r, fd);
	return good;
}

static void take_delta(struct revived *v, const struct own_delta *d, const struct meta *m,
	const struct meta *about)
{
	v->was = true;
	raise_to(&v->incarnation, m->incarnation);
	raise_to(&v->trained, m->trained);
	raise_to(&v->of_all, m->trained);
	if (strcmp(m->shard, about->shard) == 0 && m->context == about->context)
		raise_to(&v->cursor, m->cursor);
	take_answers(&v->part[d->fragment], d->round, m->answered);
}

static int list_deltas(struct own_delta **out, size_t *n, const struct meta *about)
{
	char dir[RUNDIR_PATH], **names;
	bool more;
	int rc;

	snprintf(dir, sizeof dir, "learner/%s", about->learner);
	if ((rc = place_list_if(&names, n, dir, LIST_MOST, &more, is_delta, NULL)) < 0)
		return rc;
	*out = calloc(*n ? *n : 1, sizeof **out);
	for (size_t i = 0; *out && i < *n; i++)
		(void)rundir_delta_parse(names[i], &(*out)[i].fragment, &(*out)[i].round);
	place_list_free(names, *n);
	if (!*out)
		return err_nomem();
	qsort(*out, *n, sizeof **out, newest_first);
	return 0;
}

/* The newest good one of each fragment knows all that is to be known of those before. */
static int read_deltas(struct revived *v, const struct meta *about, const struct trust *learners,
	const struct sig_public *own, unsigned fragments)
{
	struct own_delta *d = NULL;
	struct meta m;
	size_t n = 0;
	int done = -1, rc = list_deltas(&d, &n, about);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (d[i].fragment >= fragments || (int)d[i].fragment == done ||
			!look_at_delta(&m, &d[i], about, learners, own))
			continue;
		take_delta(v, &d[i], &m, about);
		done = (int)d[i].fragment;
	}
	free(d);
	return rc;
}

/* ---- all of it ---- */

int revive(struct revived *v, struct run_state *s, const struct meta *about, const struct trust *learners,
	const struct sig_public *own, struct pool *pool, struct say *say)
{
	unsigned fragments = s->books.fragments;
	struct beat b = { 0 };
	int rc;

	*v = (struct revived){ 0 };
	v->part = calloc(fragments, sizeof *v->part);
	if (!v->part)
		return err_nomem();
	if ((rc = read_beat(&b, about, learners, own, fragments, say)) < 0)
		return rc;
	read_state(v, s, about, learners, own, pool, say);
	if (rc == 1) {
		take_beat(v, &b);
		for (unsigned p = 0; p < fragments; p++)
			take_answers(&v->part[p], b.fragment[p].round, b.fragment[p].answered);
		beat_release(&b);
	}
	return read_deltas(v, about, learners, own, fragments);
}

void revived_release(struct revived *v)
{
	free(v->part);
	*v = (struct revived){ 0 };
}

/* ---- somebody else's moments ---- */

struct donor {
	const char *name;
	uint64_t step;
};

static int newest_donor(const void *a, const void *b)
{
	const struct donor *x = a, *y = b;

	return (y->step > x->step) - (y->step < x->step);
}

static bool is_name(void *ctx, const char *name)
{
	return key_name_check("learner", name) == 0 && strcmp(name, ctx) != 0;
}

/* One after the other, the newest first; what turns out bad on the way leaves nothing. */
static int try_donors(struct run_state *s, char *from, struct donor *v, size_t n, const struct meta *about,
	const struct trust *learners, struct pool *pool, struct say *say)
{
	const uint64_t size = tensors_total(s->layout);
	const uint64_t size_v = optimizer_size_v(s->values.optimizer, s->layout);
	struct moments all = s->values;
	char path[RUNDIR_PATH];
	int rc = 0;

	qsort(v, n, sizeof *v, newest_donor);
	s->values.p = NULL;
	for (size_t i = 0; i < n && rc != 1; i++) {
		rundir_state(path, v[i].name);
		rc = run_state_read(s, path, about, NULL, NULL, learners, pool);
		if (rc == 1)
			snprintf(from, KEY_NAME + 1, "%s", v[i].name);
		else if (rc < 0)
			say_note(say, "%s: passed over", err_text());
	}
	s->values = all;
	if (rc == 1)
		return 1;
	memset(s->values.m, 0, size * sizeof(float));
	memset(s->values.v, 0, size_v * sizeof(float));
	s->updates = 0;
	return 0;
}

int revive_moments(struct run_state *s, char *from, const struct meta *about, const struct trust *learners,
	struct pool *pool, struct say *say)
{
	char path[RUNDIR_PATH], **names, own[KEY_NAME + 1];
	struct donor *v;
	size_t n, good = 0;
	bool more;
	int rc;

	memcpy(own, about->learner, sizeof own);
	if ((rc = place_list_dirs(&names, &n, "learner", LIST_MOST, &more, is_name, own)) < 0)
		return rc;
	v = calloc(n ? n : 1, sizeof *v);
	rc = v ? 0 : err_nomem();
	for (size_t i = 0; rc == 0 && i < n; i++) {
		v[good].name = names[i];
		good += (size_t)run_state_look(rundir_state(path, names[i]), about, s->layout,
			s->values.optimizer, learners, &v[good].step);
	}
	if (rc == 0)
		rc = try_donors(s, from, v, good, about, learners, pool, say);
	free(v);
	place_list_free(names, n);
	return rc;
}
