/*
 * gang - the blocks and contexts with which the threads of a pool work on one file.
 *
 * With one thread there is one block. With more there are two batches, so that one is loaded
 * or stored while the threads compute on the other.
 */
#ifndef GANG_H
#define GANG_H

#include "base/pool.h"
#include "form/block.h"

struct batch {
	struct block *block;
	int n; /* of them in use */
};
struct gang {
	struct pool *pool;
	struct zs *zs; /* one a thread */
	struct batch batch[2];
	int batches, size; /* how many batches, of how many blocks */
};
/* gang_release also after a failure. The pool stays the caller's. */
int gang_init(struct gang *g, struct pool *pool) ERR_MUST;
void gang_release(struct gang *g);

#endif
