/*
 * explain - why a run is where it is, in words: why each open round is open, who is missing and since
 * when, and what to type. For dl-show --why and dl-run.
 */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "base/buf.h"
#include "round/view.h"

/* "45 s", "12 min", "3.5 h" */
char *explain_seconds(char out[32], double seconds);
/* Lines of text. `run` is the run directory as the user calls it, for commands to type. */
int explain_run(struct buf *out, const struct view *v, const char *run) ERR_MUST;

#endif
