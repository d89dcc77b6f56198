/*
 * spool - the rest of several pipes, all at once, into temporary files without names: a slow,
 * silent or endless one holds up none of the others.
 */
#ifndef SPOOL_H
#define SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct spool {
	int from;             /* in: what to read; stays the caller's */
	int to;               /* out: the copy, at offset 0, which the caller closes; -1: none */
	struct err_note note; /* out: code 0, or why */
};

/* Those longer than `limit` bytes, or not at their end after `seconds` (0: whenever), fail, each
 * for itself. Returns an error only for what concerns all: no memory, wake_requested. */
int spool_run(struct spool *v, size_t n, uint64_t limit, double seconds, const struct clock *clock)
	ERR_MUST;

#endif
