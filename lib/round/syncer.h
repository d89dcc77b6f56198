/*
 * syncer - runs the rounds of a run directory: calls, quorum, grace, merge, publish, tape.
 *
 *     syncer_open      the run that was entered: takes an epoch, and finds out where things stand
 *     syncer_run       until the run is done, or what the configuration says
 *     syncer_close     gives the lock back
 *
 * One thread looks at beats and answers by their names, a few times a second or less when nothing goes on;
 * what it decides is policy's (policy.h). The others work in merges. What it knows, it knows from
 * head, tape and files, so it can be killed at any time; the number of learners is written nowhere.
 *
 * A disk that is full or fails for a while stops nothing: it warns, and tries again.
 */
#ifndef SYNCER_H
#define SYNCER_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/pool.h"
#include "base/say.h"
#include "form/key.h"
#include "form/trust.h"
#include "round/manifest.h"

struct syncer_conf {
	struct manifest *manifest; /* of the run; refreshed when it changes */
	struct trust *user; /* refreshed as well */
	const struct key *key;
	struct pool *pool;
	struct say *say;
	struct clock clock;
	bool once;       /* do what is due, and leave */
	bool take_over;  /* without asking whether another syncer lives */
	double deadline; /* seconds without a merge until it gives up; 0: never */
	double lasting;  /* seconds until it leaves; 0: never */
};

struct syncer;
/* ERR_BUSY: another syncer lives. ERR_AUTH: this key may not be syncer, or head or tape is not what a
 * syncer left. Waits for a lease when it has to see whether another lives; leaves with ERR_AGAIN on a
 * signal then. */
int syncer_open(struct syncer **out, const struct syncer_conf *c) ERR_MUST;
/*
 * 0: the run is done, and its newest versions and last checkpoint are there, if need be again; or it left as
 * it was told, or (once) did something. ERR_AGAIN: nothing could be done (once), or nothing was merged until
 * the deadline; the sentence says who is missing. ERR_BUSY: superseded. ERR_AUTH: something of the run is lost
 * and can't be made again.
 */
int syncer_run(struct syncer *s) ERR_MUST;
void syncer_close(struct syncer *s);

#endif
