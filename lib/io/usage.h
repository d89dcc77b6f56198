/*
 * usage - how much of a disk a directory takes.
 */
#ifndef USAGE_H
#define USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Bytes of the blocks of all files at and below `path`, links not followed. At most `limit` files are
 * looked at: then *more. What goes away or can't be read meanwhile is passed over. */
int usage_bytes(uint64_t *bytes, bool *more, const char *path, uint64_t limit) ERR_MUST;

#endif
