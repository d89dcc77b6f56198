/*
 * content - a digest of what a file says, whoever sealed it and however it is stored: names, types,
 * shapes and decoded values in order. Two people who arrive at the same model compare it.
 *
 *     values = BLAKE2b-256 of, for each tensor: "NAME DTYPE SHAPE\n", then its elements,
 *              little-endian (f32: the bits of the decoded floats)
 *     rests  = the same for the remainders of f32r tensors, other tensors having only their line
 *     content = values if all remainders are zero, else BLAKE2b-256(values || rests)
 *
 * A checkpoint in f32 and its bf16 have the same content if nothing was lost by rounding.
 */
#ifndef CONTENT_H
#define CONTENT_H

#include "form/frame.h"

struct content {
	const struct tensors *tensors;
	struct sig_hash values, rests;
	bool rest; /* some remainder is not zero */
};
void content_init(struct content *c, const struct tensors *ts); /* ts stays the caller's */
void content_add(struct content *c, const struct frame_slice *s); /* slices in order */
void content_end(struct content *c, digest *out);
/* That of a file of which only the header is read, to its verified end. ERR_IO once stop (may be NULL) says so. */
int content_read(digest *out, struct frame_reader *r, int (*stop)(void)) ERR_MUST;

#endif
