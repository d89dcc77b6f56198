/*
 * crew - child processes that are kept running: one that dies is started again, after a pause that
 * doubles when it keeps dying, until it is done or can't be helped.
 *
 *     crew_init, crew_add...       names, words and logs stay the caller's
 *     crew_start
 *     loop:  proc_watch_wait(..., crew_due), crew_tend
 *     crew_ask, the loop again until crew_running is 0, crew_kill when it takes too long
 *     crew_release
 *
 * A child is done when it leaves with status 0, and beyond help with 2 (called wrongly) or 3 (not
 * authentic): the same again would end the same. Deaths are told through `say`, the first of a row
 * as a warning with the last line of its log, those that follow only when verbose.
 */
#ifndef CREW_H
#define CREW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/say.h"
#include "io/proc.h"

enum crew_state { CREW_RUNNING, CREW_PAUSED, CREW_DONE, CREW_FAILED };

struct crew_member {
	const char *name, *path;
	const char *const *words;
	const char *log;     /* standard output and error are appended there */
	struct proc proc;
	enum crew_state state;
	double since;        /* RUNNING: when it was started, broken: when it is to be started again;
	                      * PAUSED: when it is to be started; 0: at once */
	double pause;        /* before the next start */
	unsigned deaths;     /* in a row; one that has run for a while begins a new one */
	unsigned starts;     /* in all */
	bool broken;         /* by crew_break, and not seen to have ended yet */
};
struct crew {
	struct crew_member *v; /* (n) */
	size_t n;
	struct clock clock;
	struct say *say;
	int tied;              /* signal that they get should we die (SIGTERM) */
	const char *dir;       /* where they are started; NULL: here. The caller's */
	bool stopping;         /* nobody is started any more */
};

void crew_init(struct crew *c, struct clock clock, struct say *say);
/* Kills what still runs. */
void crew_release(struct crew *c);
/* `path` is what proc_find gives for words[0]. */
int crew_add(struct crew *c, const char *name, const char *path, const char *const *words,
	const char *log) ERR_MUST;
/* This one, not started yet, is to be started only after so many seconds, or by crew_hurry. */
void crew_hold(struct crew *c, struct crew_member *m, double seconds);
/* An error when one can't be started at all: those before it run. */
int crew_start(struct crew *c) ERR_MUST;
/* Those that are held need not wait any longer: crew_tend starts them. */
void crew_hurry(struct crew *c);
/* Sees to those that have ended and starts those whose pause is over. */
int crew_tend(struct crew *c) ERR_MUST;
/* One that is done is started again after all, after its pause. */
void crew_again(struct crew *c, struct crew_member *m);
/* What they died of is over: deaths do not count any more, and those that pause need not wait. */
void crew_forgive(struct crew *c);
/* SIGKILL to one that runs, which is to be started again after so many seconds, and is not blamed for it. */
void crew_break(struct crew *c, struct crew_member *m, double seconds);
/* Seconds until crew_tend has something to do on its own account; `most` when there is nothing. */
double crew_due(const struct crew *c, double most);
size_t crew_running(const struct crew *c);
/* SIGTERM to all; from now on nobody is started again. */
void crew_ask(struct crew *c);
void crew_kill(struct crew *c);
/* crew_ask, and time to save and leave: CREW_PATIENCE. Some may run still. */
#define CREW_PATIENCE 30.0 /* seconds */
void crew_dismiss(struct crew *c, struct proc_watch *w);
/* Beyond help, or dead so often in a row that it will not get better. Status 4 is no reason: "not yet" is
 * what a learner says that has lost its syncer, and it may find it again. */
bool crew_hopeless(const struct crew_member *m);

#endif
