/*
 * desk - what the training thread of a learner and its courier leave for each other.
 *
 * Memory only. Whoever looks at a desk or changes it holds the courier's lock, but for values: those of a slot
 * belong to the courier until it is ready; base and snapshot of an answer, and the values of a state, belong
 * to the courier while the job is taken. All of it is allocated at the start.
 *
 * Memory: DESK_SLOTS times the largest fragment, and 12 bytes a parameter for the state.
 */
#ifndef DESK_H
#define DESK_H

#include <stdbool.h>

#include "base/pool.h"
#include "form/meta.h"
#include "round/head.h"
#include "round/metrics.h"
#include "round/replica.h"
#include "round/run_state.h"
#include "round/trainer.h"

#define DESK_SLOTS 4
#define DESK_NOTES 8
#define DESK_ROWS 256

enum desk_job {
	DESK_NONE,
	DESK_POSTED, /* by the training thread */
	DESK_TAKEN,  /* by the courier */
	DESK_DONE, DESK_FAILED /* by the courier, for the training thread to see */
};

/* A version of a fragment, verified, for the training thread to adopt. */
struct desk_slot {
	enum { DESK_EMPTY, DESK_FILLING, DESK_READY } state;
	unsigned fragment;
	struct replica_version version;
	float *value; /* (elements of the largest fragment) */
};
/* A snapshot for the courier to send: base and snapshot lie in the replica. */
struct desk_answer {
	enum desk_job job;
	struct meta meta;
};
struct desk_note {
	bool warning;
	char text[256];
};

struct desk {
	const struct fragments *cut; /* the caller's */
	/* from the courier */
	bool headed;           /* there is a head */
	struct head head;      /* the newest */
	uint64_t heads;        /* how many have been seen */
	struct desk_slot slot[DESK_SLOTS];
	uint64_t target_steps; /* of the manifest; 0: none */
	bool mute;             /* answers can't be written just now: take no snapshots */
	struct err_note end;   /* code not 0: stop, and why */
	struct desk_note note[DESK_NOTES]; /* (notes) words for people */
	size_t notes;
	/* from the training thread */
	struct beat beat;      /* the books as of the last boundary */
	digest *base;          /* (P) versions it trains from */
	struct desk_answer *answer; /* (P) */
	enum desk_job saving;
	struct err_note saved; /* how it went, when it is done or has failed */
	struct run_state state;
	struct metrics_row row[DESK_ROWS]; /* (rows) for the table of metrics */
	size_t rows;
};

int desk_open(struct desk *d, const struct fragments *cut, const struct tensors *layout,
	enum optimizer_kind optimizer) ERR_MUST;
void desk_close(struct desk *d); /* also after a failed desk_open */

/* ---- the training thread, at a boundary ---- */

/*
 * Takes what has come and leaves what is asked for: outcomes of answers, versions to adopt, snapshots for the
 * calls that invite this learner, books. True when there is something for the courier to do.
 */
bool desk_exchange(struct desk *d, struct replica *r, const char *learner, uint64_t cursor);
/* A snapshot of everything for the state, when the last one is written. */
bool desk_post_state(struct desk *d, const struct replica *r, const struct trainer *t);
void desk_row(struct desk *d, const struct metrics_row *row); /* dropped when there is no room */
/* Is there an answer or a state that the courier still has to write? */
bool desk_busy(const struct desk *d);

/* ---- the courier ---- */

void desk_say(struct desk *d, bool warning, const char *text); /* dropped when there is no room */
/* A slot for this version of p, now being filled: an empty one, or that of an older version. NULL: none,
 * or it is there already, or trained from already. */
struct desk_slot *desk_slot_for(struct desk *d, unsigned p, uint64_t version, const digest *id);

#endif
