/*
 * outer_step - the outer step of a tensor whose values are all in memory: the arithmetic of merge.h in the
 * order in which round/group does it with files, so that both give the same bits.
 */
#ifndef OUTER_STEP_H
#define OUTER_STEP_H

#include <stddef.h>

#include "math/merge.h"

/* What a learner says of the tensor. */
struct outer_step_answer {
	const float *value, *rest; /* (n) their sum is the delta; rest NULL: zero */
	double share;              /* of all shares, which sum to 1 */
	size_t slice;              /* elements of a slice in its file: its norm is summed slice by slice */
};
struct outer_step {
	enum merge_rule rule; /* for all tensors but tables, which are direct */
	struct merge_outer outer;
	size_t room, most;    /* elements; answers */
	double *coef, *norm, *share; /* (most); owned */
	float *value, *rest;  /* (room); owned */
};

/* For tensors of up to `room` elements and up to `most` answers. After a failure, too, outer_step_close. */
int outer_step_open(struct outer_step *s, size_t room, size_t most) ERR_MUST;
void outer_step_close(struct outer_step *s);
/* Length of the delta of n elements. ERR_DATA where a value is not finite. */
int outer_step_norm(double *out, const struct outer_step_answer *a, size_t n) ERR_MUST;
/*
 * x and v (n): parameters and momentum, replaced. answer (m): in the order of their identities, m >= 1.
 * ERR_DATA for an answer or a result that is not finite.
 */
int outer_step_tensor(struct outer_step *s, const char *name, float *x, float *v,
	const struct outer_step_answer *answer, size_t m, size_t n) ERR_MUST;

#endif
