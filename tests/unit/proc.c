/* proc - child processes. */
#include "io/proc.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

/* Starts /bin/sh -c SCRIPT with its output going to out. */
static struct proc start(const char *script, int out)
{
	const char *const words[] = { "sh", "-c", script, NULL };
	struct proc_spec spec = { .path = "/bin/sh", .words = words, .in = -1, .out = out, .err = 2 };
	struct proc p;

	CHECK(proc_start(&p, &spec) == 0);
	return p;
}

/* All that comes out of a pipe until nobody holds its other end. */
static void drain(char *to, size_t cap, int fd)
{
	size_t n = 0;
	ssize_t got;

	while (n < cap - 1 && (got = read(fd, to + n, cap - 1 - n)) > 0)
		n += (size_t)got;
	to[n] = '\0';
}

static void status_and_output_come_back(void)
{
	char text[64], how[64];
	struct proc p;
	int fd[2];

	CHECK(pipe2(fd, O_CLOEXEC) == 0);
	p = start("cat; echo out; exit 7", fd[1]);
	close(fd[1]);
	drain(text, sizeof text, fd[0]);
	close(fd[0]);
	CHECK_STR(text, "out\n");
	CHECK(proc_join(&p) == 0 && p.pid == 0 && proc_exit_status(&p) == 7);
	CHECK_STR(proc_how(how, &p), "exit status 7");
	CHECK(proc_ended(&p) == 1 && proc_exit_status(&p) == 7);
}

static void what_can_not_run_is_an_error(void)
{
	const char *const words[] = { "x", NULL };
	struct proc_spec spec = { .path = "/nowhere/at/all", .words = words, .in = -1, .out = -1, .err = -1 };
	struct proc p;

	CHECK(proc_start(&p, &spec) == ERR_IO && p.pid == 0);
	CHECK_STR(err_text(), "/nowhere/at/all: No such file or directory");
	CHECK(waitpid(-1, NULL, WNOHANG) < 0); /* no child is left */
	spec.path = "/etc/passwd";
	CHECK(proc_start(&p, &spec) == ERR_IO);
	CHECK_SAYS("/etc/passwd: ");
}

static void a_signal_reaches_the_group(void)
{
	char text[64], how[64];
	struct proc p;
	int fd[2];

	/* The pipe ends only when the grandchild, too, is gone. */
	CHECK(pipe2(fd, O_CLOEXEC) == 0);
	p = start("sleep 600 & echo on; wait", fd[1]);
	close(fd[1]);
	CHECK(read(fd[0], text, 3) == 3);
	CHECK(proc_ended(&p) == 0 && getpgid(p.pid) == p.pid);
	proc_signal(&p, SIGTERM);
	drain(text, sizeof text, fd[0]);
	CHECK(proc_join(&p) == 0 && proc_exit_status(&p) == 128 + SIGTERM);
	CHECK_STR(proc_how(how, &p), "killed by signal 15 (Terminated)");
	close(fd[0]);
}

static void what_a_child_leaves_behind_is_killed(void)
{
	char text[64];
	struct proc p;
	int fd[2];

	CHECK(pipe2(fd, O_CLOEXEC) == 0);
	p = start("sleep 600 & exit 3", fd[1]);
	close(fd[1]);
	CHECK(proc_join(&p) == 0 && proc_exit_status(&p) == 3);
	drain(text, sizeof text, fd[0]);
	CHECK_STR(text, "");
	close(fd[0]);
}

static void signals_are_as_by_default_in_a_child(void)
{
	sigset_t all, before;
	struct proc p;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	p = start("kill -TERM $$; exit 1", -1);
	CHECK(proc_join(&p) == 0 && proc_exit_status(&p) == 128 + SIGTERM);
	p = start("kill -PIPE $$; exit 1", -1);
	CHECK(proc_join(&p) == 0 && proc_exit_status(&p) == 128 + SIGPIPE);
	p = start("kill -HUP $$; exit 1", -1); /* as nohup left it */
	CHECK(proc_join(&p) == 0 && proc_exit_status(&p) == 1);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* A process starts a tied child, which would sleep, and dies of SIGKILL. One that is stopped hears SIGKILL only. */
static void a_tied_child_ends_with_its_parent(int tied, const char *script)
{
	const char *const words[] = { "sh", "-c", script, NULL };
	struct proc_spec spec = { .path = "/bin/sh", .words = words, .in = -1, .err = -1, .tied = tied };
	char text[64];
	struct proc p;
	int fd[2], status;
	pid_t middle;

	CHECK(pipe2(fd, O_CLOEXEC) == 0);
	middle = fork();
	if (middle == 0) {
		spec.out = fd[1];
		if (proc_start(&p, &spec) < 0)
			_exit(1);
		pause();
		_exit(1);
	}
	close(fd[1]);
	CHECK(read(fd[0], text, 3) == 3);
	kill(middle, SIGKILL);
	CHECK(waitpid(middle, &status, 0) == middle && WIFSIGNALED(status));
	drain(text, sizeof text, fd[0]);
	CHECK_STR(text, "");
	close(fd[0]);
}

static void programs_are_found(void)
{
	char *path, *old = strdup(getenv("PATH"));

	CHECK(proc_find(&path, "./x/y") == 0);
	CHECK_STR(path, "./x/y");
	free(path);
	CHECK(proc_find(&path, "proc") == 0 && path[0] == '/'); /* this very test, beside itself */
	free(path);
	setenv("PATH", "/nowhere::/bin", 1);
	CHECK(proc_find(&path, "sh") == 0);
	CHECK_STR(path, "/bin/sh");
	free(path);
	setenv("PATH", "", 1);
	CHECK(proc_find(&path, "sh") == ERR_IO && !path);
	CHECK_STR(err_text(), "sh: not found beside this program nor on the PATH");
	setenv("PATH", old, 1);
	free(old);
}

static void a_watch_hands_out_signals(void)
{
	struct proc_watch w;
	struct proc p;

	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_DFL); /* a shell may have started this in the background */
	CHECK(proc_watch_begin(&w) == 0);
	CHECK(proc_watch_wait(&w, 0) == 0);
	raise(SIGHUP);
	raise(SIGINT);
	CHECK(proc_watch_wait(&w, 60) == SIGINT);
	p = start("exit 0", -1);
	CHECK(proc_watch_wait(&w, 60) == SIGCHLD);
	CHECK(proc_ended(&p) == 1 && proc_exit_status(&p) == 0);
	CHECK(proc_watch_wait(&w, 0.01) == 0);
	proc_watch_end(&w);
	signal(SIGHUP, SIG_DFL);
}

int main(void)
{
	status_and_output_come_back();
	what_can_not_run_is_an_error();
	a_signal_reaches_the_group();
	what_a_child_leaves_behind_is_killed();
	signals_are_as_by_default_in_a_child();
	a_tied_child_ends_with_its_parent(SIGTERM, "echo on; exec sleep 600");
	a_tied_child_ends_with_its_parent(SIGKILL, "echo on; kill -STOP $$");
	programs_are_found();
	a_watch_hands_out_signals();
	return unit_done("proc");
}
