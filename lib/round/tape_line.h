/*
 * tape_line - the text of one line of a tape and what it says; for tape and tape_read only.
 */
#ifndef TAPE_LINE_H
#define TAPE_LINE_H

#include <stdbool.h>

#include "base/buf.h"
#include "round/tape.h"

#define TAPE_HASH 32 /* hex digits at the end of a line */

/* The directory syncer/ of the run that was entered; its tape of an epoch, opened with the flags. 1 and a
 * descriptor, 0 when it is not there. No symbolic link is followed. */
int tape_directory(int *dir) ERR_MUST;
int tape_file(int dir, uint64_t epoch, int flags, int *fd) ERR_MUST;

bool tape_kind_good(const char *kind);
bool tape_key_good(const char *key);
/* Appends a value with what needs it escaped. */
int tape_escape(struct buf *out, const char *value) ERR_MUST;
/* C_i of a line without its hash and end. */
void tape_chain(digest *hash, const digest *before, const char *text, size_t n);
/* The number that a line begins with, 0 when it is none. */
uint64_t tape_number(const char *text, size_t n);
/*
 * Takes a line (n bytes and a NUL after them, without its end) behind the one of `number` and `hash`
 * apart, in place: *l points into it. ERR_AUTH.
 */
int tape_parse(struct tape_line *l, char *text, size_t n, uint64_t number, const digest *hash) ERR_MUST;

#endif
