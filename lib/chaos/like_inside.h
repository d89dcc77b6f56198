/*
 * like_inside - what is seen of a run while its tape is read (like_read.c), to be fitted to (like.c); for these
 * two only.
 */
#ifndef LIKE_INSIDE_H
#define LIKE_INSIDE_H

#include "chaos/like.h"

/* What is seen of a learner while the tape is read. */
struct like_sight {
	uint64_t incarnation;
	double last;              /* answer of this incarnation; negative: none */
	double last_trained;
	double trained, seconds;  /* between answers */
	double answers;           /* intervals between them */
	double lost;              /* silent since; negative: not */
	double heard;             /* in this epoch, last by the tape; negative: not yet */
	bool left;                /* on purpose */
	double absent;            /* seconds that it had left for, before it came back */
	double from;              /* alive since; negative: it is not */
	double window_seconds, window_tokens; /* about H steps */
	double samples, sum, squares; /* of step times in windows */
};
struct like_change { /* learners alive */
	double at;
	int by;
};
struct like_reading {
	struct like *l;
	const struct manifest *m;
	struct like_sight *sight;      /* (learners) */
	double *given;            /* (learners, P) tokens of the last answer */
	double *called;           /* (P) */
	uint64_t *round;          /* (P) */
	double *step;             /* (P) when it was merged last in this epoch; negative: not yet */
	struct like_change *change;
	size_t changes, room;
	double base, now;         /* where the epoch began; the last line */
	uint64_t epoch;
	bool finishing;
	double step_tokens;
	double replies, reply;    /* answers; seconds from call to answer */
	double merges, merge_seconds; /* from one to the next, where that waited for it */
	double merging;           /* the line before was a merge, decided then; negative: it was not */
	double syncs, sync;       /* xi_sync */
	double away, away_sum, away_squares;
	double intervals, interval;
	double sent;              /* answers of all learners */
};

/* All lines up to the end, or to where the run began to finish. */
int like_read_lines(struct like_reading *r, struct tape_reader *tape) ERR_MUST;
/* Learner i has not been alive since `at`. */
int like_read_ends(struct like_reading *r, unsigned i, double at) ERR_MUST;

#endif
