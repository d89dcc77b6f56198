/*
 * policy - who is called, when, and when what came back is merged: Decoupled DiLoCo's rounds as a pure
 * function of time and events. No files, no clock, no threads: the syncer, the simulator and training in
 * virtual time all use it.
 *
 *     policy_open
 *     loop:  policy_beat, policy_answer, ...     what has happened, with its time
 *            policy_next                         what to do now; again until it says wait
 *            do it; policy_called, policy_merged or policy_failed
 *     policy_close
 *
 * Pacing. A fragment is called when the median of the learners alive has trained it for H inner steps,
 * less what passes between call and merge (a moving average), so that merges of a fragment are H steps
 * of the median learner apart. Fragments that were never merged are spread over the first H. At most tau
 * rounds are open at once, and one for a fragment.
 *
 * Merging. A round with K sound answers waits for the grace window
 *     gamma max(0, tau xi_step - xi_quorum - xi_sync)
 * with moving averages of the seconds of an inner step, from call to quorum, and of a merge; and no longer
 * once all that were invited and are alive have answered. Without quorum it stays open.
 *
 * A learner is alive while signs of it come, at most `lease` seconds apart, by the caller's clock.
 * Times are seconds from any origin and never go back. Learners are numbers the caller gives, 0 and up.
 * Same events, same decisions.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct policy_conf {
	unsigned fragments;   /* P */
	uint64_t interval;    /* H, inner steps */
	unsigned overlap;     /* tau: inner steps, and rounds open at once */
	unsigned quorum;      /* K >= 1 */
	double grace;         /* gamma */
	unsigned invite;      /* learners called for a round, drawn by seed and round; 0: all */
	uint64_t seed;
	double lease;         /* seconds */
	bool once;            /* rounds may be open for all fragments at once, and no grace is given */
};
/* Moving averages, and what follows from them, in seconds; 0 while unknown. */
struct policy_times {
	double step, quorum, sync; /* xi */
	double slack;              /* tau step - quorum - sync, negative when late */
	double window;             /* gamma max(0, slack) */
};

struct policy;
/* first_round: number that the first call gets, from 1. */
int policy_open(struct policy **out, const struct policy_conf *c, uint64_t first_round, double now)
	ERR_MUST;
void policy_close(struct policy *p);
/* The rates may change while it runs; fragments may not. */
void policy_reconf(struct policy *p, const struct policy_conf *c);

/* ---- what has happened ---- */

struct policy_beat {
	unsigned learner;
	uint64_t steps;        /* inner steps over all its lives, or of this one: only differences count */
	double step_seconds;   /* of one of its inner steps, lately; 0: unknown */
	const uint64_t *since; /* (P) inner steps since the base of each fragment; 0 also when its base is old */
	bool idle;             /* it has stopped training and still answers */
	bool gone;             /* it has left */
};
/* A new sign of life. ERR_NOMEM only. */
int policy_beat(struct policy *p, double now, const struct policy_beat *b) ERR_MUST;
/* A sound answer (by its header) to an open round is there. More than once counts once. */
int policy_answer(struct policy *p, double now, uint64_t round, unsigned learner) ERR_MUST;
/* An open round as another syncer left it, for one that takes over. invited: (n), NULL: all. */
int policy_resume(struct policy *p, double now, uint64_t round, unsigned fragment,
	const unsigned *invited, size_t n) ERR_MUST;
/* Averages as another syncer left them. */
void policy_recall(struct policy *p, const struct policy_times *t);
/* The run is at its end: each fragment with steps since its base is merged once more, then
 * POLICY_DONE. */
void policy_finish(struct policy *p, double now);

/* ---- what to do ---- */

enum policy_act { POLICY_WAIT, POLICY_CALL, POLICY_MERGE, POLICY_DONE };
struct policy_step {
	enum policy_act act;
	double until;       /* WAIT: ask again then, if nothing happens before; HUGE_VAL: nothing to wait for */
	uint64_t round;     /* CALL, MERGE */
	unsigned fragment;
	const unsigned *invited; /* CALL: (n) ascending, NULL: all; valid until the next call of any function */
	size_t n;
};
int policy_next(struct policy *p, double now, struct policy_step *s) ERR_MUST;
/* A CALL is out: published at `now`. */
int policy_called(struct policy *p, double now, uint64_t round) ERR_MUST;
/* A MERGE is published; it took so many seconds from the decision. The round is over. */
void policy_merged(struct policy *p, double now, uint64_t round, double seconds);
/* A MERGE that could not be: this learner's answer (each that was refused) is no good after all. The
 * round goes on when the others are too few. */
void policy_refused(struct policy *p, double now, uint64_t round, unsigned learner);

/* ---- what can be seen ---- */

struct policy_round {
	uint64_t round;
	unsigned fragment;
	double called;        /* time */
	double quorum;        /* when it had enough answers; negative: not yet */
	double merge_at;      /* when the grace window ends; negative: no quorum yet */
	size_t invited;       /* learners alive that were invited */
	size_t answers;
};
void policy_times(const struct policy *p, struct policy_times *t);
size_t policy_open_rounds(const struct policy *p);
void policy_round_at(const struct policy *p, size_t i, struct policy_round *r);
bool policy_invited(const struct policy *p, uint64_t round, unsigned learner);
bool policy_has_answer(const struct policy *p, uint64_t round, unsigned learner);
bool policy_alive(const struct policy *p, double now, unsigned learner);
size_t policy_alive_count(const struct policy *p, double now);
/* Mean inner steps of the median learner between merges of a fragment: the achieved H; 0: unknown. */
double policy_achieved_interval(const struct policy *p);
/* Longest time that no merge was published while at least K learners were alive. */
double policy_longest_stall(const struct policy *p);

#endif
