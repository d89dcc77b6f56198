/*
 * books - the token ledger of a run: what became of everything that was trained, for each learner and
 * fragment, from the tape (the syncer's word) and the beats (the learners').
 *
 * A token trained by a learner is, for each fragment, in exactly one of these: merged, refused (late
 * answers too), answered and not judged yet, lost, or under way. The books reconcile when
 *   - answers of a learner and fragment cover intervals of its count of trained tokens that do not overlap,
 *     and none was merged twice;
 *   - merged + refused + on the tape and not judged yet <= answered by its own count; what is more there
 *     are answers the tape does not know yet;
 *   - trained = answered + lost + under way.
 * An answer that is younger than the beat (of the same incarnation, to a later round) is its learner's word,
 * too: it was killed before it could count it, and it is counted here.
 *
 * Where two processes of one name did not see each other's lock, one is replaced by the other, and may still have sent
 * an answer that its successor's count does not know. By the counts of their answers that shows: such an answer is in
 * the books besides what the successor tells.
 *
 * A decision that is abandoned leaves its answers refused, before a line `refuse` says so.
 *
 * Refusals for a reason that says the file was not the learner's (not authentic, of another run, ...), or
 * that its tokens stand elsewhere (duplicate, overlap), are counted, but have no tokens here.
 *
 * Of a learner whose key is revoked no beat counts: its books are what the tape says, up to the revocation.
 *
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
	uint64_t answers, accepted, late, refusals; /* files; late ones are not among the other refusals */
	bool balanced, revoked;
	char why[256]; /* when not: fragment, and what does not fit */
};
struct books;
/* f is copied from. */
int books_open(struct books **out, const struct fragments *f) ERR_MUST;
void books_close(struct books *b);
/* In order. ERR_DATA for a line that no syncer writes; what it says that does not balance is for
 * books_learner to tell. */
int books_line(struct books *b, const struct tape_line *l) ERR_MUST;
/* A learner's newest beat, which is copied from. Tape lines that are read before it was cannot tell of
 * more than it knows. May be given again. */
int books_beat(struct books *b, const struct beat *beat) ERR_MUST;
/* The key of this learner is revoked. Before, or after, the tape tells of it. */
int books_revoke(struct books *b, const char *learner) ERR_MUST;
/* Learners in order of name: those of the tape and of beats. */
size_t books_learners(const struct books *b);
int books_learner(const struct books *b, size_t i, struct books_learner *out) ERR_MUST;

#endif
