/*
 * words - a line of text as the words of a command, with no shell.
 *
 * Blanks separate words. Within '...' everything stands for itself; within "..." too, but for \" and \\;
 * elsewhere a backslash takes the next byte as it is. Nothing is expanded. '#' where a word would begin
 * starts a comment.
 */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct words {
	char **v; /* (n), then NULL */
	size_t n;
};

/* The words of the first `len` bytes of line, into an empty list. ERR_DATA for a quotation that does not
 * end, and for a NUL. */
int words_split(struct words *w, const char *line, size_t len) ERR_MUST;
/* Appends a copy. */
int words_add(struct words *w, const char *word) ERR_MUST;
void words_release(struct words *w);
/* Appends the word as words_split, or a shell, reads it. */
int words_quote(struct buf *out, const char *word) ERR_MUST;
/* Each of a list that NULL ends, a blank before it. */
int words_join(struct buf *out, const char *const *words) ERR_MUST;

#endif
