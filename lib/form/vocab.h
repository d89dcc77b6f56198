/*
 * vocab - a tokenizer's vocabulary: what its token ids stand for.
 *
 * Read from a model of SentencePiece (its tokenizer.model, a protocol buffer) up to VOCAB_FILE bytes.
 * Ids are the numbers of the pieces, from 0.
 *
 * The digest of a vocabulary is BLAKE2b-256 of "dl vocabulary 1\n" and of each piece, in order, its
 * length (u64, little-endian) and its bytes. So it is the same whatever file the pieces come from, and
 * says nothing of how a text is cut into them: it tells whether two files mean the same by their ids.
 */
#ifndef VOCAB_H
#define VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define VOCAB_FILE ((size_t)32 << 20)   /* longest file that is read */
#define VOCAB_MOST ((size_t)1 << 20)    /* most pieces */
#define VOCAB_DIGEST 65                 /* hex digits and NUL */

enum vocab_kind { /* how SentencePiece cuts text into pieces, as it numbers them */
	VOCAB_UNIGRAM = 1, VOCAB_BPE, VOCAB_WORD, VOCAB_CHAR
};
enum piece_type { /* as SentencePiece and gguf number them */
	PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER, PIECE_UNUSED, PIECE_BYTE
};
struct piece {
	uint32_t at, n; /* its bytes within vocab.bytes; at least one, no NUL */
	float score;
	enum piece_type type;
};

/* Zeroed memory is an empty vocabulary. */
struct vocab {
	struct buf bytes;           /* what it was read from */
	struct piece *v;
	size_t n, cap;
	enum vocab_kind kind;
	int32_t unk, bos, eos, pad; /* ids; -1: none */
	bool dummy_prefix;          /* a blank is put before a text */
	bool squeeze;               /* blanks at its ends and runs of them are dropped */
	bool suffix;                /* blanks end pieces instead of beginning them */
	uint32_t charsmap, charsmap_n; /* rules of normalisation, within bytes */
};

void vocab_release(struct vocab *v);
/* Fills an empty vocabulary from a file, or the tokenizer.model of a directory; errors begin with its path,
 * ERR_DATA for what makes no sense. */
int vocab_load(struct vocab *v, const char *path) ERR_MUST;
/* The same from memory. */
int vocab_parse(struct vocab *v, const char *bytes, size_t n) ERR_MUST;
void vocab_digest(char out[VOCAB_DIGEST], const struct vocab *v);
/* The digest and size of what an option --tokenizer names: a file for vocab_load; or the digest itself,
 * 64 hex digits, for tokenizers that are not read here: then *n is 0. */
int vocab_identify(char out[VOCAB_DIGEST], uint32_t *n, const char *arg) ERR_MUST;
/* ERR_USAGE when the output of this path (as for output_apart) is the file that vocab_load reads for arg; arg NULL:
 * none. */
int vocab_apart(const char *output, const char *arg) ERR_MUST;
/* 0, or ERR_DATA: is this 64 hex digits? `what` is for the message. */
int vocab_digest_check(const char *what, const char *hex) ERR_MUST;
/*
 * May ids of the vocabulary `a` of size `a_n` be used where those of `b` are meant? Digests are hex, or
 * "" where a file does not know its own. 0; ERR_DATA "vocabulary ..., the model's is ..." when both are
 * known and differ, or a_n > b_n; when one is unknown, sizes must be equal.
 */
int vocab_fits(const char *a, uint32_t a_n, const char *b, uint32_t b_n) ERR_MUST;

#endif
