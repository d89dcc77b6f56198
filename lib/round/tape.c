#include "round/tape_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "io/fd.h"

struct tape {
	int fd;
	uint64_t epoch, number, size; /* size: where the next line begins */
	digest last;
	bool ragged;    /* more than `size` bytes may be in the file */
	bool lost;      /* fewer are, or it is gone */
	struct buf line, copy;
	int rc;         /* of the first failure in this line */
};

static int at_tape(int rc, uint64_t epoch)
{
	return err_at(rc, "syncer/tape.%" PRIu64, epoch);
}

/* ---- opening ---- */

/* The last line end before an offset: 1 and where it stands, 0 for none. */
static int find_end(int fd, uint64_t before, uint64_t *at)
{
	char block[4096];

	while (before > 0) {
		size_t n = before < sizeof block ? (size_t)before : sizeof block;
		ssize_t got = fd_read_at(fd, block, n, before - n);
		const char *end;

		if (got < 0)
			return (int)got;
		end = memrchr(block, '\n', (size_t)got);
		if (end) {
			*at = before - n + (uint64_t)(end - block);
			return 1;
		}
		before -= n;
	}
	return 0;
}

/* The last whole line of a file: 1, 0 for none. *end: where the one after it would begin. */
static int last_line(int fd, uint64_t size, struct buf *line, uint64_t *end)
{
	uint64_t stop, start;
	ssize_t got;
	int rc;

	for (;;) {
		*end = 0;
		rc = find_end(fd, size, &stop);
		if (rc <= 0)
			return rc;
		rc = find_end(fd, stop, &start);
		if (rc < 0)
			return rc;
		start = rc ? start + 1 : 0;
		if (stop - start >= TAPE_LINE)
			return err_set(ERR_DATA, "its last line is longer than any");
		buf_clear(line);
		if ((rc = buf_reserve(line, (size_t)(stop - start))) < 0)
			return rc;
		got = fd_read_at(fd, line->data, (size_t)(stop - start), start);
		if (got < 0)
			return (int)got;
		line->len = (size_t)got;
		line->data[line->len] = '\0';
		*end = stop + 1;
		if (!memchr(line->data, '\0', line->len))
			return 1;
		size = start; /* what a power failure left */
	}
}

static int check_last(const struct tape *t, const struct buf *line)
{
	uint64_t number = tape_number(line->data, line->len);
	char hash[TAPE_HASH + 1];

	if (number != t->number)
		return err_set(ERR_DATA, "its last line is %" PRIu64 ", not %" PRIu64, number,
			t->number);
	sig_hex(hash, t->last.b, TAPE_HASH / 2);
	if (line->len < TAPE_HASH ||
		memcmp(line->data + line->len - TAPE_HASH, hash, TAPE_HASH) != 0)
		return err_set(ERR_DATA, "line %" PRIu64 " is another one", number);
	return 0;
}

/* Cuts off whatever stands behind the last line. */
static int cut(struct tape *t)
{
	int rc;

	do
		rc = ftruncate(t->fd, (off_t)t->size);
	while (rc < 0 && errno == EINTR);
	t->ragged = rc < 0;
	return rc < 0 ? err_sys("cut back to line %" PRIu64, t->number) : 0;
}

static int find_place(struct tape *t)
{
	struct buf line = BUF_INIT;
	struct stat st;
	int rc;

	if (fstat(t->fd, &st) < 0)
		return err_sys("fstat");
	rc = last_line(t->fd, (uint64_t)st.st_size, &line, &t->size);
	if (rc > 0)
		rc = check_last(t, &line);
	buf_release(&line);
	if (rc == 0 && t->size < (uint64_t)st.st_size)
		rc = cut(t);
	return rc;
}

/* fsync of a directory is not everywhere possible. */
static int sync_directory(int dir)
{
	if (fsync(dir) == 0 || errno == EINVAL || errno == EPERM || errno == ENOTSUP)
		return 0;
	return err_sys("syncer");
}

static int open_file(uint64_t epoch, int *fd)
{
	int dir, rc;

	if (mkdir("syncer", 0777) < 0 && errno != EEXIST)
		return err_sys("syncer");
	rc = tape_directory(&dir);
	if (rc == 0)
		rc = err_set(ERR_IO, "syncer: is gone");
	if (rc < 0)
		return rc;
	rc = tape_file(dir, epoch, O_RDWR | O_CREAT, fd);
	if (rc > 0 && (rc = sync_directory(dir)) < 0)
		close(*fd);
	close(dir);
	return rc;
}

int tape_open(struct tape **out, const char *run, uint64_t epoch, uint64_t number, const digest *last)
{
	struct tape *t;
	digest start;
	int rc, fd;

	*out = NULL;
	tape_start(&start, run);
	if (number == 0 && memcmp(&start, last, sizeof start) != 0)
		return err_set(ERR_USAGE, "a tape of run %s does not begin like that", run);
	if ((rc = open_file(epoch, &fd)) < 0)
		return rc;
	t = calloc(1, sizeof *t);
	if (!t) {
		close(fd);
		return err_nomem();
	}
	*t = (struct tape){ .fd = fd, .epoch = epoch, .number = number, .last = *last };
	if ((rc = find_place(t)) < 0) {
		tape_close(t);
		return at_tape(rc, epoch);
	}
	*out = t;
	return 0;
}

void tape_close(struct tape *t)
{
	if (!t)
		return;
	close(t->fd);
	buf_release(&t->line);
	buf_release(&t->copy);
	free(t);
}

/* ---- a line ---- */

static void fail(struct tape *t, int rc)
{
	if (t->rc == 0)
		t->rc = rc;
}

void tape_begin(struct tape *t, double seconds, const char *kind)
{
	uint64_t ms = seconds > 0 && seconds < 1e12 ? (uint64_t)(seconds * 1000 + 0.5) : 0;

	buf_clear(&t->line);
	t->rc = buf_fmt(&t->line, "%" PRIu64 " %" PRIu64 ".%03u %s", t->number + 1, ms / 1000,
		(unsigned)(ms % 1000), kind);
	if (!tape_kind_good(kind))
		fail(t, err_set(ERR_USAGE, "'%s' is no kind of line", kind));
}

void tape_put(struct tape *t, const char *key, const char *value)
{
	if (!tape_key_good(key))
		fail(t, err_set(ERR_USAGE, "'%s' is no key of a line", key));
	if (t->rc == 0)
		fail(t, buf_fmt(&t->line, " %s=", key));
	if (t->rc == 0)
		fail(t, tape_escape(&t->line, value));
}

void tape_put_u64(struct tape *t, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, value);
	tape_put(t, key, text);
}

void tape_put_f64(struct tape *t, const char *key, double value)
{
	char text[32];

	num_f64_text(text, value);
	tape_put(t, key, text);
}

void tape_put_id(struct tape *t, const char *key, const digest *id)
{
	char text[2 * SIG_DIGEST + 1];

	sig_hex(text, id->b, sizeof id->b);
	tape_put(t, key, text);
}

/* Is the file still where it was, and nobody else's? What others wrote behind its end goes. */
static int check_file(struct tape *t)
{
	struct stat st;
	int rc;

	if (fstat(t->fd, &st) < 0)
		return err_sys("fstat");
	t->lost = st.st_nlink == 0 || (uint64_t)st.st_size < t->size;
	if (st.st_nlink == 0)
		return err_set(ERR_AUTH, "the tape was removed, or another file took its name: bring it back");
	if ((uint64_t)st.st_size < t->size)
		return err_set(ERR_AUTH, "the tape was cut: %" PRIu64 " bytes became %" PRIu64 ": bring it back",
			t->size, (uint64_t)st.st_size);
	if ((uint64_t)st.st_size == t->size)
		return 0;
	rc = cut(t);
	return rc < 0 ? rc : err_set(ERR_DATA, "somebody else wrote to it: %" PRIu64 " bytes are cut off",
		(uint64_t)st.st_size - t->size);
}

static int append(struct tape *t, bool durable)
{
	int rc;

	if (lseek(t->fd, (off_t)t->size, SEEK_SET) < 0)
		return err_sys("lseek");
	t->ragged = true;
	rc = fd_write(t->fd, t->line.data, t->line.len);
	while (rc == 0 && durable && fdatasync(t->fd) < 0)
		if (errno != EINTR)
			rc = err_sys("fdatasync");
	if (rc == 0)
		t->ragged = false;
	return rc;
}

/* A line that no reader takes would end the tape for good. */
static int check_line(struct tape *t)
{
	struct tape_line l;
	int rc;

	buf_clear(&t->copy);
	rc = buf_add(&t->copy, t->line.data, t->line.len);
	return rc == 0 ? tape_parse(&l, t->copy.data, t->copy.len, t->number, &t->last) : rc;
}

static int end_line(struct tape *t, digest *hash)
{
	char text[TAPE_HASH + 1];
	int rc = t->rc;

	if (rc == 0 && t->line.len + TAPE_HASH + 2 > TAPE_LINE)
		rc = err_set(ERR_DATA, "longer than %zu bytes", TAPE_LINE);
	if (rc < 0)
		return rc;
	tape_chain(hash, &t->last, t->line.data, t->line.len);
	sig_hex(text, hash->b, TAPE_HASH / 2);
	rc = buf_fmt(&t->line, " %s", text);
	if (rc == 0)
		rc = check_line(t);
	return rc == 0 ? buf_str(&t->line, "\n") : rc;
}

int tape_end(struct tape *t, bool durable)
{
	struct err_note note;
	digest hash;
	int rc = end_line(t, &hash);

	t->rc = ERR_USAGE; /* until the next tape_begin */
	if (rc == 0 && t->ragged)
		rc = cut(t);
	if (rc == 0)
		rc = check_file(t);
	if (rc == 0 && (rc = append(t, durable)) < 0) {
		err_save(&note, rc);
		if (cut(t) < 0) /* tried again before the next line */
			t->ragged = true;
		rc = err_restore(&note);
	}
	if (rc < 0)
		return at_tape(err_at(rc, "line %" PRIu64, t->number + 1), t->epoch);
	t->number++;
	t->size += t->line.len;
	t->last = hash;
	return 0;
}

bool tape_lost(const struct tape *t)
{
	return t->lost;
}

uint64_t tape_lines(const struct tape *t)
{
	return t->number;
}

void tape_last(const struct tape *t, digest *out)
{
	*out = t->last;
}
