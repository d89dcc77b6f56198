/*
 * shard - a run of token ids in a sealed file (.tok), read at random.
 *
 * One tensor `tokens` (u8, u16 or u32 by vocabulary), small slices. Header keys: vocab, vocabulary, part and parts
 * (its place in its split, from 0; part is `valid` for a holdout), bytes (of the text it came from; absent
 * when unknown), block (tokens dealt out at a time; absent when not split).
 * Larger than memory is fine: a sample is read by pread through the index and verified (an mmap would
 * answer a truncated file with SIGBUS). A shard from a pipe is spooled first.
 */
#ifndef SHARD_H
#define SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/tensor.h"
#include "form/frame.h"
#include "form/vocab.h"

struct shard_info {
	uint32_t vocab;        /* ids are below it; >= 1 */
	uint64_t tokens;       /* >= 1 */
	uint64_t bytes, block; /* 0: unknown; not split */
	uint64_t part, parts;  /* part < parts; parts is 0: not of a split */
	bool valid;            /* the part held out */
	char vocabulary[VOCAB_DIGEST]; /* digest of what its ids stand for (vocab.h); "": unknown */
};

struct shard;
int shard_open(struct shard **out, const char *path, const struct trust *trust) ERR_MUST;
void shard_close(struct shard *s);
const struct shard_info *shard_info(const struct shard *s);
const digest *shard_id(const struct shard *s);
/* Is it made for a model of this vocabulary, size and digest ("": unknown)? As vocab_fits. Ids that
 * happen to be small enough would train a model, and measure it, on what they do not mean. */
int shard_want_vocab(const struct shard *s, uint32_t vocab, const char *vocabulary) ERR_MUST;
const char *shard_name(const struct shard *s); /* the path it was opened by, for messages */
/* n ids from position `at`; ERR_DATA when they are not all there, or an id is not below vocab. Not for two
 * threads at once on one shard. */
int shard_read(struct shard *s, uint32_t *out, uint64_t at, size_t n) ERR_MUST;

/* Writing: the number of tokens is known beforehand. */
struct shard_writer;
int shard_create(struct shard_writer **out, int fd, const struct shard_info *info, const struct sig_secret *key)
	ERR_MUST;
/* ERR_DATA naming the first id that is not below vocab. */
int shard_write(struct shard_writer *w, const uint32_t *ids, size_t n) ERR_MUST;
int shard_finish(struct shard_writer *w, digest *id) ERR_MUST; /* id may be NULL */
void shard_writer_free(struct shard_writer *w);

#endif
