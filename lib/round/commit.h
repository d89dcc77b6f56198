/*
 * commit - one merge of a fragment in a run directory, exactly once whatever is killed when.
 *
 *     commit_make     judges the answers, writes the decision on the tape, and carries it out
 *     commit_again    carries out a decision that is on the tape already
 *     commit_remake   makes the file of one again that was carried out, and is lost since
 *
 * In this order: values are read, judged and merged into files without names; the line `merge`, durable:
 * the decision; momentum V.outer and fragment V.frag get their names, which is possible only once; both
 * are read back; the line `publish`, durable. Stopped before the decision, nothing has happened. Stopped
 * after it, commit_again makes the same bytes from the same answers, takes the files that are there
 * already and whole, and goes on: at any time, by this syncer or the next.
 */
#ifndef COMMIT_H
#define COMMIT_H

#include "base/pool.h"
#include "base/say.h"
#include "form/key.h"
#include "form/trust.h"
#include "round/fragment.h"
#include "round/guard.h"
#include "round/manifest.h"
#include "round/policy.h"
#include "round/tape.h"

struct commit_answer {
	char learner[KEY_NAME + 1];
	digest id;          /* in: of the file that was judged by its header */
	uint64_t tokens;    /* in */
	uint64_t incarnation, trained, answered; /* in: of a delta that no line `answer` told of, else 0 */
	double share, norm; /* out: of those that count */
	enum verdict verdict; /* out */
	char why[320];
	bool told;          /* out: refused, and the tape says so */
};
struct commit {
	uint64_t round, version; /* version: that is made; its base is the one before */
	unsigned fragment;
	digest base;             /* identity */
	struct commit_answer *answer; /* (answers + refused) owned */
	size_t answers, refused; /* when decided: first those that count, in order, then the others */
	double quorum, waited;   /* seconds from call to quorum, and from there to the decision */
	struct policy_times times;
	/* the decision */
	bool decided;
	bool fresh;          /* momentum starts from zero: that of the base is lost */
	enum merge_rule rule;
	enum merge_experts experts;
	struct merge_outer outer;
	char merge[65];
	uint64_t step, tokens;   /* of the new version */
	/* what came of it */
	digest id, content, momentum;
};
void commit_release(struct commit *c);

/* What happened last, for who wants to stop there. */
enum commit_stage {
	COMMIT_JUDGED, COMMIT_DECIDED, COMMIT_MOMENTUM, COMMIT_FRAGMENT, COMMIT_READ_BACK, COMMIT_PUBLISHED
};
struct commit_conf {
	const struct manifest *manifest;
	const struct fragments *fragments;
	const struct key *key;
	const struct trust *makers, *learners; /* whose fragments and whose deltas count */
	struct pool *pool;
	struct say *say;
	struct tape *tape;
	uint64_t epoch, quorum;
	double now;                   /* seconds of its epoch, for the tape */
	void (*tick)(void *ctx);      /* called now and then; NULL: never */
	int (*at)(void *ctx, enum commit_stage stage); /* an error stops it as a kill would; NULL: none */
	void *ctx;
};

/*
 * 0: published. ERR_AGAIN: so many answers turned out bad that there is no quorum; nothing happened but
 * that they have their verdicts. ERR_BUSY: superseded. Other errors are of this machine; c->decided says
 * whether commit_again must follow or commit_make may.
 * Verdicts of answers that do not count are told on the tape before the decision; told says which.
 * Momentum that is lost or damaged starts from zero: c->fresh says so, and the decision tells it.
 */
int commit_make(struct commit *c, const struct commit_conf *conf) ERR_MUST;
/* ERR_DATA: it can't be carried out, because what it was made from is not there any more. */
int commit_again(struct commit *c, const struct commit_conf *conf) ERR_MUST;
/*
 * c->id (in): what was published, in which epoch. Files are reproducible: from the same answers and base, under
 * the same key, comes the file that was lost, to the byte; nothing is added to the tape. ERR_DATA: no, it is
 * not, or what it was made from is gone, too. Momentum that is lost comes back with it.
 */
int commit_remake(struct commit *c, const struct commit_conf *conf, uint64_t epoch) ERR_MUST;
/* Is the file of a version, to its last byte, the one of this identity? ERR_DATA, ERR_AUTH: no. stop: asked now and
 * then whether to leave with ERR_IO; NULL: never. */
int commit_verify(unsigned fragment, uint64_t version, const digest *id, const struct trust *makers,
	int (*stop)(void)) ERR_MUST;

/* ---- its lines on the tape ---- */

/* A decision as its line `merge` has it. Fills an empty commit. */
int commit_parse(struct commit *c, const struct tape_line *l) ERR_MUST;
/* The refusal of one answer; the decision; that it is out. The last two are durable. */
int commit_refuse(struct tape *t, double now, uint64_t round, unsigned fragment,
	const struct commit_answer *a) ERR_MUST;
int commit_tell_merge(struct tape *t, double now, const struct commit *c) ERR_MUST;
int commit_tell_publish(struct tape *t, double now, const struct commit *c) ERR_MUST;

#endif
