/*
 * merging - one outer step over files: base, answers and momentum in, next checkpoint and momentum out.
 * In place of a checkpoint it may be a fragment of a run directory.
 *
 *     merging_round, _fragment_round          what answers must fit
 *     answers_open, _settle, _enough          judge what can be judged without values
 *     merging_open
 *     merging_write                           all of the state, all but the end of the checkpoint
 *     ... the caller publishes the state ...
 *     merging_finish                          the end of the checkpoint
 *     merging_close
 *
 * The checkpoint becomes complete last, so whoever has it has the state that belongs to it; killed
 * before that, the round can be repeated (outer.h).
 *
 * Values are verified, measured and merged in one pass. When that shows an answer to be no good, the
 * pass goes on to measure the rest, output is cut back to where it began, and a second pass merges
 * the others. Output that can't be cut back, a pipe, is written in a second pass in any case. What
 * does not fit in memory (group.h) is read twice in a pass: a tensor of more elements than 12 million
 * by the number of answers.
 *
 * Same bytes for any number of threads and any order of answers: sums go over answers by identity
 * and over fixed pieces of tensors in order. Memory: 48 MiB for values, two writers' frames, and for
 * each thread a slice or two; whatever the size of the model.
 */
#ifndef MERGING_H
#define MERGING_H

#include "base/pool.h"
#include "base/say.h"
#include "form/frame.h"
#include "form/key.h"
#include "math/merge.h"
#include "round/answers.h"
#include "round/outer.h"

/* Key of a merged fragment's header: the learners whose answers are in it, with commas between. */
#define MERGING_ANSWERS "answers"

struct merging_conf {
	enum merge_rule rule; /* for all tensors but embeddings and head, which are direct */
	enum merge_experts experts; /* by tokens where an answer does not say what was routed, or nothing was */
	struct merge_outer outer;
	double outlier;       /* see guard_outliers */
	uint64_t quorum;      /* see answers_enough; asked again when values refused an answer */
	bool strict;
	bool cosine;          /* compare each answer with the merged delta */
	/* of a fragment: */
	uint64_t round, epoch; /* that its next version says it is of */
	void (*tick)(void *ctx); /* if not NULL: called now and then, by the caller's thread */
	void *tick_ctx;
};

/* ERR_DATA when base (seekable, m its meta) is not a checkpoint that can be merged into. */
int merging_round(struct guard_round *r, const struct frame_reader *base, const struct meta *m)
	ERR_MUST;
/* The same of a fragment; its deltas answer this round. */
int merging_fragment_round(struct guard_round *r, const struct frame_reader *base,
	const struct meta *m, uint64_t round) ERR_MUST;

struct merging;
/*
 * base: seekable checkpoint or fragment, m its meta; prior: momentum to start from. All must outlive the
 * merging, which sets verdicts, norms and cosines of the answers.
 *
 * The global step of the next checkpoint is that of base and the weighted mean of the answers' steps. Of a
 * fragment it is the weighted mean of the steps the answers say they are at, but never below the base's.
 */
int merging_open(struct merging **out, const struct merging_conf *c, const struct frame_reader *base,
	const struct meta *m, struct answers *answers, const struct outer *prior, struct pool *pool)
	ERR_MUST;

struct merging_output {
	int fd;
	const char *name; /* for messages */
};
/* state: NULL for none. Ends with an error soon after wake_requested. When it fails because answers
 * were refused, nothing is written. */
int merging_write(struct merging *m, const struct merging_output *checkpoint,
	const struct merging_output *state, const struct key *key, struct say *say) ERR_MUST;
/* Instead of both: reads and judges the answers as merging_write does, and writes nothing. */
int merging_judge(struct merging *m, struct say *say) ERR_MUST;
int merging_finish(struct merging *m, digest *id) ERR_MUST;
const struct meta *merging_meta(const struct merging *m); /* of the new checkpoint */
void merging_close(struct merging *m);

#endif
