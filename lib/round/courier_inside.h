/*
 * courier_inside - what the files of the courier share. Private to them.
 */
#ifndef COURIER_INSIDE_H
#define COURIER_INSIDE_H

#include <pthread.h>

#include "base/buf.h"
#include "round/courier.h"

struct courier {
	struct courier_conf conf;
	struct manifest *manifest;
	struct trust *user;
	const struct key *key;
	const struct fragments *cut;
	const struct replica *replica; /* only base and snapshot of answers that are taken */
	struct clock clock;
	struct trust learners, syncers;

	pthread_mutex_t lock; /* of desk, quit and nudged; never held during a read or a write */
	pthread_cond_t wake, settled;
	pthread_t thread;
	bool running, quit, nudged;
	struct desk desk;

	/* the rest is the courier's alone */
	struct buf head, beat, scratch; /* bytes last read, and last written; for reading */
	struct frame_scratch *frames; /* for reading versions */
	struct beat mine;
	struct courier_work work;
	bool superseded;
	bool gone;           /* the run directory was removed */
	bool beaten;         /* an answer is out that the beat does not tell yet */
	double beat_at, manifest_at, tidy_at, mute_until; /* times */
	double complained;   /* time of the last warning of things that may come again and again */
	uint64_t old_serial; /* a head's, that the manifest's was said to be below */
	double *not_before;  /* (P) when a version that could not be had is tried again */
	uint64_t *tidied;    /* (P) answers up to this round are removed */
	uint64_t *tidied_version; /* (P) ... which were of versions before this one */
};

double courier_now(const struct courier *c);
void courier_say(struct courier *c, bool warning, const char *text);
/* The sentence of the last error, at most one such warning every few seconds. */
void courier_complain(struct courier *c, const char *what);
/* The learner is to end, with the last error. */
void courier_end(struct courier *c, int code);

/* reading */
int courier_trusts(struct courier *c) ERR_MUST;
int courier_refresh(struct courier *c); /* 1: there is a newer manifest */
void courier_stage(struct courier *c);

/* writing; each looks first whether another process has taken over */
void courier_send_answers(struct courier *c);
int courier_write_beat(struct courier *c, bool last) ERR_MUST;
void courier_write_state(struct courier *c);
void courier_write_rows(struct courier *c);
void courier_tidy(struct courier *c);

#endif
