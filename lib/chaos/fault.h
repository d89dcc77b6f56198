/*
 * fault - plans of what is to break: when, what, whose, for how long; drawn from a seed.
 *
 * Faults come with exponential gaps of mean `mtbf`, all processes taken together. Each is of a kind drawn by
 * weight, and hits a process drawn from those that it can hit. How long it lasts is uniform between half and
 * one and a half of the mean. All times are in whole milliseconds, so the same seed gives the same plan, to
 * the last digit, also as text.
 *
 *     kill       SIGKILL; started again when the fault is over
 *     pause      SIGSTOP, then SIGCONT
 *     slow       stopped and continued in turns: `value` is the share of time that it runs
 *     full       writes fail (EFBIG, by RLIMIT_FSIZE): what a process sees of a full disk
 *     clock      its wall clock is off by `value` seconds
 * and in the copy of a run directory that a learner works in:
 *     cut        nothing goes in or out
 *     delay      what changes is seen `value` seconds later on the other side
 *     reorder    what changes is held back, and comes in the reverse order at the end
 *     truncate   a file comes cut short: only this share of it; whole when the fault is over
 *     flip       a file comes with one bit changed, at this share of its length; whole when it is over
 *     duplicate  a file comes twice, and an answer also under the name of the next round
 *     replay     an earlier file comes in the place of the newest, which comes when the fault is over
 * The last four hit the next file of a class.
 */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

enum fault_kind {
	FAULT_KILL, FAULT_PAUSE, FAULT_SLOW, FAULT_FULL, FAULT_CLOCK, /* of a process */
	FAULT_CUT, FAULT_DELAY, FAULT_REORDER,                        /* of a copy, for a while */
	FAULT_TRUNCATE, FAULT_FLIP, FAULT_DUPLICATE, FAULT_REPLAY,    /* of one file */
	FAULT_KINDS
};
const char *fault_kind_name(enum fault_kind k);
/* ERR_USAGE that names the nearest kind. */
int fault_kind_parse(const char *text, enum fault_kind *out) ERR_MUST;
bool fault_of_copy(enum fault_kind k);
bool fault_of_file(enum fault_kind k);

enum fault_class { FAULT_ANSWER, FAULT_BEAT, FAULT_STATE, FAULT_HEAD, FAULT_FRAGMENT, FAULT_CLASSES };
const char *fault_class_name(enum fault_class c);
int fault_class_parse(const char *text, enum fault_class *out) ERR_MUST;

struct fault {
	double at;    /* seconds since the beginning */
	enum fault_kind kind;
	unsigned who; /* number of the process */
	double lasts; /* seconds */
	double value; /* see above; else 0 */
	enum fault_class file; /* of those of one file */
};

#define FAULT_TIME 31536000.0 /* longest time, a year */
#define FAULT_GAP 0.001       /* shortest mean between faults */

struct fault_conf {
	uint64_t seed;
	double mtbf;     /* mean seconds between faults, at least FAULT_GAP */
	double from;     /* none before */
	double repair;   /* mean seconds of kills, > 0 */
	double lasts;    /* mean seconds of all others, > 0 */
	double slow;     /* share of time that a slowed process runs; 0: drawn from 0.1 to 0.9 */
	double clock;    /* clocks are off by at most so many seconds, > 0 */
	uint64_t weight[FAULT_KINDS];
	unsigned processes;
	const bool *spared; /* (processes) hit by nothing; NULL: none is */
	const bool *copied; /* (processes) work in a copy of a run directory; NULL: none does */
};
/* "kill:5,pause,flip:2", or "all": without a number it is 1. ERR_USAGE. */
int fault_weights_parse(const char *text, uint64_t weight[FAULT_KINDS]) ERR_MUST;

struct fault_plan {
	const struct fault_conf *conf; /* the caller's */
	struct rng rng;
	double at;
};
/* ERR_USAGE when a parameter is impossible, or when there is a kind that no process can be hit by. */
int fault_plan_begin(struct fault_plan *p, const struct fault_conf *c) ERR_MUST;
/* The next fault; there is always one. */
void fault_plan_next(struct fault_plan *p, struct fault *out);

#endif
