/*
 * play - real training in virtual time: what a trace tells, done by learners in one process.
 *
 *     adoptions_scan  the trace
 *     play_open
 *     play_run        to the end of the trace, or the limit of tokens or time
 *     play_write      the checkpoint that is reached
 *     play_close
 *
 * Every inner step, answer, merge and adoption is made where the trace puts it, by the code of real learners and
 * in the order of a real syncer's sums, so that a trace that has the order of events of a real run gives the
 * fragments of that run bit for bit. Fragments, adoption rule and shares of batches are the trace's; model, data,
 * batch and rates are not.
 *
 * With rounds (diloco, decoupled) learner I of the trace trains on shard I modulo their number, in the order of
 * samples of a learner called "learner-I". Without (lockstep, elastic) the trace has one learner, whose step
 * is made of a batch of each shard, all gradients being averaged (lockstep.h): what as many learners as there are
 * shards are worth.
 *
 * A step of share s has s times the samples of a batch, what is left of one step for rounding being passed on to the
 * next; none has fewer than one. What is between steps, however long, is free: seconds are the trace's.
 *
 * Same inputs, same bits, for any number of threads.
 */
#ifndef PLAY_H
#define PLAY_H

#include "base/pool.h"
#include "base/say.h"
#include "chaos/adoptions.h"
#include "chaos/trace.h"
#include "form/key.h"
#include "form/shard.h"
#include "math/merge.h"
#include "round/checkpoint.h"

#define PLAY_LEARNERS 1024

struct play_row { /* a line of the table */
	double seconds;       /* virtual time */
	uint64_t tokens;      /* trained by then, by all learners */
	uint64_t step;        /* global step of the model measured */
	uint64_t merges;
	double loss;          /* mean training loss since the line before, nats a token; 0: no step since */
	double bits_per_byte; /* of the global model on what is held out; 0: not measured */
};
struct play_conf {
	enum merge_rule rule;
	enum merge_experts experts;
	struct merge_outer outer;
	double outlier;         /* of answers: see versions_judge */
	enum encoding encoding; /* of deltas: f32r, f32 or bf16 */
	uint64_t tokens;        /* end when so many are trained; 0: no limit */
	double until;           /* end before what happens later than this; HUGE_VAL: no limit */
	uint64_t every;         /* tokens from line to line of the table; 0: the first and the last only */
	bool finish;            /* at the end merge once more what is under way, as a run does at its target */
	int (*row)(void *ctx, const struct play_row *row); /* an error ends it */
	void *ctx;
	int (*stop)(void);      /* not 0: end with ERR_IO */
};

struct play;
/* Shards that play_open needs for this trace, of `given` >= 1 files: one for each learner, or each file once.
 * ERR_DATA for a trace that can't be played. */
int play_shards(unsigned *n, const struct trace_head *h, unsigned given) ERR_MUST;
/*
 * trace, adoptions: as adoptions_scan leaves them. c, m: the checkpoint to start from, c->train with the user's
 * changes; m is used for measuring. shard (n = play_shards): opened each for itself, even where files are the
 * same. valid: NULL for none. All stay the caller's, and are used until play_close; not so m's parameters, which
 * become those reached.
 */
int play_open(struct play **out, const struct play_conf *conf, struct trace_reader *trace,
	struct adoptions *adoptions, const struct checkpoint *c, struct model *m, struct shard **shard, unsigned n,
	struct shard *valid, struct pool *pool, struct say *say) ERR_MUST;
void play_close(struct play *p);
/* ERR_DATA: "line 17: ...", or what went wrong in training. */
int play_run(struct play *p) ERR_MUST;
uint64_t play_tokens(const struct play *p); /* trained by now */
/* base: header of the checkpoint that it all began from. */
int play_write(const struct play *p, int fd, const struct header *base, const struct key *key) ERR_MUST;

#endif
