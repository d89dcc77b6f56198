/*
 * trace_check - can this have happened? The rules of a trace, event after event.
 *
 * A learner steps, answers and adopts while it is there. Rounds are called in ascending order, one at a time
 * for a fragment, from its newest version; a merge makes the next version, of answers that were given to its
 * round by learners that were invited. A learner answers a round once (and again, after it was dead), with steps made
 * since, and adopts only what is newer than what it has and published.
 */
#ifndef TRACE_CHECK_H
#define TRACE_CHECK_H

#include "chaos/trace.h"

struct trace_check;
int trace_check_open(struct trace_check **out, const struct trace_head *h) ERR_MUST; /* ERR_DATA: bad head */
void trace_check_close(struct trace_check *c);
int trace_check_event(struct trace_check *c, const struct trace_event *e) ERR_MUST;  /* ERR_DATA */

#endif
