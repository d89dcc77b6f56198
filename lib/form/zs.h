/*
 * zs - one block in, one zstd frame out, and back with its exact size known beforehand. The only
 * file that includes zstd.h.
 */
#ifndef ZS_H
#define ZS_H

#include <stddef.h>

#include "base/err.h"

/* A context per thread: contexts are big and reused. Zeroed memory is ready to use. */
struct zs {
	void *text, *planes, *unpack;
};
void zs_release(struct zs *z);
size_t zs_bound(size_t n); /* room that n bytes can need when compressed */
/* *out_n is the room on entry, the size on return. Same input, same library: same bytes. */
int zs_pack(struct zs *z, void *out, size_t *out_n, const void *in, size_t n) ERR_MUST;
/* For byte planes of floats: `head` bytes, then planes of `plane` bytes each. Same format, other
 * means. */
int zs_pack_planes(struct zs *z, void *out, size_t *out_n, const void *in, size_t n, size_t head,
	size_t plane) ERR_MUST;
/* Exactly n bytes come out of exactly one frame of in_n bytes, or ERR_DATA. Allocates no window. */
int zs_unpack(struct zs *z, void *out, size_t n, const void *in, size_t in_n) ERR_MUST;

#endif
