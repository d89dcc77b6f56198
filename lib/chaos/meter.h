/*
 * meter - what a run that is being broken is worth: who trains, how much of the time, and how its global step
 * goes on; from beats and head, read where their writers put them.
 *
 * A learner trains from the first inner step of a process on (told by its beat) until it is stopped, dies or has
 * nothing to train for. It is able to contribute while it trains, is not paused, and is not cut off; one that
 * is slowed is able. Time counts from the beginning until the run is over: until its head says closing or done.
 */
#ifndef METER_H
#define METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "round/head.h"

struct meter_learner {
	/* the caller's: */
	char beat[4096];      /* path */
	bool up, stopped, paused, cut; /* now */
	double started;       /* when its process was, while it is up */
	/* what comes out: */
	double trained;       /* seconds */
	double starting;      /* seconds from the start of a process to its training, of all `startings` */
	unsigned startings;
	double step_seconds;  /* of its last beat; 0: unknown */
	/* the meter's own: */
	bool trains;
	uint64_t life, past, steps; /* incarnation of its last beat; of those that have ended; steps when it began */
};
struct meter {
	struct meter_learner *learner; /* (learners) the caller's */
	size_t learners;
	unsigned quorum, fragments;
	/* what comes out: */
	double seconds;       /* in all */
	double below;         /* with fewer than a quorum of learners able */
	double still;         /* the global step stood still although a quorum was able: see meter_still */
	double stall, stall_at; /* longest time without a new global step, and when it began */
	uint64_t step;        /* of the head */
	enum phase phase;
	bool headed;
	/* its own: */
	double now, moved, able; /* last time; when the step last went on; seconds able since then */
	double (*gap)[2];     /* (gaps) seconds between steps, and those of them with a quorum able */
	size_t gaps;
};
/* learner, learners, quorum and fragments are set, the rest is zero. */
void meter_release(struct meter *m);
/* Time passes; states are as they were since the last time. */
void meter_pass(struct meter *m, double now);
/* Looks at head and beats: what can't be read is as it was. The run directory has been entered. */
int meter_look(struct meter *m) ERR_MUST;
/* The process of a learner has ended. */
void meter_ended(struct meter_learner *l);
bool meter_over(const struct meter *m);
/* Sums up, at the end: a gap between two global steps counts as far as it is longer than four times the median
 * one, at least a second, and a quorum was able. */
int meter_end(struct meter *m) ERR_MUST;

#endif
