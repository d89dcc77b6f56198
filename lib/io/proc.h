/*
 * proc - child processes: started without a shell, each in a process group of its own, watched by
 * polling, and ended with all that they started.
 *
 *     proc_find            which executable is meant
 *     proc_start           it runs, or the error says why it can't
 *     proc_ended           1 once it has; ask as often as you like
 *     proc_signal          to the whole group
 *
 * A group of its own means that Ctrl-C on a terminal reaches this program alone, which passes it on as
 * it sees fit, and that a signal reaches what a child has started in turn. When the child has ended,
 * what is left of its group is killed.
 */
#ifndef PROC_H
#define PROC_H

#include <signal.h>
#include <sys/types.h>

#include "base/err.h"

#define PROC_ARGS 100 /* most arguments */

struct proc_spec {
	const char *path;        /* of the executable, as proc_find gives it */
	const char *const *words; /* NULL at its end; words[0] is what it is called */
	int in, out, err;        /* descriptors that stay the caller's; -1: /dev/null */
	int tied;                /* signal that it gets when the thread that started it ends (Linux); 0: none */
	const char *dir;         /* where it is started; NULL: where this process is */
};
struct proc {
	pid_t pid;   /* 0: none was started, or it has ended and was seen to */
	int status;  /* once ended, as waitpid(2) gives it */
};
#define PROC_INIT { 0, 0 }

/*
 * `name` when it has a slash; else NAME beside this program's own executable; else the first on the
 * PATH. ERR_IO: "dl-sync: not found beside this program nor on the PATH". The caller frees it.
 */
int proc_find(char **path, const char *name) ERR_MUST;

/* Signals are as by default in the child and none is blocked, but those this process ignores stay
 * ignored (nohup). Errors of the child's exec are errors of this call. */
int proc_start(struct proc *p, const struct proc_spec *s) ERR_MUST;
/* 1 when it has ended and p->status says how, also when it ended before; 0 while it runs. */
int proc_ended(struct proc *p) ERR_MUST;
/* The same, but waits for it. Only for children that are known to end. */
int proc_join(struct proc *p) ERR_MUST;
/* To all of its group; nothing when it has ended. */
void proc_signal(const struct proc *p, int signal_number);

/* Exit status as a shell tells it: 128 + the signal that killed it. */
int proc_exit_status(const struct proc *p);
/* "exit status 3", "killed by signal 9 (Killed)": returns out. */
char *proc_how(char out[64], const struct proc *p);

/*
 * Waiting for children and for requests to stop, at once: while a watch is on, SIGCHLD and those of
 * SIGINT, SIGTERM, SIGHUP and SIGWINCH that were not ignored are held back, and proc_watch_wait hands
 * them out one by one. One thread, one watch.
 */
struct proc_watch {
	sigset_t signals, before;
};
int proc_watch_begin(struct proc_watch *w) ERR_MUST;
/* The signal that came, or 0 after so many seconds. */
int proc_watch_wait(const struct proc_watch *w, double seconds);
void proc_watch_end(struct proc_watch *w);

#endif
