/*
 * like - the parameters of a real run, from its tape: how fast its learners are, how often they fail, how long
 * they are away, what calls and merges take. So a simulation can go on where the run is: with another quorum, more
 * learners, or without the slow one.
 *
 * A learner is one slice of one chip. Times are the syncer's, and so are signs of life: a learner that was
 * killed is missed from half an answer interval behind its last answer, or from when the tape says that it fell
 * silent, until it is heard of anew. Time in which no syncer was at work is left out, and so is what became of
 * learners in it; who left on purpose has not failed. Speeds are those that it had beside the others, on the
 * machines there were.
 */
#ifndef LIKE_H
#define LIKE_H

#include "base/buf.h"
#include "chaos/sim.h"
#include "form/key.h"
#include "round/manifest.h"
#include "round/tape.h"

struct like_learner {
	char name[KEY_NAME + 1];
	double joined, left;       /* seconds of the run; left HUGE_VAL: it stayed */
	double step;               /* seconds of an inner step; 0: unknown */
	double tokens;             /* trained in this run */
	double alive, away;        /* seconds */
	uint64_t failures;
};
struct like {
	struct sim_conf conf;      /* what was fitted, and the rules of the manifest */
	struct sim_result measured;
	struct like_learner *learner; /* (learners) in order of joining */
	unsigned learners;
	double *speed;             /* conf.speed; owned */
};
/* Reads the tape to its end, or to where the run began to finish. ERR_DATA when it tells too little. After a
 * failure, too, like_release. */
int like_read(struct like *l, const struct manifest *m, struct tape_reader *tape) ERR_MUST;
void like_release(struct like *l);
/* Without these learners: names with commas between. Learners that stay keep their speeds. ERR_USAGE for a
 * name that is not there, or when nobody is left. */
int like_without(struct like *l, const char *names) ERR_MUST;
/* A line for each learner, and one for what they share. */
int like_text(const struct like *l, struct buf *out) ERR_MUST;

#endif
