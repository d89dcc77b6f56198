#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t start, done;
	pthread_t *workers; /* threads - 1 of them */
	int threads;
	unsigned long generation; /* a worker runs once for each */
	int running;              /* workers not yet through with it */
	bool closing;

	int (*job)(void *ctx, int i, int thread);
	void *ctx;
	int n, next;
	int failed_at; /* lowest i that failed, or n */
	struct err_note failure;
};

struct worker {
	struct pool *pool;
	int thread;
};

static int take(struct pool *p)
{
	int i;

	pthread_mutex_lock(&p->lock);
	i = p->failed_at < p->n ? p->n : p->next;
	if (i < p->n)
		p->next++;
	pthread_mutex_unlock(&p->lock);
	return i;
}

static void note_failure(struct pool *p, int i, int code)
{
	pthread_mutex_lock(&p->lock);
	if (i < p->failed_at) {
		p->failed_at = i;
		err_save(&p->failure, code);
	}
	pthread_mutex_unlock(&p->lock);
}

/*
 * Iterations are handed out in ascending order, so when i fails every lower one has been
 * started: the lowest failure is found whatever the timing.
 */
static void work(struct pool *p, int thread)
{
	int i, rc;

	while ((i = take(p)) < p->n) {
		rc = p->job(p->ctx, i, thread);
		if (rc < 0)
			note_failure(p, i, rc);
	}
}

static void *worker_main(void *arg)
{
	struct worker self = *(struct worker *)arg;
	struct pool *p = self.pool;
	unsigned long seen = 0;

	free(arg);
	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (p->generation == seen && !p->closing)
			pthread_cond_wait(&p->start, &p->lock);
		if (p->closing)
			break;
		seen = p->generation;
		pthread_mutex_unlock(&p->lock);
		work(p, self.thread);
		pthread_mutex_lock(&p->lock);
		if (--p->running == 0)
			pthread_cond_signal(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static int start_worker(struct pool *p, int thread)
{
	struct worker *w = malloc(sizeof *w);
	int rc;

	if (!w)
		return err_nomem();
	*w = (struct worker){ p, thread };
	rc = pthread_create(&p->workers[thread - 1], NULL, worker_main, w);
	if (rc != 0) {
		free(w);
		return err_set(ERR_IO, "cannot start a thread: %s", strerror(rc));
	}
	p->threads++;
	return 0;
}

int pool_open(struct pool **out, int threads)
{
	struct pool *p;
	int rc = 0;

	if (threads < 1)
		return err_set(ERR_USAGE, "%d threads are too few", threads);
	p = calloc(1, sizeof *p);
	if (!p)
		return err_nomem();
	p->threads = 1;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->start, NULL);
	pthread_cond_init(&p->done, NULL);
	p->workers = calloc((size_t)threads, sizeof *p->workers);
	if (!p->workers)
		rc = err_nomem();
	while (rc == 0 && p->threads < threads)
		rc = start_worker(p, p->threads);
	if (rc < 0) {
		pool_close(p);
		return rc;
	}
	*out = p;
	return 0;
}

void pool_close(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->closing = true;
	pthread_cond_broadcast(&p->start);
	pthread_mutex_unlock(&p->lock);
	for (int i = 1; i < p->threads; i++)
		pthread_join(p->workers[i - 1], NULL);
	pthread_cond_destroy(&p->done);
	pthread_cond_destroy(&p->start);
	pthread_mutex_destroy(&p->lock);
	free(p->workers);
	free(p);
}

int pool_threads(const struct pool *p)
{
	return p ? p->threads : 1;
}

static int run_inline(int (*job)(void *ctx, int i, int thread), void *ctx, int n)
{
	for (int i = 0; i < n; i++) {
		int rc = job(ctx, i, 0);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int pool_run(struct pool *p, int (*job)(void *ctx, int i, int thread), void *ctx, int n)
{
	if (pool_threads(p) == 1 || n <= 1)
		return run_inline(job, ctx, n);
	pthread_mutex_lock(&p->lock);
	p->job = job;
	p->ctx = ctx;
	p->n = p->failed_at = n;
	p->next = 0;
	p->running = p->threads - 1;
	p->generation++;
	pthread_cond_broadcast(&p->start);
	pthread_mutex_unlock(&p->lock);

	work(p, 0);

	pthread_mutex_lock(&p->lock);
	while (p->running > 0)
		pthread_cond_wait(&p->done, &p->lock);
	pthread_mutex_unlock(&p->lock);
	return p->failed_at < n ? err_restore(&p->failure) : 0;
}

/* Processors that the cpu.max of one cgroup directory grants, rounded up, or `most`. */
static int cgroup_cpus(const char *directory, int most)
{
	char path[4200];
	long long quota, period;
	FILE *f;
	int got;

	snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", directory);
	f = fopen(path, "re");
	if (!f)
		return most;
	got = fscanf(f, "%lld %lld", &quota, &period); /* "max 100000" matches nothing */
	fclose(f);
	if (got != 2 || quota <= 0 || period <= 0 || quota / period >= most)
		return most;
	return (int)((quota + period - 1) / period);
}

/* The least of all cpu.max from this process's cgroup up to the root of version 2. */
static int quota_cpus(int most)
{
	char line[4096], *slash;
	FILE *f = fopen("/proc/self/cgroup", "re");

	if (!f)
		return most;
	while (fgets(line, sizeof line, f)) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		while ((slash = strrchr(line + 3, '/')) != NULL) {
			most = cgroup_cpus(line + 3, most);
			*slash = '\0';
		}
		most = cgroup_cpus("", most);
	}
	fclose(f);
	return most;
}

int pool_cpus(void)
{
	enum { MOST = 16384 };
	unsigned char mask[MOST / 8];
	cpu_set_t *set = (cpu_set_t *)(void *)mask;
	int n = 1;

	if (sched_getaffinity(0, sizeof mask, set) == 0)
		n = CPU_COUNT_S(sizeof mask, set);
	return quota_cpus(n > 0 ? n : 1);
}
