#include "math/batch.h"

#include "base/rng.h"

uint64_t batch_samples(uint64_t tokens, uint64_t context)
{
	return tokens > context ? (tokens - 1) / context : 0;
}

uint64_t batch_sample_at(const struct batch_order *o, uint64_t position)
{
	const uint64_t epoch = position / o->samples;

	/* An odd multiplier: a different key for every epoch. */
	return rng_permute(o->seed, o->stream + epoch * 0x9e3779b97f4a7c15u, o->samples,
		position % o->samples);
}
