/*
 * carry - which files of a run directory have changed since the last look, and which are gone: those that a
 * learner writes (up), or those that it reads (down). For copies that are kept alike, as rsync(1) keeps them.
 *
 *     up      learner/NAME/beat, state, fPPP.R.delta
 *     down    global/fPPP/V.frag, learner/OTHER/state, manifest, head
 *
 * Immutable files are looked at once, and directories that have not changed are not listed again, so a look
 * costs little however long the run is. Files are named after what they depend on: answers before the beat,
 * fragments before the head.
 */
#ifndef CARRY_H
#define CARRY_H

#include <stdbool.h>

#include "base/err.h"
#include "chaos/fault.h"

struct carry;
/* from: a descriptor of the run directory, or of the copy; stays the caller's. */
int carry_open(struct carry **out, int from, const char *learner, bool up) ERR_MUST;
void carry_close(struct carry *c);

/* What is told of. class is FAULT_CLASSES for the manifest. Less than 0 ends the look. */
struct carry_to {
	int (*changed)(void *ctx, const char *path, enum fault_class class);
	void (*gone)(void *ctx, const char *path);
	void *ctx;
};
/* The first look tells of all. What can't be read now is looked at again next time. */
int carry_look(struct carry *c, const struct carry_to *to) ERR_MUST;
/* The next look tells of all once more. */
void carry_forget(struct carry *c);

#endif
