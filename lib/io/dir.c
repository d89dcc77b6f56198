#include "io/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool dir_is(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int make_one(const char *path, mode_t mode)
{
	int e;

	if (mkdir(path, mode) == 0)
		return 0;
	/* What may not be made, as on a read-only root, may well be there. */
	e = errno;
	if (dir_is(path))
		return 0;
	errno = e;
	return err_sys("%s", path);
}

int dir_make(const char *path, mode_t mode)
{
	char *copy = strdup(path);
	int rc = copy ? 0 : err_nomem();

	for (char *at = copy; rc == 0 && (at = strchr(at + 1, '/')) != NULL; *at = '/') {
		*at = '\0';
		rc = make_one(copy, mode);
	}
	free(copy);
	return rc < 0 ? rc : make_one(path, mode);
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Upwards, until the root, which is its own parent. */
bool dir_holds(const char *dir, const char *below)
{
	int fd = open(below, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat want, at, last = { .st_ino = 0 };
	bool found = false;

	if (stat(dir, &want) == 0)
		while (fstat(fd, &at) == 0 && !(found = same(&at, &want)) && !same(&at, &last)) {
			int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

			close(fd);
			fd = up;
			last = at;
		}
	if (fd >= 0)
		close(fd);
	return found;
}
