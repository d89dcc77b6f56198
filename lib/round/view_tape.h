/*
 * view_tape - what a view (view.h) keeps of the tape: rounds that are open and who has answered them,
 * the syncer's word on learners, training loss, achieved interval, and the books.
 *
 * The tape is read on from where the last reading stopped; from its beginning only when lines that were
 * read have been superseded.
 */
#ifndef VIEW_TAPE_H
#define VIEW_TAPE_H

#include "round/books.h"
#include "round/fragment.h"
#include "round/view.h"

struct view_tape_learner {
	char name[KEY_NAME + 1];
	double lost_at;       /* seconds of the syncer's clock when it counted as lost; negative: it does not */
	double silent;        /* for how long it had been silent then */
	uint64_t lost_epoch;
};

struct view_tape;
/* run and f: the caller's, and stay. */
int view_tape_open(struct view_tape **out, const char *run, const struct fragments *f) ERR_MUST;
void view_tape_close(struct view_tape *t);
/* After a failure what was read may be gone, and with it what was reported; the next call begins again. */
int view_tape_read(struct view_tape *t, uint64_t epoch) ERR_MUST;

size_t view_tape_learners(const struct view_tape *t); /* in order of name */
const struct view_tape_learner *view_tape_learner(const struct view_tape *t, size_t i);
/* Seconds without a sign of life, as the syncer tells; negative: it does not count as lost. */
double view_tape_lost(const struct view_tape *t, const char *learner);
bool view_tape_answered(const struct view_tape *t, uint64_t round, const char *learner);
uint64_t view_tape_lines(const struct view_tape *t); /* read so far */
/* Seconds from its call to the tape's last line; negative: it is not open by the tape. */
double view_tape_open_for(const struct view_tape *t, uint64_t round);
struct books *view_tape_books(struct view_tape *t);
/* Fills loss, losses, tape_lines, merges, refusals, late and achieved. */
void view_tape_report(const struct view_tape *t, struct view *v);

#endif
