/*
 * run_state - what a learner of a run directory keeps across its own death: learner/NAME/state, a sealed file
 * of kind state.
 *
 * The header has the keys of its beat (round/beat.h) as of one boundary between inner steps, and
 *
 *     model HEX   seed N   shard HEX   context N   cursor N   updates N
 *     of_all N            tokens trained by all learners, as far as it knew (head.h, trained)
 *     base.f000 HEX       identity of the version each fragment is trained from
 *     routed.f000 N ...   of a mixture: tokens of what is under way by experts (round/routed.h), where they are known
 *
 * the tensors are those of round/moments.h. Others may take the moments.
 */
#ifndef RUN_STATE_H
#define RUN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "form/meta.h"
#include "form/sig.h"
#include "form/trust.h"
#include "round/beat.h"
#include "round/fragment.h"
#include "round/moments.h"

struct run_state {
	struct beat books;
	digest *base;       /* (P) */
	uint64_t *routed;   /* (tensors) of replica_routed, fragment after fragment */
	bool *counted;      /* (P) what it returned */
	uint64_t of_all;
	uint64_t updates;   /* the optimizer's steps */
	uint64_t cursor;    /* of `shard` with samples of `context` tokens */
	char shard[65];
	uint64_t context;
	struct moments values;        /* owned */
	const struct fragments *cut;  /* the caller's */
	const struct tensors *layout; /* of the model; the caller's */
};

/* Everything zero. */
int run_state_init(struct run_state *s, const struct fragments *cut, const struct tensors *layout,
	enum optimizer_kind optimizer) ERR_MUST;
void run_state_release(struct run_state *s); /* also after a failed run_state_init */

/* about: run, model and seed. */
int run_state_write(const struct run_state *s, int fd, const struct meta *about,
	const struct sig_secret *key) ERR_MUST;

/*
 * Fills s from the file at `path`, under the current directory, up to its verified end: 1, or 0 when there is
 * none. `learner` NULL: anybody's, and only moments and updates are taken; else it must be of this
 * learner and signed by `own`. ERR_AUTH, ERR_DATA: of no use; s is then of none either.
 */
int run_state_read(struct run_state *s, const char *path, const struct meta *about, const char *learner,
	const struct sig_public *own, const struct trust *trust, struct pool *pool) ERR_MUST;

/* What a file at `path` says, its end being verified and its values not: 1 and its global step, 0 when it is
 * none of this run, model and optimizer, or damaged, or not there. */
int run_state_look(const char *path, const struct meta *about, const struct tensors *layout,
	enum optimizer_kind optimizer, const struct trust *trust, uint64_t *step);

#endif
