/*
 * dir - directories made on the way, as by mkdir -p.
 */
#ifndef DIR_H
#define DIR_H

#include <sys/types.h>

#include "base/err.h"

/* Makes path and what is missing above it; fine when it is there. */
int dir_make(const char *path, mode_t mode) ERR_MUST;

#endif
