/*
 * outer - the state of the outer optimizer: the momentum v of every tensor, in a sealed file (kind
 * outer) beside the checkpoints.
 *
 * Checkpoint and state of one outer step carry the same digest `merge`; the state also carries the
 * checkpoint it was made from (`base`) and the identity of the state before it (`prior`). The file of
 * that one stays as PATH.prev. So a round that is repeated, after a crash or on purpose, finds the
 * momentum it started from, and a state is never applied to a checkpoint it does not belong to.
 */
#ifndef OUTER_H
#define OUTER_H

#include <stdbool.h>

#include "base/say.h"
#include "form/frame.h"
#include "form/meta.h"
#include "io/atomic.h"

struct outer {
	struct frame_reader *reader; /* seekable; NULL: v is zero */
	int fd;
	digest id;   /* of what reader reads */
	bool repeat; /* the file at PATH is not the prior of this round: it goes, PATH.prev stays */
};
#define OUTER_INIT { .fd = -1 }

/*
 * Finds the momentum that belongs to the checkpoint base (seekable; m is its meta): in PATH, in PATH.prev
 * when the round is a repeated one, or nowhere when nothing was merged before. A checkpoint of a later
 * round without a state file is warned about, and starts from zero. ERR_AUTH: a state of another run
 * or checkpoint, or not authentic.
 */
int outer_open(struct outer *o, const char *path, const struct frame_reader *base,
	const struct meta *m, const struct trust *trust, struct say *say) ERR_MUST;
/*
 * For versions of a fragment, each with a file of its own: the momentum that goes with base, from an open
 * file, which becomes o's, in any case. ERR_AUTH when it is not that.
 */
int outer_take(struct outer *o, int fd, const char *name, const struct frame_reader *base,
	const struct meta *m, const struct trust *trust) ERR_MUST;
void outer_close(struct outer *o);
/* Header of the state after the outer step to `next` (meta of the new checkpoint) from base. */
int outer_header(struct header *h, const struct outer *prior, const struct meta *next,
	const digest *base, const struct tensors *layout) ERR_MUST;
/* Commits the new state in the place of the one that was opened. */
int outer_publish(const struct outer *o, struct atomic *a) ERR_MUST;

#endif
