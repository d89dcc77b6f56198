/*
 * versions - the syncer's side of a run in virtual time: the versions of each fragment, and the merges that
 * make them, all in memory. What a syncer does with the files of a run directory, bit for bit (outer_step.h).
 *
 * Memory: 4 bytes a parameter for momentum, and for each of the VERSIONS_KEPT last versions.
 */
#ifndef VERSIONS_H
#define VERSIONS_H

#include <stdbool.h>

#include "math/outer_step.h"
#include "round/fragment.h"
#include "round/replica.h"

#define VERSIONS_KEPT 8

/* What a learner says of one fragment. */
struct versions_answer {
	unsigned learner;
	const float *value, *rest; /* (elems) base - snapshot, fragment after fragment; rest may be NULL */
	uint64_t step, steps, tokens;
};
struct versions_entry {
	struct replica_version version;
	bool *counted; /* (learners) */
};
struct versions {
	const struct fragments *cut; /* the caller's */
	unsigned learners;
	size_t slice;                /* elements of a slice in the files the answers would come in */
	uint64_t *start;             /* (P) of each fragment in the arrays below; owned */
	float *value[VERSIONS_KEPT]; /* (N) version V of a fragment is in number V % VERSIONS_KEPT; owned */
	float *momentum;             /* (N); owned */
	struct versions_entry *entry; /* (P, VERSIONS_KEPT); owned */
	uint64_t *newest;            /* (P) number of the newest version; owned */
	bool *counted;               /* of all entries; owned */
	struct outer_step outer;
	struct outer_step_answer *answer; /* (learners); owned */
	uint64_t merges, tokens;     /* tokens of all answers merged */
};

/* params (N): version 0 of all fragments, of global step `step`. After a failure, too, versions_close. */
int versions_open(struct versions *v, const struct fragments *cut, const float *params, uint64_t step,
	unsigned learners) ERR_MUST;
void versions_close(struct versions *v);
/* The values (elems) of a version as it is for a learner, or NULL when it is not kept any more. */
const float *versions_get(const struct versions *v, unsigned p, uint64_t version, unsigned learner,
	struct replica_version *out);
/* Makes the next version of p from n >= 1 answers, in the order in which they are summed. */
int versions_merge(struct versions *v, unsigned p, uint64_t round, const struct versions_answer *a, size_t n)
	ERR_MUST;
void versions_gather(const struct versions *v, float *params); /* the newest of all: (N) in the model's order */
uint64_t versions_step(const struct versions *v);              /* the highest global step of the newest */

#endif
