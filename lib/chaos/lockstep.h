/*
 * lockstep - one learner whose batch is spread over several shards: at each step the gradients of all parts
 * are averaged, and one update of the optimizer is made. What data-parallel training does, and what a learner with a
 * batch as many times larger does, but for the order in which gradients are summed.
 *
 * Part i draws from its own shard, as a learner of its name would; parts of one shard draw from it in turn,
 * as the first of them. Parts run on the threads of the pool, one thread each; sums go over parts in order, so
 * that results do not depend on the threads.
 *
 * Memory: 16 bytes a parameter and activations of its share of the batch, for each part.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include "round/trainer.h"

struct lockstep_part {
	struct model *model;
	struct trainer trainer; /* of part 0 are parameters, moments and updates */
	unsigned feed;          /* number of the part whose feed it draws from */
	uint64_t samples;       /* of the step under way */
	double loss;
};
struct lockstep {
	struct lockstep_part *part; /* (parts); owned */
	unsigned parts;
	uint64_t samples;           /* of the step under way */
	struct pool *pool;          /* the caller's */
};

/* shard (parts), name (parts): as of the learners of the same numbers. Parameters are the caller's to fill in.
 * After a failure, too, lockstep_close. */
int lockstep_open(struct lockstep *l, const struct model_conf *model, const struct train_conf *train,
	struct shard **shard, char **name, unsigned parts, uint64_t seed, struct pool *pool) ERR_MUST;
void lockstep_close(struct lockstep *l);
real *lockstep_params(const struct lockstep *l); /* (N) */
/* As trainer_step, of so many samples in all, at most parts times the batch; each part gets as many as any
 * other, or one more. */
int lockstep_step(struct lockstep *l, uint64_t step, uint64_t tokens, uint64_t samples, struct metrics_row *row)
	ERR_MUST;

#endif
