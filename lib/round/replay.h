/*
 * replay - every version of every fragment once more, bit for bit, from the tape and what is kept: for
 * anybody, with no key. And, when asked for, whether what was published last is still there.
 *
 * For each merge of the tape that was published, in order: its base is what was rebuilt before, or the
 * oldest version in global/ (with its momentum in syncer/outer/) from which the deltas are there; its
 * deltas, learner/NAME/fPPP.R.delta, are known by the identities that the tape gives, and by the keys
 * that its joins give, whether revoked since or not. They are merged by the same code, with the rule and
 * the rates that the tape gives, and the contents of fragment and momentum (form/content.h) compared with
 * those on the tape. Where `keep` is 0 nothing is ever collected, and everything is rebuilt from version 0.
 *
 * Needs twice the size of the model in temporary files ($TMPDIR), and the memory of a merge (merging.h).
 * The number of threads changes nothing but the time. Reads the run only; it may go on meanwhile.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/pool.h"
#include "base/say.h"
#include "round/manifest.h"

/* The run directory has been entered (rundir.h). */
struct replay_conf {
	const struct manifest *manifest;
	const struct trust *user; /* whom the user trusts: judges the head, which seals the tape */
	struct pool *pool;        /* may be NULL */
	bool newest;              /* the files of the newest versions are held against the tape, too */
};
struct replay_report {
	uint64_t lines;       /* of the tape */
	uint64_t versions;    /* published, without those of `dl-init` */
	uint64_t identical;   /* rebuilt, with the contents that the tape tells */
	uint64_t collected;   /* not rebuilt: deltas or base are not kept any more */
	uint64_t different;   /* rebuilt and different, or made from what is not what the tape names */
	uint64_t damaged;     /* newest versions whose files are gone, or not what was published */
	bool torn;            /* the last line is cut short, or was just being written */
	char first[ERR_TEXT]; /* the first difference, or else the first damage, and what it means; else "" */
};
/*
 * 0 when all that could be rebuilt is identical (which may be nothing: see the report). ERR_AUTH: a
 * difference or a damage, the first being the sentence and other damages said, or a tape whose chain is broken
 * or is not the head's. The report is filled as far as it went also when it fails.
 */
int replay_run(const struct replay_conf *c, struct replay_report *out, struct say *say) ERR_MUST;
/* A few lines for people, or one JSON object and a line end. */
int replay_format(const struct replay_report *r, bool json, struct buf *out) ERR_MUST;

#endif
