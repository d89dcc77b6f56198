/*
 * tool - other programs run to their end, alone or as a pipeline, their failure an error of ours.
 */
#ifndef TOOL_H
#define TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { TOOL_WORDS = 64 };

/* The words of one, in the making: zero to begin with, and NULL follows the last. They stay the caller's. With
 * TOOL_WORDS of them or more it is none: NULL comes first, and tool_pipe says so. Not to be copied: `v` points into
 * `count`. */
struct tool_command {
	const char *v[TOOL_WORDS];
	size_t n;
	char count[TOOL_WORDS / 2][21];
};
void tool_add(struct tool_command *c, const char *word);
/* Both or, where the value is NULL, none. */
void tool_add_pair(struct tool_command *c, const char *option, const char *value);
void tool_add_count(struct tool_command *c, const char *option, uint64_t value); /* 0: none */

/*
 * Runs n >= 1 programs, words[i] ending in NULL and beginning with a name for proc_find, the output of
 * each the input of the next. The first reads `in` (-1: nothing), the last writes to `out` (-1: nowhere).
 *
 * The error of a failure is the last line that the program said on standard error, under the code whose
 * exit status it left with; when all went well, what they said is passed on to our own standard error.
 * Of several that fail, the first counts that did not merely die for lack of a reader.
 *
 * A request to stop (wake.h) that comes meanwhile is passed on to all of them, and, when they have ended, is
 * this process's own: it dies by it, or goes on, if it catches it, with ERR_IO "interrupted". After one that it
 * has caught before, nothing is started.
 */
int tool_pipe(const char *const *const *words, size_t n, int in, int out) ERR_MUST;
int tool_run(const char *const *words, int in, int out) ERR_MUST;
/* What it prints, at most `limit` bytes, appended to `text`. */
int tool_read(struct buf *text, const char *const *words, size_t limit) ERR_MUST;

#endif
