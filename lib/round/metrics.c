#include "round/metrics.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "io/fd.h"

static const char columns[] = "global_step\tstep\ttokens\tloss\tlr\tgrad_norm\ttokens_per_s\n";

/* A new file gets its head. What has another one is no table, and is not added to. */
static int check_head(int fd)
{
	char head[sizeof columns - 1];
	ssize_t n = fd_read_at(fd, head, sizeof head, 0);

	if (n < 0)
		return (int)n;
	if (n == 0)
		return fd_write(fd, columns, sizeof head);
	if ((size_t)n < sizeof head || memcmp(head, columns, sizeof head) != 0)
		return err_set(ERR_DATA, "is there already and no table of metrics");
	return 0;
}

int metrics_open(struct metrics *m, const char *path)
{
	struct stat st;
	bool stream = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
	int rc = 0;

	m->fd = open(path, (stream ? O_WRONLY : O_RDWR) | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (m->fd < 0)
		rc = err_sys("cannot open");
	else if (!stream)
		rc = check_head(m->fd);
	if (rc < 0) {
		metrics_close(m);
		return err_at(rc, "%s", path);
	}
	return 0;
}

int metrics_add(struct metrics *m, const struct metrics_row *row)
{
	char line[256], loss[32], lr[32], norm[32];
	int n;

	if (m->fd < 0)
		return 0;
	num_f32_text(loss, (float)row->loss);
	num_f32_text(lr, (float)row->lr);
	num_f32_text(norm, (float)row->grad_norm);
	n = snprintf(line, sizeof line, "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%s\t%.0f\n",
		row->global_step, row->step, row->tokens, loss, lr, norm, row->tokens_per_s);
	return fd_write(m->fd, line, (size_t)n);
}

void metrics_close(struct metrics *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}
