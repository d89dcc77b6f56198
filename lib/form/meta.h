/*
 * meta - the well-known keys of a header in a struct: the only place that knows their names.
 *
 * Empty strings and zeros are left out when written, and taken out where they were; but a checkpoint
 * always says its round, step and tokens. Identities and digests are lower-case hex.
 */
#ifndef META_H
#define META_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "form/header.h"
#include "form/key.h"

enum kind {
	KIND_CHECKPOINT, KIND_DELTA, KIND_STATE, KIND_OUTER, KIND_SHARD, KIND_SUM, KIND_FRAGMENT,
	KIND_MANIFEST, KIND_HEAD, KIND_BEAT, KIND_EPOCH, KIND_TENSORS
};
const char *kind_name(enum kind k); /* "checkpoint", "delta", "state", "outer", "shard", ... */

struct meta {
	enum kind kind;
	char run[33];      /* run id: 32 hex digits */
	char model[65];    /* model digest: configuration and layout (round/run.h) */
	uint64_t round;    /* outer steps so far (checkpoint); the round answered (delta) */
	uint64_t step;     /* global step: of the checkpoint; of the base (delta, state) */
	uint64_t tokens;   /* trained so far (checkpoint); in this delta since base (delta) */
	uint64_t seed;
	char label[KEY_NAME + 1]; /* what its owner calls the run */
	char merge[65];    /* of checkpoint and outer: base, answers, rule; pairs the two */
	char base[65];     /* identity of the checkpoint it starts from, or was merged into */
	/* delta and state */
	char learner[KEY_NAME + 1];
	uint64_t steps;    /* inner steps since base */
	/* training loss in nats a token; never NaN, 0 when steps is 0 */
	double loss_first, loss_last, loss_mean;
	char shard[65];    /* identity of the data */
	uint64_t cursor;   /* place in the learner's order of its samples */
	uint64_t context;  /* tokens a sample */
	/* of one fragment of a run directory (dl-run-dir(5)); else empty and 0 */
	char fragment[5];  /* "f003"; empty: the whole model */
	uint64_t version;  /* of the fragment; of the one it starts from (delta) */
	uint64_t epoch;    /* of the syncer */
	uint64_t incarnation; /* of the learner */
	uint64_t trained;  /* tokens the learner has trained over all its lives, when this was made */
	uint64_t answered; /* of them in answers for this fragment, this one with them (delta) */
};

/* Is this a well-known key whose value is text, even where it looks like a number? */
bool meta_is_text(const char *key);
int meta_read(struct meta *m, const struct header *h) ERR_MUST;
int meta_write(const struct meta *m, struct header *h) ERR_MUST;
/* ERR_DATA unless the kind is the wanted one: "is a delta, not a checkpoint". */
int meta_want(const struct meta *m, enum kind want) ERR_MUST;
/* ERR_DATA unless run and model are those of the other. */
int meta_same_run(const struct meta *m, const struct meta *other) ERR_MUST;

#endif
