#include "round/outer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/fd.h"

/* A state file that may be the one. */
struct candidate {
	struct frame_reader *reader;
	int fd;
	struct meta meta;
	digest id;
	char prior[65]; /* identity of the state before it; empty: it started from zero */
};

static void candidate_release(struct candidate *c)
{
	frame_reader_free(c->reader);
	if (c->fd >= 0)
		close(c->fd);
	*c = (struct candidate){ .fd = -1 };
}

static void take(struct outer *o, struct candidate *c)
{
	o->reader = c->reader;
	o->fd = c->fd;
	o->id = c->id;
	*c = (struct candidate){ .fd = -1 };
}

static int read_prior(struct candidate *c)
{
	const char *text = conf_get(&frame_header(c->reader)->keys, "prior");
	digest d;

	if (!text)
		return 0;
	if (sig_unhex(d.b, sizeof d.b, text) < 0)
		return err_set(ERR_DATA, "key 'prior' is not an identity");
	memcpy(c->prior, text, sizeof c->prior);
	return 0;
}

/* Reads c->fd, and sees that it is of this run and model. */
static int candidate_read(struct candidate *c, const char *path, const struct frame_reader *base,
	const struct meta *m, const struct trust *trust)
{
	int rc;

	if ((rc = frame_open(&c->reader, c->fd, path, trust, NULL)) < 0 ||
		(rc = frame_seekable(c->reader)) < 0 || (rc = frame_strict(c->reader)) < 0 ||
		(rc = frame_id(c->reader, &c->id)) < 0)
		return rc;
	if ((rc = meta_read(&c->meta, frame_header(c->reader))) == 0 &&
		(rc = meta_want(&c->meta, KIND_OUTER)) == 0)
		rc = read_prior(c);
	if (rc < 0)
		return err_at(rc, "%s", path);
	if (strcmp(c->meta.run, m->run) != 0)
		return err_set(ERR_AUTH, "%s: is of another run than %s", path, frame_name(base));
	if (strcmp(c->meta.model, m->model) != 0 ||
		tensors_same(&frame_header(base)->tensors, &frame_header(c->reader)->tensors) < 0)
		return err_set(ERR_AUTH, "%s: is of another model than %s", path, frame_name(base));
	return 0;
}

/* 1 opened and of this run and model, 0 not there. */
static int candidate_open(struct candidate *c, const char *path, const struct frame_reader *base,
	const struct meta *m, const struct trust *trust)
{
	int rc;

	*c = (struct candidate){ .fd = -1 };
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	if ((rc = fd_open_in(path, &c->fd)) < 0 || (rc = candidate_read(c, path, base, m, trust)) < 0)
		return rc;
	return 1;
}

/* Written by the step that wrote the checkpoint? */
static bool belongs(const struct candidate *c, const struct meta *m)
{
	return m->merge[0] && strcmp(c->meta.merge, m->merge) == 0;
}

/* Where atomic_commit_keep leaves the state before the one at `path`. */
static int previous_path(char **prev, const char *path)
{
	char *target;
	int rc = atomic_target(path, &target);

	if (rc < 0)
		return rc;
	if (asprintf(prev, "%s.prev", target) < 0)
		rc = err_nomem();
	free(target);
	return rc;
}

/* Its round is done, and is to be done again: from the state before it. */
static int open_before(struct outer *o, const struct candidate *after, const char *path,
	const struct frame_reader *base, const struct meta *m, const struct trust *trust)
{
	struct candidate c;
	char *prev, id[65];
	int rc;

	o->repeat = true;
	if (!after->prior[0])
		return 0;
	if ((rc = previous_path(&prev, path)) < 0)
		return rc;
	rc = candidate_open(&c, prev, base, m, trust);
	if (rc > 0) {
		sig_hex(id, c.id.b, sizeof c.id.b);
		if (strcmp(id, after->prior) == 0)
			take(o, &c);
		else
			rc = 0;
	}
	if (rc == 0)
		rc = err_set(ERR_AUTH, "%s: is not the state before %s, which %s needs to be merged again",
			prev, path, frame_name(base));
	candidate_release(&c);
	free(prev);
	return rc < 0 ? rc : 0;
}

/* No PATH. Where links are not to be had, a crash while publishing can leave PATH.prev alone; what else
 * may lie under that name is of no concern. */
static int open_missing(struct outer *o, const char *path, const struct frame_reader *base,
	const struct meta *m, const struct trust *trust, struct say *say)
{
	struct candidate c;
	char *prev;
	int rc;

	if ((rc = previous_path(&prev, path)) < 0)
		return rc;
	rc = candidate_open(&c, prev, base, m, trust);
	if (rc > 0 && belongs(&c, m)) {
		o->repeat = true;
		take(o, &c);
	} else if (rc != ERR_NOMEM && m->round > 0) {
		say_warn(say, "%s: not there, though %s is of round %" PRIu64
			": momentum starts from zero", path, frame_name(base), m->round);
	}
	candidate_release(&c);
	free(prev);
	return rc == ERR_NOMEM ? rc : 0;
}

static int choose(struct outer *o, struct candidate *c, const char *path,
	const struct frame_reader *base, const struct meta *m, const struct trust *trust)
{
	char id[65];
	digest d;
	int rc;

	if (belongs(c, m)) {
		take(o, c);
		return 0;
	}
	if ((rc = frame_id(base, &d)) < 0)
		return rc;
	sig_hex(id, d.b, sizeof d.b);
	if (strcmp(c->meta.base, id) == 0)
		return open_before(o, c, path, base, m, trust);
	return err_set(ERR_AUTH, "%s: goes with another checkpoint, of round %" PRIu64
		", not with %s of round %" PRIu64 "; it was left by another merge: repeat that merge "
		"with the deltas %s was made from, or give the checkpoint that merge wrote", path,
		c->meta.round, frame_name(base), m->round, frame_name(base));
}

int outer_open(struct outer *o, const char *path, const struct frame_reader *base,
	const struct meta *m, const struct trust *trust, struct say *say)
{
	struct candidate c;
	int rc;

	*o = (struct outer)OUTER_INIT;
	rc = candidate_open(&c, path, base, m, trust);
	if (rc > 0)
		rc = choose(o, &c, path, base, m, trust);
	else if (rc == 0)
		rc = open_missing(o, path, base, m, trust, say);
	candidate_release(&c);
	return rc;
}

int outer_take(struct outer *o, int fd, const char *name, const struct frame_reader *base,
	const struct meta *m, const struct trust *trust)
{
	struct candidate c = { .fd = fd };
	int rc = candidate_read(&c, name, base, m, trust);

	*o = (struct outer)OUTER_INIT;
	if (rc == 0 && !belongs(&c, m))
		rc = err_set(ERR_AUTH, "%s: is not the state that goes with %s", name, frame_name(base));
	if (rc == 0)
		take(o, &c);
	candidate_release(&c);
	return rc;
}

void outer_close(struct outer *o)
{
	frame_reader_free(o->reader);
	if (o->fd >= 0)
		close(o->fd);
	*o = (struct outer)OUTER_INIT;
}

int outer_header(struct header *h, const struct outer *prior, const struct meta *next,
	const digest *base, const struct tensors *layout)
{
	struct meta m = { .kind = KIND_OUTER, .round = next->round, .step = next->step,
		.version = next->version, .epoch = next->epoch };
	char id[65];
	int rc;

	memcpy(m.run, next->run, sizeof m.run);
	memcpy(m.model, next->model, sizeof m.model);
	memcpy(m.merge, next->merge, sizeof m.merge);
	memcpy(m.fragment, next->fragment, sizeof m.fragment);
	sig_hex(m.base, base->b, sizeof base->b);
	if ((rc = meta_write(&m, h)) < 0)
		return rc;
	if (prior->reader) {
		sig_hex(id, prior->id.b, sizeof prior->id.b);
		if ((rc = conf_set(&h->keys, "prior", id)) < 0)
			return rc;
	}
	if ((rc = tensors_copy(&h->tensors, layout)) < 0)
		return rc;
	for (size_t t = 0; t < h->tensors.n; t++)
		h->tensors.v[t].enc = ENC_F32;
	return 0;
}

int outer_publish(const struct outer *o, struct atomic *a)
{
	return o->repeat ? atomic_commit(a) : atomic_commit_keep(a);
}
