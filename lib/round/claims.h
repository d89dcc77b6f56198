/*
 * claims - may the counts of an answer be true? A learner that is trusted, and broken or hostile, may say what
 * it likes of its steps and tokens. They weigh its answer, and make the global step, by which learning rates
 * fall and the run ends: so they are held against what the beats of all say, by their lower medians, which
 * fewer than half of the learners can't move, and one of two can't raise. With limit X of the manifest
 * (`outlier`; 0: none of this), an answer is refused whose
 *
 *     tokens a step  are more than X times the others'
 *     steps          since its base are more than X^2 times the others', or H: some are that much faster
 *     global step    is further ahead, of the run and of the others, than by those steps and X times H
 *
 * A learner that was alone is its own measure.
 */
#ifndef CLAIMS_H
#define CLAIMS_H

#include "round/answers.h"
#include "round/roster.h"

struct claims { /* lower medians over the learners that are heard of */
	uint64_t step;  /* global */
	uint64_t since; /* steps since the base of the fragment, of those that train from its newest version */
	double batch;   /* tokens a step, in all their lives; 0: nobody has made one */
};
int claims_gather(struct claims *c, const struct roster *r, unsigned fragment, uint64_t version) ERR_MUST;
/* Refuses a (VERDICT_OUTLIER) when it says more than it may. step: of the run. interval: H. */
void claims_judge(struct answer *a, const struct claims *c, uint64_t step, uint64_t interval, double limit);

#endif
