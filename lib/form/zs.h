/*
 * zs - one block in, one zstd frame out, and back with its exact size known beforehand. The only
 * file that includes zstd.h.
 */
#ifndef ZS_H
#define ZS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A context per thread: contexts are big and reused. Zeroed memory is ready to use. */
struct zs {
	void *pack, *unpack;
};
void zs_release(struct zs *z);
size_t zs_bound(size_t n); /* room that n bytes can need when compressed */
/* What the bytes are like. */
enum zs_kind {
	ZS_TEXT,  /* text, tables, token ids: what came before comes again */
	ZS_PLANES /* byte planes of floats: some bytes are frequent, but their order means little */
};
/* *out_n is the room on entry, the size on return. Same input, same kind, same library: same bytes. */
int zs_pack(struct zs *z, void *out, size_t *out_n, const void *in, size_t n, enum zs_kind kind) ERR_MUST;
/* Exactly n bytes come out of exactly one frame of in_n bytes, or ERR_DATA. Allocates no window. */
int zs_unpack(struct zs *z, void *out, size_t n, const void *in, size_t in_n) ERR_MUST;

#endif
