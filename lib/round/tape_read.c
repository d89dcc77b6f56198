#include "round/tape_line.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "io/fd.h"

#define BLOCK ((size_t)64 << 10)
#define FIRST_LINE 4096 /* an `epoch` line is not longer */

/* The lines of one epoch that count. */
struct span {
	uint64_t epoch, first, last; /* last: UINT64_MAX while no later epoch goes on */
};
struct tape_reader {
	int dir; /* negative: not there yet */
	uint64_t epoch; /* highest that counts */
	struct span *span;
	size_t n, cap, at; /* at: the one that is being read */
	int fd;            /* of a file, negative: not open */
	uint64_t file;     /* its epoch */
	uint64_t offset;   /* of the next line in it */
	struct buf buf;    /* what was read of the file, up to offset + len - used */
	size_t used;
	uint64_t number;
	digest hash;
	bool torn;
	struct {
		uint64_t number; /* 0: none */
		digest hash;
	} expect;            /* a line that the head tells of */
	struct tape_line line;
};

static int at_tape(int rc, uint64_t epoch)
{
	return err_at(rc, "syncer/tape.%" PRIu64, epoch);
}

/* ---- which epochs there are ---- */

static void close_file(struct tape_reader *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->offset = 0;
	buf_clear(&r->buf);
	r->used = 0;
}

/* An epoch that goes on behind line first - 1: what others wrote after it does not count. */
static int add_span(struct tape_reader *r, uint64_t epoch, uint64_t first)
{
	while (r->n && r->span[r->n - 1].first >= first)
		r->n--;
	if (r->n)
		r->span[r->n - 1].last = first - 1;
	if (r->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 16;
		struct span *more = realloc(r->span, cap * sizeof *more);

		if (!more)
			return err_nomem();
		r->span = more;
		r->cap = cap;
	}
	r->span[r->n++] = (struct span){ epoch, first, UINT64_MAX };
	return 0;
}

/* 1 and the number of an epoch's first line, 0 while it has none. */
static int first_number(const struct tape_reader *r, uint64_t epoch, uint64_t *first)
{
	char text[FIRST_LINE];
	const char *end;
	ssize_t n;
	int fd, rc = tape_file(r->dir, epoch, O_RDONLY, &fd);

	if (rc <= 0)
		return rc;
	n = fd_read_at(fd, text, sizeof text, 0);
	close(fd);
	if (n < 0)
		return at_tape((int)n, epoch);
	end = memchr(text, '\n', (size_t)n);
	if (!end && n == FIRST_LINE)
		return at_tape(err_set(ERR_AUTH, "does not begin with a line of a tape"), epoch);
	if (!end || memchr(text, '\0', (size_t)(end - text)))
		return 0;
	*first = tape_number(text, (size_t)(end - text));
	return *first ? 1 : at_tape(err_set(ERR_AUTH, "its first line has no number"), epoch);
}

static int find_directory(struct tape_reader *r)
{
	return r->dir >= 0 ? 1 : tape_directory(&r->dir);
}

/*
 * Looks at the epochs behind the last that has lines. 1 when there is something new. Epochs before it
 * that are still empty stay out: what their syncers may yet write has been superseded.
 */
static int find_epochs(struct tape_reader *r)
{
	uint64_t epoch = r->n ? r->span[r->n - 1].epoch : 0, first;
	int rc = 0, found = 0;

	if (epoch >= r->epoch)
		return 0;
	if ((rc = find_directory(r)) <= 0)
		return rc;
	while (epoch < r->epoch && rc >= 0) {
		rc = first_number(r, ++epoch, &first);
		if (rc <= 0)
			continue;
		if (first <= r->number)
			return at_tape(err_set(ERR_AGAIN, "supersedes lines from %" PRIu64 " on that were read",
				first), epoch);
		found = 1;
		rc = add_span(r, epoch, first);
	}
	return rc < 0 ? rc : found;
}

/* Goes to the span with the line behind the one that was read last. */
static void find_span(struct tape_reader *r)
{
	if (r->at >= r->n || r->span[r->at].first > r->number + 1)
		r->at = 0;
	while (r->at + 1 < r->n && r->span[r->at].last <= r->number)
		r->at++;
	if (r->span[r->at].epoch != r->file) {
		close_file(r);
		r->file = r->span[r->at].epoch;
	}
}

int tape_read_open(struct tape_reader **out, const char *run, uint64_t epoch)
{
	struct tape_reader *r;
	int rc;

	*out = NULL;
	if (epoch > TAPE_EPOCHS)
		return err_set(ERR_DATA, "epoch %" PRIu64 " is above %d", epoch, TAPE_EPOCHS);
	r = calloc(1, sizeof *r);
	if (!r)
		return err_nomem();
	r->dir = r->fd = -1;
	r->epoch = epoch;
	tape_start(&r->hash, run);
	rc = find_epochs(r);
	if (rc < 0) {
		tape_read_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

void tape_read_close(struct tape_reader *r)
{
	if (!r)
		return;
	close_file(r);
	if (r->dir >= 0)
		close(r->dir);
	buf_release(&r->buf);
	free(r->span);
	free(r);
}

void tape_read_upto(struct tape_reader *r, uint64_t epoch)
{
	if (epoch > r->epoch)
		r->epoch = epoch < TAPE_EPOCHS ? epoch : TAPE_EPOCHS;
}

/* ---- lines ---- */

/* More of the file behind what is in buf: the count, 0 at its end. */
static int fill(struct tape_reader *r)
{
	ssize_t n;
	int rc;

	if (r->used) { /* keeps what is left of the line */
		r->buf.len -= r->used;
		memmove(r->buf.data, r->buf.data + r->used, r->buf.len);
		r->used = 0;
	}
	if ((rc = buf_reserve(&r->buf, BLOCK)) < 0)
		return rc;
	n = fd_read_at(r->fd, r->buf.data + r->buf.len, BLOCK, r->offset + r->buf.len);
	if (n > 0)
		r->buf.len += (size_t)n;
	return (int)n;
}

/* 1 and the next line of the file, a NUL in place of its end; 0 when there is no whole one. */
static int next_text(struct tape_reader *r, char **text, size_t *n)
{
	size_t looked = 0;
	char *end = NULL;
	int rc;

	for (;;) {
		size_t have = r->buf.len - r->used;

		if (have > looked)
			end = memchr(r->buf.data + r->used + looked, '\n', have - looked);
		looked = have;
		if (end || looked >= TAPE_LINE)
			break;
		rc = fill(r);
		if (rc < 0)
			return rc;
		if (rc == 0) { /* read anew the next time: it may be cut back and written again */
			r->torn = looked > 0;
			buf_clear(&r->buf);
			r->used = 0;
			return 0;
		}
	}
	*text = r->buf.data + r->used;
	*n = end ? (size_t)(end - *text) : looked;
	if (*n >= TAPE_LINE)
		return err_set(ERR_AUTH, "line %" PRIu64 ": longer than %zu bytes", r->number + 1,
			TAPE_LINE);
	*end = '\0';
	return 1;
}

static int check_epoch(const struct tape_line *l, const struct span *s)
{
	bool first = l->number == s->first;

	if (first != (strcmp(l->kind, "epoch") == 0))
		return err_set(ERR_AUTH, first ? "does not begin an epoch" : "begins an epoch");
	if (first && (tape_u64(l, "epoch") != s->epoch || tape_u64(l, "after") != s->first - 1))
		return err_set(ERR_AUTH, "begins epoch %.20s behind line %.20s", tape_text(l, "epoch"),
			tape_text(l, "after"));
	return 0;
}

static int check_expected(const struct tape_reader *r)
{
	if (r->line.number == r->expect.number &&
		memcmp(&r->line.hash, &r->expect.hash, sizeof(digest)) != 0)
		return err_set(ERR_AUTH, "is not the line that the head names");
	return 0;
}

/* 1 and a line of the span that is being read, 0 when its file has no more. */
static int next_line(struct tape_reader *r)
{
	const struct span *s = &r->span[r->at];
	char *text;
	size_t n;
	int rc = r->fd >= 0 ? 1 : tape_file(r->dir, s->epoch, O_RDONLY, &r->fd);

	if (rc <= 0)
		return rc;
	rc = next_text(r, &text, &n);
	if (rc <= 0)
		return rc < 0 ? at_tape(rc, s->epoch) : 0;
	if (r->at + 1 == r->n && memchr(text, '\0', n)) { /* what a power failure left */
		r->torn = true;
		buf_clear(&r->buf);
		r->used = 0;
		return 0;
	}
	r->line.epoch = s->epoch;
	rc = tape_parse(&r->line, text, n, r->number, &r->hash);
	if (rc == 0)
		rc = check_epoch(&r->line, s);
	if (rc == 0)
		rc = check_expected(r);
	if (rc < 0)
		return at_tape(err_at(rc, "line %" PRIu64, r->number + 1), s->epoch);
	r->used += n + 1;
	r->offset += n + 1;
	r->number = r->line.number;
	r->hash = r->line.hash;
	return 1;
}

static int end(const struct tape_reader *r)
{
	if (r->number >= r->expect.number)
		return 0;
	return err_set(ERR_AUTH, "syncer/tape.%" PRIu64 ": ends with line %" PRIu64
		", but the head knows %" PRIu64 ": the tape was cut", r->n ? r->span[r->at].epoch : r->epoch,
		r->number, r->expect.number);
}

/* The file of an epoch has ended before another goes on. */
static int missing(const struct tape_reader *r)
{
	return at_tape(err_set(ERR_AUTH, "ends with line %" PRIu64 ", but epoch %" PRIu64
		" goes on behind line %" PRIu64, r->number, r->span[r->at + 1].epoch,
		r->span[r->at].last), r->span[r->at].epoch);
}

int tape_read(struct tape_reader *r, const struct tape_line **line)
{
	int rc;

	r->torn = false;
	for (;;) {
		if (r->n) {
			find_span(r);
			rc = next_line(r);
			*line = &r->line;
			if (rc != 0)
				return rc;
			if (r->at + 1 < r->n)
				return missing(r);
		}
		rc = find_epochs(r);
		if (rc <= 0)
			return rc < 0 ? rc : end(r);
	}
}

void tape_read_expect(struct tape_reader *r, uint64_t number, const digest *hash)
{
	r->expect.number = number;
	r->expect.hash = *hash;
}

bool tape_read_torn(const struct tape_reader *r)
{
	return r->torn;
}

/* ---- where it stands ---- */

uint64_t tape_read_number(const struct tape_reader *r)
{
	return r->number;
}

void tape_read_hash(const struct tape_reader *r, digest *out)
{
	*out = r->hash;
}

int tape_newest(uint64_t *epoch)
{
	struct dirent *e;
	uint64_t x;
	DIR *d = NULL;
	int dir, rc = tape_directory(&dir);

	*epoch = 0;
	if (rc <= 0)
		return rc;
	d = fdopendir(dir);
	if (!d) {
		rc = err_sys("syncer");
		close(dir);
		return rc;
	}
	while ((e = readdir(d)))
		if (strncmp(e->d_name, "tape.", 5) == 0 && num_u64(e->d_name + 5, &x) == 0 &&
			x > *epoch && x <= TAPE_EPOCHS)
			*epoch = x;
	closedir(d);
	return 0;
}
