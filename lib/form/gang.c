#include "form/gang.h"

#include <stdlib.h>

#include "form/lanes.h"

int gang_init(struct gang *g, struct pool *pool, int batches)
{
	int threads = pool_threads(pool), rc = 0;

	*g = (struct gang){ .pool = pool, .batches = threads > 1 ? batches : 1, .size = threads };
	if (threads > 1 && threads < LANES)
		g->size = LANES; /* as many as are hashed together */
	if (!(g->zs = calloc((size_t)threads, sizeof *g->zs)))
		return err_nomem();
	for (int k = 0; k < g->batches; k++) {
		struct batch *b = &g->batch[k];

		if (!(b->block = calloc((size_t)g->size, sizeof *b->block)))
			return err_nomem();
		for (int i = 0; i < g->size && rc == 0; i++)
			rc = block_init(&b->block[i]);
	}
	return rc;
}

/* A block has its elements stored, unpacked and decoded; zstd has a table for each thread. */
size_t gang_bytes(int threads, int batches, uint64_t frames, uint64_t most)
{
	const uint64_t size = threads > 1 && threads < LANES ? LANES : (uint64_t)threads;
	const uint64_t all = threads > 1 ? (uint64_t)batches * size : 1;
	const uint64_t blocks = frames < all ? frames : all, each = most < GANG_FRAME ? most : GANG_FRAME;
	const uint64_t working = frames < (uint64_t)threads ? frames : (uint64_t)threads;

	return (size_t)(blocks * (3 * each - each / 4) + working * (GANG_FRAME / 2));
}

void gang_release(struct gang *g)
{
	for (int k = 0; k < g->batches; k++) {
		for (int i = 0; g->batch[k].block && i < g->size; i++)
			block_release(&g->batch[k].block[i]);
		free(g->batch[k].block);
	}
	for (int i = 0; g->zs && i < pool_threads(g->pool); i++)
		zs_release(&g->zs[i]);
	free(g->zs);
	*g = (struct gang){ 0 };
}

int batch_parts(const struct batch *b)
{
	return (b->n + LANES - 1) / LANES;
}

void batch_hash(struct batch *b, int part)
{
	struct block *lane[LANES];
	int n = 0;

	for (int i = part * LANES; i < b->n && n < LANES; i++)
		lane[n++] = &b->block[i];
	block_hash_many(lane, (size_t)n);
}
