/*
 * block - one frame in memory: packed, hashed and signed on its way out; hashed, verified, unpacked
 * and decoded on its way in. Blocks of one file share nothing but the chain, so threads can work
 * on several.
 *
 *     out:  fill raw and p; block_pack; set number; block_hash; set c from the chain; block_sign;
 *           block_store
 *     in:   block_load, set number; block_hash; set c from the chain; block_open
 */
#ifndef BLOCK_H
#define BLOCK_H

#include "base/tensor.h"
#include "form/chain.h"
#include "form/frame.h"
#include "form/zs.h"

#define BLOCK_SLICE 24 /* bytes before the elements in the payload of a data frame */

struct block {
	uint64_t number, offset;
	struct prelude p;
	digest before, h, c; /* C of the frame before; h and C of this one */
	uint8_t *image; /* as in the file: prelude, payload, seal */
	uint8_t *raw;   /* the payload, unpacked: CHAIN_RAW bytes */
	uint8_t *plain; /* its elements, decoded: CHAIN_RAW bytes */
	struct frame_slice slice; /* of a data frame */
};

int block_init(struct block *b) ERR_MUST;
void block_release(struct block *b);
uint8_t *block_image(void); /* room for an image; NULL: no memory */
size_t block_size(const struct block *b); /* in the file */

/* Elements of t that one frame may hold. */
size_t block_elems(const struct tensor *t);
/* Where plain has the remainders of an f32r slice. */
float *block_rest(const struct block *b);

/* The slice, wherever its values are, to raw. */
void block_encode(struct block *b, const struct tensor *t);
/* plane: bytes of a byte plane of a float tensor's slice, 0 for any other payload. */
int block_pack(struct block *b, struct zs *zs, size_t plane) ERR_MUST;
void block_sign(struct block *b, const struct sig_secret *key);
int block_store(const struct block *b, int fd) ERR_MUST;

/* The frame at b->offset, by position (pread) or as the next bytes. 1, or 0 when the file ends just
 * there; nothing is verified yet. */
int block_load(struct block *b, int fd, bool at) ERR_MUST;
void block_hash(struct block *b);
void block_hash_many(struct block *const b[], size_t n); /* n <= LANES, faster than one by one */
/* Is the seal one of C by the signer? */
bool block_sealed(const struct block *b, const digest *c, const struct sig_public *signer);
/* Verifies the seal and unpacks. From here on the contents are the signer's. */
int block_open(struct block *b, struct zs *zs, const struct sig_public *signer) ERR_MUST;
/* Unpacks a block whose h is known to be right. */
int block_unpack(struct block *b, struct zs *zs) ERR_MUST;
/* raw of a data frame to slice and plain. */
int block_decode(struct block *b, const struct tensors *ts) ERR_MUST;

#endif
