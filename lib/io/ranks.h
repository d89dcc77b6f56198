/*
 * ranks - the processes that mpirun started as one program: what the first has goes to all, sums of all come to
 * the first. The only file that includes mpi.h.
 *
 *     ranks_open            NULL unless there are several
 *     ranks_give, ranks_sum the same calls, with the same sizes, on every rank
 *     ranks_close
 *
 * Built without MPI (the Makefile looks for it), ranks_open finds out whether mpirun was meant and says so.
 * Machines must be of one kind: bytes travel as they are.
 *
 * A rank that dies never answers. Launchers then ask the others to stop: so when the first rank is asked to stop
 * while it waits for others, it gives up soon, with ERR_IO, and its caller saves what it has. After that nothing
 * but ranks_close may be called. Ranks beyond the first do not heed requests to stop: they end when the first
 * says so, or the launcher kills them.
 */
#ifndef RANKS_H
#define RANKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct ranks;

/* stop: has this process been asked to stop? */
int ranks_open(struct ranks **out, int (*stop)(void)) ERR_MUST;
/* well: this rank has done its part; if not, the launcher is to notice, and to stop the others. */
void ranks_close(struct ranks *r, bool well);

int ranks_self(const struct ranks *r);  /* 0: the first, and when r is NULL */
int ranks_count(const struct ranks *r); /* 1 when r is NULL */
/* Threads for this rank: all processors it is bound to, or its share of those that ranks of this host have
 * in common. */
int ranks_threads(const struct ranks *r);

/* The bytes of the first rank to all. */
int ranks_give(struct ranks *r, void *data, size_t bytes) ERR_MUST;
/* Element by element over all ranks, in their order, into the first; afterwards x means nothing on the others. The
 * same values give the same bits, with any MPI. What travels is what it takes of the best all-reduce. */
int ranks_sum(struct ranks *r, float *x, size_t n) ERR_MUST;
int ranks_sum_f64(struct ranks *r, double *x, size_t n) ERR_MUST;

#endif
