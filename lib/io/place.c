#include "io/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/fd.h"

#define STALE_TRIES 5

static int failed(const char *path)
{
	if (errno == ELOOP || errno == ENOTDIR)
		return err_set(ERR_DATA, "%s: leads through a symbolic link, or what is no directory", path);
	if (errno == ENXIO)
		return err_set(ERR_DATA, "%s: not a regular file", path);
	if (errno == EINVAL)
		return err_set(ERR_DATA, "%s: not a path within a run directory", path);
	return err_sys("%s", path);
}

/* One step down; *dir is closed and becomes the next, or -1 with errno. */
static int enter(int dir, const char *name, bool make)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int next = openat(dir, name, flags), e;

	if (next < 0 && errno == ENOENT && make && (mkdirat(dir, name, 0777) == 0 || errno == EEXIST)) {
		fsync(dir); /* a name that is gone after a crash is made again */
		next = openat(dir, name, flags);
	}
	e = errno;
	close(dir);
	errno = e;
	return next;
}

/* The next part of a path, up to its slash; false when there is none such: empty, "." or "..". */
static bool part(char to[NAME_MAX + 1], const char *from, size_t n)
{
	if (n == 0 || n > NAME_MAX)
		return false;
	memcpy(to, from, n);
	to[n] = '\0';
	return strcmp(to, ".") != 0 && strcmp(to, "..") != 0;
}

/*
 * The directory that holds the last part of path, which *name gets. 1, or 0 when a directory on the way
 * is not there; errors tell of the whole path, but for ESTALE, which is left in errno with rc -1.
 */
static int walk(const char *path, bool make, int *dir, const char **name)
{
	char word[NAME_MAX + 1];
	const char *slash;
	int at = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (; at >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
		if (!part(word, path, (size_t)(slash - path))) {
			close(at);
			errno = EINVAL;
			return -1;
		}
		at = enter(at, word, make);
	}
	if (at < 0)
		return errno == ENOENT ? 0 : -1;
	*dir = at;
	*name = path;
	return 1;
}

/* The same, with the last part checked too, tried again when a directory went stale. */
static int find(const char *path, bool make, int *dir, const char **name)
{
	char word[NAME_MAX + 1];
	int rc, tries = STALE_TRIES;

	do
		rc = walk(path, make, dir, name);
	while (rc < 0 && errno == ESTALE && tries-- > 0);
	if (rc == 1 && !part(word, *name, strlen(*name))) {
		close(*dir);
		errno = EINVAL;
		rc = -1;
	}
	return rc < 0 ? failed(path) : rc;
}

/* 1, 0 when it is not there, or -1 with errno. */
static int open_name(int dir, const char *name, int *fd)
{
	struct stat st;
	int f;

	/* Without O_NONBLOCK a FIFO would hold us here. */
	do
		f = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	while (f < 0 && errno == EINTR);
	if (f < 0)
		return errno == ENOENT ? 0 : -1;
	if (fstat(f, &st) == 0 && S_ISREG(st.st_mode)) {
		*fd = f;
		return 1;
	}
	close(f);
	errno = ENXIO;
	return -1;
}

int place_open(const char *path, int *fd)
{
	const char *name;
	int dir, e, rc, tries = STALE_TRIES;

	do {
		if ((rc = find(path, false, &dir, &name)) <= 0)
			return rc;
		rc = open_name(dir, name, fd);
		e = errno;
		close(dir);
		errno = e;
	} while (rc < 0 && errno == ESTALE && tries-- > 0);
	if (rc < 0 && errno == ELOOP)
		return err_set(ERR_DATA, "%s: a symbolic link, which is not followed here", path);
	return rc < 0 ? failed(path) : rc;
}

int place_read(const char *path, size_t limit, struct buf *out)
{
	size_t start = out->len;
	int fd, rc, tries = STALE_TRIES;
	bool stale;

	do {
		if ((rc = place_open(path, &fd)) <= 0)
			return rc;
		errno = 0;
		rc = fd_slurp(fd, limit, out);
		stale = rc < 0 && errno == ESTALE;
		close(fd);
		if (stale)
			out->len = start;
	} while (stale && tries-- > 0);
	return rc < 0 ? err_at(rc, "%s", path) : 1;
}

int place_make(const char *path)
{
	const char *name;
	int dir, rc = find(path, true, &dir, &name);

	if (rc == 0) { /* made, and gone again at once */
		errno = ENOENT;
		return failed(path);
	}
	if (rc < 0)
		return rc;
	close(dir);
	return 0;
}

int place_create(struct atomic *a, const char *path)
{
	const char *name;
	int dir, rc = find(path, false, &dir, &name);

	*a = (struct atomic)ATOMIC_INIT;
	if (rc == 0) {
		errno = ENOENT;
		return failed(path);
	}
	return rc < 0 ? rc : atomic_open_in(a, dir, path, 0666);
}

int place_put(const char *path, const void *bytes, size_t n, bool fast)
{
	struct atomic a;
	int rc = place_create(&a, path);

	if (rc < 0)
		return rc;
	rc = fd_write(a.fd, bytes, n);
	if (rc == 0)
		return fast ? atomic_commit_fast(&a) : atomic_commit(&a);
	atomic_abort(&a);
	return err_at(rc, "%s", path);
}

int place_remove(const char *path)
{
	const char *name;
	int dir, e, rc = find(path, false, &dir, &name);

	if (rc <= 0)
		return rc;
	rc = unlinkat(dir, name, 0);
	e = errno;
	close(dir);
	errno = e;
	if (rc < 0)
		return errno == ENOENT || errno == ESTALE ? 0 : failed(path);
	return 1;
}

/* ---- lists ---- */

struct list {
	char **v;
	size_t n, cap;
};

static int push(struct list *l, const char *name)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 32;
		char **v = realloc(l->v, cap * sizeof *v);

		if (!v)
			return err_nomem();
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n] = strdup(name);
	return l->v[l->n++] ? 0 : err_nomem();
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void place_list_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* Opens the directory itself. 1, 0 when it is not there. */
static int open_directory(const char *path, DIR **out)
{
	const char *name;
	int dir, rc = find(path, false, &dir, &name);

	if (rc <= 0)
		return rc;
	dir = enter(dir, name, false);
	if (dir < 0)
		return errno == ENOENT ? 0 : failed(path);
	*out = fdopendir(dir);
	if (!*out) {
		rc = failed(path);
		close(dir);
		return rc;
	}
	return 1;
}

/* What is known not to be a directory, without a look at each; not every file system tells. */
static bool no_directory(const struct dirent *e)
{
	return e->d_type != DT_DIR && e->d_type != DT_UNKNOWN;
}

static int list(char ***names, size_t *n, const char *path, size_t limit, bool *more,
	bool (*keep)(void *ctx, const char *name), void *ctx, bool directories)
{
	struct list l = { 0 };
	struct dirent *e;
	DIR *d;
	int rc = open_directory(path, &d);

	*names = NULL;
	*n = 0;
	*more = false;
	if (rc <= 0)
		return rc;
	rc = 0;
	errno = 0;
	while (rc == 0 && !*more && (e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.' && !(directories && no_directory(e)) && (!keep || keep(ctx, e->d_name))) {
			*more = l.n == limit;
			rc = *more ? 0 : push(&l, e->d_name);
		}
		errno = 0;
	}
	if (rc == 0 && !*more && errno != 0 && errno != ENOENT && errno != ESTALE)
		rc = failed(path);
	closedir(d);
	if (rc < 0) {
		place_list_free(l.v, l.n);
		return rc;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof *l.v, by_name);
	*names = l.v;
	*n = l.n;
	return 0;
}

int place_list(char ***names, size_t *n, const char *path, size_t limit, bool *more)
{
	return list(names, n, path, limit, more, NULL, NULL, false);
}

int place_list_if(char ***names, size_t *n, const char *path, size_t limit, bool *more,
	bool (*keep)(void *ctx, const char *name), void *ctx)
{
	return list(names, n, path, limit, more, keep, ctx, false);
}

int place_list_dirs(char ***names, size_t *n, const char *path, size_t limit, bool *more,
	bool (*keep)(void *ctx, const char *name), void *ctx)
{
	return list(names, n, path, limit, more, keep, ctx, true);
}

uint64_t place_room(void)
{
	struct statvfs fs;

	if (statvfs(".", &fs) < 0 || fs.f_blocks == 0) /* those without blocks have no end of them */
		return UINT64_MAX;
	return (uint64_t)(geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * fs.f_frsize;
}
