/*
 * cohort - the learners of a run in virtual time: each a replica and a trainer, as in a learner of a run
 * directory, with what it has answered in memory in place of a file.
 *
 * Steps are put off (cohort_due) until something needs what they lead to: then those of all learners are made
 * at once, each learner on one thread of the pool. Learners share nothing between two such points, so results do
 * not depend on the threads, nor on when they are made.
 *
 * Memory: for each learner 28 bytes a parameter (4 more for f32r), and activations of its batch.
 */
#ifndef COHORT_H
#define COHORT_H

#include <stdbool.h>

#include "chaos/versions.h"
#include "round/replica.h"
#include "round/trainer.h"

struct cohort_answer {
	uint64_t round; /* 0: none */
	uint64_t step, steps, tokens;
	bool before;    /* its process has begun anew since */
};
struct cohort_step {
	uint32_t samples;
	uint64_t trained; /* tokens, by all learners, as it begins */
};
struct cohort_learner {
	struct model *model;
	struct trainer trainer;
	struct replica replica;
	float *delta, *rest;          /* (N) fragment after fragment, of the last answers; rest: f32r only */
	struct cohort_answer *answer; /* (P) */
	struct cohort_step *due;      /* (dues) steps that are put off; room for `room` */
	size_t dues, room;
	bool there;                   /* it takes part */
	bool kept;                    /* of one that is not: its state outlives it */
	bool back;                    /* its process has just begun again */
	double loss;                  /* sum of loss * tokens since it was last taken */
	uint64_t tokens;              /* of that sum */
};
struct cohort_conf {
	const struct model_conf *model;
	const struct train_conf *train;
	const struct fragments *cut;
	struct adopt_rule adopt;
	enum encoding encoding; /* of deltas: f32r, f32 or bf16 */
	uint64_t seed;
	int (*stop)(void);      /* not 0: cohort_catch_up fails; may be NULL */
};
struct cohort {
	struct cohort_conf conf;
	struct cohort_learner *learner; /* (learners); owned */
	unsigned learners;
	unsigned *busy;                 /* (learners) those that have something put off; owned */
	struct pool *pool;              /* the caller's */
};

/* shard (learners): each learner's own, opened for it alone; name (learners). After a failure, too,
 * cohort_close. */
int cohort_open(struct cohort *c, const struct cohort_conf *conf, struct shard **shard, char **name,
	unsigned learners, struct pool *pool) ERR_MUST;
void cohort_close(struct cohort *c);

/* One more step. */
int cohort_due(struct cohort *c, unsigned learner, struct cohort_step step) ERR_MUST;
/* Makes all steps that were put off. What follows needs that. ERR_DATA naming the learner when a loss is not
 * finite; ERR_IO when conf.stop says so. */
int cohort_catch_up(struct cohort *c) ERR_MUST;

/*
 * It begins: the newest version of each fragment; moments and their count from the learner there that is
 * furthest, zero when there is none. Of what it knew before only its place in its data is left.
 */
void cohort_join(struct cohort *c, unsigned learner, const struct versions *v);
/* It is not there any more; kept: its state is. */
void cohort_leave(struct cohort *c, unsigned learner, bool kept);
/*
 * It is there again: where its state was kept, as it was, but that versions it adopts before its next step replace
 * what it has trained, as when dl-learn starts; else as it joins.
 */
void cohort_return(struct cohort *c, unsigned learner, const struct versions *v);

/* Answers a round of fragment p: 1; or 0 when it has made no step since its base or its last answer. A round that its
 * process had answered before it died is answered anew: that answer may have been lost with it.
 * ERR_DATA when it trains from another version. */
int cohort_answer(struct cohort *c, unsigned learner, unsigned p, uint64_t round, uint64_t version) ERR_MUST;
/* Its answer to this round; false when there is none. */
bool cohort_answered(const struct cohort *c, unsigned learner, unsigned p, uint64_t round,
	struct versions_answer *out);
/* Nothing when it trains from that version by now. ERR_DATA when that is not kept. */
int cohort_adopt(struct cohort *c, unsigned learner, unsigned p, uint64_t version, const struct versions *v)
	ERR_MUST;

/* Mean training loss in nats a token since the last call; 0 when there was none. */
double cohort_loss(struct cohort *c);

#endif
