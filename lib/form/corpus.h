/*
 * corpus - text or token ids from files and pipes, as one array of known length, read at random.
 *
 * Bytes are ids below 256, whatever text they are. Ids come as text (see ids.h) or as little-endian
 * u16 or u32. Several inputs follow one another with nothing in between. Regular files are read
 * where they are; what comes from a pipe, and ids from text, goes through an unlinked temporary
 * file: memory does not grow with the corpus.
 */
#ifndef CORPUS_H
#define CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum corpus_format { CORPUS_BYTES, CORPUS_IDS, CORPUS_U16, CORPUS_U32 };
struct corpus_conf {
	enum corpus_format format;
	uint32_t vocab; /* 256 for bytes */
	bool ends;      /* CORPUS_IDS: lines end with the id `end` */
	uint32_t end;
};
/* Descriptor and name for messages; both stay the caller's and in place until corpus_close. */
struct corpus_input {
	int fd;
	const char *name;
};

struct corpus;
/* Reads pipes and ids to their end. Errors name the input; a sealed file is none. */
int corpus_open(struct corpus **out, const struct corpus_conf *c, const struct corpus_input *in, size_t n)
	ERR_MUST;
void corpus_close(struct corpus *c);
uint64_t corpus_tokens(const struct corpus *c);
/* n ids from position at; ERR_DATA when they are not all there (any more), or one is not below vocab. */
int corpus_read(struct corpus *c, uint32_t *out, uint64_t at, size_t n) ERR_MUST;

#endif
