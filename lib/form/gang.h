/*
 * gang - the blocks and contexts with which the threads of a pool work on one file.
 *
 * With one thread there is one block. With more there are several batches of blocks, so that one
 * can be loaded or stored while the threads compute on another.
 */
#ifndef GANG_H
#define GANG_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "form/block.h"

#define GANG_BATCHES 3 /* at most */

struct batch {
	struct block *block;
	int n; /* of them in use */
};
struct gang {
	struct pool *pool;
	struct zs *zs; /* one a thread */
	struct batch batch[GANG_BATCHES];
	int batches, size; /* how many batches, of how many blocks */
};
/* gang_release also after a failure. The pool stays the caller's. */
int gang_init(struct gang *g, struct pool *pool, int batches) ERR_MUST;
void gang_release(struct gang *g);
/* Bytes that a gang has in use for a file of so many frames, with up to `most` bytes of elements in one. */
size_t gang_bytes(int threads, int batches, uint64_t frames, uint64_t most);
#define GANG_FRAME 1048576 /* no frame has more */

/* Blocks are hashed in parts of a few, which is faster than one by one: part in [0, batch_parts). */
int batch_parts(const struct batch *b);
void batch_hash(struct batch *b, int part);

#endif
