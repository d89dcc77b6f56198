/* The parts of a split, read back, are the corpus: each block once. */
#include <stdlib.h>
#include <unistd.h>

#include "form/deal.h"
#include "io/fd.h"
#include "unit.h"

#define TOKENS 100003

static struct sig_secret secret;
static uint8_t text[TOKENS];

static struct shard *deal(struct corpus *c, const struct split *s, uint64_t part)
{
	struct shard_info info = { .vocab = 256, .block = s->block };
	struct shard *shard = NULL;
	int fd = -1;
	char path[64];
	digest id;

	CHECK(fd_temporary(&fd) == 0);
	CHECK(deal_part(fd, &info, c, s, part, &secret, NULL, &id) == 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	CHECK(shard_open(&shard, path, NULL) == 0);
	close(fd);
	CHECK(memcmp(shard_id(shard), &id, sizeof id) == 0);
	CHECK(shard_info(shard)->tokens == split_tokens(s, part));
	return shard;
}

static void check_part(struct corpus *c, const struct split *s, uint64_t part, uint8_t *whole)
{
	struct shard *shard = deal(c, s, part);
	uint32_t *id = calloc(s->block, sizeof *id);
	uint64_t from = 0, n;

	for (uint64_t i = 0; i < split_blocks(s, part); i++, from += n) {
		uint64_t at = split_at(s, part, i, &n);

		CHECK(shard_read(shard, id, from, n) == 0);
		for (uint64_t k = 0; k < n; k++)
			whole[at + k] ^= (uint8_t)id[k]; /* the text, twice: nothing is left */
	}
	CHECK(from == shard_info(shard)->tokens);
	free(id);
	shard_close(shard);
}

static void test_split(struct corpus *c, struct split s)
{
	static uint8_t whole[TOKENS], nothing[TOKENS];

	memcpy(whole, text, TOKENS);
	CHECK(split_check(&s) == 0);
	for (uint64_t p = 0; p < s.parts; p++)
		check_part(c, &s, p, whole);
	if (s.every)
		check_part(c, &s, SPLIT_VALID, whole);
	CHECK(memcmp(whole, nothing, TOKENS) == 0);
}

int main(void)
{
	struct corpus_conf conf = { .format = CORPUS_BYTES, .vocab = 256 };
	struct corpus_input in[2] = { { -1, "a" }, { -1, "b" } };
	struct corpus *c = NULL;

	if (sig_generate(&secret) < 0)
		return 1;
	for (size_t i = 0; i < TOKENS; i++)
		text[i] = (uint8_t)(1 + i * 2654435761u % 255); /* never 0 */
	CHECK(fd_temporary(&in[0].fd) == 0 && fd_write(in[0].fd, text, 5000) == 0);
	CHECK(fd_temporary(&in[1].fd) == 0 && fd_write(in[1].fd, text + 5000, TOKENS - 5000) == 0);
	CHECK(lseek(in[0].fd, 0, SEEK_SET) == 0 && lseek(in[1].fd, 0, SEEK_SET) == 0);
	CHECK(corpus_open(&c, &conf, in, 2) == 0);
	test_split(c, (struct split){ TOKENS, 8192, 1, 0, false });
	test_split(c, (struct split){ TOKENS, 8192, 4, 3, false });
	test_split(c, (struct split){ TOKENS, 1000, 7, 20, true });
	test_split(c, (struct split){ TOKENS, TOKENS, 1, 0, true });
	test_split(c, (struct split){ TOKENS, 50000, 1, 2, false });
	corpus_close(c);
	return unit_done("deal");
}
