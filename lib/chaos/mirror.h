/*
 * mirror - a learner's own copy of a run directory, kept like the real one as rsync(1) would keep it, in both
 * directions, and badly when it is told to.
 *
 * Files are hard links where the file system allows, for none of them is ever written in place; else copies.
 * What a fault damages is a copy; the good file follows when the fault is over, as it would when a transfer is
 * tried again. A fault that hits one file (fault_of_file) waits for the next one of its class.
 */
#ifndef MIRROR_H
#define MIRROR_H

#include "base/err.h"
#include "chaos/fault.h"

struct mirror_conf {
	const char *run;     /* the real run directory */
	const char *copy;    /* made here, */
	const char *spool;   /* and files on their way; on the same file system */
	const char *learner; /* whose it is */
};
struct mirror;
/* Makes both directories, and carries all that is there, the learner's own files too. */
int mirror_open(struct mirror **out, const struct mirror_conf *c) ERR_MUST;
/* Removes what mirror_open made; what was not carried yet is lost. */
void mirror_close(struct mirror *m);
/* Carries what has changed. now: seconds from where the faults' times begin. Do so several times a second. */
int mirror_tend(struct mirror *m, double now) ERR_MUST;
/* One of fault_of_copy begins. */
int mirror_break(struct mirror *m, const struct fault *f) ERR_MUST;
/* Nothing goes in or out just now. */
bool mirror_is_cut(const struct mirror *m, double now);
/* Takes a fault of one file that has hit off the list: 1 and what it did, 0 when there is none. */
int mirror_told(struct mirror *m, struct fault *f, char what[256]);
/* No more faults: all is as it should be. Those that wait for a file have hit nothing, and are told so. */
int mirror_heal(struct mirror *m, double now) ERR_MUST;

#endif
