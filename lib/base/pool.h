/*
 * pool - worker threads for loops whose iterations are independent.
 *
 * pool_run calls job(ctx, i, thread) once for each i in [0, n), thread in
 * [0, pool_threads): the caller's thread is number 0 and works too; with one thread
 * everything runs inline. It returns when all are done. Which thread takes which i
 * is not fixed: results must not depend on it, and sums over i are the caller's to
 * do in order. A job returns 0 or a negative error with its sentence set; pool_run
 * returns that of the lowest failing i (sentence carried over) and starts no new
 * iteration after a failure.
 *
 * A NULL pool is a pool of one thread.
 */
#ifndef POOL_H
#define POOL_H

#include "base/err.h"

struct pool;
int pool_open(struct pool **out, int threads) ERR_MUST; /* threads >= 1 */
void pool_close(struct pool *p);
int pool_threads(const struct pool *p);
int pool_run(struct pool *p, int (*job)(void *ctx, int i, int thread), void *ctx, int n) ERR_MUST;
/* Processors this process may use (affinity and cgroup quota respected), at least 1. */
int pool_cpus(void);

#endif
