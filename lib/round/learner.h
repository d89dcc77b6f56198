/*
 * learner - the inner loop: from a checkpoint, some steps of AdamW on a shard, to a delta and a saved state.
 *
 * State (kind state): AdamW moments m and v for every tensor, counters, data position, and, while a call is under way (saved every
 * so often), the local parameters and running losses, so that a killed learner run again on the same base goes on and answers with
 * the same bytes as one that was never killed.
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

struct learner_conf {
	const char *name;          /* [A-Za-z0-9._-]{1,64}; NULL: fingerprint of the key and part of the shard */
	uint64_t steps;            /* inner steps to run; UINT64_MAX: until the time is up */
	double seconds;            /* time limit; 0: none */
	uint64_t batch, context;   /* 0: the checkpoint's */
	double lr;                 /* 0: the checkpoint's */
	uint64_t save_every;       /* steps between saves of the state under way; 0: never */
	enum encoding encoding;    /* of the delta: f32r (exact), f32, bf16 */
	const char *metrics;       /* TSV to append to, or NULL */
	bool (*stop)(void *ctx);   /* polled between steps */
	void *stop_ctx;
};

struct learner;
/* Loads checkpoint (consumes the reader's stream), shard and state (path NULL: none; missing file: fresh). */
int learner_open(struct learner **out, const struct learner_conf *c, struct frame_reader *ckpt, struct shard *shard,
	const char *state, const struct key *key, const struct trust *trust, struct pool *pool, struct clock clock,
	struct say *say) ERR_MUST;
/* Runs to the end, the time limit or the request to stop. ERR_DATA when the loss or gradient is not finite. */
int learner_train(struct learner *l) ERR_MUST;
/* Writes the delta, then saves the state: killed in between, the next run repeats the same delta, which a merge counts once.
 * ERR_AGAIN when no step was made: nothing is written. */
int learner_answer(struct learner *l, int fd) ERR_MUST;
void learner_close(struct learner *l);

#endif
