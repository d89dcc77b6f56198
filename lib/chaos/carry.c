#include "chaos/carry.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "round/rundir.h"

#define SETTLED 1.0 /* seconds after which one more change shows in a directory's time */

struct file {
	char *name;
	ino_t inode;
	struct timespec changed;
	off_t size;
	uint64_t look; /* in which it was last listed */
};
struct folder {
	char path[RUNDIR_PATH];
	struct timespec changed; /* 0: list it again */
	struct file *file;       /* (files) in order of name */
	size_t files;
};
struct carry {
	int from;
	char learner[KEY_NAME + 1];
	bool up;
	uint64_t look;
	struct folder *folder;   /* (folders) */
	size_t folders;
};

int carry_open(struct carry **out, int from, const char *learner, bool up)
{
	struct carry *c = calloc(1, sizeof *c);

	*out = c;
	if (!c)
		return err_nomem();
	c->from = from;
	c->up = up;
	snprintf(c->learner, sizeof c->learner, "%s", learner);
	return 0;
}

void carry_close(struct carry *c)
{
	for (size_t i = 0; c && i < c->folders; i++) {
		for (size_t k = 0; k < c->folder[i].files; k++)
			free(c->folder[i].file[k].name);
		free(c->folder[i].file);
	}
	if (c)
		free(c->folder);
	free(c);
}

void carry_forget(struct carry *c)
{
	for (size_t i = 0; i < c->folders; i++) {
		c->folder[i].changed = (struct timespec){ 0 };
		for (size_t k = 0; k < c->folder[i].files; k++)
			c->folder[i].file[k].inode = 0;
	}
}

/* ---- what is known ---- */

static struct folder *folder_of(struct carry *c, const char *path)
{
	struct folder *more;

	for (size_t i = 0; i < c->folders; i++)
		if (strcmp(c->folder[i].path, path) == 0)
			return &c->folder[i];
	more = realloc(c->folder, (c->folders + 1) * sizeof *more);
	if (!more)
		return NULL;
	c->folder = more;
	more[c->folders] = (struct folder){ .file = NULL };
	snprintf(more[c->folders].path, sizeof more->path, "%s", path);
	return &more[c->folders++];
}

/* Where the name is, or belongs. */
static size_t find(const struct folder *f, const char *name)
{
	size_t low = 0, high = f->files;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(f->file[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct file *file_of(struct folder *f, const char *name)
{
	size_t at = find(f, name);
	struct file *more;

	if (at < f->files && strcmp(f->file[at].name, name) == 0)
		return &f->file[at];
	more = realloc(f->file, (f->files + 1) * sizeof *more);
	if (!more)
		return NULL;
	f->file = more;
	memmove(more + at + 1, more + at, (f->files - at) * sizeof *more);
	f->files++;
	more[at] = (struct file){ .name = strdup(name) };
	if (more[at].name)
		return &more[at];
	memmove(more + at, more + at + 1, (--f->files - at) * sizeof *more);
	return NULL;
}

/* ---- which files ---- */

static bool is_fragment(const char *name)
{
	char digits[24];
	size_t n = strspn(name, "0123456789");
	uint64_t version;

	if (n == 0 || n >= sizeof digits || strcmp(name + n, ".frag") != 0)
		return false;
	snprintf(digits, sizeof digits, "%.*s", (int)n, name);
	return num_u64(digits, &version) == 0;
}

/* 1 and its class when it is to be told of. Folders: "", global/..., learner/... */
static bool wanted(const struct carry *c, const char *folder, const char *name, enum fault_class *class)
{
	unsigned fragment;
	uint64_t round;

	*class = FAULT_CLASSES;
	if (!*folder) {
		*class = strcmp(name, RUNDIR_HEAD) == 0 ? FAULT_HEAD : FAULT_CLASSES;
		return true;
	}
	if (folder[0] == 'g') {
		*class = FAULT_FRAGMENT;
		return is_fragment(name);
	}
	if (strcmp(name, "state") == 0) {
		*class = FAULT_STATE;
		return true;
	}
	*class = strcmp(name, "beat") == 0 ? FAULT_BEAT : FAULT_ANSWER;
	return c->up && (*class == FAULT_BEAT || rundir_delta_parse(name, &fragment, &round));
}

static bool immutable(enum fault_class class)
{
	return class == FAULT_ANSWER || class == FAULT_FRAGMENT;
}

/* ---- looking ---- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int look_file(struct carry *c, struct folder *folder, const char *name, const struct carry_to *to)
{
	char path[RUNDIR_PATH + NAME_MAX + 2];
	enum fault_class class;
	struct file *f;
	struct stat st;

	if (!wanted(c, folder->path, name, &class))
		return 0;
	f = file_of(folder, name);
	if (!f)
		return err_nomem();
	f->look = c->look;
	if (immutable(class) && f->inode)
		return 0;
	snprintf(path, sizeof path, "%s%s%s", folder->path, *folder->path ? "/" : "", name);
	if (fstatat(c->from, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if (f->inode == st.st_ino && same_time(&f->changed, &st.st_mtim) && f->size == st.st_size)
		return 0;
	f->inode = st.st_ino;
	f->changed = st.st_mtim;
	f->size = st.st_size;
	return to->changed(to->ctx, path, class);
}

/* Those that were not listed this time. */
static void tell_gone(struct carry *c, struct folder *folder, const struct carry_to *to)
{
	char path[RUNDIR_PATH + NAME_MAX + 2];
	size_t kept = 0;

	for (size_t i = 0; i < folder->files; i++) {
		struct file *f = &folder->file[i];

		if (f->look == c->look) {
			folder->file[kept++] = *f;
			continue;
		}
		snprintf(path, sizeof path, "%s/%s", folder->path, f->name);
		to->gone(to->ctx, path);
		free(f->name);
	}
	folder->files = kept;
}

/* Has it changed since it was listed? A change within the same tick of the clock would not show. */
static bool is_new(int fd, struct folder *folder)
{
	struct timespec now;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return true;
	if (folder->changed.tv_sec && same_time(&folder->changed, &st.st_mtim))
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	folder->changed = (double)(now.tv_sec - st.st_mtim.tv_sec) > SETTLED ? st.st_mtim : (struct timespec){ 0 };
	return true;
}

/* Closes fd. The beat comes last. */
static int list_folder(struct carry *c, struct folder *folder, int fd, const struct carry_to *to)
{
	DIR *d = fdopendir(fd);
	const struct dirent *e;
	bool beat = false;
	int rc = 0;

	if (!d) {
		close(fd);
		return err_sys("%s", folder->path);
	}
	while (rc == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, "beat") == 0)
			beat = true;
		else
			rc = look_file(c, folder, e->d_name, to);
	closedir(d);
	if (rc == 0 && beat)
		rc = look_file(c, folder, "beat", to);
	if (rc == 0)
		tell_gone(c, folder, to);
	return rc;
}

static int look_folder(struct carry *c, const char *path, const struct carry_to *to)
{
	struct folder *folder = folder_of(c, path);
	int fd;

	if (!folder)
		return err_nomem();
	fd = openat(c->from, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (!is_new(fd, folder)) {
		close(fd);
		return 0;
	}
	return list_folder(c, folder, fd, to);
}

/* All folders of a folder but one. */
static int look_below(struct carry *c, const char *path, const char *but, const struct carry_to *to)
{
	char below[RUNDIR_PATH];
	int fd = openat(c->from, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	while (d && rc == 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.' || strlen(e->d_name) > KEY_NAME || strcmp(e->d_name, but) == 0)
			continue;
		snprintf(below, sizeof below, "%s/%.*s", path, KEY_NAME, e->d_name);
		rc = look_folder(c, below, to);
	}
	if (d)
		closedir(d);
	return rc;
}

int carry_look(struct carry *c, const struct carry_to *to)
{
	char own[RUNDIR_PATH];
	struct folder *top;
	int rc;

	c->look++;
	if (c->up) {
		snprintf(own, sizeof own, "learner/%s", c->learner);
		return look_folder(c, own, to);
	}
	if ((rc = look_below(c, "global", "", to)) < 0 || (rc = look_below(c, "learner", c->learner, to)) < 0)
		return rc;
	top = folder_of(c, "");
	if (!top)
		return err_nomem();
	rc = look_file(c, top, RUNDIR_MANIFEST, to);
	return rc < 0 ? rc : look_file(c, top, RUNDIR_HEAD, to);
}
