/*
 * group - a run of tensors that is merged at once: the arithmetic of merge.h on verified slices, by several
 * threads. Private to merging.
 *
 * A group is cut into units of at most FRAME_ELEMS elements of one tensor; units are always the same pieces of
 * a tensor, whatever the group. Arrays hold the elements of all units, one after the other.
 */
#ifndef GROUP_H
#define GROUP_H

#include "base/pool.h"
#include "form/frame.h"
#include "math/merge.h"
#include "round/answers.h"

#define GROUP_UNITS 256

struct group_conf {
	const struct frame_reader *base, *prior; /* prior NULL: v is zero */
	const struct answers *answers;
	enum merge_rule rule;
	struct merge_outer outer;
	bool cosine;
	struct pool *pool;
};

struct group_unit {
	uint32_t tensor, n;
	uint64_t first; /* element of the tensor */
	size_t at;      /* place in the arrays */
	bool summed, counted;
	double norm2;   /* of its sum */
};

/* What is known of the tensor that is being summed, and of all before it. */
struct group_tally {
	double norm2, *dot;         /* dot (accepted): with each answer */
	double all_norm2, *all_dot; /* of the merged delta */
};

struct group_worker;
struct group {
	struct group_conf conf;
	const struct tensors *layout;
	enum merge_rule *rule; /* (tensors) */
	double *scale;         /* (tensors) */
	struct group_unit unit[GROUP_UNITS];
	size_t units, elems, most; /* elems in use, of at most `most` */
	double *sum, *rest;        /* (most); rest NULL: added to sum */
	float *out, *v;            /* (most) */
	double *dot;               /* (GROUP_UNITS, accepted); NULL without cosine */
	struct group_tally tally;
	struct group_worker *worker; /* (threads) */
};

int group_open(struct group *g, const struct group_conf *c) ERR_MUST;
void group_close(struct group *g); /* also after a failed group_open */

/* A place in the run of all elements of all tensors. */
struct group_place {
	uint32_t tensor;
	uint64_t first;
};
/* True for a tensor that must be summed whole but does not fit. */
bool group_too_large(const struct group *g, uint32_t tensor);
/* Takes the next units from `at`, which moves behind them. A tensor that must be whole is taken whole. */
void group_fill(struct group *g, struct group_place *at);
/* The same, but only pieces of the tensor `at` is in. */
void group_fill_piece(struct group *g, struct group_place *at);

/* Sums every unit and decides the scale of every tensor that ends here. */
int group_sum(struct group *g) ERR_MUST;
/* For pieces: sums and counts. After a tensor's last piece group_decide sets its scale; false: its mean direction
 * vanishes, and it is to be merged directly, from its first piece on. */
int group_sum_piece(struct group *g) ERR_MUST;
bool group_decide(struct group *g, uint32_t tensor);
/* New values to out, new momentum to v, from the sums. */
int group_step(struct group *g) ERR_MUST;

#endif
