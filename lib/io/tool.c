#include "io/tool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/fd.h"
#include "io/proc.h"
#include "io/wake.h"

#define WORDS_LIMIT ((size_t)1 << 20) /* of what a program says on standard error */

#define LOOK_EVERY 1.0                /* seconds, should the end of one not be told */

struct stage {
	struct proc proc;
	int said; /* its standard error: a file without a name */
};

void tool_add(struct tool_command *c, const char *word)
{
	if (c->n < TOOL_WORDS - 1)
		c->v[c->n++] = word;
	else
		c->v[0] = NULL;
}

void tool_add_pair(struct tool_command *c, const char *option, const char *value)
{
	if (value) {
		tool_add(c, option);
		tool_add(c, value);
	}
}

void tool_add_count(struct tool_command *c, const char *option, uint64_t value)
{
	char *text = c->count[c->n / 2]; /* each takes two words */

	if (value) {
		snprintf(text, sizeof *c->count, "%" PRIu64, value);
		tool_add_pair(c, option, text);
	}
}

static int start(struct stage *s, const char *const *words, int in, int out)
{
	struct proc_spec spec = { .words = words, .in = in, .out = out, .tied = SIGTERM };
	char *path;
	int rc;

	if (!words[0])
		return err_set(ERR_USAGE, "a command of more than %d words: give fewer options", TOOL_WORDS - 1);
	rc = fd_temporary(&s->said);
	if (rc == 0)
		rc = proc_find(&path, words[0]);
	if (rc < 0)
		return rc;
	spec.path = path;
	spec.err = s->said;
	rc = proc_start(&s->proc, &spec);
	free(path);
	return rc;
}

/* Starts all, each end of a pipe in one hand only. */
static int start_all(struct stage *v, const char *const *const *words, size_t n, int in, int out)
{
	int from = in, pipe_fd[2] = { -1, -1 }, rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		bool last = i + 1 == n;

		if (!last && pipe2(pipe_fd, O_CLOEXEC) < 0)
			rc = err_sys("pipe");
		if (rc == 0)
			rc = start(&v[i], words[i], from, last ? out : pipe_fd[1]);
		if (!last && pipe_fd[1] >= 0)
			close(pipe_fd[1]);
		if (i > 0 && from >= 0)
			close(from);
		from = last ? -1 : pipe_fd[0];
		pipe_fd[0] = pipe_fd[1] = -1;
	}
	if (rc < 0 && from >= 0 && from != in)
		close(from);
	return rc;
}

static int interrupted(void)
{
	return err_set(ERR_IO, "interrupted");
}

static enum err code_of(int status)
{
	switch (status) {
	case 2:
		return ERR_USAGE;
	case 3:
		return ERR_AUTH;
	case 4:
		return ERR_AGAIN;
	default:
		return ERR_DATA;
	}
}

static int slurp(struct buf *text, int fd, size_t limit)
{
	return lseek(fd, 0, SEEK_SET) < 0 ? err_sys("standard error") : fd_slurp(fd, limit, text);
}

/* The last line it said, or how it ended. */
static int failure(const struct stage *s, const char *name)
{
	int status = proc_exit_status(&s->proc);
	struct buf text = BUF_INIT;
	char *line, how[64];
	int rc = slurp(&text, s->said, WORDS_LIMIT);

	while (rc == 0 && text.len && text.data[text.len - 1] == '\n')
		text.data[--text.len] = '\0';
	line = rc == 0 && text.len ? strrchr(text.data, '\n') : NULL;
	if (rc == 0 && text.len)
		rc = err_set(code_of(status), "%s", line ? line + 1 : text.data);
	else
		rc = err_set(code_of(status), "%s: %s", name, proc_how(how, &s->proc));
	buf_release(&text);
	return rc;
}

static int pass_on(const struct stage *s)
{
	struct buf text = BUF_INIT;
	int rc = slurp(&text, s->said, WORDS_LIMIT);

	if (rc == 0 && text.len)
		rc = fd_write(STDERR_FILENO, text.data, text.len);
	buf_release(&text);
	return rc;
}

static int judge(const struct stage *v, const char *const *const *words, size_t n)
{
	size_t bad = n;
	int rc = 0;

	for (size_t i = n; i-- > 0;) {
		int status = proc_exit_status(&v[i].proc);

		if (status != 0 && (bad == n || status != 128 + SIGPIPE))
			bad = i;
	}
	if (bad < n)
		return failure(&v[bad], words[bad][0]);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = pass_on(&v[i]);
	return rc;
}

static bool asks_to_stop(int signal_number)
{
	return signal_number && signal_number != SIGCHLD && signal_number != SIGWINCH;
}

/* Until it has ended. A request to stop is passed on to all of them: the last one. */
static int join(struct stage *s, const struct stage *v, size_t n, const struct proc_watch *watch, int *asked)
{
	int rc;

	while (s->proc.pid && (rc = proc_ended(&s->proc)) != 1) {
		int signal_number;

		if (rc < 0)
			return rc;
		signal_number = proc_watch_wait(watch, LOOK_EVERY);
		if (!asks_to_stop(signal_number))
			continue;
		*asked = signal_number;
		for (size_t i = 0; i < n; i++)
			proc_signal(&v[i].proc, signal_number);
	}
	return 0;
}

/* While they run, requests to stop are held back for *asked. */
static int run_all(struct stage *v, const char *const *const *words, size_t n, int in, int out, int *asked)
{
	struct proc_watch watch;
	int rc = proc_watch_begin(&watch);

	if (rc < 0)
		return rc;
	rc = wake_requested() ? interrupted() : start_all(v, words, n, in, out);
	for (size_t i = 0; i < n; i++) {
		if (rc < 0)
			proc_signal(&v[i].proc, SIGTERM);
		if (join(&v[i], v, n, &watch, asked) < 0 && rc == 0)
			rc = ERR_IO;
	}
	proc_watch_end(&watch);
	return rc;
}

int tool_pipe(const char *const *const *words, size_t n, int in, int out)
{
	struct stage *v = calloc(n, sizeof *v);
	int asked = 0, rc;

	if (!v)
		return err_nomem();
	for (size_t i = 0; i < n; i++)
		v[i].said = -1;
	rc = run_all(v, words, n, in, out, &asked);
	if (asked) {
		raise(asked); /* it was ours in the first place */
		rc = interrupted();
	}
	if (rc == 0)
		rc = judge(v, words, n);
	for (size_t i = 0; i < n; i++)
		if (v[i].said >= 0)
			close(v[i].said);
	free(v);
	return rc;
}

int tool_run(const char *const *words, int in, int out)
{
	return tool_pipe(&words, 1, in, out);
}

int tool_read(struct buf *text, const char *const *words, size_t limit)
{
	int fd, rc = fd_temporary(&fd);

	if (rc < 0)
		return rc;
	rc = tool_run(words, -1, fd);
	if (rc == 0)
		rc = slurp(text, fd, limit);
	close(fd);
	return rc;
}
