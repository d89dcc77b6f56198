/*
 * agenda - who acts next: a time for each of n actors, the earliest first, the lower number among equals.
 *
 * A binary heap that knows where each actor is: setting a time, earlier or later, costs O(log n).
 */
#ifndef AGENDA_H
#define AGENDA_H

#include <stddef.h>

#include "base/err.h"

struct agenda {
	size_t n;
	double *time;            /* (n) by actor; HUGE_VAL: never */
	unsigned *heap, *place;  /* (n) actors; where each is in it */
};
/* All never. After a failure, too, agenda_release. */
int agenda_init(struct agenda *a, size_t n) ERR_MUST;
void agenda_release(struct agenda *a);
void agenda_set(struct agenda *a, unsigned actor, double time);
/* The first actor; a->time[] of it is when. */
unsigned agenda_first(const struct agenda *a);

#endif
