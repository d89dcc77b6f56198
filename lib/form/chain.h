/*
 * chain - the fixed small pieces of dl-frame(5), and the hash chain through the frames of a file.
 * Private to the readers and the writer of sealed files; frame.h has the picture.
 */
#ifndef CHAIN_H
#define CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "form/sig.h"

#define CHAIN_MAGIC 8
#define CHAIN_PREAMBLE (CHAIN_MAGIC + SIG_PUBLIC) /* magic, signer */
#define CHAIN_PRELUDE 12
#define CHAIN_TRAILER (16 + SIG_DIGEST)

#define CHAIN_RAW 1048576    /* most bytes of a payload before compression */
#define CHAIN_STORED 1052672 /* and after: what zstd can make of them at worst */

enum chain_kind { CHAIN_HEADER = 1, CHAIN_DATA, CHAIN_INDEX, CHAIN_FINAL };
#define CHAIN_LAST 1 /* flag of the last header frame */

struct prelude {
	uint8_t kind, flags;
	uint16_t zero;
	uint32_t stored, raw;
};
void prelude_put(uint8_t out[CHAIN_PRELUDE], const struct prelude *p);
/* Checks nothing but the sizes, for nothing else is needed to read the frame and verify it:
 * ERR_AUTH. */
int prelude_get(struct prelude *p, const uint8_t in[CHAIN_PRELUDE]) ERR_MUST;

void preamble_put(uint8_t out[CHAIN_PREAMBLE], const struct sig_public *signer);
/* Are these the first bytes of a sealed file? */
bool preamble_sealed(const uint8_t in[CHAIN_MAGIC]);
/* n is how many bytes there were. ERR_DATA "not a dl file", ERR_AUTH when it is one but damaged or
 * cut. */
int preamble_get(struct sig_public *signer, const uint8_t in[CHAIN_PREAMBLE], size_t n) ERR_MUST;

struct chain {
	digest c;        /* of the last frame so far */
	uint64_t number; /* of the next frame */
};
void chain_start(struct chain *c, const struct sig_public *signer);
void chain_add(struct chain *c, const digest *h);
/* h of a frame; bytes: prelude and payload. */
void chain_hash(digest *h, uint64_t number, const uint8_t *bytes, size_t n);
/* The same of n <= LANES frames at once. */
struct chain_frame {
	uint64_t number;
	const uint8_t *bytes;
	size_t n;
};
void chain_hash_many(digest *out, const struct chain_frame *f, size_t n);

/* What a seekable reader needs to verify the final frame: its number and offset and the C before
 * it. */
struct trailer {
	uint64_t number, offset;
	digest before;
};
void trailer_put(uint8_t out[CHAIN_TRAILER], const struct trailer *t);
void trailer_get(struct trailer *t, const uint8_t in[CHAIN_TRAILER]);

#endif
