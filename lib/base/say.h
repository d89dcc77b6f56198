/*
 * say - words for people on standard error, always one line each, "program: text".
 *
 * A struct say is made by the program and passed down; the library prints nothing
 * without one (NULL is silent). Progress lines overwrite themselves on a terminal
 * and appear otherwise only with -v, at most one every few seconds.
 */
#ifndef SAY_H
#define SAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct say {
	const char *program;
	bool quiet, verbose, terminal;
	bool open;      /* a progress line is on the screen */
	double shown;   /* when, by clock_monotonic */
};

void say_init(struct say *s, const char *program, bool quiet, bool verbose);
void say_warn(struct say *s, const char *fmt, ...) ERR_PRINTF(2, 3); /* unless quiet */
void say_note(struct say *s, const char *fmt, ...) ERR_PRINTF(2, 3); /* only when verbose */
/* True when a progress line is due now: build it only then. */
bool say_due(struct say *s);
void say_progress(struct say *s, const char *fmt, ...) ERR_PRINTF(2, 3);
void say_progress_end(struct say *s);
/* Prints "program: err_text()" even when quiet; returns err_status(code). */
int say_error(struct say *s, int code);
/* Writes s to out with control characters and invalid UTF-8 escaped (\n, \x1b ...). */
void say_escape(char *out, size_t cap, const char *s);

#endif
