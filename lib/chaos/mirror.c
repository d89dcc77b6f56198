#include "chaos/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chaos/carry.h"
#include "io/dir.h"
#include "io/fd.h"
#include "round/rundir.h"

#define FILE_MOST ((size_t)1 << 34) /* bytes of a file that is copied */
#define OLD_AGE 5.0                 /* seconds: how old a file of replay is at least, if there is one */
#define AFTER 1.0                   /* seconds from the end of a delay or reorder until all is looked at again */
#define OPEN_FILES 16               /* of nftw */

/* A file on its way: its name in the spool is its number. */
struct parcel {
	char path[RUNDIR_PATH];
	uint64_t number;
	double due;
	bool up;
};
/* A fault of one file. */
struct shot {
	struct fault f;
	bool hit;
	char what[256];
};
/* One that may come again later: the file itself, and where it was. */
struct old {
	char path[RUNDIR_PATH];
	uint64_t number; /* 0: none */
	double at;
};
struct mirror {
	char *copy_path, *spool_path;
	char learner[KEY_NAME + 1];
	int run, copy, spool; /* descriptors of directories */
	struct carry *up, *down;
	bool upwards;         /* the look that is under way */
	uint64_t number;      /* last one that was given */
	double now;
	double cut, delay, lag, reorder, again; /* until when; how much; when all is looked at again */
	struct parcel *parcel; /* (parcels) in order of arrival */
	size_t parcels;
	struct shot *shot;     /* (shots) in order of time */
	size_t shots;
	struct old old[FAULT_CLASSES];
};

/* ---- files ---- */

static char *spool_name(char to[24], uint64_t number)
{
	snprintf(to, 24, "%" PRIu64, number);
	return to;
}

/* The first `most` bytes of one file of the spool, or of another directory, into a new file of the spool. */
static int copy_file(struct mirror *m, int dir, const char *path, uint64_t to, size_t most)
{
	int from = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), out, rc = 0;
	char block[1 << 16], name[24];
	ssize_t n;

	if (from < 0)
		return err_sys("%s", path);
	out = openat(m->spool, spool_name(name, to), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (out < 0)
		rc = err_sys("%s", name);
	while (rc == 0 && most > 0) {
		n = fd_read(from, block, most < sizeof block ? most : sizeof block);
		if (n <= 0) {
			rc = (int)n;
			break;
		}
		rc = fd_write(out, block, (size_t)n);
		most -= (size_t)n;
	}
	close(from);
	if (out >= 0 && close(out) < 0 && rc == 0)
		rc = err_sys("%s", name);
	return rc;
}

/* Into the spool, under a new number: 1, or 0 when it is there no more. */
static int grab(struct mirror *m, int dir, const char *path, uint64_t *number)
{
	char name[24];
	int rc;

	*number = ++m->number;
	if (linkat(dir, path, m->spool, spool_name(name, *number), 0) == 0)
		return 1;
	if (errno == ENOENT || errno == ESTALE)
		return 0;
	rc = copy_file(m, dir, path, *number, FILE_MOST);
	return rc < 0 ? rc : 1;
}

static void drop(struct mirror *m, uint64_t number)
{
	char name[24];

	unlinkat(m->spool, spool_name(name, number), 0);
}

static int queue(struct mirror *m, const char *path, uint64_t number, double due, bool up)
{
	struct parcel *more = realloc(m->parcel, (m->parcels + 1) * sizeof *more);

	if (!more)
		return err_nomem();
	m->parcel = more;
	more[m->parcels] = (struct parcel){ .number = number, .due = due, .up = up };
	snprintf(more[m->parcels++].path, sizeof more->path, "%s", path);
	return 0;
}

/* ---- faults of one file ---- */

static int flip_bit(struct mirror *m, uint64_t number, uint64_t bit)
{
	char name[24];
	unsigned char byte;
	int fd = openat(m->spool, spool_name(name, number), O_RDWR | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return err_sys("%s", name);
	if (pread(fd, &byte, 1, (off_t)(bit / 8)) != 1)
		rc = err_sys("%s", name);
	byte ^= (unsigned char)(1u << bit % 8);
	if (rc == 0 && pwrite(fd, &byte, 1, (off_t)(bit / 8)) != 1)
		rc = err_sys("%s", name);
	close(fd);
	return rc;
}

static int damage(struct mirror *m, struct shot *s, const char *path, uint64_t good, uint64_t bad)
{
	char name[24];
	struct stat st;
	uint64_t size, at;
	int rc;

	if (fstatat(m->spool, spool_name(name, good), &st, 0) < 0)
		return err_sys("%s", name);
	size = (uint64_t)st.st_size;
	at = (uint64_t)(s->f.value * (double)size * (s->f.kind == FAULT_FLIP ? 8 : 1));
	rc = copy_file(m, m->spool, name, bad, s->f.kind == FAULT_FLIP ? FILE_MOST : (size_t)at);
	if (rc == 0 && s->f.kind == FAULT_FLIP && size)
		rc = flip_bit(m, bad, at);
	if (s->f.kind == FAULT_FLIP)
		snprintf(s->what, sizeof s->what, "%s: bit %u of byte %" PRIu64, path, (unsigned)(at % 8), at / 8);
	else
		snprintf(s->what, sizeof s->what, "%s: %" PRIu64 " of %" PRIu64 " bytes", path, at, size);
	return rc;
}

/* The name that the answer to the next round of the fragment will have. */
static bool next_round(char to[RUNDIR_PATH], const char *path, const char *learner)
{
	const char *name = strrchr(path, '/');
	unsigned fragment;
	uint64_t round;

	if (!name || !rundir_delta_parse(name + 1, &fragment, &round))
		return false;
	rundir_delta(to, learner, fragment, round + 1);
	return true;
}

static int duplicate(struct mirror *m, struct shot *s, const char *path, uint64_t good, enum fault_class class)
{
	char name[24], other[RUNDIR_PATH] = "";
	uint64_t second = ++m->number;
	int rc = copy_file(m, m->spool, spool_name(name, good), second, FILE_MOST);

	if (rc == 0)
		rc = queue(m, path, second, m->now + s->f.lasts, m->upwards);
	if (rc == 0 && class == FAULT_ANSWER && next_round(other, path, m->learner)) {
		uint64_t third = ++m->number;

		rc = copy_file(m, m->spool, name, third, FILE_MOST);
		if (rc == 0)
			rc = queue(m, other, third, m->now, m->upwards);
	}
	snprintf(s->what, sizeof s->what, "%s: twice%s%s", path, *other ? ", and as " : "", other);
	return rc;
}

/* What is wrong comes now, and what is right when the fault is over: then it must be queued behind. */
static int replace(struct mirror *m, struct shot *s, const char *path, uint64_t good, enum fault_class class)
{
	struct old *old = &m->old[class];
	uint64_t bad = ++m->number;
	char name[24];
	int rc;

	if (s->f.kind == FAULT_REPLAY) {
		rc = copy_file(m, m->spool, spool_name(name, old->number), bad, FILE_MOST);
		snprintf(s->what, sizeof s->what, "%s: as %s was %.3g s before", path, old->path, m->now - old->at);
	} else {
		rc = damage(m, s, path, good, bad);
	}
	if (rc == 0)
		rc = queue(m, path, bad, m->now, m->upwards);
	return rc < 0 ? rc : queue(m, path, good, m->now + s->f.lasts, m->upwards);
}

static int hit(struct mirror *m, struct shot *s, const char *path, uint64_t good, enum fault_class class)
{
	int rc;

	s->hit = true;
	if (s->f.kind != FAULT_DUPLICATE)
		return replace(m, s, path, good, class);
	rc = queue(m, path, good, m->now, m->upwards);
	return rc < 0 ? rc : duplicate(m, s, path, good, class);
}

static struct shot *shot_for(struct mirror *m, enum fault_class class)
{
	for (size_t i = 0; i < m->shots && class < FAULT_CLASSES; i++) {
		struct shot *s = &m->shot[i];

		if (!s->hit && s->f.file == class && (s->f.kind != FAULT_REPLAY || m->old[class].number))
			return s;
	}
	return NULL;
}

/* Kept for replay, not always the last one. */
static int remember(struct mirror *m, const char *path, uint64_t number, enum fault_class class)
{
	struct old *old = class < FAULT_CLASSES ? &m->old[class] : NULL;
	char name[24];
	int rc;

	if (!old || (old->number && m->now - old->at < OLD_AGE))
		return 0;
	if (old->number)
		drop(m, old->number);
	old->number = 0;
	rc = grab(m, m->spool, spool_name(name, number), &old->number);
	if (rc <= 0)
		old->number = 0;
	old->at = m->now;
	snprintf(old->path, sizeof old->path, "%s", path);
	return rc < 0 ? rc : 0;
}

/* ---- carrying ---- */

static int changed(void *ctx, const char *path, enum fault_class class)
{
	struct mirror *m = ctx;
	double due = m->now < m->reorder ? m->reorder : m->now < m->delay ? m->now + m->lag : m->now;
	struct shot *s;
	uint64_t number;
	int rc = grab(m, m->upwards ? m->copy : m->run, path, &number);

	if (rc <= 0)
		return rc;
	s = shot_for(m, class);
	rc = s ? hit(m, s, path, number, class) : queue(m, path, number, due, m->upwards);
	return rc < 0 ? rc : remember(m, path, number, class);
}

static void gone(void *ctx, const char *path)
{
	struct mirror *m = ctx;

	unlinkat(m->upwards ? m->run : m->copy, path, 0);
}

/* Directories up to the last '/'. */
static int make_folders(int dir, const char *path)
{
	char part[RUNDIR_PATH];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		if (mkdirat(dir, part, 0777) < 0 && errno != EEXIST)
			return err_sys("%s", part);
	}
	return 0;
}

static int put(struct mirror *m, const struct parcel *p)
{
	char name[24];
	int to = p->up ? m->run : m->copy, rc = 0;

	spool_name(name, p->number);
	if (renameat(m->spool, name, to, p->path) < 0) {
		if (errno != ENOENT || (rc = make_folders(to, p->path)) < 0)
			return rc < 0 ? rc : err_sys("%s", p->path);
		if (renameat(m->spool, name, to, p->path) < 0 && errno != ENOENT)
			return err_sys("%s", p->path);
	}
	drop(m, p->number); /* two names of one file: rename did nothing */
	return 0;
}

static void take_out(struct mirror *m, size_t i)
{
	memmove(m->parcel + i, m->parcel + i + 1, (--m->parcels - i) * sizeof *m->parcel);
}

/* Those that came before and have the same name are not wanted any more. */
static void drop_older(struct mirror *m, size_t *at)
{
	for (size_t i = 0; i < *at;)
		if (m->parcel[i].up == m->parcel[*at].up && strcmp(m->parcel[i].path, m->parcel[*at].path) == 0) {
			drop(m, m->parcel[i].number);
			take_out(m, i);
			(*at)--;
		} else {
			i++;
		}
}

static int deliver(struct mirror *m)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < m->parcels;) {
		if (m->parcel[i].due > m->now) {
			i++;
			continue;
		}
		drop_older(m, &i);
		rc = put(m, &m->parcel[i]);
		if (rc == 0)
			take_out(m, i);
	}
	return rc;
}

/* The end of a reorder: the last first. */
static int deliver_reversed(struct mirror *m)
{
	int rc = 0;

	for (size_t i = m->parcels; rc == 0 && i-- > 0;)
		if (m->parcel[i].due <= m->now) {
			rc = put(m, &m->parcel[i]);
			if (rc == 0)
				take_out(m, i);
		}
	return rc;
}

static int look(struct mirror *m)
{
	const struct carry_to to = { changed, gone, m };
	int rc;

	m->upwards = true;
	rc = carry_look(m->up, &to);
	m->upwards = false;
	return rc < 0 ? rc : carry_look(m->down, &to);
}

int mirror_tend(struct mirror *m, double now)
{
	int rc = 0;

	m->now = now;
	if (now < m->cut)
		return 0;
	if (m->reorder > 0 && now >= m->reorder) {
		rc = deliver_reversed(m);
		m->reorder = 0;
		m->again = now + AFTER;
		return rc; /* the wrong order is there to be seen until the next time */
	}
	if (m->again > 0 && now >= m->again) {
		carry_forget(m->up);
		carry_forget(m->down);
		m->again = 0;
	}
	rc = look(m);
	return rc < 0 ? rc : deliver(m);
}

/* ---- faults ---- */

static double later(double a, double b)
{
	return a > b ? a : b;
}

int mirror_break(struct mirror *m, const struct fault *f)
{
	double end = f->at + f->lasts;
	struct shot *more;

	switch (f->kind) {
	case FAULT_CUT:
		m->cut = later(m->cut, end);
		return 0;
	case FAULT_DELAY:
		m->delay = later(m->delay, end);
		m->lag = f->value;
		m->again = later(m->again, end + m->lag + AFTER);
		return 0;
	case FAULT_REORDER:
		m->reorder = later(m->reorder, end);
		return 0;
	default:
		break;
	}
	more = realloc(m->shot, (m->shots + 1) * sizeof *more);
	if (!more)
		return err_nomem();
	m->shot = more;
	more[m->shots++] = (struct shot){ .f = *f };
	return 0;
}

bool mirror_is_cut(const struct mirror *m, double now)
{
	return now < m->cut;
}

int mirror_told(struct mirror *m, struct fault *f, char what[256])
{
	for (size_t i = 0; i < m->shots; i++) {
		struct shot *s = &m->shot[i];

		if (!s->hit)
			continue;
		*f = s->f;
		memcpy(what, s->what, sizeof s->what);
		memmove(s, s + 1, (--m->shots - i) * sizeof *s);
		return 1;
	}
	return 0;
}

int mirror_heal(struct mirror *m, double now)
{
	m->now = now;
	m->cut = m->delay = m->reorder = m->again = 0;
	for (size_t i = 0; i < m->shots; i++) /* they hit nothing any more */
		if (!m->shot[i].hit) {
			m->shot[i].hit = true;
			snprintf(m->shot[i].what, sizeof m->shot[i].what, "absorbed: no such file came");
		}
	while (m->parcels) /* all comes anew */
		drop(m, m->parcel[--m->parcels].number);
	carry_forget(m->up);
	carry_forget(m->down);
	return mirror_tend(m, now);
}

/* ---- beginning and end ---- */

static int open_folder(int *fd, const char *path)
{
	*fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *fd < 0 ? err_sys("%s", path) : 0;
}

/* What the learner has written before, which is its own and not carried down. */
static int bring_own(struct mirror *m)
{
	const struct carry_to to = { changed, gone, m };
	int rc;
	struct carry *own = NULL;

	rc = carry_open(&own, m->run, m->learner, true);
	if (rc == 0)
		rc = carry_look(own, &to); /* m->upwards is false: from the run to the copy */
	carry_close(own);
	return rc < 0 ? rc : deliver(m);
}

static int make(struct mirror *m, const struct mirror_conf *c)
{
	char own[RUNDIR_PATH];
	int rc = 0;

	m->copy_path = strdup(c->copy);
	m->spool_path = strdup(c->spool);
	if (!m->copy_path || !m->spool_path)
		return err_nomem();
	snprintf(m->learner, sizeof m->learner, "%s", c->learner);
	snprintf(own, sizeof own, "learner/%s/", c->learner);
	if ((rc = dir_make(c->copy, 0777)) < 0 || (rc = dir_make(c->spool, 0777)) < 0 ||
	    (rc = open_folder(&m->run, c->run)) < 0 || (rc = open_folder(&m->copy, c->copy)) < 0 ||
	    (rc = open_folder(&m->spool, c->spool)) < 0 || (rc = make_folders(m->copy, "global/")) < 0 ||
	    (rc = make_folders(m->copy, own)) < 0 || (rc = carry_open(&m->up, m->copy, c->learner, true)) < 0)
		return rc;
	return carry_open(&m->down, m->run, c->learner, false);
}

int mirror_open(struct mirror **out, const struct mirror_conf *c)
{
	struct mirror *m = *out = calloc(1, sizeof *m);
	int rc;

	if (!m)
		return err_nomem();
	m->run = m->copy = m->spool = -1;
	rc = make(m, c);
	if (rc == 0)
		rc = bring_own(m);
	return rc < 0 ? rc : mirror_tend(m, 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static void remove_tree(char *path)
{
	if (path && nftw(path, remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0)
		errno = 0; /* left there, which harms nobody */
	free(path);
}

void mirror_close(struct mirror *m)
{
	const int fd[3] = { m ? m->run : -1, m ? m->copy : -1, m ? m->spool : -1 };

	for (int i = 0; i < 3; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	if (!m)
		return;
	carry_close(m->up);
	carry_close(m->down);
	remove_tree(m->copy_path);
	remove_tree(m->spool_path);
	free(m->parcel);
	free(m->shot);
	free(m);
}
