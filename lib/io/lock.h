/*
 * lock - one process at a time on one machine: flock(2) on PATH.lock (beside what symbolic links
 * lead to, so that all names of a file have one lock), given back by the kernel
 * whatever becomes of the process, so nothing is ever left to clean up by hand. The file names
 * its last holder for the message. Where the file system has no locks, the lock is taken as
 * granted and *held says so. A file of that name that is no lock file is left as it is: ERR_DATA.
 */
#ifndef LOCK_H
#define LOCK_H

#include <stdbool.h>

#include "base/err.h"

struct lock {
	int fd;
	bool held; /* false: the file system has no locks */
};
#define LOCK_INIT { -1, false }

/* ERR_BUSY at once when somebody else holds it: "state: in use by process 4711"; where there is no such file,
 * it is the lock's: "state.lock: in use ...". */
int lock_take(struct lock *l, const char *path) ERR_MUST;
void lock_release(struct lock *l);

#endif
