/*
 * courier - the thread beside a learner's training thread: all that goes between it and the run directory.
 *
 * The courier reads head and manifest, fetches and verifies versions of fragments, encodes, signs and writes
 * answers, the beat, the state and the table of metrics, and removes its own old deltas. The two meet at the
 * desk (round/desk.h). The training thread waits for nothing: it looks in where courier_enter finds the desk
 * free, and the courier never holds it while it reads or writes.
 *
 *     courier_open     trust and buffers; the run directory is entered
 *     ... courier_poll, courier_fetch: what the learner starts from ...
 *     courier_start    the first beat, and the thread
 *     loop:  courier_enter, desk_..., courier_leave
 *     courier_finish   what is under way is written, then the state, then the last beat
 *     courier_close
 *
 * Fencing. A beat under its name of a higher incarnation, or of its own with another nonce, is of another
 * process: the courier then writes nothing more and says so at the desk (end, ERR_BUSY).
 */
#ifndef COURIER_H
#define COURIER_H

#include "base/clock.h"
#include "form/key.h"
#include "form/trust.h"
#include "round/desk.h"
#include "round/manifest.h"

struct courier_conf {
	struct meta about;      /* what its files say of it: run, model, seed, label, learner, shard, context */
	uint64_t incarnation;
	enum encoding encoding; /* of deltas */
	enum optimizer_kind optimizer;
	struct metrics *metrics; /* the caller's; rows left at the desk go there */
};

struct courier;
/*
 * layout is of the model. Manifest and user are the courier's until courier_close: the one may be replaced by a
 * newer one, the other learns of keys that are revoked. ERR_AUTH when the key may not be a learner, or the name
 * belongs to another key. Everything stays the caller's.
 */
int courier_open(struct courier **out, const struct courier_conf *c, struct manifest *manifest,
	struct trust *user, const struct key *key, const struct fragments *cut,
	const struct tensors *layout, const struct replica *replica, struct clock clock) ERR_MUST;
void courier_close(struct courier *c); /* the thread is stopped if need be */
void courier_incarnate(struct courier *c, uint64_t incarnation); /* before courier_start */

/* ---- before the thread runs ---- */

/* 1 when there is a newer head than before, at the desk now. */
int courier_poll(struct courier *c) ERR_MUST;
/* 1 and a version of a fragment, 0 when it is not there. id NULL: any. value: (elems). */
int courier_fetch(struct courier *c, unsigned p, uint64_t version, const digest *id, float *value,
	struct replica_version *out, struct pool *pool) ERR_MUST;
const struct trust *courier_learners(const struct courier *c);
int courier_start(struct courier *c) ERR_MUST;

/* ---- the training thread ---- */

struct desk *courier_desk(struct courier *c);
bool courier_enter(struct courier *c); /* false: not now */
void courier_leave(struct courier *c, bool posted); /* posted: there is something to do */
/* Waits until the desk is free, and then at most so long for news: for a learner with nothing to train. */
void courier_wait(struct courier *c, double seconds);
/* What the thread has done, once it has ended. */
struct courier_work {
	uint64_t answers, versions, heads, beats, states;
	double seconds; /* of a processor */
};
void courier_told(const struct courier *c, struct courier_work *w);
/*
 * The end. Answers that are under way are sent; with t, the state is saved; the last beat says gone. Nothing
 * is written when another process has taken over. An error: the state could not be saved.
 */
int courier_finish(struct courier *c, struct replica *r, const struct trainer *t) ERR_MUST;

#endif
