/* Every block is in exactly one part, whatever the numbers; the small cases by hand. */
#include <stdlib.h>

#include "form/split.h"
#include "unit.h"

/* Each token of the corpus is in one part, once, in order within it. */
static void check_partition(const struct split *s)
{
	unsigned char *seen = calloc(s->tokens, 1);
	uint64_t total = 0, n;

	for (uint64_t k = 0; k <= s->parts; k++) {
		uint64_t part = k < s->parts ? k : SPLIT_VALID, blocks = split_blocks(s, part);
		uint64_t last = 0, sum = 0;

		for (uint64_t i = 0; i < blocks; i++) {
			uint64_t at = split_at(s, part, i, &n);

			CHECK(n > 0 && n <= s->block && at + n <= s->tokens);
			CHECK(i == 0 || at >= last);
			for (uint64_t t = at; t < at + n && t < s->tokens; t++)
				seen[t]++;
			last = at + n;
			sum += n;
		}
		CHECK(sum == split_tokens(s, part));
		total += sum;
	}
	CHECK(total == s->tokens);
	for (uint64_t t = 0; t < s->tokens; t++)
		if (seen[t] != 1) {
			CHECK(seen[t] == 1);
			break;
		}
	free(seen);
}

static void test_partitions(void)
{
	for (uint64_t tokens = 1; tokens <= 60; tokens += 3)
		for (uint64_t block = 1; block <= 9; block += 2)
			for (uint64_t parts = 1; parts <= 7; parts++)
				for (uint64_t every = 0; every <= 5; every++) {
					struct split s = { tokens, block, parts, every, tokens % 2 };

					if (every != 1 && split_check(&s) == 0)
						check_partition(&s);
				}
}

static void test_by_hand(void)
{
	/* blocks 0..9, of 10 tokens, the last of 5; 4 and 9 held out: 0 1 2 3 5 6 7 8 to share */
	struct split s = { .tokens = 95, .block = 10, .parts = 3, .every = 5 };
	uint64_t n;

	CHECK(split_check(&s) == 0);
	CHECK(split_blocks(&s, SPLIT_VALID) == 2 && split_tokens(&s, SPLIT_VALID) == 15);
	CHECK(split_at(&s, SPLIT_VALID, 1, &n) == 90 && n == 5);
	CHECK(split_blocks(&s, 0) == 3 && split_blocks(&s, 2) == 2);
	CHECK(split_at(&s, 0, 1, &n) == 30 && n == 10);
	CHECK(split_at(&s, 1, 1, &n) == 50 && n == 10);
	s.contiguous = true;
	CHECK(split_blocks(&s, 0) == 2 && split_blocks(&s, 1) == 3 && split_blocks(&s, 2) == 3);
	CHECK(split_at(&s, 1, 2, &n) == 50);
	CHECK(split_at(&s, 2, 0, &n) == 60);
}

static void test_too_many(void)
{
	struct split s = { .tokens = 100, .block = 10, .parts = 11 };

	CHECK(split_check(&s) == ERR_DATA);
	CHECK_SAYS("11 shards, but 100 tokens are only 10 blocks of 10");
	s.parts = 10;
	CHECK(split_check(&s) == 0);
	s.every = 10;
	CHECK(split_check(&s) == ERR_DATA);
	s.parts = 9;
	CHECK(split_check(&s) == 0);
	s.every = 11;
	CHECK(split_check(&s) == ERR_DATA);
	CHECK_SAYS("nothing would be held out");
}

static void test_large(void)
{
	struct split s = { .tokens = ((uint64_t)1 << 48) - 1, .block = 1, .parts = 4096, .every = 20,
			   .contiguous = true };
	uint64_t total = split_tokens(&s, SPLIT_VALID), n;

	for (uint64_t p = 0; p < s.parts; p++)
		total += split_tokens(&s, p);
	CHECK(total == s.tokens);
	CHECK(split_at(&s, 4095, split_blocks(&s, 4095) - 1, &n) == s.tokens - 1);
}

int main(void)
{
	test_partitions();
	test_by_hand();
	test_too_many();
	test_large();
	return unit_done("split");
}
