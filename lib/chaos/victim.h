/*
 * victim - a child of a crew (io/crew.h) whose process is broken by faults, and made whole again in time.
 *
 * Only signals and limits of that very child are used. It is stopped and continued with its process group;
 * RLIMIT_FSIZE is that of the child alone. Faults of one kind that overlap go on until the last is over; one that
 * dies leaves its pause behind.
 */
#ifndef VICTIM_H
#define VICTIM_H

#include <stdbool.h>
#include <sys/resource.h>

#include "chaos/fault.h"
#include "io/crew.h"

struct victim {
	struct crew *crew;
	size_t member;          /* of the crew */
	const char *clock_file; /* that libfaketime reads; NULL: its clock stays as it is */
	/* its own: zero at the beginning */
	unsigned starts;        /* of the crew that it knows */
	unsigned kills;
	double pause, slow, share, full, clock; /* until when, and the share of time that it runs */
	bool stopped, filled;
	struct rlimit limit;    /* as it was before it was full */
};

/* The fault begins, `now` being its clock. NULL, or why it came to nothing. */
const char *victim_break(struct victim *v, const struct fault *f, double now);
/* As it should be at this moment; after crew_tend, and again at the time it returns, or before. */
double victim_tend(struct victim *v, double now);
/* All faults are over. */
void victim_heal(struct victim *v, double now);

static inline const struct crew_member *victim_member(const struct victim *v)
{
	return &v->crew->v[v->member];
}

#endif
