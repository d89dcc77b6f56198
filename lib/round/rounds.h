/*
 * rounds - the tables behind policy.h: who is alive, which rounds are open, who is waited for in them,
 * and how time passes. policy.c tells events to them, policy_next.c decides from them; nobody else
 * includes this.
 */
#ifndef ROUNDS_H
#define ROUNDS_H

#include "round/pace.h"
#include "round/policy.h"

/* A learner in the open round of a fragment. */
enum { INVITED = 1, ANSWERED = 2, REFUSED = 4 };

struct learner {
	double seen;
	bool alive, idle;
	bool mute; /* let a round of the end pass without an answer: not waited for again */
};
struct round { /* of a fragment: its schedule, and the round that is open for it, if there is one */
	double due;      /* by the clock: when it is to be merged next */
	double merged;   /* by the clock: last time; negative: ago, or never */
	bool ever;       /* merged in this life: `merged` is exact */
	size_t busy;     /* learners alive with steps since the newest base */
	size_t unsure;   /* learners alive that may yet have */
	bool final;      /* the end: merged once more */

	bool open, merging, all, resumed, expired, last; /* last: called at the end */
	bool sampled;    /* its quorum is in the average */
	uint64_t number;
	unsigned redrawn;
	double called, called_steps, quorum, merge_at;
	size_t answers, refused, waiting;
};
struct call { /* the one decided last; round 0: none */
	uint64_t round;
	unsigned fragment;
	bool all, again;
	size_t n;
};

struct policy {
	struct policy_conf c;
	double opened, now, finished;
	bool closing, over;
	uint64_t next_round;

	struct pace pace;
	struct learner *learner;         /* (n) */
	size_t n, room;
	uint64_t *since;                 /* (n, P) */
	unsigned char *flag;             /* (n, P) */
	unsigned *drawn, *list;          /* (room) who may be invited; who is */
	size_t alive;
	double enough_from;              /* since when K are alive */
	double next_expiry;              /* no lease ends before */

	struct round *round;             /* (P) */
	unsigned *open;                  /* (opens) fragments, in order of round */
	size_t opens;
	struct call call;

	double step, quorum, sync;       /* xi */
	double lag;                      /* steps from call to merge */

	double intervals, interval_steps;
	double first_call, open_seconds; /* first_call negative: none */
	double stall_from, stall;
};

/* Learner i is known from now on. */
int rounds_know(struct policy *p, unsigned i) ERR_MUST;
/* Takes a learner out of all sums (sign -1), to change it and put it back (+1). */
void rounds_account(struct policy *p, size_t i, int sign);
void rounds_set_alive(struct policy *p, size_t i, bool alive);
/* A newer base of f is out: what is under way is of the old one. */
void rounds_new_base(struct policy *p, unsigned f);
/* Is it invited to the open round of f, alive, and has something to answer and has not? */
bool rounds_waits_for(const struct policy *p, size_t i, unsigned f);

/* Time comes to now: leases end. */
void rounds_advance(struct policy *p, double now);
/* The clock comes to the present. */
void rounds_go(struct policy *p);
/* No merge was published until t. */
void rounds_stall(struct policy *p, double t);

struct round *rounds_find(const struct policy *p, uint64_t round); /* open; NULL: not */
unsigned rounds_fragment(const struct policy *p, const struct round *r);
void rounds_begin(struct policy *p, unsigned f, uint64_t number, bool all);
/* Invites so many more, and counts who is waited for: also after rounds_begin for all. */
void rounds_invite(struct policy *p, unsigned f, const unsigned *invited, size_t n);
void rounds_end(struct policy *p, struct round *r);
/* Takes a sample into a moving average; the first one is all of it. */
void rounds_average(double *x, double sample);

#endif
