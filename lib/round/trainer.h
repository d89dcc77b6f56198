/*
 * trainer - one inner step: a batch of the learner's data forward and backward, clipping, AdamW or Muon.
 *
 * What any kind of learner does between two boundaries: dl-learn as a filter, a learner of a run directory,
 * and learners in virtual time. It knows nothing of bases, rounds or files but the shard it reads from.
 * Memory: p, g, m, v, 16 bytes a parameter, 12 of those that Muon trains, and 4 more for each further thread;
 * and activations of one batch.
 */
#ifndef TRAINER_H
#define TRAINER_H

#include <stdint.h>

#include "base/pool.h"
#include "base/say.h"
#include "math/model.h"
#include "math/optimizer.h"
#include "math/train_conf.h"
#include "round/feed.h"
#include "round/metrics.h"
#include "round/spmd.h"

struct trainer {
	struct train_conf train;
	struct model *model;  /* the caller's */
	const struct tensors *layout; /* of the model */
	uint64_t size;        /* N, parameters */
	real *params;         /* (N) the model's own: what is trained */
	struct optimizer optimizer; /* moments and step count */
	struct feed feed;     /* its cursor is the place in the data */
	uint32_t *ids;        /* (B, T+1) */
	struct metrics metrics;
	const char *table;    /* path of the metrics, for messages; the caller's */
	struct pool *pool;    /* the caller's */
	struct spmd *spmd;    /* other ranks that take part; the caller's, NULL: none */
};
#define TRAINER_INIT { .metrics = METRICS_INIT }

/* Batch size, tokens a sample, peak rate and optimizer instead of the configuration's; 0 keeps each. */
int trainer_override(struct train_conf *t, uint64_t batch, uint64_t context, double lr,
	const enum optimizer_kind *optimizer) ERR_MUST;
/*
 * Zero moments, position 0 in the data. The order of samples is that of (seed, name). model, shard and pool
 * stay the caller's, and are used until trainer_close; that is called after a failure, too.
 */
int trainer_open(struct trainer *t, struct model *model, const struct train_conf *train,
	struct shard *shard, uint32_t vocab, uint64_t seed, const char *name, struct pool *pool) ERR_MUST;
/* Other ranks take part from now on; c is what the model is. */
int trainer_spread(struct trainer *t, struct spmd *s, const struct model_conf *c) ERR_MUST;
void trainer_close(struct trainer *t);

uint64_t trainer_tokens(const struct trainer *t); /* of one step */
/*
 * The step that begins at global step `step` with so many tokens trained before it by all, at the learning rate
 * that belongs to that (sched.h). Fills loss, lr, grad_norm and the load of the experts of the row. ERR_DATA, naming
 * the step, when loss or gradient is not finite; ERR_IO when another rank is lost. After a failure all but loss and
 * gradient is as before.
 */
int trainer_step(struct trainer *t, uint64_t step, uint64_t tokens, struct metrics_row *row) ERR_MUST;

/* The rest of a step whose loss is in the row, and whose gradient in model_grads: all but the backward pass. */
int trainer_update(struct trainer *t, uint64_t step, uint64_t tokens, struct metrics_row *row) ERR_MUST;

/* The table of metrics; NULL: none. */
int trainer_record_to(struct trainer *t, const char *path) ERR_MUST;
/* One line. Metrics are for people: when it can't be written, that is said and no more are. */
void trainer_record(struct trainer *t, const struct metrics_row *row, struct say *say);

#endif
