/*
 * versions - the syncer's side of a run in virtual time: the versions of each fragment, and the merges that
 * make them, all in memory. What a syncer does with the files of a run directory, bit for bit (outer_step.h).
 *
 * Kept are the newest version of each fragment, and older ones as long as they are still to be adopted
 * (adoptions.h). Memory: 4 bytes a parameter for momentum, and for each version that is kept.
 */
#ifndef VERSIONS_H
#define VERSIONS_H

#include <stdbool.h>

#include "base/say.h"
#include "chaos/adoptions.h"
#include "math/outer_step.h"
#include "round/fragment.h"
#include "round/guard.h"
#include "round/replica.h"

/* What a learner says of one fragment. */
struct versions_answer {
	unsigned learner;
	const float *value, *rest; /* (elems) base - snapshot, fragment after fragment; rest may be NULL */
	uint64_t step, steps, tokens;
	const uint64_t *routed;    /* (tensors) to the expert of each; NULL: not known */
};
struct versions_entry {
	struct replica_version version;
	float *value;  /* (elems) */
	bool *counted; /* (learners) whose answers are in it */
};
struct versions_fragment {
	struct versions_entry *v; /* (n) ascending, the newest last */
	size_t n, room;
};
struct versions {
	const struct fragments *cut; /* the caller's */
	struct adoptions *adoptions; /* the caller's */
	unsigned learners;
	size_t slice;                /* elements of a slice in the files the answers would come in */
	uint64_t *start;             /* (P) of each fragment in the momentum; owned */
	float *momentum;             /* (N); owned */
	struct versions_fragment *fragment; /* (P); owned */
	enum merge_experts experts;
	struct outer_step outer;
	struct outer_step_answer *answer;   /* (learners); owned */
	struct answer *judged;              /* (learners); owned */
	double *share, *routed;             /* (learners) by tokens; by those of the expert at hand; owned */
	uint64_t merges, tokens;     /* tokens of all answers merged */
};

/* params (N): version 0 of all fragments, of global step `step`. After a failure, too, versions_close. */
int versions_open(struct versions *v, const struct fragments *cut, struct adoptions *adoptions,
	const float *params, uint64_t step, unsigned learners) ERR_MUST;
void versions_close(struct versions *v);
uint64_t versions_newest(const struct versions *v, unsigned p); /* its number */
/* The values (elems) of a version as it is for a learner, or NULL when it is not kept. */
const float *versions_get(const struct versions *v, unsigned p, uint64_t version, unsigned learner,
	struct replica_version *out);
/* An adoption of it is done: what nobody will adopt any more goes. */
void versions_adopted(struct versions *v, unsigned p, uint64_t version);
/* Leaves out of the *n answers those that a syncer would refuse by their lengths (guard_outliers), with a warning each.
 * limit: 0: none, or at least 1, so that one is left. */
int versions_judge(struct versions *v, unsigned p, struct versions_answer *a, size_t *n, double limit, struct say *say)
	ERR_MUST;
/* Makes the next version of p from n >= 1 answers, in the order in which they are summed. */
int versions_merge(struct versions *v, unsigned p, uint64_t round, const struct versions_answer *a, size_t n)
	ERR_MUST;
void versions_gather(const struct versions *v, float *params); /* the newest of all: (N) in the model's order */
uint64_t versions_step(const struct versions *v);              /* the highest global step of the newest */

#endif
