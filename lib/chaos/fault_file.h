/*
 * fault_file - faults as a table of text, written as they happen and good as a plan: for any run of the same
 * processes.
 *
 *     # dl-chaos inject                                  comments, and empty lines
 *     at      fault  process    lasts  value  file    what
 *     12.345  kill   learner-1  9.1    -      -       absorbed: it was down
 *     31.02   flip   learner-0  4.25   0.412  answer  learner/learner-0/f003.17.delta: bit 5 of byte 20183
 *
 * Columns are separated by one tab, the first line that is no comment names them, in this order; `-` stands for
 * what a fault does not have. `what` is for people, and may be left out. Lines need not be in order of time;
 * faults are.
 */
#ifndef FAULT_FILE_H
#define FAULT_FILE_H

#include "base/buf.h"
#include "chaos/fault.h"

#define FAULT_FILE_BYTES ((size_t)64 << 20) /* longest file */

/* The processes' names, for faults' numbers. */
struct fault_names {
	const char *const *name; /* (n) */
	unsigned n;
};
int fault_file_head(struct buf *out) ERR_MUST; /* the line that names the columns */
/* What is escaped, and made one line. */
int fault_file_line(struct buf *out, const struct fault *f, const struct fault_names *names, const char *what)
	ERR_MUST;
/* A table of the plan v (n), or when v is NULL of what is drawn from conf, up to `most` seconds; 0: all. */
int fault_file_plan(struct buf *out, const struct fault *v, size_t n, const struct fault_conf *conf, double most,
	const struct fault_names *names) ERR_MUST;
/*
 * In order of time, ties as in the file; *v, not NULL even for no faults, is the caller's to free. ERR_USAGE:
 * "line 3: ...".
 */
int fault_file_parse(struct fault **v, size_t *n, const char *text, size_t len, const struct fault_names *names)
	ERR_MUST;
/* The same of a file, "-" for standard input, which errors name. */
int fault_file_read(struct fault **v, size_t *n, const char *path, const struct fault_names *names) ERR_MUST;

#endif
