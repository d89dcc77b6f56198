/*
 * view - one reading of a run directory after another, by somebody who takes no part: manifest, head,
 * beats and tape as plain structs, for dl-top, dl-run and explain.h.
 *
 *     view_open
 *     view_read, view_read, ...      as often as one likes
 *     view_close
 *
 * Who is alive is known only by a counter that changes between two readings of this process: after the
 * first reading everybody is UNKNOWN. SILENT is one whose counter has not changed for the run's lease, by
 * our clock or, as the tape tells, by the syncer's. No times of other machines are compared. What can't
 * be read (half copied, of a stranger) is left as it was and counted in `trouble`.
 *
 * The run directory has been entered (rundir.h). Paths are read with place.h, no links are followed.
 */
#ifndef VIEW_H
#define VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "form/trust.h"
#include "round/beat.h"
#include "round/books.h"
#include "round/fragment.h"
#include "round/head.h"
#include "round/manifest.h"

enum view_life {
	VIEW_UNKNOWN, /* not long enough looked at */
	VIEW_ALIVE,   /* its counter has changed, at most a lease ago */
	VIEW_SILENT,  /* its counter has not changed for a lease */
	VIEW_GONE,    /* said that it leaves */
	VIEW_ABSENT   /* has never been heard of */
};
const char *view_life_name(enum view_life life); /* "unknown", "alive", "silent", "gone", "absent" */

struct view_learner {
	char name[KEY_NAME + 1];
	enum view_life life;
	double silent;       /* seconds of ours since its counter changed, or since the first reading */
	double lost;         /* seconds that the syncer has missed it, by its clock, up to the tape's last
	                      * line; negative: it does not count as lost */
	struct beat beat;    /* beat.fragment NULL: there is none that counts */
	double rate;         /* tokens/s now: 0 unless alive and running */
	uint64_t stale;      /* global steps that it is behind the head */
	uint64_t answered;   /* last round it answered; 0: none */
	struct books_learner books; /* by the tape and its beat; name is "" when there are none */
	char trouble[160];   /* why its beat could not be read just now; "": it could */
};

/* An open round. */
struct view_call {
	uint64_t round, version;
	unsigned fragment;
	double open;         /* seconds at least: from its call to the tape's last line, and ours since we saw
	                      * that; negative: not told */
	bool *invited, *answered;    /* (learners) */
	size_t invitations, answers; /* how many of these */
};

/* Training loss, as answers on the tape tell it: the mean of a merge's answers by tokens. */
struct view_loss {
	uint64_t step; /* global step of the merge */
	double loss;   /* nats a token */
};

struct view {
	struct manifest manifest;
	struct fragments fragments;
	struct head head;       /* head.fragment NULL: none was read yet */
	struct err_note head_trouble; /* why it could not be read just now; code 0: it could, or is not there */
	bool headless;          /* there is no head, and none was read, but a tape: a syncer was here */
	enum view_life syncer;
	double syncer_silent;
	struct view_learner *learner; /* (learners) in order of name */
	size_t learners;
	struct view_call *call; /* (calls) in order of round */
	size_t calls;
	const struct view_loss *loss; /* (losses) in order of the tape; valid until the next reading */
	size_t losses;
	uint64_t tape_lines;    /* read so far */
	uint64_t merges, refusals, late; /* late: of the refusals */
	double achieved;        /* the achieved H: mean global steps from version to version of a fragment,
	                         * over the last merges; 0: unknown */
	double tokens_per_s;    /* of all that are alive */
	double trained;         /* tokens, by the head or by beats and answers, whichever is ahead */
	double goodput;         /* merged tokens over trained ones, at most 1; negative: unknown */
	uint64_t room;          /* bytes that the file system of the run still takes, from us */
	uint64_t trouble;       /* files that could not be read, this time */
	char trouble_why[256];  /* the first of them */
	struct view_memory *memory; /* what it keeps from one reading to the next */
};

/* Reads the manifest. `user`: whom the user trusts; the caller's, and stays as long as the view. */
int view_open(struct view **out, const struct trust *user, struct clock clock) ERR_MUST;
void view_close(struct view *v);
/* Another reading. Errors: no memory; a tape that is not what it was, ERR_AUTH. */
int view_read(struct view *v) ERR_MUST;
/* Reads again and again until everybody's life is known, but for so many seconds at most: for one answer
 * about a run that nobody has watched. */
int view_look(struct view *v, double seconds) ERR_MUST;
bool view_begun(const struct view *v); /* a syncer has been at work */
bool view_over(const struct view *v); /* the run is done */
bool view_full(const struct view *v); /* no room for another version of the largest fragment */
/* "running", "closing", "done", "not begun", "no head" (headless), or "unreadable": there is a head, and none that
 * counts was read. */
const char *view_phase_name(const struct view *v);
size_t view_alive(const struct view *v); /* learners */
const struct view_learner *view_learner(const struct view *v, const char *name); /* NULL: none of that name */

#endif
