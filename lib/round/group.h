/*
 * group - a run of tensors that is merged at once: the arithmetic of merge.h on verified slices, by
 * several threads. Private to merging.
 *
 * A group is cut into units of at most FRAME_ELEMS elements of one tensor; units are always the same
 * pieces of a tensor, whatever the group, and so are sums over them. There are arrays of floats with
 * the elements of all units, one after the other, which in turn hold
 *
 *     array k              what answer k says           (group_read)
 *     arrays 0 and 1       their sum, value and rest    (group_sum)
 *     arrays 0 and 1       new parameters and momentum  (group_step)
 *
 * so that every answer is read once. What does not fit is taken in pieces with two arrays: measured
 * first where the rule needs norms, then summed while it is read.
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
	struct answers *answers; /* the accepted ones are read; those that turn out bad are refused */
	enum merge_rule rule;
	enum merge_experts experts;
	struct merge_outer outer;
	bool cosine;
	struct pool *pool;
};

struct group_unit {
	uint32_t tensor, n;
	uint64_t first; /* element of the tensor */
	size_t at;      /* place in the arrays */
	bool read, summed, counted;
	double norm2;   /* of its sum */
};

/* What is known of the sum of the tensor under way, and of all before it. */
struct group_tally {
	double norm2, *dot;         /* dot (accepted): with each answer */
	double all_norm2, *all_dot; /* of the merged delta */
};

struct group_worker;
struct group_part;
struct group {
	struct group_conf conf;
	const struct tensors *layout;
	size_t m;              /* answers accepted at first */
	bool spoiled;          /* one of them was refused: nothing that comes out is of use */
	enum merge_rule *rule; /* (tensors) */
	double *scale;         /* (tensors) */
	float *room;           /* all arrays, one after the other */
	size_t hold, pieces;   /* elements of an array when answers are held, and when not */
	size_t length;         /* the one of the two that is in use */
	struct group_unit unit[GROUP_UNITS];
	size_t units, elems;
	struct group_part *part;     /* (GROUP_UNITS, m) */
	struct group_tally tally;
	struct group_worker *worker; /* (threads) */
};

int group_open(struct group *g, const struct group_conf *c) ERR_MUST;
void group_close(struct group *g); /* also after a failed group_open, and twice */

/* A place in the run of all elements of all tensors. */
struct group_place {
	uint32_t tensor;
	uint64_t first;
};
/* Can the answers' values of this tensor be held, all that are needed at once? */
bool group_can_hold(const struct group *g, uint32_t tensor);
/* Takes the next units from `at`, which moves behind them: as many as can be held, or pieces of the
 * one tensor `at` is in. */
void group_fill(struct group *g, struct group_place *at);
void group_fill_pieces(struct group *g, struct group_place *at);

float *group_array(const struct group *g, size_t k);

/* Held answers: reads and measures; then sums, and decides the scale of every tensor that ends here. */
int group_read(struct group *g) ERR_MUST;
int group_sum(struct group *g) ERR_MUST;

/* Pieces. After a tensor's last piece group_decide sets its scale; false: its mean direction vanishes,
 * and it is to be summed again, directly. */
int group_measure(struct group *g) ERR_MUST;
int group_sum_pieces(struct group *g) ERR_MUST;
bool group_decide(struct group *g, uint32_t tensor);

int group_step(struct group *g) ERR_MUST;

#endif
