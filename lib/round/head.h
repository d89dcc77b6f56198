/*
 * head - where a run is: the newest version of each fragment, and the calls that are open.
 *
 * Replaced by the syncer after every decision, and every second or so in any case: `counter` going up
 * is how learners know that it lives. A head of a lower epoch, or of the same epoch and a lower counter,
 * than one that was seen before is an old one, and ignored.
 *
 *     epoch E     nonce HEX    counter N    serial N (of the manifest)    phase running|closing|done
 *     step N      tokens N     trained N
 *     xi_step X   xi_quorum X  xi_sync X    slack X    window X           seconds
 *     tape_lines N   tape_hash HEX
 *     f000 VERSION ROUND STEP TOKENS ID         for each fragment
 *     call.0 ROUND fPPP VERSION *|NAME,NAME...          calls that are open, in order of round; *: to all
 *
 * No key is left out. Counts are below 2^53.
 */
#ifndef HEAD_H
#define HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "form/header.h"
#include "form/sig.h"
#include "form/trust.h"
#include "round/policy.h"

enum phase { PHASE_RUNNING, PHASE_CLOSING, PHASE_DONE };
const char *phase_name(enum phase p);

struct head_fragment {
	uint64_t version, round; /* round that made it; 0: the first */
	uint64_t step;           /* global step of that merge */
	uint64_t tokens;         /* merged into it so far */
	digest id;               /* of the file */
};
struct head_call {
	uint64_t round, version; /* version: what is to be answered for, the newest */
	unsigned fragment;
	char *invited;           /* NULL: all; else names with commas between; owned */
};
struct head {
	char run[33], nonce[17];
	uint64_t epoch, counter, serial;
	enum phase phase;
	uint64_t step;    /* global step */
	uint64_t tokens;  /* merged: the mean over fragments by size */
	uint64_t trained; /* by all learners ever, by their own count */
	struct policy_times times;
	uint64_t tape_lines;
	digest tape_hash;
	struct head_fragment *fragment; /* (fragments) */
	unsigned fragments;
	struct head_call *call;         /* (calls) in order of round */
	size_t calls;
};

int head_init(struct head *h, unsigned fragments) ERR_MUST;
void head_release(struct head *h);
int head_write(const struct head *h, struct header *to) ERR_MUST; /* to: an empty header */
/* Fills an empty head. ERR_DATA unless it has exactly `fragments` fragments. */
int head_read(struct head *h, const struct header *from, unsigned fragments) ERR_MUST;
/* The same from the bytes of the file. ERR_AUTH: sealed by none of `syncers`, or of another run. */
int head_parse(struct head *h, const char *bytes, size_t n, const char *run, unsigned fragments,
	const struct trust *syncers) ERR_MUST;
/* And from the run directory: 1, or 0 when there is none. */
int head_load(struct head *h, const char *run, unsigned fragments, const struct trust *syncers) ERR_MUST;
/* Is a newer than b, by epoch and counter? */
bool head_newer(const struct head *a, const struct head *b);
/* Is it one of these names, with commas between? NULL: none. *n, unless NULL: how many there are. */
bool head_lists(const char *names, const char *learner, unsigned *n);
/* May this learner answer the call? */
bool head_invites(const struct head_call *c, const char *learner);
/* At the end of the list. `invited` is copied. */
int head_add_call(struct head *h, uint64_t round, unsigned fragment, uint64_t version,
	const char *invited) ERR_MUST;
/* Takes a call out; harmless when there is none of that round. */
void head_end_call(struct head *h, uint64_t round);
/* The open call of a fragment, or NULL. */
const struct head_call *head_call_of(const struct head *h, unsigned fragment);

#endif
