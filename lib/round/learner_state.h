/*
 * learner_state - what a learner keeps from call to call, and across its own death.
 *
 * Moments of the optimizer and their step count, the place in the data, and how far it has come from its
 * base: parameters, steps, tokens and running losses. One sealed file of kind state, see
 * dl-state(5). A state whose base is the checkpoint at hand goes on where it stopped; for another
 * base only moments and place are kept.
 *
 * The file is locked from open to close. It is replaced only while it still is what this process
 * read or wrote last, which tells two learners apart where a file system has no locks.
 */
#ifndef LEARNER_STATE_H
#define LEARNER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "base/tensor.h"
#include "form/meta.h"
#include "form/sig.h"
#include "form/trust.h"
#include "io/lock.h"
#include "round/moments.h"

struct learner_state {
	struct meta meta;       /* kind state; steps, tokens and losses since meta.base */
	uint64_t updates;       /* steps of the optimizer in all */
	double loss_sum;        /* over meta.steps */
	uint64_t *routed;       /* (tensors) tokens that went to the experts of each, since meta.base; owned */
	bool uncounted;         /* they are not known: the file did not tell */
	struct moments values;  /* flat in the order of layout; the caller's */

	const struct tensors *layout; /* of the model; the caller's */
	const struct trust *trust;    /* the caller's */
	const char *path;       /* NULL: nothing is kept; the caller's */
	struct lock lock;
	bool on_disk;           /* a file is there, and is `id` */
	bool new_data;          /* the file was of another shard or context */
	digest id;
};

/*
 * `begin` is the meta of a learner that has done nothing yet; `values` holds zero moments and the
 * parameters of its base, and gets the moments of the file at `path`, and the parameters reached so far
 * when that started from the same base. A missing file is a fresh start. The place in the data, too, is
 * that of `begin` unless the file is of the same shard and context.
 * ERR_BUSY while another process uses the file; ERR_DATA for a state of another run, model,
 * learner or optimizer. After an error, too, learner_state_close.
 */
int learner_state_open(struct learner_state *s, const char *path, const struct meta *begin,
	const struct tensors *layout, const struct moments *values, const struct trust *trust,
	struct pool *pool) ERR_MUST;
/* Replaces the file, durably. ERR_BUSY when it is no longer the one this process knows. */
int learner_state_save(struct learner_state *s, const struct sig_secret *key, struct pool *pool)
	ERR_MUST;
/* The key of what was routed (round/routed.h) as it also stands in the delta; none where that is not known. */
int learner_state_routed(const struct learner_state *s, struct conf *to) ERR_MUST;
void learner_state_close(struct learner_state *s);

#endif
