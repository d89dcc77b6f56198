/*
 * transcript - token ids as a person or a pipe reads them, and a prompt as token ids.
 *
 * Where ids are bytes: as they are, or, for a terminal, with control characters and invalid UTF-8
 * escaped (\x1b), line by line. Others belong to a tokenizer elsewhere: ids in decimal, a blank between
 * them.
 */
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct transcript {
	int fd;            /* the caller's */
	bool numbers, terminal;
	uint64_t count;    /* ids so far */
	struct buf line;   /* not written yet */
};

/* numbers: ids are not bytes. */
void transcript_init(struct transcript *t, int fd, bool numbers, bool terminal);
int transcript_add(struct transcript *t, uint32_t id) ERR_MUST;
/* Writes what is left, with an end of line unless the output is raw bytes. */
int transcript_end(struct transcript *t) ERR_MUST;
void transcript_release(struct transcript *t);

/* The ids of a prompt: its bytes, or its decimal numbers. *ids has room for `more` further ones and
 * is freed by the caller. ERR_USAGE when there is none, or one is not below vocab. */
int transcript_prompt(uint32_t **ids, size_t *n, const char *text, bool numbers, uint32_t vocab,
	size_t more) ERR_MUST;

#endif
