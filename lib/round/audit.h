/*
 * audit - a run directory read by somebody who checks it and takes no part: the tape held against the
 * sealed head, and the books of all learners.
 *
 * The run directory has been entered (rundir.h). The head is read first: so while the run goes on, the tape
 * has all that the head knows of, and perhaps more.
 */
#ifndef AUDIT_H
#define AUDIT_H

#include "base/say.h"
#include "round/books.h"
#include "round/fragment.h"
#include "round/head.h"
#include "round/manifest.h"
#include "round/tape.h"

struct audit {
	const struct manifest *manifest;
	struct trust syncers, learners;
	bool headed;      /* there is a head */
	struct head head;
};
/* ERR_AUTH when the head is not sealed by the owner or a syncer of the manifest. audit_close in any
 * case. The manifest must outlive it. */
int audit_open(struct audit *a, const struct manifest *m, const struct trust *user) ERR_MUST;
void audit_close(struct audit *a);
/* ERR_AUTH when the head, if there is one that counts, knows a newer manifest than this one: a change of it
 * would bring a serial that was there before. */
int audit_serial(const struct manifest *m, const struct trust *user) ERR_MUST;
/* All of the tape, which must have the line that the head names; without a head, whatever is there. */
int audit_tape(const struct audit *a, struct tape_reader **out) ERR_MUST;
/* Calls take with each learner's beat, in order of name, until it returns less than 0; what can't be read
 * is warned about and passed over. */
int audit_beats(const struct audit *a, int (*take)(void *ctx, const struct beat *b), void *ctx,
	struct say *say) ERR_MUST;
/*
 * The books after all of the tape and all beats; *f are the fragments of the manifest. A beat that cannot be
 * read is warned about, and missing. While the run goes on the tape may tell of an answer before its
 * learner's beat does: beats that do not fit are read again a few times.
 */
int audit_books(const struct audit *a, const struct fragments *f, struct books **out, struct say *say)
	ERR_MUST;

#endif
