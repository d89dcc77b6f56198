/*
 * trace - all that happened in a run, simulated or real, so that it can be trained again in virtual time:
 * text, one event a line, in order of time. dl-trace(5).
 *
 *     line = SECONDS KIND KEY=VALUE...
 *
 * SECONDS is virtual time. The first line, of kind `trace`, tells what run it is; the last one, `end`, tells
 * how many lines there are, so that a trace that was cut is known from one that is whole. Readers pass over
 * keys that they do not know, and refuse kinds that they do not know.
 *
 *     KIND     KEYS
 *     trace    format mode learners fragments interval overlap quorum grace adopt step_tokens seed params chips
 *     join     learner                      it begins: newest version of each fragment, no moments
 *     gone     learner                      it leaves for good
 *     lost     learner state(kept|lost)     its process died; with `lost`, what it knew is gone
 *     back     learner                      it is there again: as it was (kept), or as after a join (lost)
 *     stop     learner seconds why          it does not train for so long: down, up, restart, merge
 *     step     learner [share]              an inner step is done, with that share of its batch (1)
 *     call     round fragment version invited(all or N,N,...)
 *     answer   round fragment learner steps tokens     the snapshot, at a boundary of its steps
 *     merge    round fragment version answers(N,N,...)  published: of these learners' answers
 *     abandon  round fragment               the round ended without a merge
 *     adopt    learner fragment version     at a boundary of its steps
 *     end      events
 *
 * Learners are numbers from 0. A reader gives out only what can have happened (trace_check.h): whoever
 * trains from a trace need not check again who was alive, or which version is there.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TRACE_LEARNERS 65536
#define TRACE_FRAGMENTS 65536
#define TRACE_CELLS (1 << 22)           /* learners x fragments */
#define TRACE_LINE ((size_t)1 << 20)    /* longest line */

enum trace_mode {
	TRACE_LOCKSTEP,  /* one learner of all chips: no rounds; each failure stops all */
	TRACE_ELASTIC,   /* one learner of all chips that goes on without the slices that failed */
	TRACE_DILOCO,    /* synchronous: every H steps all learners wait for the merge of all their answers */
	TRACE_DECOUPLED
};
const char *trace_mode_name(enum trace_mode m);
int trace_mode_parse(const char *name, enum trace_mode *m) ERR_MUST; /* ERR_DATA, naming all of them */

struct trace_head {
	enum trace_mode mode;
	unsigned learners;      /* that ever take part */
	unsigned fragments;     /* P */
	uint64_t interval;      /* H */
	unsigned overlap, quorum;
	double grace;
	char adopt[16];         /* overwrite, rebase or mix:A, as in a manifest */
	uint64_t step_tokens;   /* of an inner step of a learner with its whole batch */
	uint64_t seed, params, chips;
};

enum trace_kind {
	TRACE_JOIN, TRACE_GONE, TRACE_LOST, TRACE_BACK, TRACE_STOP, TRACE_STEP, TRACE_CALL, TRACE_ANSWER,
	TRACE_MERGE, TRACE_ABANDON, TRACE_ADOPT, TRACE_KINDS
};
enum trace_why { TRACE_DOWN, TRACE_UP, TRACE_RESTART, TRACE_WAIT };
const char *trace_why_name(enum trace_why w); /* down, up, restart, merge */

struct trace_event { /* what is not of its kind is zero */
	double at;
	enum trace_kind kind;
	unsigned learner, fragment;
	uint64_t round, version;
	double share;           /* step: 0 < share <= 1 */
	uint64_t steps, tokens; /* answer: since its base, or its last answer from that */
	double seconds;         /* stop */
	enum trace_why why;
	bool kept;              /* lost: its state outlives it */
	const unsigned *who;    /* (n) ascending: call: invited, NULL: all; merge: whose answers are in it */
	size_t n;
};

/* ---- writing ---- */

struct trace_writer;
/* Writes the first line. The descriptor stays the caller's. */
int trace_create(struct trace_writer **out, int fd, const struct trace_head *h) ERR_MUST;
/* Times in whole microseconds, none less than the one before. Errors show at the latest in trace_finish. */
int trace_put(struct trace_writer *w, const struct trace_event *e) ERR_MUST;
int trace_finish(struct trace_writer *w) ERR_MUST; /* the last line; all is written after it */
void trace_discard(struct trace_writer *w);        /* frees; also after trace_finish */

/* ---- reading ---- */

struct trace_reader;
/* Reads the first line. ERR_DATA: "line 1: ...". The descriptor stays the caller's. */
int trace_open(struct trace_reader **out, int fd) ERR_MUST;
void trace_close(struct trace_reader *r);
const struct trace_head *trace_head(const struct trace_reader *r);
/* 1 and an event, valid until the next call; 0 behind the last line. ERR_DATA: "line 17: ...". */
int trace_next(struct trace_reader *r, struct trace_event *e) ERR_MUST;

#endif
