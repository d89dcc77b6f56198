/*
 * decision - what the line `merge` of a tape says: which answers are merged into which version, and how. Who
 * carries it out (commit) and who does it again to compare (replay) read it here.
 */
#ifndef DECISION_H
#define DECISION_H

#include "math/merge.h"
#include "round/tape.h"

struct decision {
	uint64_t round, version, step, tokens; /* version: that is made; step, tokens: of it */
	unsigned fragment;
	digest base;
	char merge[65];             /* 64 hex digits */
	enum merge_rule rule;
	enum merge_experts experts; /* by tokens where the line does not say */
	struct merge_outer outer;
	bool fresh;                 /* momentum starts from zero: prior=none */
	struct tape_answer *answer; /* (answers) in the order of their sums */
	size_t answers;
};
/* Fills an empty one. ERR_DATA for what no syncer writes. */
int decision_parse(struct decision *d, const struct tape_line *l) ERR_MUST;
void decision_release(struct decision *d);

#endif
