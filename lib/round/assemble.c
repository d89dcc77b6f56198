#include "round/assemble.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/frame.h"
#include "form/meta.h"
#include "io/place.h"
#include "io/wake.h"
#include "round/run.h"
#include "round/rundir.h"
#include "round/sink.h"

#define TRIES 20 /* with newer heads, each time a version was collected meanwhile */

struct part {
	int fd;
	struct frame_reader *reader;
	char path[RUNDIR_PATH];
};

static int open_part(struct part *p, unsigned f, const struct assemble_conf *c, const struct head *h)
{
	digest id;
	int rc = place_open(rundir_fragment(p->path, f, h->fragment[f].version), &p->fd);

	if (rc <= 0) {
		p->fd = -1;
		return rc < 0 ? rc : err_set(ERR_AGAIN, "%s: not there", p->path);
	}
	if ((rc = frame_open(&p->reader, p->fd, p->path, c->makers, NULL)) < 0 ||
		(rc = frame_seekable(p->reader)) < 0 || (rc = frame_id(p->reader, &id)) < 0)
		return rc;
	if (memcmp(&id, &h->fragment[f].id, sizeof id) != 0)
		return err_set(ERR_AUTH, "%s: is not the one that was published", p->path);
	if (tensors_same(&c->fragments->v[f].layout, &frame_header(p->reader)->tensors) < 0)
		return err_at(ERR_DATA, "%s", p->path);
	return 0;
}

static int write_header(struct header *to, const struct assemble_conf *c, const struct head *h)
{
	const struct manifest *m = c->manifest;
	struct meta meta = m->meta;
	int rc;

	meta.kind = KIND_CHECKPOINT;
	meta.step = h->step;
	meta.tokens = h->tokens;
	for (unsigned f = 0; f < h->fragments; f++)
		if (h->fragment[f].version > meta.round)
			meta.round = h->fragment[f].version;
	if ((rc = meta_write(&meta, to)) < 0 || (rc = run_conf_write(&m->model, &m->train, to)) < 0)
		return rc;
	return tensors_copy(&to->tensors, &m->layout);
}

static int copy_tensor(struct sink *to, const struct part *p, struct frame_scratch *scratch,
	uint32_t tensor, uint64_t count)
{
	struct frame_slice s;
	int rc = 0;

	for (uint64_t at = 0; at < count && rc == 0; at += s.n)
		if ((rc = frame_slice_with(p->reader, scratch, tensor, at, &s)) == 0)
			rc = sink_write(to, s.value, s.n);
	return rc;
}

/* Which fragment has each tensor of the model, and as which of its own. */
struct home {
	unsigned fragment;
	uint32_t tensor;
};

static void find_homes(struct home *home, const struct fragments *f)
{
	for (unsigned i = 0; i < f->n; i++)
		for (size_t k = 0; k < f->v[i].n; k++)
			home[f->v[i].tensor[k]] = (struct home){ i, (uint32_t)k };
}

static int copy_all(struct sink *to, const struct part *part, const struct assemble_conf *c)
{
	const struct tensors *ts = &c->manifest->layout;
	struct home *home = calloc(ts->n + 1, sizeof *home);
	struct frame_scratch *scratch = NULL;
	int rc = home ? frame_scratch_new(&scratch) : err_nomem();

	if (rc == 0)
		find_homes(home, c->fragments);
	for (size_t t = 0; t < ts->n && rc == 0; t++) {
		rc = copy_tensor(to, &part[home[t].fragment], scratch, home[t].tensor, ts->v[t].count);
		if (c->tick)
			c->tick(c->ctx);
		else if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
	}
	frame_scratch_free(scratch);
	free(home);
	return rc;
}

static int write_all(struct sink *to, const struct part *part, const struct assemble_conf *c, const struct head *h,
	digest *id)
{
	struct header header = { .keys = { 0 } };
	int rc = write_header(&header, c, h);

	if (rc == 0)
		rc = sink_begin(to, &header, c->key);
	if (rc == 0)
		rc = copy_all(to, part, c);
	if (rc == 0)
		rc = sink_finish(to, id);
	header_release(&header);
	return rc;
}

static int assemble_into(struct sink *to, const struct assemble_conf *c, const struct head *h, digest *id)
{
	struct part *part = calloc(h->fragments + 1, sizeof *part);
	unsigned n = 0;
	int rc = part ? 0 : err_nomem();

	for (; n < h->fragments && rc == 0; n++)
		rc = open_part(&part[n], n, c, h);
	if (rc == 0)
		rc = write_all(to, part, c, h, id);
	while (n-- > 0) {
		frame_reader_free(part[n].reader);
		if (part[n].fd >= 0)
			close(part[n].fd);
	}
	free(part);
	return rc;
}

int assemble(int fd, const char *name, const struct assemble_conf *c, const struct head *h, digest *id)
{
	struct sink to;
	int rc;

	sink_init(&to, fd, name);
	rc = assemble_into(&to, c, h, id);
	sink_release(&to);
	return rc;
}

/* ---- a run ---- */

/* Half a checkpoint is of no use to anybody: where that can be done, what lies there is as it was before. */
static int take_back(struct sink *to, int rc)
{
	struct err_note note;

	err_save(&note, rc);
	return sink_cut(to) < 0 ? ERR_IO : err_restore(&note);
}

/* Again with a newer head, when there is one. A pipe can't take back what it was given, but open_part comes
 * before the first byte. */
static int try_heads(int fd, const char *name, const struct assemble_conf *c, digest *id)
{
	uint64_t counter = UINT64_MAX;
	struct head h = { 0 };
	struct sink to;
	int rc = ERR_AGAIN;

	sink_init(&to, fd, name);
	for (int i = 0; i < TRIES && rc == ERR_AGAIN; i++) {
		rc = head_load(&h, c->manifest->meta.run, c->fragments->n, c->makers);
		if (rc == 0)
			rc = err_set(ERR_AGAIN, "%s: not there: no syncer has been here yet", RUNDIR_HEAD);
		if (rc < 0)
			break;
		if (h.counter == counter)
			i = TRIES; /* the same one: it will not get better */
		counter = h.counter;
		rc = assemble_into(&to, c, &h, id);
		head_release(&h);
	}
	if (rc < 0 && to.writer)
		rc = take_back(&to, rc);
	sink_release(&to);
	return rc;
}

int assemble_run(int fd, const char *name, const struct manifest *m, const struct trust *user,
	const struct key *key, digest *id)
{
	struct fragments fragments = { 0 };
	struct trust makers = { 0 };
	struct assemble_conf c = { .manifest = m, .fragments = &fragments, .makers = &makers, .key = key };
	int rc = manifest_trust(m, ROLE_SYNCER, user, NULL, &makers);

	if (rc == 0)
		rc = fragments_cut(&fragments, &m->layout, m->fragments);
	if (rc == 0)
		rc = try_heads(fd, name, &c, id);
	fragments_release(&fragments);
	trust_release(&makers);
	return rc;
}
