/*
 * roster - the learners that a syncer knows: whose name it is, its last sign of life, and how far its
 * tokens have been merged. A small record each, made anew from tape and beats by every syncer.
 *
 * A name belongs to the key of its first beat, for good; and to the member of that name, if the manifest
 * has one. A beat counts when that key sealed it and it is newer than the one before: of a higher
 * incarnation, or of the same process and a higher counter.
 *
 * A key has at most ROSTER_NAMES names in a run, but that of the owner, who answers for all of them.
 */
#ifndef ROSTER_H
#define ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/say.h"
#include "form/trust.h"
#include "round/beat.h"

#define ROSTER_NAMES 1000

struct roster_learner {
	char name[KEY_NAME + 1];
	struct sig_public key;
	struct beat beat;      /* the last that counted, when `seen` */
	bool seen;             /* by this syncer, */
	uint64_t times;        /* so many of them */
	bool lost, gone;       /* as the tape says */
	uint64_t told;         /* highest incarnation on the tape */
	uint64_t first_round;  /* rounds from this one on were called when that was known */
	uint64_t born;         /* tokens it had trained when that was first seen, or UINT64_MAX */
	uint64_t trained;      /* most tokens it was ever heard to have trained */
	uint64_t *covered;     /* (fragments) of them, up to where they were merged */
	uint64_t *shown;       /* (fragments) tokens of its sound answers, late ones too */
	double heard;          /* when the last beat that counted was read */
	double look;           /* when to look next */
	digest bytes;          /* of the file that was read last */
	bool warned;
};
struct roster {
	unsigned fragments;
	struct roster_learner **v; /* (n) in order of coming: a learner keeps its number */
	size_t n, cap;
	size_t *order;             /* (n) by name */
	size_t skip;               /* entries passed over in the next listing: see roster_scan */
	double scan;               /* when to list the directory next */
	digest *told;              /* (tolds) what was said of names that don't count, to say it once */
	size_t tolds;
};

void roster_init(struct roster *r, unsigned fragments);
void roster_release(struct roster *r);
/* The number of a learner, or -1. */
long roster_find(const struct roster *r, const char *name);
/* Adds one that is not there. */
int roster_add(struct roster *r, size_t *out, const char *name, const struct sig_public *key) ERR_MUST;

struct roster_rules {
	const char *run;
	const struct trust *trust; /* of learners */
	const struct sig_public *owner;
	struct say *say;
};
/* Looks at a learner's beat, if it is time to. 1: a newer one is there, and is l->beat. 0: nothing new, or
 * nothing that counts. Errors are of this machine. */
int roster_look(struct roster *r, size_t i, double now, const struct roster_rules *rules) ERR_MUST;
/* Lists learner/, if it is time to, for names with a beat that counts, and adds them: how many. Junk there
 * costs only the listing, now and then. */
int roster_scan(struct roster *r, double now, const struct roster_rules *rules) ERR_MUST;
/* Tokens trained by all, ever, by their own count. */
uint64_t roster_trained(const struct roster *r);
/* The same, but of each learner no more than its answers have shown. */
uint64_t roster_shown(const struct roster *r);

#endif
