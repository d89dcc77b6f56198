/*
 * learner - the inner loop: from a checkpoint, some steps on a shard, to a delta.
 *
 *     learner_open     checkpoint, shard and state into memory
 *     learner_train    steps, with the state saved every so often
 *     learner_save     the state
 *     learner_answer   the delta, to a descriptor
 *
 * Progress counts from the base: a learner that was killed, stopped or ran out of time and is run
 * again on the same base with its state goes on where the state was, and its delta has the same
 * bytes as if nothing had happened, however often the state was saved. A delta that was lost is had
 * again by the same call; a merge counts it once.
 *
 * Same checkpoint, shard, state, settings, key, number of threads, kind of processor: same bytes.
 */
#ifndef LEARNER_H
#define LEARNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/pool.h"
#include "base/say.h"
#include "base/tensor.h"
#include "form/frame.h"
#include "form/key.h"
#include "form/shard.h"
#include "form/trust.h"
#include "math/optimizer.h"
#include "round/spmd.h"

struct learner_conf {
	const char *name;       /* [A-Za-z0-9._-]{1,64}; NULL: learner_name */
	uint64_t steps;         /* from the base; UINT64_MAX: until the time is up */
	double seconds;         /* time limit, from learner_open; 0: none */
	uint64_t batch, context; /* 0: the checkpoint's */
	double lr;              /* peak rate; 0: the checkpoint's */
	const enum optimizer_kind *optimizer; /* NULL: the checkpoint's */
	bool recompute;         /* activations in the backward pass, instead of keeping them */
	const char *state;      /* path of the state; NULL: none is kept; a missing file: fresh */
	double save_every;      /* seconds between saves of the state under way */
	enum encoding encoding; /* of the delta: f32r (exact), f32, bf16 */
	const char *metrics;    /* TSV to append to, or NULL */
	int (*stop)(void);      /* not 0: end at the next step; may be NULL */
	struct spmd *spmd;      /* other ranks that take part; NULL: none */
};

/* What a learner without a name is called: 8 digits of the key's fingerprint, '-', and the shard's
 * part of its split, or 8 digits of its identity when it is no part of one. Machines with keys of
 * their own, and learners on different shards, never meet under one name. */
void learner_name(char out[KEY_NAME + 1], const struct key *key, const struct shard *shard);

struct learner;
/* Reads the checkpoint to its verified end. All but `out` stay the caller's, and are used until
 * learner_close. */
int learner_open(struct learner **out, const struct learner_conf *c, struct frame_reader *r,
	struct shard *shard, const struct key *key, const struct trust *trust, struct pool *pool,
	struct clock clock, struct say *say) ERR_MUST;
/* Runs to the last step, the time limit or the request to stop. ERR_DATA, naming the step, when
 * loss or gradient is not finite: there is nothing to answer then. */
int learner_train(struct learner *l) ERR_MUST;
int learner_save(struct learner *l) ERR_MUST; /* nothing to do without a state, or without news */
/* ERR_AGAIN, and nothing written, when no step was made. */
int learner_answer(struct learner *l, int fd) ERR_MUST;
void learner_close(struct learner *l);

#endif
