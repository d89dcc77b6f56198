/*
 * revive - what an earlier life of a learner left in the run directory: its beat, its state, its deltas.
 *
 * Each may be missing, old or damaged: counters are the highest that any of them knows, so that no interval of
 * trained tokens is ever answered twice; parameters and moments are those of the state, when it is whole.
 */
#ifndef REVIVE_H
#define REVIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/say.h"
#include "round/fragment.h"
#include "round/run_state.h"

struct revived {
	bool was;              /* there was an earlier life */
	bool whole;            /* its state is: values, updates, bases are in the run_state */
	uint64_t incarnation;  /* the last one */
	uint64_t steps, trained, step, serial;
	uint64_t of_all;       /* tokens trained by all learners, as far as it knew */
	uint64_t cursor;       /* place in this shard's samples; 0 when all is of another one */
	struct beat_fragment *part; /* (P) books; what is under way only when the state is whole; owned */
};

/*
 * about: run, model, learner, shard and context of the new life. s has room for a state and comes out filled
 * when that is whole. What is no good is named by a warning and passed over. ERR_AUTH when the name is
 * another key's: its beat is signed by one that is trusted.
 */
int revive(struct revived *v, struct run_state *s, const struct meta *about, const struct trust *learners,
	const struct sig_public *own, struct pool *pool, struct say *say) ERR_MUST;
void revived_release(struct revived *v);

/*
 * The parameters of fragment p that the answer to a round was made of, back from its delta, into snap (elems).
 * false: that is not there, is not whole, or was not made from this base (id, and its values). about as above.
 */
bool revive_snapshot(float *snap, const struct fragment *f, unsigned p, uint64_t round, const digest *id,
	const float *base, const struct meta *about, const struct trust *learners, const struct sig_public *own);

/* Moments and updates from the newest good state of anybody else: 1, the name in from (KEY_NAME + 1); or 0,
 * and zeros. */
int revive_moments(struct run_state *s, char *from, const struct meta *about, const struct trust *learners,
	struct pool *pool, struct say *say) ERR_MUST;

#endif
