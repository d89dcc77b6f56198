#include "io/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

/* The directory that path is in. Caller frees; NULL without memory. */
static char *directory_of(const char *path)
{
	size_t n = directory_length(path);

	return n ? strndup(path, n) : strdup(".");
}

/* A link of /proc, as /proc/self/fd/1, leads to what a process has open: its text is no path. */
static bool leads_to_open_file(const char *link)
{
	char *dir = directory_of(link);
	struct statfs fs;
	bool is = dir && statfs(dir, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;

	free(dir);
	return is;
}

static int refuse_open_file(const char *path)
{
	return err_set(ERR_USAGE, "%s: what is open already is not to be replaced by a file: - is standard output, "
		"else give the name of a file", path);
}

/* The symbolic links at the end of a path. */
static int follow(const char *path, char **out)
{
	char target[PATH_MAX], *at = strdup(path), *next;
	ssize_t n;

	for (int links = 0; at && (n = readlink(at, target, sizeof target - 1)) >= 0; links++) {
		int dir = target[0] == '/' ? 0 : (int)directory_length(at);

		if (leads_to_open_file(at)) {
			free(at);
			return refuse_open_file(path);
		}
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

int atomic_target(const char *path, char **out)
{
	int rc;

	*out = NULL;
	if ((rc = fd_named(path)) < 0)
		return rc;
	rc = follow(path, out);
	if (rc == 0 && (rc = check_target(*out)) < 0) {
		free(*out);
		*out = NULL;
	}
	return rc;
}

static bool same_inode(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Two files that are not there yet: the same name in the same directory? */
static bool same_name(const char *a, const char *b)
{
	char *dir_a = directory_of(a), *dir_b = directory_of(b);
	struct stat x, y;
	bool same = dir_a && dir_b && stat(dir_a, &x) == 0 && stat(dir_b, &y) == 0 &&
		same_inode(&x, &y) &&
		strcmp(a + directory_length(a), b + directory_length(b)) == 0;

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
	same = atomic_target(a, &end_a) == 0 && atomic_target(b, &end_b) == 0 &&
		same_name(end_a, end_b);
	free(end_a);
	free(end_b);
	return same;
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

/* The name under /proc through which a file without one is reached. */
#define FD_NAME 40
static void fd_link(char out[FD_NAME], int fd)
{
	snprintf(out, FD_NAME, "/proc/self/fd/%d", fd);
}

/* The path as system calls take it. */
static const char *name_of(const struct atomic *a)
{
	return a->dir == AT_FDCWD ? a->path : a->path + directory_length(a->path);
}

/* A file without a name in the directory of the target: whatever becomes of this process, nothing is
 * left of it. -1 where the file system has no such thing, or no way to name it later. */
static int open_nameless(const struct atomic *a, mode_t mode)
{
	char *dir = directory_of(name_of(a)), link[FD_NAME];
	int fd = dir ? openat(a->dir, dir, O_TMPFILE | O_RDWR | O_CLOEXEC, mode) : -1;

	free(dir);
	if (fd < 0)
		return -1;
	fd_link(link, fd);
	if (access(link, F_OK) == 0)
		return fd;
	close(fd);
	return -1;
}

/* A new file under a temporary name beside the target. */
static int open_named(const struct atomic *a, mode_t mode, char **name)
{
	for (int tries = 0; tries < TEMP_TRIES; tries++) {
		char *temp = temp_name(name_of(a));
		int fd;

		if (!temp)
			return err_nomem();
		fd = openat(a->dir, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd >= 0) {
			*name = temp;
			return fd;
		}
		free(temp); /* not ours to remove */
		if (errno != EEXIST)
			break;
	}
	return err_sys("%s", a->path);
}

/* The target is known: a file for it. */
static int open_file(struct atomic *a, mode_t mode)
{
	int rc = 0;

	a->fd = open_nameless(a, mode);
	if (a->fd < 0)
		a->fd = rc = open_named(a, mode, &a->temp);
	if (rc < 0)
		atomic_abort(a);
	return rc < 0 ? rc : 0;
}

int atomic_open(struct atomic *a, const char *path, mode_t mode)
{
	int rc;

	*a = (struct atomic)ATOMIC_INIT;
	if ((rc = atomic_target(path, &a->path)) < 0)
		return rc;
	return open_file(a, mode);
}

int atomic_open_in(struct atomic *a, int dir, const char *path, mode_t mode)
{
	*a = (struct atomic)ATOMIC_INIT;
	a->dir = dir;
	a->path = strdup(path);
	if (!a->path) {
		atomic_abort(a);
		return err_nomem();
	}
	return open_file(a, mode);
}

void atomic_abort(struct atomic *a)
{
	if (a->fd >= 0)
		close(a->fd);
	if (a->temp)
		unlinkat(a->dir, a->temp, 0);
	if (a->dir >= 0)
		close(a->dir);
	free(a->temp);
	free(a->path);
	*a = (struct atomic)ATOMIC_INIT;
}

/* A file system that has no such notion has nothing left to write either. */
static bool sync_unsupported(int e)
{
	return e == EINVAL || e == EPERM || e == ENOTSUP || e == EACCES;
}

static int sync_directory(const struct atomic *a)
{
	char *dir = directory_of(name_of(a));
	int fd, rc = 0;

	if (!dir)
		return err_nomem();
	fd = openat(a->dir, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if ((fd < 0 || fsync(fd) < 0) && !sync_unsupported(errno))
		rc = err_sys("%s: its directory", a->path);
	if (fd >= 0)
		close(fd);
	free(dir);
	return rc;
}

static int sync_file(const struct atomic *a)
{
	return fsync(a->fd) < 0 && !sync_unsupported(errno) ? err_sys("%s", a->path) : 0;
}

/* Where a nameless file cannot be linked after all: its bytes under a temporary name. */
static int name_copy(struct atomic *a)
{
	char block[16384], *temp = NULL;
	struct stat st;
	uint64_t at = 0;
	ssize_t got;
	int fd, rc = 0;

	if (fstat(a->fd, &st) < 0)
		return err_sys("%s", a->path);
	fd = open_named(a, st.st_mode & 0777, &temp);
	if (fd < 0)
		return fd;
	for (; (got = fd_read_at(a->fd, block, sizeof block, at)) > 0 && rc == 0; at += (size_t)got)
		rc = fd_write(fd, block, (size_t)got);
	close(a->fd);
	a->fd = fd;
	a->temp = temp;
	if (rc == 0)
		rc = (int)got;
	return rc < 0 ? err_at(rc, "%s", a->path) : sync_file(a);
}

/* Gives a nameless file its temporary name. */
static int name_file(struct atomic *a)
{
	char *temp = temp_name(name_of(a)), link[FD_NAME];

	if (!temp)
		return err_nomem();
	fd_link(link, a->fd);
	if (linkat(AT_FDCWD, link, a->dir, temp, AT_SYMLINK_FOLLOW) == 0) {
		a->temp = temp;
		return 0;
	}
	free(temp);
	return name_copy(a);
}

/* Everything written is under the temporary name, on the disk if durable, and the descriptor closed. */
static int settle(struct atomic *a, bool durable)
{
	int rc = 0;

	if (a->fd < 0)
		return err_set(ERR_USAGE, "%s: committed twice", a->path ? a->path : "file");
	if (durable)
		rc = sync_file(a);
	if (rc == 0 && !a->temp)
		rc = name_file(a);
	if (close(a->fd) < 0 && errno != EINTR && rc == 0)
		rc = err_sys("%s", a->path);
	a->fd = -1;
	return rc;
}

/* PATH.prev becomes another name of what is at PATH now. */
static int keep_previous(const struct atomic *a)
{
	const char *name = name_of(a);
	char *prev = NULL, *temp = temp_name(name);
	int rc = 0;

	if (!temp || asprintf(&prev, "%s.prev", name) < 0) {
		free(temp);
		return err_nomem();
	}
	if (linkat(a->dir, name, a->dir, temp, 0) == 0) {
		if (renameat(a->dir, temp, a->dir, prev) < 0)
			rc = err_sys("%s", prev);
		unlinkat(a->dir, temp, 0); /* still there when both were the same file already */
	} else if (errno != ENOENT && renameat(a->dir, name, a->dir, prev) < 0 && errno != ENOENT) {
		rc = err_sys("%s", prev);
	}
	free(prev);
	free(temp);
	return rc;
}

/* Gives the file its name, whoever has it. */
static int replace(struct atomic *a)
{
	if (renameat(a->dir, a->temp, a->dir, name_of(a)) < 0)
		return err_sys("%s", a->path);
	free(a->temp); /* it is the file now: abort must not remove it */
	a->temp = NULL;
	return 0;
}

static int publish(struct atomic *a, bool keep, bool durable)
{
	int rc = settle(a, durable);

	if (rc == 0 && keep)
		rc = keep_previous(a);
	if (rc == 0)
		rc = replace(a);
	if (rc == 0 && durable)
		rc = sync_directory(a);
	atomic_abort(a);
	return rc;
}

int atomic_commit(struct atomic *a)
{
	return publish(a, false, true);
}

int atomic_commit_fast(struct atomic *a)
{
	return publish(a, false, false);
}

int atomic_commit_keep(struct atomic *a)
{
	return publish(a, true, true);
}

/* Gives the file its name unless somebody has it: 0, or 1. Where neither links nor an exclusive
 * rename are to be had, two at the same instant are not told apart. */
static int claim(const struct atomic *a)
{
	const char *name = name_of(a);
	struct stat st;

	if (linkat(a->dir, a->temp, a->dir, name, 0) == 0)
		return 0;
	if (errno != EEXIST && renameat2(a->dir, a->temp, a->dir, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EEXIST || fstatat(a->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return renameat(a->dir, a->temp, a->dir, name) == 0 ? 0 : err_sys("%s", a->path);
}

int atomic_commit_new(struct atomic *a)
{
	int rc = settle(a, true);

	if (rc == 0)
		rc = claim(a);
	if (rc == 0)
		rc = sync_directory(a);
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
