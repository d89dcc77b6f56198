/* feed - batches of a shard in a learner's order. */
#include "round/feed.h"

#include <stdlib.h>
#include <unistd.h>

#include "form/split.h"
#include "unit.h"

#define CONTEXT 4
#define SAMPLES 25

static struct trust trust;

/* A shard of ids 0, 1, 2, ..., so that an id says where it was; or one part of them. */
static void make_shard(const char *path, const struct key *key, const struct split *s, uint64_t part)
{
	const struct shard_info info = { .vocab = 1000, .tokens = split_tokens(s, part) };
	FILE *f = fopen(path, "w");
	struct shard_writer *w = NULL;
	uint32_t id;
	uint64_t n;

	CHECK(f && shard_create(&w, fileno(f), &info, &key->secret) == 0);
	for (uint64_t i = 0; i < split_blocks(s, part); i++)
		for (id = (uint32_t)split_at(s, part, i, &n); n > 0; n--, id++)
			CHECK(shard_write(w, &id, 1) == 0);
	CHECK(shard_finish(w, NULL) == 0);
	shard_writer_free(w);
	fclose(f);
}

/* One sample: CONTEXT + 1 ids one after the other, from a multiple of CONTEXT. Which one? */
static uint32_t sample_of(const uint32_t *ids)
{
	for (uint32_t i = 0; i <= CONTEXT; i++)
		CHECK(ids[i] == ids[0] + i);
	CHECK(ids[0] % CONTEXT == 0);
	return ids[0] / CONTEXT;
}

static void each_sample_comes_once_an_epoch(struct shard *s)
{
	uint32_t ids[3 * (CONTEXT + 1)], first[SAMPLES];
	int seen[2][SAMPLES] = { { 0 } }, moved = 0;
	struct feed f;

	CHECK(feed_init(&f, s, 7, "ann", CONTEXT, 1000, "") == 0);
	CHECK(f.order.samples == SAMPLES);
	for (uint64_t at = 0; at < 2 * SAMPLES; at++) {
		CHECK(feed_epoch(&f) == at / SAMPLES);
		CHECK(feed_draw(&f, ids, 1) == 0);
		seen[at / SAMPLES][sample_of(ids)]++;
		if (at < SAMPLES)
			first[at] = sample_of(ids);
		else
			moved += first[at - SAMPLES] != sample_of(ids);
	}
	for (int i = 0; i < SAMPLES; i++)
		CHECK(seen[0][i] == 1 && seen[1][i] == 1);
	CHECK(moved > SAMPLES / 2); /* another order the second time */
}

static void a_position_is_all_that_needs_saving(struct shard *s)
{
	uint32_t all[6 * (CONTEXT + 1)], later[3 * (CONTEXT + 1)];
	struct feed f, g;

	CHECK(feed_init(&f, s, 7, "ann", CONTEXT, 1000, "") == 0);
	CHECK(feed_draw(&f, all, 6) == 0 && f.cursor == 6);
	CHECK(feed_init(&g, s, 7, "ann", CONTEXT, 1000, "") == 0);
	g.cursor = 3;
	CHECK(feed_draw(&g, later, 3) == 0 && g.cursor == 6);
	CHECK(memcmp(all + 3 * (CONTEXT + 1), later, sizeof later) == 0);
	CHECK(feed_init(&g, s, 7, "bob", CONTEXT, 1000, "") == 0);
	CHECK(feed_draw(&g, later, 3) == 0);
	CHECK(memcmp(all, later, sizeof later) != 0);
}

/* Whatever learners are called, a token is a target at most once in an epoch of all of them. */
static void learners_of_a_split_share_nothing(const char *path, const struct key *key, bool contiguous)
{
	const struct split split = { .tokens = 997, .block = 64, .parts = 4, .every = 5,
		.contiguous = contiguous };
	int seen[1000] = { 0 }, targets = 0;
	uint32_t ids[CONTEXT + 1];
	struct shard *s;
	struct feed f;

	for (uint64_t part = 0; part < split.parts; part++) {
		make_shard(path, key, &split, part);
		CHECK(shard_open(&s, path, &trust) == 0);
		CHECK(feed_init(&f, s, 7, part % 2 ? "ann" : "bob", CONTEXT, 1000, "") == 0);
		CHECK(f.order.samples == (split_tokens(&split, part) - 1) / CONTEXT);
		for (uint64_t i = 0; i < f.order.samples; i++) {
			CHECK(feed_draw(&f, ids, 1) == 0);
			for (int t = 1; t <= CONTEXT; t++, targets++)
				CHECK(seen[ids[t]]++ == 0 && ids[t] / 64 % 5 != 4);
		}
		shard_close(s);
	}
	/* All but the block held out, and a rest too short for a sample in each. */
	CHECK(targets >= 997 - 3 * 64 - 4 * (CONTEXT + 1));
}

static void refuses_what_does_not_fit(struct shard *s)
{
	struct feed f;

	CHECK(feed_init(&f, s, 7, "ann", 101, 1000, "") == ERR_DATA);
	CHECK_SAYS("101 tokens, but one sample of context 101 needs 102");
	CHECK(feed_init(&f, s, 7, "ann", 100, 1000, "") == 0 && f.order.samples == 1);
	CHECK(feed_init(&f, s, 7, "ann", CONTEXT, 999, "") == ERR_DATA);
	CHECK_SAYS("vocabulary of 1000, the model's is 999");
	CHECK(feed_init(&f, s, 7, "ann", CONTEXT, 1001, "") == ERR_DATA);
	CHECK_SAYS("vocabulary of 1000, the model's is 1001");
}

int main(void)
{
	char path[] = "/tmp/unit-feed-XXXXXX";
	struct key key = { .name = "test" };
	struct key_pub own;
	struct shard *s;
	int fd = mkstemp(path);

	CHECK(fd >= 0 && sig_init() == 0 && sig_generate(&key.secret) == 0);
	close(fd);
	key_public(&own, &key);
	trust.v = &(struct trust_entry){ .key = own, .own = true };
	trust.n = 1;
	make_shard(path, &key, &(struct split){ SAMPLES * CONTEXT + 1, 1000, 1, 0, false }, 0);
	CHECK(shard_open(&s, path, &trust) == 0);
	each_sample_comes_once_an_epoch(s);
	a_position_is_all_that_needs_saving(s);
	refuses_what_does_not_fit(s);
	shard_close(s);
	learners_of_a_split_share_nothing(path, &key, false);
	learners_of_a_split_share_nothing(path, &key, true);
	unlink(path);
	return unit_done("feed");
}
