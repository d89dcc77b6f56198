/*
 * run_report - a run directory in words: lines for people, or one JSON object a line.
 *
 * Each call appends whole lines to `out`. Text from files is harmless for a terminal; identities are cut to
 * 16 digits, which JSON has whole.
 */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include "round/audit.h"
#include "round/books.h"

int run_report_line(struct buf *out, const struct tape_line *l, bool json) ERR_MUST;
/* A row for each learner and one for all, whose name is null in JSON. *balanced: do all balance? */
int run_report_books(struct buf *out, const struct books *b, bool json, bool *balanced) ERR_MUST;
/*
 * What the run is, where it is, its fragments, learners (as their beats tell; what can't be read is warned
 * about) and members; one object. name: the directory as the user calls it.
 */
int run_report_run(struct buf *out, const char *name, const struct audit *a, const struct fragments *f,
	bool json, struct say *say) ERR_MUST;

#endif
