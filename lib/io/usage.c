#include "io/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH 16 /* of directories, each holding a descriptor */

struct sum {
	uint64_t bytes, left;
};

static void add_directory(struct sum *s, int fd, int depth);

static void add_entry(struct sum *s, int dir, const char *name, int depth)
{
	struct stat st;

	if (s->left == 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	s->left--;
	s->bytes += (uint64_t)st.st_blocks * 512;
	if (S_ISDIR(st.st_mode) && depth < DEPTH)
		add_directory(s, openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), depth + 1);
}

/* Closes fd. */
static void add_directory(struct sum *s, int fd, int depth)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	while (d && s->left > 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			add_entry(s, dirfd(d), e->d_name, depth);
	if (d)
		closedir(d);
}

int usage_bytes(uint64_t *bytes, bool *more, const char *path, uint64_t limit)
{
	struct sum s = { .left = limit };
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys("%s", path);
	add_directory(&s, fd, 0);
	*bytes = s.bytes;
	*more = s.left == 0;
	return 0;
}
