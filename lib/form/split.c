#include "form/split.h"

#include <inttypes.h>

static uint64_t all_blocks(const struct split *s)
{
	return s->tokens / s->block + (s->tokens % s->block != 0);
}

static uint64_t held_blocks(const struct split *s)
{
	return s->every ? all_blocks(s) / s->every : 0;
}

/* The first of the blocks not held out, numbered by themselves, that is in region `part`. */
static uint64_t region_start(const struct split *s, uint64_t part)
{
	uint64_t rest = all_blocks(s) - held_blocks(s);

	/* rest * part / parts without the product, which could wrap */
	return rest / s->parts * part + rest % s->parts * part / s->parts;
}

int split_check(const struct split *s)
{
	uint64_t all = all_blocks(s), held = held_blocks(s);

	if (s->every && held == 0)
		return err_set(ERR_DATA, "nothing would be held out: %" PRIu64 " tokens are %" PRIu64
			       " blocks of %" PRIu64 ", fewer than the %" PRIu64
			       " of which one is held out (smaller blocks: --block)",
			       s->tokens, all, s->block, s->every);
	if (all - held < s->parts)
		return err_set(ERR_DATA, "%" PRIu64 " shards, but %" PRIu64 " tokens are only %" PRIu64
			       " blocks of %" PRIu64 " to share out (smaller blocks: --block)",
			       s->parts, s->tokens, all - held, s->block);
	return 0;
}

uint64_t split_blocks(const struct split *s, uint64_t part)
{
	uint64_t rest = all_blocks(s) - held_blocks(s);

	if (part == SPLIT_VALID)
		return held_blocks(s);
	if (s->contiguous)
		return region_start(s, part + 1) - region_start(s, part);
	return rest / s->parts + (part < rest % s->parts);
}

/* The number in the whole corpus of the i-th block of a part. */
static uint64_t block_number(const struct split *s, uint64_t part, uint64_t i)
{
	uint64_t j;

	if (part == SPLIT_VALID)
		return i * s->every + s->every - 1;
	j = s->contiguous ? region_start(s, part) + i : i * s->parts + part;
	return s->every ? j + j / (s->every - 1) : j;
}

uint64_t split_at(const struct split *s, uint64_t part, uint64_t i, uint64_t *n)
{
	uint64_t at = block_number(s, part, i) * s->block;

	*n = s->tokens - at < s->block ? s->tokens - at : s->block;
	return at;
}

uint64_t split_tokens(const struct split *s, uint64_t part)
{
	uint64_t blocks = split_blocks(s, part), n;

	if (blocks == 0)
		return 0;
	split_at(s, part, blocks - 1, &n);
	return (blocks - 1) * s->block + n;
}
