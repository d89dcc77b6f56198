/*
 * inject_report - what must hold of processes and a run that have been broken, whatever was done to them, and what
 * it was worth.
 *
 *     finished    the processes are done; of a run: its head says so and its last checkpoint is there
 *     replay      every version that can be made again from tape and deltas is what was published, bit for bit
 *     ledger      the books of all learners balance (round/books.h)
 *     authentic   head and tape are sealed, and every answer that was accepted and is kept is the one that the
 *                 tape names, sealed by its learner's key, to its last byte
 *
 * goodput is learners' time in training over their time from the beginning to the end of the run; uptime the share
 * of time with a quorum of learners able to contribute (meter.h).
 */
#ifndef INJECT_REPORT_H
#define INJECT_REPORT_H

#include "base/buf.h"
#include "chaos/inject.h"
#include "form/trust.h"

enum inject_check { INJECT_FINISHED, INJECT_REPLAY, INJECT_LEDGER, INJECT_AUTHENTIC, INJECT_CHECKS };
enum inject_verdict { INJECT_UNASKED, INJECT_HOLDS, INJECT_BROKEN };

struct inject_report {
	const struct inject_conf *conf;
	const struct inject_result *result;
	struct {
		enum inject_verdict verdict;
		char why[ERR_TEXT + 64];
	} check[INJECT_CHECKS];
	double trained, merged, refused, open, lost, under_way; /* tokens of all learners */
	uint64_t accepted, refusals, late;     /* answers */
};
/* The run, when there is one, has been entered. Errors are of this machine; what does not hold is in the report. */
int inject_report_make(struct inject_report *r, const struct inject_conf *c, const struct inject_result *result,
	const struct trust *user) ERR_MUST;
/* How many are broken. */
int inject_report_broken(const struct inject_report *r);
/* Aligned lines for people, or one JSON object and a line end. */
int inject_report_format(const struct inject_report *r, bool json, struct buf *out) ERR_MUST;

#endif
