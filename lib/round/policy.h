/*
 * policy - who is called, when, and when what came back is merged: Decoupled DiLoCo's rounds as a pure
 * function of time and events. No files, no clock, no threads: the syncer, the simulator and training in
 * virtual time all use it.
 *
 *     policy_open; policy_history, policy_recall, policy_resume for what was before
 *     loop:  policy_beat, policy_answer, ...     what has happened, with its time
 *            policy_next                         what to do now; again until it says wait
 *            do it; policy_called, policy_merged, policy_refused or policy_abandoned
 *     policy_close
 *
 * The clock. What passes is counted in inner steps of the median learner: of the learners that are heard
 * of and train, the middle one by steps done (the mean of the middle two of an even number), counted anew
 * every H steps and whenever one comes or goes, so that neither moves the clock. Between beats a
 * learner's steps are extrapolated by its step_seconds, by no more than one of its beat intervals, and
 * not when it is idle. One that has been silent for four beat intervals does not count until it is back.
 *
 * Pacing. Fragment p is to be merged whenever the clock passes (p + 1) H / P + k H: H apart, and the
 * fragments spread evenly. It is called earlier by what usually passes between call and merge. A merge
 * that is late by more than 3/4 H skips to the next of these marks that is at least H / 4 away, so after
 * any disturbance the fragments are spread again.
 * At most tau rounds are open at once (but see `once`), and one for a fragment. So if a round takes L
 * steps from call to end, merges of a fragment can't be closer than P L / tau steps: where that is more
 * than H, it is what is achieved. Nobody is called while fewer than K learners are alive.
 *
 * Merging. A round with K sound answers waits for the grace window
 *     gamma max(0, tau xi_step - xi_quorum - xi_sync)                (arXiv 2604.21428)
 * with moving averages of the seconds of an inner step, from call to quorum, and of a merge; and no longer
 * once all that were invited, are alive and have something to answer have answered. While a call is due
 * and finds tau rounds open, a window also ends when its round has been open for 3/4 of its share of the
 * pace, tau H / P steps: grace takes slack, not pace (ours). Without quorum a round stays open.
 *
 * A learner is alive while signs of it come, less than `lease` seconds apart, by the caller's clock.
 * Times are seconds, none negative, from any origin; one that goes back counts as the latest before.
 * Learners are numbers the caller gives, 0 and up, without large gaps: each costs 9 P bytes. Each call
 * costs O(M + P) at most, and allocates only for a learner number that is new. Learners count for the
 * clock from the first policy_next after they were heard of.
 *
 * Same calls, same decisions. Events of the same time may come in any order before the next policy_next,
 * but that an answer counts only if it comes between policy_called and the decision to merge.
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
	unsigned invite;      /* learners called for a round, drawn by seed and round; 0: all; no less than K */
	uint64_t seed;
	double lease;         /* seconds */
	bool once;            /* one pass: rounds may be open for all fragments at once, however few are alive;
	                         no grace is given, and nothing is waited for */
};
/* Moving averages, and what follows from them, in seconds; 0 while unknown. */
struct policy_times {
	double step, quorum, sync; /* xi */
	double slack;              /* tau step - quorum - sync, negative when late */
	double window;             /* gamma max(0, slack) */
};

struct policy;
/* first_round: number that the first call gets, from 1. ERR_USAGE for values that make no sense. */
int policy_open(struct policy **out, const struct policy_conf *c, uint64_t first_round, double now)
	ERR_MUST;
void policy_close(struct policy *p);
/* Everything may change while it runs but fragments and once; values that make no sense are left out. */
void policy_reconf(struct policy *p, const struct policy_conf *c);

/* ---- what was before, for a syncer that takes over ---- */

/* This fragment was merged before, the median learner being `ago` steps further by now (global step of
 * the learners less that of the merge). Without it, a fragment counts as never merged. */
void policy_history(struct policy *p, unsigned fragment, double ago);
/* An open round as it was left. invited: (n), NULL: all. */
int policy_resume(struct policy *p, double now, uint64_t round, unsigned fragment,
	const unsigned *invited, size_t n) ERR_MUST;
/* Averages as they were left. */
void policy_recall(struct policy *p, const struct policy_times *t);

/* ---- what has happened ---- */

#define POLICY_OLD_BASE UINT64_MAX
struct policy_beat {
	unsigned learner;
	uint64_t steps;        /* inner steps over all its lives, or of this one: only differences count */
	double step_seconds;   /* of one of its inner steps, lately; 0: unknown */
	/* (P) inner steps since the base of each fragment, which is what it would answer; POLICY_OLD_BASE
	 * when its base is not the newest (0 does too, but that work of its last steps may then be missed
	 * at the end of a run that rebases) */
	const uint64_t *since;
	bool idle;             /* it has stopped training and still answers */
	bool gone;             /* it has left */
};
/* A new sign of life. ERR_NOMEM only. */
int policy_beat(struct policy *p, double now, const struct policy_beat *b) ERR_MUST;
/* A sound answer (by its header) to an open round is there. 1: it counts. 0: it does not, because the
 * round is not open or being merged, the learner was not invited, or it has answered or was refused
 * before. No sign of life. */
int policy_answer(struct policy *p, double now, uint64_t round, unsigned learner) ERR_MUST;
/* This learner's answer to this round is no good: on arrival, or when it was to be merged. It is not waited
 * for. false: fewer than a quorum are left, so a MERGE that is under way is off and the round goes on. */
bool policy_refused(struct policy *p, double now, uint64_t round, unsigned learner);
/* The run is at its end: each fragment that somebody alive has steps for is merged once more, with all of
 * them invited; then POLICY_DONE. For the first `lease` seconds all that are alive are waited for, and no
 * less than K merged; later each round waits a lease at most, and what is there is merged. In one pass a
 * round of a pass before ends, too, when all that may answer have been seen since its call. */
void policy_finish(struct policy *p, double now);

/* An open round has waited long enough: at the end of the run it ends with what is there. For one pass, which
 * does not know how much time has gone by. */
void policy_expire(struct policy *p, uint64_t round);

/* ---- what to do ---- */

enum policy_act {
	POLICY_WAIT,
	POLICY_CALL,
	POLICY_MERGE,
	POLICY_ABANDON, /* no quorum can come: answers were refused, and nobody else is there; or the end */
	POLICY_DONE
};
struct policy_step {
	enum policy_act act;
	double until;       /* WAIT: ask again then, if nothing happens before; HUGE_VAL: nothing to wait for */
	uint64_t round;     /* CALL, MERGE, ABANDON */
	unsigned fragment;
	const unsigned *invited; /* CALL: (n) ascending, NULL: all; valid until the next call of any function */
	size_t n;
	bool again;         /* CALL of a round that is open: too few invited are alive, and this is the longer
	                       list that takes the place of the one before */
};
/* A CALL and an ABANDON are said again until they are done, a MERGE is said once. */
void policy_next(struct policy *p, double now, struct policy_step *s);
/* The CALL that was just decided is out, published at `now`. */
int policy_called(struct policy *p, double now, uint64_t round) ERR_MUST;
/* A MERGE is published; it took so many seconds from the decision. The round is over. */
void policy_merged(struct policy *p, double now, uint64_t round, double seconds);
/* A round is over without a merge: by POLICY_ABANDON, or because its answers are lost. The fragment is
 * called again at its next mark. */
void policy_abandoned(struct policy *p, double now, uint64_t round);

/* ---- what can be seen ---- */

struct policy_round {
	uint64_t round;
	unsigned fragment;
	double called;        /* time */
	double quorum;        /* when it had enough answers; negative: not yet */
	double merge_at;      /* when the grace window ends; negative: no quorum at the last policy_next */
	size_t invited;       /* learners alive that were invited */
	size_t waited;        /* of them, those that have something to answer and have not */
	size_t answers, refused;
	bool merging;
};
void policy_times(const struct policy *p, struct policy_times *t);
size_t policy_open_rounds(const struct policy *p);
/* In order of their numbers, i < policy_open_rounds. */
void policy_round_at(const struct policy *p, size_t i, struct policy_round *r);
bool policy_has_answer(const struct policy *p, uint64_t round, unsigned learner);
bool policy_alive(const struct policy *p, double now, unsigned learner);
size_t policy_alive_count(const struct policy *p, double now);
/* By the clock at the last policy_next: inner steps of the median learner since the last merge of a fragment. */
double policy_steps_since(const struct policy *p, unsigned fragment);
/* Mean inner steps of the median learner between merges of a fragment: the achieved H; 0: unknown. */
double policy_achieved_interval(const struct policy *p);
/* Mean number of rounds open from the first call until the last event. */
double policy_mean_overlap(const struct policy *p);
/* Longest time that no merge was published while at least K learners were alive, but for the end. */
double policy_longest_stall(const struct policy *p);

#endif
