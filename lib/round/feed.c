#include "round/feed.h"

#include <inttypes.h>

#include "base/rng.h"

int feed_init(struct feed *f, struct shard *shard, uint64_t seed, const char *learner,
	uint64_t context, uint32_t vocab, const char *vocabulary)
{
	const struct shard_info *info = shard_info(shard);
	int rc;

	if ((rc = shard_want_vocab(shard, vocab, vocabulary)) < 0)
		return rc;
	f->shard = shard;
	f->context = context;
	f->cursor = 0;
	f->order = (struct batch_order){ seed, rng_stream(learner),
		batch_samples(info->tokens, context) };
	if (f->order.samples == 0)
		return err_set(ERR_DATA,
			"too short: %" PRIu64 " tokens, but one sample of context %" PRIu64
			" needs %" PRIu64,
			info->tokens, context, context + 1);
	return 0;
}

int feed_draw(struct feed *f, uint32_t *ids, uint64_t batch)
{
	uint64_t i, sample;
	int rc;

	for (i = 0; i < batch; i++) {
		sample = batch_sample_at(&f->order, f->cursor + i);
		if ((rc = shard_read(f->shard, ids, sample * f->context, f->context + 1)) < 0)
			return rc;
		ids += f->context + 1;
	}
	f->cursor += batch;
	return 0;
}

uint64_t feed_epoch(const struct feed *f)
{
	return f->cursor / f->order.samples;
}
