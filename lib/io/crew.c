#include "io/crew.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/fd.h"

#define PAUSE_FIRST 1.0 /* seconds */
#define PAUSE_MOST 30.0
#define STEADY 10.0     /* one that ran so long is not to blame for deaths before */
#define DEATHS_MOST 6   /* in a row: it will not get better */
#define LAST_WORDS 400  /* bytes of a log looked at for its last line */

static double now(const struct crew *c)
{
	return clock_now(&c->clock);
}

void crew_init(struct crew *c, struct clock clock, struct say *say)
{
	*c = (struct crew){ .clock = clock, .say = say, .tied = SIGTERM };
}

void crew_release(struct crew *c)
{
	crew_kill(c);
	for (size_t i = 0; i < c->n; i++)
		if (proc_join(&c->v[i].proc) < 0)
			continue;
	free(c->v);
	*c = (struct crew){ .v = NULL };
}

int crew_add(struct crew *c, const char *name, const char *path, const char *const *words,
	     const char *log)
{
	struct crew_member *v = realloc(c->v, (c->n + 1) * sizeof *v);

	if (!v)
		return err_nomem();
	c->v = v;
	v[c->n++] = (struct crew_member){ .name = name, .path = path, .words = words, .log = log,
					  .proc = PROC_INIT, .state = CREW_PAUSED, .pause = PAUSE_FIRST };
	return 0;
}

static int open_log(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);

	return fd < 0 ? err_sys("%s", path) : fd;
}

static int start(struct crew *c, struct crew_member *m)
{
	int log = open_log(m->log), rc;
	struct proc_spec spec = { .path = m->path, .words = m->words, .in = -1, .out = log, .err = log,
				  .tied = c->tied, .dir = c->dir };

	if (log < 0)
		return log;
	rc = proc_start(&m->proc, &spec);
	close(log);
	if (rc < 0)
		return rc;
	m->state = CREW_RUNNING;
	m->since = now(c);
	m->starts++;
	return 0;
}

void crew_hold(struct crew *c, struct crew_member *m, double seconds)
{
	m->since = now(c) + seconds;
}

int crew_start(struct crew *c)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->n; i++)
		if (!(c->v[i].since > now(c)))
			rc = start(c, &c->v[i]);
	return rc;
}

void crew_hurry(struct crew *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].starts == 0 && c->v[i].since > now(c))
			c->v[i].since = now(c);
}

/* ": " and the last line of the log, which should say why; nothing when it can't be had. */
static void last_words(char out[LAST_WORDS + 3], const char *log)
{
	char text[LAST_WORDS + 1], *line;
	off_t size;
	ssize_t n;
	int fd = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	out[0] = '\0';
	if (fd < 0)
		return;
	size = lseek(fd, 0, SEEK_END);
	n = size <= 0 ? 0 : fd_read_at(fd, text, LAST_WORDS, size > LAST_WORDS ? (uint64_t)(size - LAST_WORDS) : 0);
	close(fd);
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\0'))
		n--;
	if (n <= 0)
		return;
	text[n] = '\0';
	line = strrchr(text, '\n');
	memcpy(out, ": ", 3);
	snprintf(out + 2, LAST_WORDS + 1, "%s", line ? line + 1 : text);
}

static void pause_member(struct crew *c, struct crew_member *m)
{
	m->state = CREW_PAUSED;
	m->since = now(c) + m->pause;
	m->pause = 2 * m->pause < PAUSE_MOST ? 2 * m->pause : PAUSE_MOST;
}

void crew_break(struct crew *c, struct crew_member *m, double seconds)
{
	m->broken = m->state == CREW_RUNNING;
	m->since = now(c) + seconds;
	proc_signal(&m->proc, SIGKILL);
}

void crew_again(struct crew *c, struct crew_member *m)
{
	if (m->state == CREW_DONE)
		pause_member(c, m);
}

void crew_forgive(struct crew *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct crew_member *m = &c->v[i];

		if (m->deaths && m->state == CREW_PAUSED)
			m->since = now(c);
		m->deaths = 0;
		m->pause = PAUSE_FIRST;
	}
}

static void tell_death(struct crew *c, const struct crew_member *m, double wait)
{
	char how[64], why[LAST_WORDS + 3];

	last_words(why, m->log);
	if (m->state == CREW_FAILED)
		say_warn(c->say, "%s: %s%s", m->name, proc_how(how, &m->proc), why);
	else if (m->deaths == 1)
		say_warn(c->say, "%s: %s%s; starts again in %.0f s", m->name, proc_how(how, &m->proc), why, wait);
	else
		say_note(c->say, "%s: %s%s; death %u in a row, starts again in %.0f s", m->name,
			 proc_how(how, &m->proc), why, m->deaths, wait);
}

static void has_ended(struct crew *c, struct crew_member *m)
{
	int status = proc_exit_status(&m->proc);
	bool broken = m->broken;
	double wait;

	m->broken = false;
	if (broken && status == 128 + SIGKILL && !c->stopping) { /* not its fault: nothing to tell or to count */
		m->state = CREW_PAUSED;
		return;
	}
	if (status == 0 || c->stopping) {
		m->state = CREW_DONE;
		return;
	}
	if (now(c) - m->since >= STEADY) {
		m->deaths = 0;
		m->pause = PAUSE_FIRST;
	}
	m->deaths++;
	wait = m->pause;
	if (status == 2 || status == 3)
		m->state = CREW_FAILED;
	else
		pause_member(c, m);
	tell_death(c, m, wait);
}

/* What can't be started now (no memory, no processes) may be later. */
static void start_again(struct crew *c, struct crew_member *m)
{
	if (start(c, m) < 0) {
		say_note(c->say, "%s: %s", m->name, err_text());
		pause_member(c, m);
	}
}

int crew_tend(struct crew *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct crew_member *m = &c->v[i];
		int rc = m->state == CREW_RUNNING ? proc_ended(&m->proc) : 0;

		if (rc < 0)
			return err_at(rc, "%s", m->name);
		if (rc == 1)
			has_ended(c, m);
		if (m->state == CREW_PAUSED && !c->stopping && now(c) >= m->since)
			start_again(c, m);
	}
	return 0;
}

double crew_due(const struct crew *c, double most)
{
	double t = now(c);

	for (size_t i = 0; i < c->n && !c->stopping; i++)
		if (c->v[i].state == CREW_PAUSED && c->v[i].since - t < most)
			most = c->v[i].since - t;
	return most > 0 ? most : 0;
}

size_t crew_running(const struct crew *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += c->v[i].state == CREW_RUNNING;
	return n;
}

void crew_ask(struct crew *c)
{
	c->stopping = true;
	for (size_t i = 0; i < c->n; i++) {
		proc_signal(&c->v[i].proc, SIGTERM);
		proc_signal(&c->v[i].proc, SIGCONT); /* one that is stopped would not hear it */
	}
}

void crew_kill(struct crew *c)
{
	c->stopping = true;
	for (size_t i = 0; i < c->n; i++)
		proc_signal(&c->v[i].proc, SIGKILL);
}

void crew_dismiss(struct crew *c, struct proc_watch *w)
{
	const double began = now(c);

	crew_ask(c);
	while (crew_running(c) && now(c) - began < CREW_PATIENCE) {
		proc_watch_wait(w, 0.2);
		if (crew_tend(c) < 0)
			break;
	}
}

bool crew_hopeless(const struct crew_member *m)
{
	return m->state == CREW_FAILED ||
		(m->state == CREW_PAUSED && m->deaths >= DEATHS_MOST && proc_exit_status(&m->proc) != 4);
}
