#include "round/newrun.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/place.h"
#include "io/wake.h"
#include "round/rundir.h"

#define SLICE 16384 /* values made at a time */
#define WALK 8      /* directories open at once while a tree is removed */

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

/* Where it is made: all paths are absolute. */
struct target {
	char *path, *temp;
	mode_t mode; /* of the empty directory that is there; 0: there is none */
	bool made;   /* temp is there */
};

static int taken(const char *run)
{
	return err_set(ERR_IO, "%s: is there already: choose another name, or remove it", run);
}

/* 0 for an empty directory. */
static int check_empty(const char *run)
{
	DIR *d = opendir(run);
	struct dirent *e;
	bool empty = true;

	if (!d)
		return errno == ENOTDIR ? taken(run) : err_sys("%s", run);
	while (empty && (e = readdir(d)) != NULL)
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	closedir(d);
	return empty ? 0 : taken(run);
}

/* Something is there: an empty directory is replaced, by what it is really called. */
static int target_present(struct target *t, const char *run, const struct stat *st)
{
	char here[PATH_MAX];
	int rc = check_empty(run);

	if (rc < 0)
		return rc;
	if (!(t->path = realpath(run, NULL)))
		return err_sys("%s", run);
	if (getcwd(here, sizeof here) && strcmp(here, t->path) == 0)
		return err_set(ERR_IO, "%s: cannot be the current directory, which would be replaced", run);
	t->mode = st->st_mode & 07777;
	return 0;
}

static int target_absent(struct target *t, const char *run)
{
	size_t n;
	int rc = rundir_absolute(run, &t->path);

	if (rc < 0)
		return rc;
	for (n = strlen(t->path); n > 1 && t->path[n - 1] == '/'; n--)
		t->path[n - 1] = '\0';
	return 0;
}

static int target_find(struct target *t, const char *run)
{
	struct stat st;

	if (stat(run, &st) == 0)
		return target_present(t, run, &st);
	if (errno != ENOENT)
		return err_sys("%s", run);
	if (lstat(run, &st) == 0) /* a link to nowhere */
		return taken(run);
	return target_absent(t, run);
}

static int target_make(struct target *t, const char *run)
{
	const char *slash = strrchr(t->path, '/');
	int dir = (int)(slash - t->path) + 1;
	uint64_t salt = 0;

	if (getrandom(&salt, sizeof salt, 0) < 0)
		salt = (uint64_t)getpid();
	if (asprintf(&t->temp, "%.*s.%.200s.%016" PRIx64 ".tmp", dir, t->path, slash + 1, salt) < 0) {
		t->temp = NULL;
		return err_nomem();
	}
	if (mkdir(t->temp, 0777) < 0)
		return err_sys("%s", run);
	t->made = true;
	return chdir(t->temp) < 0 ? err_sys("%s", run) : 0;
}

/* The name is given in one step; an empty directory of it is replaced. */
static int target_publish(struct target *t, const char *run)
{
	int up = open("..", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (t->mode && chmod(t->temp, t->mode) < 0)
		rc = err_sys("%s", run);
	else if (rename(t->temp, t->path) == 0)
		t->made = false;
	else if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR)
		rc = taken(run);
	else if (errno == EBUSY)
		rc = err_set(ERR_IO, "%s: a file system is mounted there: name a directory in it", run);
	else
		rc = err_sys("%s", run);
	if (up >= 0) {
		(void)!fsync(up); /* without it the name may be gone after a crash, and is made again */
		close(up);
	}
	return rc;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static void target_release(struct target *t)
{
	if (t->made)
		nftw(t->temp, remove_entry, WALK, FTW_DEPTH | FTW_PHYS);
	free(t->path);
	free(t->temp);
}

int newrun_make(const struct newrun *n, const char *run)
{
	struct newrun work = *n;
	struct target t = { 0 };
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (here < 0)
		return err_sys("the current directory");
	rc = target_find(&t, run);
	if (rc == 0)
		rc = target_make(&t, run);
	if (rc == 0 && (rc = make_files(&work)) < 0)
		rc = err_at(rc, "%s", run);
	if (rc == 0)
		rc = target_publish(&t, run);
	if (fchdir(here) < 0 && rc == 0)
		rc = err_sys("the current directory");
	close(here);
	target_release(&t);
	return rc;
}
