/*
 * tape - what the syncers of a run decided, and from what: append-only text, chained by hashes.
 *
 *     line = NUMBER SECONDS KIND KEY=VALUE... HASH
 *
 * NUMBER counts from 1 through the run. SECONDS is the syncer's own clock since its epoch began.
 * HASH is the first 32 hex digits of C_i = BLAKE2b-256(C_(i-1) || the line without its last word and the
 * blank before it), C_0 = BLAKE2b-256("dl-tape-1" || run id). A value is ASCII without blanks, control
 * characters and '%': other bytes are %XX; it may be empty. dl-tape(5).
 *
 * Each epoch has a file of its own, syncer/tape.E, so that a syncer that has been superseded and does not
 * know it yet appends to nobody's chain. Its first line, and no other, is `epoch`, which says behind which
 * line of the epochs before it goes on: what those wrote later does not count. The head, sealed, has
 * number and hash of the last line it knows. A last line that is cut short, or has NULs as a power failure
 * leaves them, was never acted on: it is an end for readers, and tape_open cuts it off.
 *
 *     KIND      KEYS
 *     epoch     epoch after(line) hash(of that line) syncer(fingerprint) nonce at(wall clock, for people)
 *     manifest  serial
 *     join      learner key(base64 of its public key) incarnation
 *     lost      learner silent(seconds)
 *     back      learner incarnation
 *     gone      learner
 *     call      round fragment version invited(all or NAME,NAME) steps(median since its base)
 *     answer    round fragment learner id incarnation steps tokens trained(interval end) step loss
 *     refuse    round fragment learner id verdict tokens why         late answers: verdict=late
 *     merge     round fragment version base(id) merge(digest) rule outer_lr momentum step tokens [prior=none]
 *               quorum(seconds) waited(seconds) xi_step xi_quorum xi_sync slack window
 *               answers(LEARNER:ID:SHARE:NORM,...)                   the decision: before it is published
 *     publish   round fragment version id content outer(content)     it is out
 *     abandon   round fragment why                                   a decision that can't be carried out
 *     checkpoint step id
 *     finish    why(target_steps, target_tokens)
 *     done      step tokens trained
 *     end       -                       the syncer left on purpose: nobody need wait for it to be silent
 *
 * An accepted answer stands in exactly one merge that is followed by its publish.
 */
#ifndef TAPE_H
#define TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "form/key.h"
#include "form/sig.h"

#define TAPE_LINE ((size_t)4 << 20) /* longest line, its end included: 20,000 answers merged at once */
#define TAPE_FIELDS 64              /* most of a line */
#define TAPE_EPOCHS 1000000         /* highest epoch */

/* ---- one line ---- */

struct tape_field {
	const char *key, *value; /* the value as it was before escaping */
};
struct tape_line {
	uint64_t epoch, number;
	double seconds;
	const char *kind;
	struct tape_field field[TAPE_FIELDS];
	size_t fields;
	digest hash; /* C_i */
};
const char *tape_text(const struct tape_line *l, const char *key); /* "" when it is not there */
uint64_t tape_u64(const struct tape_line *l, const char *key);     /* 0 when it is not there or no number */
double tape_f64(const struct tape_line *l, const char *key);
int tape_id(const struct tape_line *l, const char *key, digest *id) ERR_MUST; /* ERR_DATA when it is none */

/* One of `answers` of a merge: LEARNER:ID:SHARE:NORM, commas between them; ID has 64 hex digits. */
struct tape_answer {
	char learner[KEY_NAME + 1];
	digest id;
	double share, norm;
};
/* Appends one, and a comma before it unless out is empty: for tape_put(t, "answers", out.data). */
int tape_answer_add(struct buf *out, const struct tape_answer *a) ERR_MUST;
/* 1 and the next one, *at moving on from the value of `answers`; 0 at the end. */
int tape_answer_next(struct tape_answer *a, const char **at) ERR_MUST;

/* ---- writing ---- */

struct tape; /* the file of one epoch, open for appending */
/* Makes or opens syncer/tape.E of a run behind line `number` with hash `last` (0 and its C_0 for the
 * first); a torn last line is cut off. ERR_DATA when the file does not go on from there. */
int tape_open(struct tape **out, const char *run, uint64_t epoch, uint64_t number, const digest *last)
	ERR_MUST;
void tape_close(struct tape *t);
void tape_start(digest *out, const char *run); /* C_0 */
/*
 * Begins a line; fields follow; tape_end appends it in one write. An error on the way is reported by
 * tape_end. durable: fsync, of all lines so far. A failed append leaves the file as it was (cut back),
 * number and hash too, and the line is dropped: begin it again.
 */
void tape_begin(struct tape *t, double seconds, const char *kind);
void tape_put(struct tape *t, const char *key, const char *value);
void tape_put_u64(struct tape *t, const char *key, uint64_t value);
void tape_put_f64(struct tape *t, const char *key, double value);
void tape_put_id(struct tape *t, const char *key, const digest *id); /* 64 hex digits */
int tape_end(struct tape *t, bool durable) ERR_MUST;
/* Was the last failure of tape_end that lines are gone that were there? ERR_AUTH, and no line follows any more.
 * What somebody else appended is cut off: ERR_DATA, once. */
bool tape_lost(const struct tape *t);
uint64_t tape_lines(const struct tape *t); /* number of the last line */
void tape_last(const struct tape *t, digest *out);

/* ---- reading ---- */

struct tape_reader;
/* All epochs up to `epoch`, in the order of the chain, lines that were superseded left out. A run without
 * a tape has an empty one. */
int tape_read_open(struct tape_reader **out, const char *run, uint64_t epoch) ERR_MUST;
void tape_read_close(struct tape_reader *r);
/*
 * 1 and a line, valid until the next call. 0 at the end; called again, it goes on with what has been
 * appended since, at the cost of one read. ERR_AUTH where the chain breaks: "syncer/tape.2: line 17: ...".
 * ERR_AGAIN when lines that were read have been superseded: close, and begin again.
 */
int tape_read(struct tape_reader *r, const struct tape_line **line) ERR_MUST;
/* After a 0: does the file end with a torn line, or one that is just being written? */
bool tape_read_torn(const struct tape_reader *r);
/* Later epochs count too from now on; never fewer. */
void tape_read_upto(struct tape_reader *r, uint64_t epoch);
/* Number and hash of the last line that was read: 0 and C_0 before the first. */
uint64_t tape_read_number(const struct tape_reader *r);
void tape_read_hash(const struct tape_reader *r, digest *out);

/* What the sealed head says: line `number` has this hash. ERR_AUTH from tape_read when it has another, or
 * when the tape ends before it. */
void tape_read_expect(struct tape_reader *r, uint64_t number, const digest *hash);

/* The highest epoch that has a file, 0 for none: for a reader without a head. */
int tape_newest(uint64_t *epoch) ERR_MUST;

#endif
