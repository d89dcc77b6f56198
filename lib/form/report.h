/*
 * report - a sealed file, or the difference of two, in words: lines for people or one JSON object.
 *
 * Every call appends to `out`. Text can be printed after each call; JSON is one line that is whole
 * only after the last. A call after one that failed does nothing and returns the same.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "form/frame.h"
#include "form/tally.h"

/* Zeroed memory, with json as wanted, is ready to use; report_release after it. */
struct report {
	struct buf out;
	bool json;
	int rc; /* of the first failure */
	int key, name, shape; /* widths of columns */
	bool started;    /* not the first of a list */
};
void report_release(struct report *r);

/* signer: what the reader's user calls the signer, NULL when it is nobody trusted; then revoked says
 * whether it was. */
int report_head(struct report *r, const struct frame_reader *f, const char *signer, bool revoked)
	ERR_MUST;
int report_tensor(struct report *r, const struct tensor *t, const struct tally *y) ERR_MUST;
int report_end(struct report *r, const struct frame_reader *f, const digest *content) ERR_MUST;

/* Tells the keys that differ. */
int report_diff_head(
	struct report *r, const struct frame_reader *a, const struct frame_reader *b) ERR_MUST;
int report_diff_tensor(struct report *r, const struct tensor *t, const struct contrast *c) ERR_MUST;
/* differ: how many of n tensors do; all: the sum of them. */
int report_diff_end(struct report *r, size_t differ, size_t n, const struct contrast *all) ERR_MUST;

#endif
