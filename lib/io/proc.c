#include "io/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "io/fd.h"

extern char **environ;

/* ---- which executable ---- */

static bool can_run(const char *path)
{
	return access(path, X_OK) == 0;
}

/* NAME in the directory that this program's executable is in. */
static int find_beside(char **path, const char *name)
{
	char own[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
	char *slash;

	*path = NULL;
	if (n <= 0)
		return 0;
	own[n] = '\0';
	slash = strrchr(own, '/');
	if (!slash)
		return 0;
	if (asprintf(path, "%.*s/%s", (int)(slash - own), own, name) < 0) {
		*path = NULL;
		return err_nomem();
	}
	if (can_run(*path))
		return 1;
	free(*path);
	*path = NULL;
	return 0;
}

static int find_on_path(char **path, const char *name)
{
	const char *list = getenv("PATH");

	for (const char *at = list, *end; at && *at; at = *end ? end + 1 : end) {
		end = strchrnul(at, ':');
		if (end == at) /* an empty entry is the current directory, which may be anybody's */
			continue;
		if (asprintf(path, "%.*s/%s", (int)(end - at), at, name) < 0) {
			*path = NULL;
			return err_nomem();
		}
		if (can_run(*path))
			return 1;
		free(*path);
	}
	*path = NULL;
	return 0;
}

int proc_find(char **path, const char *name)
{
	int rc = fd_named(name);

	if (rc < 0)
		return rc;
	if (strchr(name, '/')) {
		*path = strdup(name);
		return *path ? 0 : err_nomem();
	}
	rc = find_beside(path, name);
	if (rc == 0)
		rc = find_on_path(path, name);
	if (rc == 0)
		return err_set(ERR_IO, "%s: not found beside this program nor on the PATH", name);
	return rc < 0 ? rc : 0;
}

/* ---- the child, from fork to exec: only calls that are safe there ---- */

/* What is ignored stays so; what a library set up is as before. */
static void reset_signals(void)
{
	struct sigaction action;
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		if (sigaction(s, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
		    (action.sa_handler != SIG_IGN || s == SIGCHLD || s == SIGPIPE))
			signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Descriptors out of the way of 0, 1 and 2, then onto them. */
static int take_streams(const struct proc_spec *s)
{
	int from[3] = { s->in, s->out, s->err };

	for (int i = 0; i < 3; i++) {
		int fd = from[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : from[i];

		from[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (from[i] < 0)
			return -1;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(from[i], i) < 0)
			return -1;
	return 0;
}

/* A parent that was gone before we asked would never be heard of. */
static bool tie(int signal_number, pid_t parent)
{
#ifdef __linux__
	return prctl(PR_SET_PDEATHSIG, signal_number) == 0 && getppid() == parent;
#else
	(void)signal_number;
	return getppid() == parent;
#endif
}

static void become(const struct proc_spec *s, int report, pid_t parent)
{
	char *word[PROC_ARGS + 1];
	size_t n = 0;
	int problem;

	for (; s->words[n] && n < PROC_ARGS; n++)
		word[n] = (char *)(uintptr_t)s->words[n]; /* execve promises not to write there */
	word[n] = NULL;
	reset_signals();
	if (setpgid(0, 0) == 0 && take_streams(s) == 0 && (!s->tied || tie(s->tied, parent)) &&
	    (!s->dir || chdir(s->dir) == 0))
		execve(s->path, word, environ);
	problem = errno;
	if (write(report, &problem, sizeof problem) < 0)
		problem = EIO;
	_exit(127);
}

/* ---- the parent ---- */

/* The report stays empty when exec closed it. */
static int read_report(int fd, pid_t child, const char *path)
{
	int problem = 0, status;
	ssize_t n;

	while ((n = read(fd, &problem, sizeof problem)) < 0 && errno == EINTR)
		;
	if (n == 0)
		return 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	errno = n == (ssize_t)sizeof problem ? problem : EIO;
	return err_sys("%s", path);
}

int proc_start(struct proc *p, const struct proc_spec *s)
{
	pid_t parent = getpid(), child;
	int report[2], rc;

	*p = (struct proc)PROC_INIT;
	for (size_t n = 0; s->words[n]; n++)
		if (n == PROC_ARGS)
			return err_set(ERR_USAGE, "%s: more than %d arguments", s->words[0], PROC_ARGS);
	if (pipe2(report, O_CLOEXEC) < 0)
		return err_sys("pipe");
	child = fork();
	if (child == 0)
		become(s, report[1], parent);
	close(report[1]);
	if (child < 0) {
		rc = err_sys("fork");
	} else {
		setpgid(child, child); /* also here: a signal may be sent before the child comes to it */
		rc = read_report(report[0], child, s->path);
	}
	close(report[0]);
	if (rc == 0)
		p->pid = child;
	return rc;
}

/* While the leader is not waited for, its number is nobody else's: the group can be killed safely. */
static int see_to(struct proc *p, int options)
{
	siginfo_t info;
	int rc;

	if (p->pid == 0)
		return 1;
	info.si_pid = 0;
	while ((rc = waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT | options)) < 0 && errno == EINTR)
		;
	if (rc < 0 && errno == ECHILD) { /* somebody else waited for it */
		p->pid = 0;
		return 1;
	}
	if (rc < 0)
		return err_sys("waitid");
	if (info.si_pid == 0)
		return 0;
	kill(-p->pid, SIGKILL);
	while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
		;
	p->pid = 0;
	return 1;
}

int proc_ended(struct proc *p)
{
	return see_to(p, WNOHANG);
}

int proc_join(struct proc *p)
{
	int rc = see_to(p, 0);

	return rc < 0 ? rc : 0;
}

void proc_signal(const struct proc *p, int signal_number)
{
	if (p->pid > 0)
		kill(-p->pid, signal_number);
}

int proc_exit_status(const struct proc *p)
{
	return WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) : WEXITSTATUS(p->status);
}

char *proc_how(char out[64], const struct proc *p)
{
	int s = WIFSIGNALED(p->status) ? WTERMSIG(p->status) : 0;

	if (s)
		snprintf(out, 64, "killed by signal %d (%.24s)", s, strsignal(s));
	else
		snprintf(out, 64, "exit status %d", WEXITSTATUS(p->status));
	return out;
}

/* ---- signals ---- */

int proc_watch_begin(struct proc_watch *w)
{
	static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };
	struct sigaction action;

	sigemptyset(&w->signals);
	sigaddset(&w->signals, SIGCHLD);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (sigaction(wanted[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&w->signals, wanted[i]);
	signal(SIGCHLD, SIG_DFL); /* ignored, children would vanish without a status */
	if (sigprocmask(SIG_BLOCK, &w->signals, &w->before) < 0)
		return err_sys("sigprocmask");
	return 0;
}

int proc_watch_wait(const struct proc_watch *w, double seconds)
{
	struct timespec wait;
	int s;

	if (!(seconds > 0))
		seconds = 0;
	wait.tv_sec = (time_t)seconds;
	wait.tv_nsec = (long)((seconds - (double)wait.tv_sec) * 1e9);
	s = sigtimedwait(&w->signals, NULL, &wait);
	return s > 0 ? s : 0;
}

void proc_watch_end(struct proc_watch *w)
{
	sigprocmask(SIG_SETMASK, &w->before, NULL);
}
