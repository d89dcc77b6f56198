#include "io/spool.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/fd.h"
#include "io/wake.h"

#define BLOCK (256 * 1024)

struct state {
	struct spool *v;
	size_t n, open;
	struct pollfd *poll; /* (n); fd -1: done */
	uint64_t *length;    /* (n) */
	uint64_t limit;
	char *block;
};

static void done(struct state *s, size_t i)
{
	s->poll[i].fd = -1;
	s->open--;
}

/* The sentence of this thread becomes that of pipe i. */
static void fail(struct state *s, size_t i, int code)
{
	err_save(&s->v[i].note, code);
	if (s->v[i].to >= 0)
		close(s->v[i].to);
	s->v[i].to = -1;
	done(s, i);
}

static void start(struct state *s)
{
	for (size_t i = 0; i < s->n; i++) {
		int rc;

		s->poll[i] = (struct pollfd){ .fd = s->v[i].from, .events = POLLIN };
		s->open++;
		if ((rc = fd_temporary(&s->v[i].to)) < 0)
			fail(s, i, rc);
	}
}

/* One block of a pipe that has something for us. */
static int copy_block(struct state *s, size_t i)
{
	struct spool *p = &s->v[i];
	ssize_t got = read(p->from, s->block, BLOCK);
	int rc;

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (got < 0)
		return err_sys("read");
	if (got == 0) {
		if (lseek(p->to, 0, SEEK_SET) < 0)
			return err_sys("temporary file");
		done(s, i);
		return 0;
	}
	s->length[i] += (uint64_t)got;
	if (s->length[i] > s->limit)
		return err_set(ERR_DATA, "longer than %" PRIu64 " bytes", s->limit);
	rc = fd_write(p->to, s->block, (size_t)got);
	return rc < 0 ? err_at(rc, "temporary file") : 0;
}

/* Milliseconds left, rounded up; -1 without a deadline. */
static int time_left(const struct clock *clock, double deadline, double seconds)
{
	double left = deadline - clock_now(clock);

	if (seconds <= 0)
		return -1;
	return left <= 0 ? 0 : left > 1e6 ? 1000000000 : (int)(left * 1000) + 1;
}

static void give_up(struct state *s, double seconds)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->poll[i].fd >= 0)
			fail(s, i, err_set(ERR_IO, "not complete after %g seconds", seconds));
}

static int copy_all(struct state *s, double seconds, const struct clock *clock)
{
	double deadline = clock_now(clock) + seconds;

	while (s->open) {
		int left = time_left(clock, deadline, seconds);

		if (left == 0) {
			give_up(s, seconds);
			break;
		}
		if (wake_requested())
			return err_set(ERR_IO, "interrupted");
		if (poll(s->poll, (nfds_t)s->n, left) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys("poll");
		}
		for (size_t i = 0; i < s->n; i++) {
			int rc;

			if (s->poll[i].fd < 0 || !s->poll[i].revents)
				continue;
			if ((rc = copy_block(s, i)) < 0)
				fail(s, i, rc);
		}
	}
	return 0;
}

int spool_run(struct spool *v, size_t n, uint64_t limit, double seconds, const struct clock *clock)
{
	struct state s = { .v = v, .n = n, .limit = limit };
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		v[i].to = -1;
		v[i].note.code = 0;
	}
	s.poll = calloc(n + 1, sizeof *s.poll);
	s.length = calloc(n + 1, sizeof *s.length);
	s.block = malloc(BLOCK);
	if (!s.poll || !s.length || !s.block)
		rc = err_nomem();
	if (rc == 0) {
		start(&s);
		rc = copy_all(&s, seconds, clock);
	}
	free(s.poll);
	free(s.length);
	free(s.block);
	return rc;
}
