/*
 * replica - a learner's side of a run: what of each fragment it trains from, what it has trained since, and
 * what becomes of that when a newer version arrives. Memory only: no files, no threads, no clock; a learner
 * of a run directory and one in virtual time do the same.
 *
 *     replica_open, replica_restore, replica_load   for each fragment
 *     loop:  replica_step       after each inner step
 *            at a boundary, in this order:
 *                replica_answered, replica_dropped  what became of snapshots taken before
 *                replica_adopt                      versions that are newer
 *                replica_snapshot                   for each call that replica_may_answer
 *     replica_close
 *
 * Books. For each fragment, of all tokens that the learner has trained in all its lives,
 *     trained = answered + lost + tokens
 * answered are in deltas that are out; lost were overwritten, or died with a process; tokens are under way.
 * A snapshot that waits to be sent is under way until replica_answered.
 *
 * Adoption by the rule rebase. What was trained since the answer that is in the new version stays. When no answer of
 * this learner is in it (it came too late, or was not asked), of what was trained since the base that share stays which
 * such an answer would have had: one of answers + 1. The others have gone much the same way meanwhile, and all of it on
 * top of theirs would go it twice. The tokens of an answer that came too late stay refused: their values go on, with no
 * weight of their own.
 *
 * Global step. One more after each inner step; and when a version made by round R with step S is adopted:
 * S + (steps made since the answer) if this learner answered R, else S if that is higher. So learners that
 * run ahead, and those that lag, meet at the mean, and their learning rates with them.
 *
 * Experts. Of tensors of experts it also counts the tokens that were routed to theirs (round/routed.h), for what
 * is under way.
 *
 * Memory: base and snapshot, 8 bytes a parameter.
 */
#ifndef REPLICA_H
#define REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "form/meta.h"
#include "form/sig.h"
#include "round/beat.h"
#include "round/fragment.h"
#include "round/manifest.h"

/* What was trained and is in no answer yet. */
struct replica_work {
	uint64_t steps, tokens;
	double loss_first, loss_last, loss_sum;
	uint64_t losses; /* in the sum: fewer than steps after a restart */
};
/* A version of a fragment, as the head tells it. */
struct replica_version {
	uint64_t version, round; /* the round that made it; 0: the first */
	uint64_t step;           /* global step of that merge */
	digest id;
	bool counted;            /* an answer of this learner is in it */
	unsigned answers;        /* that are in it */
};
struct replica_part {
	struct replica_version base;
	struct replica_work work;  /* since the base, or the last snapshot that went out */
	struct replica_work since; /* since the snapshot that is pending */
	uint64_t answered, lost;   /* tokens */
	uint64_t round;            /* last one answered; 0: none */
	bool pending;              /* a snapshot is taken, for `asked`, and not out yet */
	uint64_t asked;
	bool kept;                 /* the snapshot of `round` is still in memory, taken from this base */
	uint64_t at;               /* own steps when the last snapshot was taken */
	bool uncounted, unsnapped; /* of work, of snapshot: some is of a life whose counts of experts are lost */
};
/* Tokens routed to the experts of each tensor, fragment after fragment. */
struct replica_routed {
	size_t tensors, *start;  /* start (P): of each fragment; owned */
	uint32_t *route;         /* (tensors) of routed_map; owned. NULL: no experts */
	uint64_t *work, *since;  /* (tensors) as in replica_part; owned */
	uint64_t *snap;          /* (tensors) of the last snapshots; owned */
};
struct replica {
	const struct fragments *cut; /* the caller's */
	float *params;               /* (N) in the model's order: what is trained; the caller's */
	float *base, *snap;          /* (N) fragment after fragment; owned */
	uint64_t *start;             /* (P) of each fragment in them; owned */
	struct replica_part *part;   /* (P); owned */
	struct replica_routed routed;
	struct adopt_rule rule;
	uint64_t step;               /* global */
	uint64_t steps, trained;     /* over all lives */
	uint64_t of_all;             /* tokens trained by all learners, as far as this one knows: it counts its own */
};

/* All counters zero. After a failure, too, replica_close. */
int replica_open(struct replica *r, const struct fragments *cut, float *params,
	const struct adopt_rule *rule) ERR_MUST;
void replica_close(struct replica *r);

/* ---- the beginning ---- */

/* What another life of this learner left for fragment p: its books, the version it trained from, whose values
 * replica_load brings, and what was routed (replica_routed), NULL where that is not known. Work of which nothing is
 * left is lost by replica_settle. */
void replica_restore(struct replica *r, unsigned p, const struct beat_fragment *books,
	const digest *base_id, const uint64_t *routed);
/* After all of them: what is neither answered nor under way died with a process. */
void replica_settle(struct replica *r);
/* The version the learner starts from. keep: params hold what was trained from it; else they get its
 * values and what was under way is lost. value: (elems), fragment after fragment. */
void replica_load(struct replica *r, unsigned p, const struct replica_version *v, const float *value,
	bool keep);

/* After a load that keeps: the snapshot that went out last, which was taken from this base, is found again. So it is
 * known what of the parameters no answer has, as if the learner had never stopped. snap: (elems). */
void replica_recall(struct replica *r, unsigned p, const float *snap);

/* ---- training ---- */

/* routed (layers, experts): tokens of the step that went to each expert; NULL without experts. */
void replica_step(struct replica *r, uint64_t tokens, double loss, const uint64_t *routed);
/* Is this another version than the one p trains from? */
bool replica_differs(const struct replica *r, unsigned p, uint64_t version, const digest *id);
/* Has it something to say in this round, and not said it yet? */
bool replica_may_answer(const struct replica *r, unsigned p, uint64_t round, uint64_t version);
/*
 * Takes the snapshot for a round that it may answer: values into replica_snap, and into *m what of a
 * delta's header the replica knows (round, version, base, fragment, step, steps, tokens, trained,
 * answered, losses). Until replica_answered or replica_dropped neither base nor snapshot changes.
 */
void replica_snapshot(struct replica *r, unsigned p, uint64_t round, struct meta *m);
void replica_answered(struct replica *r, unsigned p); /* it is out */
void replica_dropped(struct replica *r, unsigned p);  /* it will never be: its work is under way again */
const float *replica_base(const struct replica *r, unsigned p); /* (elems) */
const float *replica_snap(const struct replica *r, unsigned p);
/* Tokens routed to the expert of each tensor of p up to its snapshot; NULL where nobody counted. */
const uint64_t *replica_snap_routed(const struct replica *r, unsigned p);
/* A newer version, by the rule; one that is pending is dropped before. */
void replica_adopt(struct replica *r, unsigned p, const struct replica_version *v, const float *value);

/* ---- what can be seen ---- */

/* The books into b->fragment, and step, steps, trained. */
void replica_beat(const struct replica *r, struct beat *b);
/* Tokens routed to the expert of each tensor of p (tensors), of what is under way. False, and nothing written, where
 * nobody counted. */
bool replica_routed(const struct replica *r, unsigned p, uint64_t *out);

#endif
