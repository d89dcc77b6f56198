/*
 * merging - one outer step over files: base, answers and momentum in, next checkpoint and momentum out.
 *
 *     merging_round                           what answers must fit
 *     answers_read, answers_enough            first pass: judge
 *     merging_open
 *     merging_write                           second pass: all of the state, all but the end of the checkpoint
 *     ... the caller publishes the state ...
 *     merging_finish                          the end of the checkpoint
 *     merging_close
 *
 * The checkpoint becomes complete last, so whoever has it has the state that belongs to it; killed before
 * that, the round can be repeated (outer.h).
 *
 * Tensors are taken in groups of a fixed size, and a group in units of one slice, which threads share; sums
 * go over answers by identity and over units in order: the same bytes for any number of threads. A tensor
 * that needs a norm of its whole sum and is larger than a group is summed into a temporary file. Memory: 24
 * MiB for the group, and for each thread one slice (with cosine, one for each answer) and the frames of
 * two writers; whatever the size of the model.
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

struct merging_conf {
	enum merge_rule rule; /* for all tensors but embeddings and head, which are direct */
	struct merge_outer outer;
	bool cosine;          /* compare each answer with the merged delta */
};

/* ERR_DATA when base (seekable, m its meta) is not a checkpoint that can be merged into. */
int merging_round(struct guard_round *r, const struct frame_reader *base, const struct meta *m) ERR_MUST;

struct merging;
/* base: seekable checkpoint, m its meta; answers: at least one accepted; prior: momentum to start from. All
 * must outlive the merging; it fills the cosines of the answers. */
int merging_open(struct merging **out, const struct merging_conf *c, const struct frame_reader *base,
	const struct meta *m, struct answers *answers, const struct outer *prior, struct pool *pool) ERR_MUST;
struct merging_output {
	int fd;
	const char *name; /* for messages */
};
/* state: NULL for none. Ends with an error soon after wake_requested. */
int merging_write(struct merging *m, const struct merging_output *checkpoint, const struct merging_output *state,
	const struct key *key, struct say *say) ERR_MUST;
int merging_finish(struct merging *m, digest *id) ERR_MUST;
const struct meta *merging_meta(const struct merging *m); /* of the new checkpoint */
void merging_close(struct merging *m);

#endif
