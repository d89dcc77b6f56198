/*
 * books - the token ledger of a run: what became of everything that was trained, for each learner and
 * fragment, from the tape (the syncer's word) and the beats (the learners').
 *
 * A token trained by a learner is, for each fragment, in exactly one of these: merged, refused (late
 * answers too), answered and not judged yet, lost, or under way. The books reconcile when
 *   - answers of a learner and fragment cover intervals of its count of trained tokens that do not overlap,
 *     and none was merged twice;
 *   - merged + refused <= answered by its own count, equal but for answers not judged yet;
 *   - trained = answered + lost + under way.
 * Sums over fragments are means by size, so that they are tokens again.
 */
#ifndef BOOKS_H
#define BOOKS_H

#include "round/beat.h"
#include "round/fragment.h"
#include "round/tape.h"

struct books_learner {
	char name[KEY_NAME + 1];
	double trained, merged, refused, open, lost, under_way; /* tokens */
	uint64_t answers, accepted, late, refusals;
	bool balanced;
	char why[256]; /* when not */
};
struct books;
int books_open(struct books **out, const struct fragments *f) ERR_MUST;
void books_close(struct books *b);
int books_line(struct books *b, const struct tape_line *l) ERR_MUST; /* in order */
int books_beat(struct books *b, const struct beat *beat) ERR_MUST;   /* after the last line */
/* Learners in order of name. */
size_t books_learners(const struct books *b);
int books_learner(const struct books *b, size_t i, struct books_learner *out) ERR_MUST;

#endif
