/*
 * sink - a sealed file that is being written and can be begun anew. Private to merging and assemble.
 */
#ifndef SINK_H
#define SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "form/frame.h"
#include "form/key.h"

struct sink {
	int fd;
	const char *name; /* for messages: errors begin with it */
	bool seekable;    /* a regular file, which can be cut back to where it began */
	uint64_t start;
	struct frame_writer *writer; /* NULL: not begun */
};

void sink_init(struct sink *s, int fd, const char *name);
/* Begins, or begins anew: cuts back what was written before. */
int sink_begin(struct sink *s, const struct header *h, const struct key *key) ERR_MUST;
int sink_write(struct sink *s, const float *value, size_t n) ERR_MUST;
int sink_finish(struct sink *s, digest *id) ERR_MUST;
/* Takes back what was written, where that is possible. */
int sink_cut(struct sink *s) ERR_MUST;
void sink_release(struct sink *s); /* the descriptor stays the caller's */

#endif
