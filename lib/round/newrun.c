#include "round/newrun.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "io/newdir.h"
#include "io/place.h"
#include "io/wake.h"
#include "round/rundir.h"

#define SLICE 16384 /* values made at a time */

/* ---- fragments ---- */

/* Those of one tensor, made or copied. */
static int write_fresh(struct frame_writer *w, const struct manifest *m, uint32_t t)
{
	uint64_t count = m->layout.v[t].count;
	float value[SLICE];
	int rc = 0;

	for (uint64_t first = 0, n; first < count && rc == 0; first += n) {
		n = count - first < SLICE ? count - first : SLICE;
		model_init_slice(&m->model, &m->layout, m->meta.seed, t, first, value, n);
		rc = frame_write(w, value, NULL, n);
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
	}
	return rc;
}

static int write_slice(struct frame_writer *w, const struct frame_slice *s, const char *tensor)
{
	float value[SLICE];
	int rc = 0;

	for (size_t at = 0, n; at < s->n && rc == 0; at += n) {
		n = s->n - at < SLICE ? s->n - at : SLICE;
		for (size_t i = 0; i < n; i++) {
			value[i] = s->value[at + i] + (s->rest ? s->rest[at + i] : 0);
			if (!isfinite(value[i]))
				return err_set(ERR_DATA, "tensor '%s' element %" PRIu64 " is %g", tensor,
					s->first + at + i, (double)value[i]);
		}
		rc = frame_write(w, value, NULL, n);
	}
	return rc;
}

static int write_copy(struct frame_writer *w, const struct frame_reader *from,
	struct frame_scratch *scratch, uint32_t t)
{
	const char *tensor = frame_header(from)->tensors.v[t].name;
	struct frame_slice s;
	int rc = 0;

	for (uint32_t i = 0; i < frame_slices(from, t) && rc == 0; i++) {
		rc = frame_slice_at(from, scratch, t, i, &s);
		if (rc == 0 && (rc = write_slice(w, &s, tensor)) < 0)
			rc = err_at(rc, "%s", frame_name(from));
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
	}
	return rc;
}

static int write_values(const struct newrun *n, const struct fragment *f, struct frame_writer *w)
{
	struct frame_scratch *scratch = NULL;
	int rc = n->from ? frame_scratch_new(&scratch) : 0;

	for (size_t i = 0; i < f->n && rc == 0; i++)
		rc = n->from ? write_copy(w, n->from, scratch, f->tensor[i])
			     : write_fresh(w, n->manifest, f->tensor[i]);
	frame_scratch_free(scratch);
	return rc;
}

static int make_header(struct header *h, const struct newrun *n, unsigned fragment)
{
	struct meta meta = n->manifest->meta;
	int rc;

	meta.kind = KIND_FRAGMENT;
	rundir_fragment_name(meta.fragment, fragment);
	rc = meta_write(&meta, h);
	return rc < 0 ? rc : tensors_copy(&h->tensors, &n->fragments->v[fragment].layout);
}

static int write_fragment(const struct newrun *n, unsigned fragment, int fd)
{
	struct frame_writer *w = NULL;
	struct header h = { 0 };
	int rc = make_header(&h, n, fragment);

	if (rc == 0)
		rc = frame_create(&w, fd, &h, &n->owner->secret, NULL);
	if (rc == 0)
		rc = write_values(n, &n->fragments->v[fragment], w);
	if (rc == 0)
		rc = frame_finish(w, NULL);
	frame_writer_free(w);
	header_release(&h);
	return rc;
}

static int make_fragment(void *ctx, int i, int thread)
{
	const struct newrun *n = ctx;
	char path[RUNDIR_PATH];
	struct atomic file;
	int rc;

	(void)thread;
	rundir_outer(path, (unsigned)i, 0);
	if ((rc = place_make(path)) < 0)
		return rc;
	rundir_fragment(path, (unsigned)i, 0);
	if ((rc = place_make(path)) < 0 || (rc = place_create(&file, path)) < 0)
		return rc;
	rc = write_fragment(n, (unsigned)i, file.fd);
	if (rc == 0)
		return atomic_commit(&file);
	atomic_abort(&file);
	return err_at(rc, "%s", path);
}

/* Everything, in the current directory; the manifest last. */
static int make_files(struct newrun *n)
{
	static const char *const open_to_others[] = { "learner/x", "syncer/x", "ckpt/x" };
	int rc = manifest_identify(n->manifest);

	for (size_t i = 0; i < sizeof open_to_others / sizeof open_to_others[0] && rc == 0; i++)
		rc = place_make(open_to_others[i]);
	if (rc == 0)
		rc = pool_run(n->pool, make_fragment, n, (int)n->fragments->n);
	return rc < 0 ? rc : manifest_publish(n->manifest, n->owner);
}

/* ---- the directory ---- */

static int make_in(struct newrun *n, struct newdir *dir, const char *run)
{
	int rc = chdir(dir->temp) < 0 ? err_sys("%s", run) : 0;

	if (rc == 0 && (rc = make_files(n)) < 0)
		rc = err_at(rc, "%s", run);
	return rc == 0 ? newdir_commit(dir) : rc;
}

int newrun_make(const struct newrun *n, const char *run)
{
	struct newrun work = *n;
	struct newdir dir;
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (here < 0)
		return err_sys("the current directory");
	rc = newdir_open(&dir, run);
	if (rc == 0)
		rc = make_in(&work, &dir, run);
	if (fchdir(here) < 0 && rc == 0)
		rc = err_sys("the current directory");
	close(here);
	newdir_abort(&dir);
	return rc;
}
