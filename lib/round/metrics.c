#include "round/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "io/fd.h"

#define READER_WAIT 5000 /* milliseconds a FIFO is given to find a reader */
#define READER_POLL 20

#define COLUMNS "global_step\tstep\ttokens\tloss\tlr\tgrad_norm\t"
static const char dense_columns[] = COLUMNS "tokens_per_s\n";
static const char expert_columns[] =
	COLUMNS "expert_balance\texpert_cv\texpert_least\ttokens_per_s\n";

/* A new file gets its head. What has another one is no table of such a model, and is not added to. */
static int check_head(int fd, bool experts)
{
	const char *columns = experts ? expert_columns : dense_columns;
	char head[sizeof expert_columns];
	size_t want = strlen(columns);
	ssize_t n = fd_read_at(fd, head, want, 0);

	if (n < 0)
		return (int)n;
	if (n == 0)
		return fd_write(fd, columns, want);
	if ((size_t)n < want || memcmp(head, columns, want) != 0)
		return err_set(ERR_DATA, "is there already and no table of metrics%s",
			experts ? " of experts" : "");
	return 0;
}

/* A FIFO that nobody reads would hold us here; its reader may be just about to start. */
static int open_stream(const char *path)
{
	const struct timespec pause = { .tv_nsec = READER_POLL * 1000000L };
	int fd, waited = 0;

	while ((fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) < 0 &&
		errno == ENXIO && waited < READER_WAIT) {
		nanosleep(&pause, NULL);
		waited += READER_POLL;
	}
	return fd;
}

int metrics_open(struct metrics *m, const char *path, bool experts)
{
	struct stat st;
	int rc = 0;

	m->experts = experts;
	m->stream = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
	if (m->stream)
		m->fd = open_stream(path);
	else
		m->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (m->fd < 0 && errno == ENXIO)
		rc = err_set(ERR_IO, "a FIFO that nobody reads");
	else if (m->fd < 0)
		rc = err_sys("cannot open");
	else if (!m->stream)
		rc = check_head(m->fd, experts);
	if (rc < 0) {
		metrics_close(m);
		return err_at(rc, "%s", path);
	}
	return 0;
}

/* The training does not wait for a slow reader. A pipe takes a line whole or not at all. */
static int write_line(const struct metrics *m, const char *line, size_t n)
{
	struct pollfd p = { .fd = m->fd, .events = POLLOUT };

	if (m->stream && poll(&p, 1, 0) == 0)
		return err_set(ERR_IO, "its reader does not keep up");
	return fd_write(m->fd, line, n);
}

static void experts_text(char *out, size_t size, const struct metrics_row *row)
{
	char balance[32], cv[32], least[32];

	num_f32_text(balance, (float)row->expert_balance);
	num_f32_text(cv, (float)row->expert_cv);
	num_f32_text(least, (float)row->expert_least);
	snprintf(out, size, "%s\t%s\t%s\t", balance, cv, least);
}

int metrics_add(struct metrics *m, const struct metrics_row *row)
{
	char line[512], loss[32], lr[32], norm[32], experts[128] = "";
	int n;

	if (m->fd < 0)
		return 0;
	num_f32_text(loss, (float)row->loss);
	num_f32_text(lr, (float)row->lr);
	num_f32_text(norm, (float)row->grad_norm);
	if (m->experts)
		experts_text(experts, sizeof experts, row);
	n = snprintf(line, sizeof line,
		"%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%s\t%s%.0f\n", row->global_step,
		row->step, row->tokens, loss, lr, norm, experts, row->tokens_per_s);
	return write_line(m, line, (size_t)n);
}

void metrics_close(struct metrics *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}
