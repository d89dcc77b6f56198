/*
 * dir - directories: what is one; made on the way, as by mkdir -p; which is below which.
 */
#ifndef DIR_H
#define DIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Is it one, whatever links lead there? */
bool dir_is(const char *path);
/* Makes path and what is missing above it; fine when it is there. */
int dir_make(const char *path, mode_t mode) ERR_MUST;
/* Is `below` the directory `dir`, or anywhere below it, whatever links lead there? False when either is not there. */
bool dir_holds(const char *dir, const char *below);

#endif
