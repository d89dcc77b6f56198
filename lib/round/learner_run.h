/*
 * learner_run - a learner of a run directory: trains as long as the run goes, and waits for nobody.
 *
 *     learner_run_open    manifest, what an earlier life left, the newest fragments
 *     learner_run_train   steps, until the run is done or it is told to stop
 *     learner_run_close
 *
 * The run directory is the current one (rundir_enter). Everything between the training thread and the
 * directory goes through a courier (round/courier.h).
 *
 * Memory, in bytes a parameter: 4 p, 4 g for each thread, 8 moments, 8 base and snapshot, 12 for the state
 * that is being written, and DESK_SLOTS times the largest fragment; besides activations.
 */
#ifndef LEARNER_RUN_H
#define LEARNER_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/pool.h"
#include "base/say.h"
#include "base/tensor.h"
#include "form/key.h"
#include "form/shard.h"
#include "form/trust.h"
#include "round/manifest.h"
#include "round/spmd.h"

struct learner_run_conf {
	const char *name;       /* NULL: learner_name */
	uint64_t steps;         /* inner steps to make now; UINT64_MAX: no end */
	double seconds;         /* time limit, from learner_run_open; 0: none */
	uint64_t batch, context; /* 0: the run's */
	double lr;              /* 0: the run's */
	const enum optimizer_kind *optimizer; /* NULL: the run's */
	bool recompute;         /* activations in the backward pass, instead of keeping them */
	bool encoded;           /* encoding counts; else the run's */
	enum encoding encoding; /* of deltas */
	bool adopting;          /* adopt counts; else the run's */
	struct adopt_rule adopt;
	uint64_t max_stale;     /* own steps without a new head; 0: 20 H and a lease, and with `seconds` it waits */
	double save_every;      /* seconds between saves of the state */
	const char *metrics;    /* TSV to append to, or NULL */
	int (*stop)(void);      /* not 0: end at the next step; may be NULL */
	struct spmd *spmd;      /* other ranks that take part; NULL: none */
};

struct learner_run;
/* ERR_BUSY while another process on this machine is the learner of that name; ERR_AUTH when the key may not
 * be one. All but `out` stay the caller's, and are used until learner_run_close. */
int learner_run_open(struct learner_run **out, const struct learner_run_conf *c, struct shard *shard,
	const struct key *key, struct trust *user, struct pool *pool, struct clock clock,
	struct say *say) ERR_MUST;
/*
 * 0: the run is done, or the steps, the time or a request to stop ended it; the state is saved. ERR_AGAIN: no
 * sign of a syncer for max_stale steps, or in all the seconds; saved too. ERR_BUSY: another process has taken over
 * the name. ERR_AUTH: the key was revoked. ERR_DATA: loss or gradient is not finite, and the state is the one before.
 */
int learner_run_train(struct learner_run *l) ERR_MUST;
void learner_run_close(struct learner_run *l);

#endif
