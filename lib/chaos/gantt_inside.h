/*
 * gantt_inside - how a Gantt picture is put together; for gantt, gantt_trace and gantt_tape only.
 */
#ifndef GANTT_INSIDE_H
#define GANTT_INSIDE_H

#include "chaos/gantt.h"

/* A lane of this name, at the end. */
int gantt_lane(struct gantt *g, const char *name) ERR_MUST;
int gantt_bar(struct gantt *g, enum gantt_bar_kind k, unsigned lane, double from, double to) ERR_MUST;
int gantt_mark(struct gantt *g, enum gantt_mark_kind k, unsigned lane, double at) ERR_MUST;
void gantt_see(struct gantt *g, double at); /* time goes on until then */
/* A learner is there from now on; is not any more: dead, or gone. */
int gantt_up(struct gantt *g, unsigned lane, double at) ERR_MUST;
int gantt_down(struct gantt *g, unsigned lane, double at, bool dead) ERR_MUST;
int gantt_end(struct gantt *g) ERR_MUST; /* ends what is still under way */

#endif
