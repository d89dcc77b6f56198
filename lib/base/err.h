/*
 * err - a closed list of error codes and one sentence for people.
 *
 * Library functions return 0 (or a non-negative count) for success and a
 * negative `enum err` for failure. The failing function also leaves a sentence,
 * without program name, newline or full stop, in a thread-local slot:
 *
 *     if (n < 0)
 *         return err_sys("read");                  "read: Input/output error"
 *     if (bad)
 *         return err_set(ERR_DATA, "frame %u: count is %u, limit is %u", ...);
 *     if ((rc = inner(...)) < 0)
 *         return err_at(rc, "%s", file);           "b.delta: frame 7: ..."
 *
 * Programs print it once: `dl-merge: b.delta: frame 7: seal does not verify`.
 */
#ifndef ERR_H
#define ERR_H

#define ERR_MUST __attribute__((warn_unused_result))
#define ERR_PRINTF(f, a) __attribute__((format(printf, f, a)))

enum err {
	ERR_OK = 0,
	ERR_IO = -1,     /* the system said no: exit status 1 */
	ERR_NOMEM = -2,  /* memory: 1 */
	ERR_DATA = -3,   /* input that makes no sense: 1 */
	ERR_USAGE = -4,  /* called wrongly, or a bad configuration: 2 */
	ERR_AUTH = -5,   /* not authentic: untrusted, damaged, truncated, replayed, foreign: 3 */
	ERR_AGAIN = -6,  /* not yet: no quorum: 4 */
	ERR_BUSY = -7    /* somebody else holds it: 4 */
};

#define ERR_TEXT 1024

/* Sets the sentence and returns `code`. */
int err_set(enum err code, const char *fmt, ...) ERR_PRINTF(2, 3);
/* Sets "<fmt>: strerror(errno)"; returns ERR_NOMEM for ENOMEM, else ERR_IO. */
int err_sys(const char *fmt, ...) ERR_PRINTF(1, 2);
/* Puts "<fmt>: " before the sentence; returns `code` as it came. */
int err_at(int code, const char *fmt, ...) ERR_PRINTF(2, 3);
/* Sets "out of memory"; returns ERR_NOMEM. */
int err_nomem(void);

/* The sentence of this thread; valid until its next err_ call. */
const char *err_text(void);
/* The exit status of a code: 0 for >= 0, else as listed above. */
int err_status(int code);

/* Carries a code and its sentence from one thread to another. */
struct err_note {
	int code;
	char text[ERR_TEXT];
};
void err_save(struct err_note *note, int code);
int err_restore(const struct err_note *note); /* returns note->code */

#endif
