/*
 * estimate - what a learner will need, told before it takes any of it: memory, and bytes on the wire; and the time of
 * a step, which must be measured.
 *
 * Memory is counted by the same functions that cut the arenas (model_memory, optimizer_bytes) and by what else a
 * learner allocates for each parameter; beside them stands what programs, libraries and small buffers take
 * together, as it was seen. Bytes of files are those of weights and deltas as trained models have them: zstd
 * takes more off what is regular.
 */
#ifndef ESTIMATE_H
#define ESTIMATE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/pool.h"
#include "base/tensor.h"
#include "form/shard.h"
#include "math/model.h"
#include "math/train_conf.h"

struct estimate_conf {
	const struct model_conf *model;
	const struct train_conf *train; /* batch, context, optimizer */
	enum model_use use;             /* MODEL_TRAIN or MODEL_RECOMPUTE */
	int threads;
	unsigned fragments;             /* of a run directory; 0: a filter */
	enum encoding encoding;         /* of deltas */
};
struct estimate {
	uint64_t parameters, tokens; /* of the model, of a step */
	/* bytes of memory */
	uint64_t params, grads, moments;
	uint64_t base;        /* what deltas are taken from; in a run directory snapshots, too */
	uint64_t state;       /* copy of the state being written, in a run directory */
	uint64_t fragments;   /* on their way from the run directory */
	uint64_t activations; /* of the rows that threads work on at a time */
	uint64_t files, program;
	uint64_t memory;      /* all of it */
	double a_parameter, a_row; /* bytes for each parameter, and for each of `rows` */
	uint64_t rows;
	/* bytes of files in a round */
	uint64_t received, sent; /* checkpoint, or all fragments once; delta, or those of all fragments once */
	uint64_t saved;          /* a state */
};
/* Opens and allocates nothing of any size. */
int estimate(struct estimate *out, const struct estimate_conf *c) ERR_MUST;
/*
 * Seconds of an inner step: the mean of those of a second, five at least, on a new model of this configuration, with
 * all the memory that takes, and samples of the shard. Nothing of it is kept. pool: of c->threads.
 */
int estimate_time(double *seconds, const struct estimate_conf *c, struct shard *shard, struct pool *pool,
	struct clock clock) ERR_MUST;
/* For people, and as one JSON object: sizes in bytes; a newline at the end of both. */
int estimate_text(struct buf *out, const struct estimate *e, double seconds) ERR_MUST;
int estimate_json(struct buf *out, const struct estimate *e, double seconds) ERR_MUST;

#endif
