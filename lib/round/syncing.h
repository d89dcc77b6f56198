/*
 * syncing - what a syncer knows while it runs. Private to syncer, start, resume,
 * standing, listen, collect, mend, perform and finish, which each do a part of its work.
 */
#ifndef SYNCING_H
#define SYNCING_H

#include "io/lock.h"
#include "round/commit.h"
#include "round/epoch.h"
#include "round/fragment.h"
#include "round/head.h"
#include "round/policy.h"
#include "round/roster.h"
#include "round/syncer.h"
#include "round/tape.h"

#define TELL_AGAIN 30.0 /* seconds: the same trouble is told again */

/* What was put off, to be tried again. */
struct delay {
	double retry, pause; /* nothing is tried before; how long it was put off */
	double told;         /* when it was told last what is in the way */
};

/* A learner's answer to one round. */
enum slot_state { SLOT_EMPTY, SLOT_ANSWERED, SLOT_REFUSED };
struct slot {
	enum slot_state state;
	bool told;        /* the tape has it already */
	bool closed;      /* not to be looked for any more */
	double look;      /* when to look next */
	double missed;    /* since when its learner says that it has answered, and nothing is there; 0: it does not */
	uint64_t mark;    /* what the file looked like that was no whole answer yet; 0: none */
	digest id;
	uint64_t tokens, trained; /* of the answer */
};
/* A round, from its call until nobody's answer to it can come any more. */
struct call {
	uint64_t round, version; /* version: that is answered for */
	unsigned fragment;
	digest base;
	char *invited;      /* NULL: all */
	double called, quorum; /* times; quorum negative: not yet */
	uint64_t epoch;     /* in which it was called */
	uint64_t at;        /* wall clock when it was called, for people; 0: unknown */
	bool verified;      /* what it asks about was looked at, as nobody answered */
	bool open, held;    /* held: decided to be merged, and something was in the way */
	struct commit commit; /* decided: the tape has it */
	struct delay delay; /* as something is in the way of its merge */
	struct slot *slot;  /* (slots), by number of learner */
	size_t slots;
};

/* A newest version that is not there, or damaged. */
struct loss {
	bool told;
	double since; /* 0: it is as it was published, as far as is known */
	double retry; /* when it is tried again to make it */
};

/* What can't be done just now, and is tried again. */
struct trouble {
	struct err_note note; /* told last */
	struct delay delay;
};

struct syncer {
	struct syncer_conf c;
	struct fragments fragments;
	struct trust makers, learners;
	struct lock lock;
	struct epoch epoch;
	struct head head;    /* as it is, or is to be, published */
	struct tape *tape;
	struct roster roster;
	struct policy *policy;
	struct call **call;  /* (calls) in order of round */
	size_t calls;
	struct loss *loss;   /* (fragments) */
	uint64_t rounds;     /* highest that was called */
	uint64_t ckpt;       /* step of the last checkpoint */
	double began;        /* of this epoch */
	double merged;       /* when the last merge was published */
	double head_due, check_due, mend_due; /* times */
	bool dirty;          /* head has changed */
	bool did;            /* something was called or merged */
	bool told_few;       /* that the last rounds are merged with fewer answers than a quorum */
	uint64_t serial;     /* the highest of a manifest that the tape tells of, */
	uint64_t obeyed;     /* and of the one by which all is done */
	bool revoking;       /* the user has revoked keys, and not all is done about it */
	struct err_note manifest_trouble; /* told last of the manifest that lies there */
	struct trouble trouble;      /* with all that a turn does */
	struct trouble ckpt_trouble; /* with the checkpoint that is due */
	struct err_note undone;      /* what a pass (once) could not do */
	bool hopeless;           /* what went wrong will not pass */
};

/* ---- syncer ---- */

double syncer_now(const struct syncer *s);
double syncer_seconds(const struct syncer *s); /* of its epoch: as the tape tells time */
const char *syncer_run_id(const struct syncer *s);
uint64_t syncer_tokens(const struct syncer *s); /* merged: the mean over fragments by size */
/* The head as things are now. fast: see place_put. */
int syncer_publish(struct syncer *s, bool fast) ERR_MUST;
/* Trouble that may pass is told once in a while, as `what` it means, and put off. */
void syncer_bear(struct syncer *s, struct trouble *t, int rc, const char *what);
/* Sets the time to try again, each time later. */
void syncer_put_off(const struct syncer *s, struct delay *d);
/* A pass (once) goes on with what else is due, and leaves with the first thing that it could not do. */
void syncer_undone(struct syncer *s, int rc);
/* While something takes long: others see that it lives. ctx: the syncer. */
void syncer_tick(void *ctx);

/* ---- standing ---- */

/* Whose seals count, by the manifest as it is. */
int standing_trust(struct syncer *s) ERR_MUST;
void standing_policy(struct policy_conf *c, const struct syncer *s);
int standing_tell(struct syncer *s) ERR_MUST;
/* ERR_AUTH when the manifest is older than one that the run has seen. */
int standing_serial(struct syncer *s, uint64_t known) ERR_MUST;
/* Whose key this user has revoked by now counts no more. ERR_AUTH when that is the owner, or the syncer itself. */
int standing_revoked(struct syncer *s) ERR_MUST;
/* The same; and now and then: a newer manifest counts from now on; ERR_BUSY when there is a newer epoch. */
int standing_check(struct syncer *s) ERR_MUST;

/* ---- listen ---- */

/* Reads the beats that are there, before there is a policy. */
int listen_first(struct syncer *s) ERR_MUST;
/* A beat that counts: to tape and policy. */
int listen_hear(struct syncer *s, unsigned learner) ERR_MUST;
/* Reads what beats are due; notices silence. */
int listen_all(struct syncer *s) ERR_MUST;
/* Who is revoked stops counting at once. */
int listen_drop_revoked(struct syncer *s) ERR_MUST;

/* ---- mend ---- */

/* Now and then: newest versions that are not there, or that nobody answers for, are made again from their
 * answers, the same to the byte; what can't be is told. */
int mend_all(struct syncer *s) ERR_MUST;
/* The same for one fragment, now, if its newest version is not what was published: 1 when it is again. */
int mend_fragment(struct syncer *s, unsigned p) ERR_MUST;
/* The same once, for all of a run that was done before. ERR_AUTH: one can't be made again, the sentence says which
 * and what to do about it; others that can't be are told. */
int mend_done(struct syncer *s) ERR_MUST;

/* ---- perform ---- */

void perform_rules(struct commit_conf *c, struct syncer *s); /* what commits are made by, now */
int perform_call(struct syncer *s, const struct policy_step *st) ERR_MUST;
int perform_abandon(struct syncer *s, struct call *c, const char *why) ERR_MUST;
/* Merges what is decided, by policy or on the tape, and is not done yet. */
int perform_merge(struct syncer *s) ERR_MUST;

/* ---- finish ---- */

/* Each does what is due, if it is. A checkpoint that can't be made stops nothing. */
int finish_checkpoint(struct syncer *s) ERR_MUST;
int finish_begin(struct syncer *s) ERR_MUST; /* of the last rounds */
int finish_run(struct syncer *s) ERR_MUST;   /* 1: done */
/* The checkpoint at the end of a run that was done before: is it there, to its last byte? ERR_DATA, ERR_AUTH: no. */
int finish_verify(const struct syncer *s) ERR_MUST;
/* If not, it is made again from the fragments. */
int finish_again(struct syncer *s) ERR_MUST;

/* ---- resume ---- */

/* Is there another syncer? Waits to see. */
int resume_alone(struct syncer *s, const struct head *head, const struct epoch *last) ERR_MUST;
/* Reads the head that is there: 1, or 0 for none that is good. */
int resume_head(struct head *h, const struct syncer *s) ERR_MUST;
/* What the tape says, up to the epoch `last`; *number and *hash: its end; *ended: its syncer left tidily. */
int resume_tape(struct syncer *s, const struct head *head, uint64_t last, uint64_t *number, digest *hash,
	bool *ended) ERR_MUST;

/* ---- collect ---- */

struct call *syncer_call(const struct syncer *s, uint64_t round);
/* A new one at the end of the list. */
int syncer_add_call(struct syncer *s, struct call **out, uint64_t round, unsigned fragment,
	uint64_t version, const char *invited) ERR_MUST;
void call_free(struct call *c);
/* The slot of a learner; the list grows with the roster. */
int call_slot(struct call *c, struct slot **out, size_t learner, size_t learners) ERR_MUST;
bool call_invites(const struct call *c, const char *learner);
/* Looks for the answers that are missing, and for late ones. */
int collect(struct syncer *s) ERR_MUST;
/* A round is over: what was found and was no whole answer is refused, and late ones are looked for. */
int collect_close(struct syncer *s, struct call *c) ERR_MUST;

#endif
