/*
 * metrics - a table of training steps in text: one line a step, appended, tab-separated, with a
 * line of column names at the top of a new file. That of a model with experts has three columns more.
 *
 * Each line goes out in one write to a descriptor opened with O_APPEND, so several learners may
 * share a file and a reader never sees half a line. Numbers do not depend on the locale.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct metrics {
	int fd; /* -1: none */
	bool stream; /* a FIFO or device */
	bool experts;
};
#define METRICS_INIT { -1, false, false }

struct metrics_row {
	uint64_t global_step;   /* 1 after the first step of all */
	uint64_t step, tokens;  /* since the base */
	double loss;            /* nats a token, of this batch */
	double lr, grad_norm;   /* the latter before clipping */
	double tokens_per_s;    /* last column: the only one that depends on time */
	double expert_balance, expert_cv, expert_least; /* model_load's balance, variation, least */
};

/* ERR_DATA for a file that is there and has another head. Nothing waits for the reader of a FIFO, once
 * there is one; SIGPIPE is the caller's concern. */
int metrics_open(struct metrics *m, const char *path, bool experts) ERR_MUST;
int metrics_add(struct metrics *m, const struct metrics_row *row) ERR_MUST;
void metrics_close(struct metrics *m);

#endif
