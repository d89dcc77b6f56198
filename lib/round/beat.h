/*
 * beat - a learner's sign of life and its books.
 *
 * Replaced by the learner every second or so and after every answer. `counter` goes up each time within an
 * incarnation; incarnation is one higher than that of any beat or state of the learner before. One of a
 * lower incarnation, or of the same with another nonce, is of another process: the one that sees it
 * stops, or is ignored (fencing).
 *
 * Books, for each fragment, in tokens of the learner over all its lives:
 *     trained = answered + lost + tokens
 * answered went into deltas, lost was overwritten or died with a process, tokens is under way since base.
 *
 *     learner NAME   incarnation N   nonce HEX   counter N   epoch E (newest seen)   serial N
 *     step N         global step that the learning rate follows
 *     steps N        inner steps over all its lives
 *     trained N      tokens of them
 *     step_seconds X   tokens_per_s X   loss X (running mean)   state running|idle|gone
 *     f000 VERSION STEPS TOKENS ROUND ANSWERED LOST
 *
 * No key is left out. Counts are below 2^53.
 */
#ifndef BEAT_H
#define BEAT_H

#include <stdint.h>

#include "form/header.h"
#include "form/key.h"

enum beat_state {
	BEAT_RUNNING,
	BEAT_IDLE, /* has nothing to train for: waits for the last rounds */
	BEAT_GONE  /* left on purpose; comes back, if it does, as a new incarnation */
};

struct beat_fragment {
	uint64_t version;       /* that it trains from */
	uint64_t steps, tokens; /* since then */
	uint64_t round;         /* last one answered; 0: none */
	uint64_t answered, lost; /* tokens, see above */
};
struct beat {
	char run[33], learner[KEY_NAME + 1], nonce[17];
	uint64_t incarnation, counter, epoch, serial;
	enum beat_state state;
	uint64_t step, steps, trained;
	double step_seconds, tokens_per_s, loss;
	struct beat_fragment *fragment; /* (fragments) */
	unsigned fragments;
};

int beat_init(struct beat *b, unsigned fragments) ERR_MUST; /* all zero */
void beat_release(struct beat *b);
const char *beat_state_name(enum beat_state s);
int beat_write(const struct beat *b, struct header *to) ERR_MUST; /* to: an empty header */
/* Fills an empty beat. ERR_DATA unless it has exactly `fragments` fragments and books that balance. */
int beat_read(struct beat *b, const struct header *from, unsigned fragments) ERR_MUST;

#endif
