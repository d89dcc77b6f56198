#include "io/dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int make_one(const char *path, mode_t mode)
{
	struct stat st;
	int e;

	if (mkdir(path, mode) == 0)
		return 0;
	/* What may not be made, as on a read-only root, may well be there. */
	e = errno;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
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
