#include "io/newdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fd.h"

#define WALK 8 /* directories open at once while a tree is removed */

static int taken(const char *path)
{
	return err_set(ERR_IO, "%s: is there already: choose another name, or remove it", path);
}

/* 0 for an empty directory. */
static int check_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	bool empty = true;

	if (!d)
		return errno == ENOTDIR ? taken(path) : err_sys("%s", path);
	while (empty && (e = readdir(d)) != NULL)
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	closedir(d);
	return empty ? 0 : taken(path);
}

/* Something is there: an empty directory is replaced, by what it is really called. */
static int find_present(struct newdir *d, const struct stat *st)
{
	char here[PATH_MAX];
	int rc = check_empty(d->name);

	if (rc < 0)
		return rc;
	if (!(d->path = realpath(d->name, NULL)))
		return err_sys("%s", d->name);
	if (getcwd(here, sizeof here) && strcmp(here, d->path) == 0)
		return err_set(ERR_IO, "%s: cannot be the current directory, which would be replaced", d->name);
	d->mode = st->st_mode & 07777;
	return 0;
}

static int find_absent(struct newdir *d)
{
	char here[PATH_MAX] = "";
	size_t n;

	if (d->name[0] != '/' && !getcwd(here, sizeof here))
		return err_sys("the current directory");
	if (asprintf(&d->path, "%s%s%s", here, *here ? "/" : "", d->name) < 0) {
		d->path = NULL;
		return err_nomem();
	}
	for (n = strlen(d->path); n > 1 && d->path[n - 1] == '/'; n--)
		d->path[n - 1] = '\0';
	return 0;
}

static int find(struct newdir *d)
{
	struct stat st;
	int rc = fd_named(d->name); /* with the current directory before it, it would be that one */

	if (rc < 0)
		return rc;
	if (stat(d->name, &st) == 0)
		return find_present(d, &st);
	if (errno != ENOENT)
		return err_sys("%s", d->name);
	if (lstat(d->name, &st) == 0) /* a link to nowhere */
		return taken(d->name);
	return find_absent(d);
}

static int make(struct newdir *d)
{
	const char *slash = strrchr(d->path, '/');
	int dir = (int)(slash - d->path) + 1;
	uint64_t salt = 0;

	if (getrandom(&salt, sizeof salt, 0) < 0)
		salt = (uint64_t)getpid();
	if (asprintf(&d->temp, "%.*s.%.200s.%016" PRIx64 ".tmp", dir, d->path, slash + 1, salt) < 0) {
		d->temp = NULL;
		return err_nomem();
	}
	if (mkdir(d->temp, 0777) < 0)
		return err_sys("%s", d->name);
	d->made = true;
	return 0;
}

int newdir_open(struct newdir *d, const char *path)
{
	int rc;

	*d = (struct newdir){ .name = path };
	rc = find(d);
	if (rc == 0)
		rc = make(d);
	if (rc < 0)
		newdir_abort(d);
	return rc;
}

static void sync_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!fsync(fd); /* without it a name may be gone after a crash, and is made again */
	close(fd);
}

/* The directory above. */
static void sync_parent(const struct newdir *d)
{
	char *slash = strrchr(d->temp, '/');

	slash[slash == d->temp] = '\0';
	sync_path(d->temp);
}

/* The name is given in one step; an empty directory of it is replaced. */
int newdir_commit(struct newdir *d)
{
	sync_path(d->temp);
	if (d->mode && chmod(d->temp, d->mode) < 0)
		return err_sys("%s", d->name);
	if (rename(d->temp, d->path) < 0) {
		if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR)
			return taken(d->name);
		if (errno == EBUSY)
			return err_set(ERR_IO, "%s: a file system is mounted there: name a directory in it",
				d->name);
		return err_sys("%s", d->name);
	}
	d->made = false;
	sync_parent(d);
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

void newdir_abort(struct newdir *d)
{
	if (d->made)
		nftw(d->temp, remove_entry, WALK, FTW_DEPTH | FTW_PHYS);
	free(d->path);
	free(d->temp);
	*d = (struct newdir){ 0 };
}
