#include "io/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fd.h"

#define LINKS_MAX 40 /* as the kernel */
#define TEMP_TRIES 100
#define TEMP_BASE 200 /* characters of the name kept in the temporary one, below NAME_MAX */

/* Length of the directory part, including its slash. */
static size_t directory_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The path itself, or where the symbolic links at its end lead to. Caller frees. */
static int resolve(const char *path, char **out)
{
	char target[PATH_MAX], *at = strdup(path), *next;
	ssize_t n;

	for (int links = 0; at && (n = readlink(at, target, sizeof target - 1)) >= 0; links++) {
		int dir = target[0] == '/' ? 0 : (int)directory_length(at);

		if (links == LINKS_MAX) {
			free(at);
			errno = ELOOP;
			return err_sys("%s", path);
		}
		if (asprintf(&next, "%.*s%.*s", dir, at, (int)n, target) < 0)
			next = NULL;
		free(at);
		at = next;
	}
	*out = at;
	return at ? 0 : err_nomem();
}

static bool same_inode(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Two files that are not there yet: the same name in the same directory? */
static bool same_name(const char *a, const char *b)
{
	size_t m = directory_length(a), n = directory_length(b);
	char *dir_a = m ? strndup(a, m) : strdup("."), *dir_b = n ? strndup(b, n) : strdup(".");
	struct stat x, y;
	bool same = dir_a && dir_b && strcmp(a + m, b + n) == 0 && stat(dir_a, &x) == 0 &&
		stat(dir_b, &y) == 0 && same_inode(&x, &y);

	free(dir_a);
	free(dir_b);
	return same;
}

bool atomic_same(const char *a, const char *b)
{
	char *end_a = NULL, *end_b = NULL;
	struct stat x, y;
	bool there_a = stat(a, &x) == 0, there_b = stat(b, &y) == 0, same;

	if (there_a || there_b)
		return there_a && there_b && S_ISREG(x.st_mode) && same_inode(&x, &y);
	same = resolve(a, &end_a) == 0 && resolve(b, &end_b) == 0 && same_name(end_a, end_b);
	free(end_a);
	free(end_b);
	return same;
}

/* Only a regular file may be replaced: never a device, a FIFO or a directory. */
static int check_target(const char *path)
{
	struct stat st;

	if (path[directory_length(path)] == '\0')
		return err_set(ERR_IO, "%s: not the name of a file", path);
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys("%s", path);
	if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
		return 0;
	return err_set(ERR_IO, "%s: not a regular file", path);
}

static char *temp_name(const char *path)
{
	int dir = (int)directory_length(path);
	uint64_t salt = 0;
	char *name;

	if (getrandom(&salt, sizeof salt, 0) < 0)
		salt = (uint64_t)getpid();
	if (asprintf(&name, "%.*s.%.*s.%016" PRIx64 ".tmp", dir, path, TEMP_BASE, path + dir,
		     salt) < 0)
		return NULL;
	return name;
}

int atomic_open(struct atomic *a, const char *path, mode_t mode)
{
	int rc;

	*a = (struct atomic)ATOMIC_INIT;
	rc = resolve(path, &a->path);
	if (rc == 0)
		rc = check_target(a->path);
	for (int tries = 0; rc == 0 && a->fd < 0; tries++) {
		free(a->temp);
		a->temp = temp_name(a->path);
		if (!a->temp) {
			rc = err_nomem();
			break;
		}
		a->fd = open(a->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (a->fd < 0 && (errno != EEXIST || tries == TEMP_TRIES))
			rc = err_sys("%s", path);
	}
	if (rc < 0) {
		free(a->temp); /* not ours to remove: we never made it */
		a->temp = NULL;
		atomic_abort(a);
	}
	return rc;
}

void atomic_abort(struct atomic *a)
{
	if (a->fd >= 0)
		close(a->fd);
	if (a->temp)
		unlink(a->temp);
	free(a->temp);
	free(a->path);
	*a = (struct atomic)ATOMIC_INIT;
}

/* A file system that has no such notion has nothing left to write either. */
static bool sync_unsupported(int e)
{
	return e == EINVAL || e == EPERM || e == ENOTSUP || e == EACCES;
}

static int sync_directory(const char *path)
{
	size_t n = directory_length(path);
	char *dir = n ? strndup(path, n) : strdup(".");
	int fd, rc = 0;

	if (!dir)
		return err_nomem();
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if ((fd < 0 || fsync(fd) < 0) && !sync_unsupported(errno))
		rc = err_sys("%s", dir);
	if (fd >= 0)
		close(fd);
	free(dir);
	return rc;
}

/* Everything written is on the disk, and the descriptor closed. */
static int settle(struct atomic *a)
{
	int rc = 0;

	if (a->fd < 0)
		return err_set(ERR_USAGE, "%s: committed twice", a->path ? a->path : "file");
	if (fsync(a->fd) < 0 && !sync_unsupported(errno))
		rc = err_sys("%s", a->path);
	if (close(a->fd) < 0 && errno != EINTR && rc == 0)
		rc = err_sys("%s", a->path);
	a->fd = -1;
	return rc;
}

/* PATH.prev becomes another name of what is at PATH now. */
static int keep_previous(const char *path)
{
	char *prev = NULL, *temp = temp_name(path);
	int rc = 0;

	if (!temp || asprintf(&prev, "%s.prev", path) < 0) {
		free(temp);
		return err_nomem();
	}
	if (link(path, temp) == 0) {
		if (rename(temp, prev) < 0)
			rc = err_sys("%s", prev);
		unlink(temp); /* still there when both were the same file already */
	} else if (errno != ENOENT && rename(path, prev) < 0 && errno != ENOENT) {
		rc = err_sys("%s", prev);
	}
	free(prev);
	free(temp);
	return rc;
}

static int publish(struct atomic *a, bool keep)
{
	int rc = settle(a);

	if (rc == 0 && keep)
		rc = keep_previous(a->path);
	if (rc == 0 && rename(a->temp, a->path) < 0)
		rc = err_sys("%s", a->path);
	if (rc == 0) {
		free(a->temp); /* it is the file now: abort must not remove it */
		a->temp = NULL;
		rc = sync_directory(a->path);
	}
	atomic_abort(a);
	return rc;
}

int atomic_commit(struct atomic *a)
{
	return publish(a, false);
}

int atomic_commit_keep(struct atomic *a)
{
	return publish(a, true);
}

/* Gives the file its name unless somebody has it: 0, or 1. Where neither links nor an exclusive
 * rename are to be had, two at the same instant are not told apart. */
static int claim(const struct atomic *a)
{
	struct stat st;

	if (link(a->temp, a->path) == 0)
		return 0;
	if (errno != EEXIST &&
	    renameat2(AT_FDCWD, a->temp, AT_FDCWD, a->path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EEXIST || lstat(a->path, &st) == 0)
		return 1;
	return rename(a->temp, a->path) == 0 ? 0 : err_sys("%s", a->path);
}

int atomic_commit_new(struct atomic *a)
{
	int rc = settle(a);

	if (rc == 0)
		rc = claim(a);
	if (rc == 0)
		rc = sync_directory(a->path);
	atomic_abort(a); /* a second link to the temporary name goes, the file stays */
	return rc;
}

int atomic_put(const char *path, mode_t mode, const void *bytes, size_t n,
	       int (*commit)(struct atomic *a))
{
	struct atomic file;
	int rc = atomic_open(&file, path, mode);

	if (rc < 0)
		return rc;
	rc = fd_write(file.fd, bytes, n);
	if (rc == 0)
		return commit(&file);
	atomic_abort(&file);
	return err_at(rc, "%s", path);
}
