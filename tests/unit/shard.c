/* Shards written, read at random, and refused. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "form/shard.h"
#include "io/fd.h"
#include "unit.h"

static struct sig_secret secret;
static struct trust nobody;

static void make(const char *path, const struct shard_info *info, digest *id)
{
	struct shard_writer *w = NULL;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0 && shard_create(&w, fd, info, &secret) == 0);
	for (uint64_t i = 0; i < info->tokens; i++) {
		uint32_t one = (uint32_t)(i * 2654435761u % info->vocab);

		if (shard_write(w, &one, 1) < 0)
			CHECK(!"written");
	}
	CHECK(shard_finish(w, id) == 0);
	shard_writer_free(w);
	close(fd);
}

static void check_ids(struct shard *s, uint64_t at, size_t n)
{
	uint32_t *out = calloc(n + 1, sizeof *out), vocab = shard_info(s)->vocab;
	size_t wrong = 0;

	CHECK(shard_read(s, out, at, n) == 0);
	for (size_t i = 0; i < n; i++)
		wrong += out[i] != (uint32_t)((at + i) * 2654435761u % vocab);
	CHECK(wrong == 0);
	free(out);
}

static void test_round_trip(uint32_t vocab, uint64_t tokens)
{
	struct shard_info info = { .vocab = vocab, .tokens = tokens, .bytes = 12345, .block = 77, .part = 2,
				   .parts = 3 };
	struct shard *s = NULL;
	digest id;

	make("a.tok", &info, &id);
	CHECK(shard_open(&s, "a.tok", NULL) == 0);
	CHECK(memcmp(shard_id(s), &id, sizeof id) == 0);
	CHECK_STR(shard_name(s), "a.tok");
	CHECK(shard_info(s)->vocab == vocab && shard_info(s)->tokens == tokens);
	CHECK(shard_info(s)->bytes == 12345 && shard_info(s)->block == 77);
	CHECK(shard_info(s)->part == 2 && shard_info(s)->parts == 3 && !shard_info(s)->valid);
	check_ids(s, 0, tokens);
	check_ids(s, tokens - 1, 1);
	check_ids(s, tokens, 0);
	for (uint64_t at = 0; at < tokens; at += tokens / 13 + 1)
		check_ids(s, tokens - 1 - at, at < 300 ? at + 1 : 300);
	CHECK(shard_read(s, NULL, tokens, 1) == ERR_DATA);
	CHECK(shard_read(s, NULL, UINT64_MAX, 1) == ERR_DATA);
	shard_close(s);
	CHECK(shard_open(&s, "a.tok", &nobody) == ERR_AUTH);
}

static void test_writing(void)
{
	struct shard_info info = { .vocab = 300, .tokens = 2 };
	const uint32_t good = 299, bad = 300;
	struct shard_writer *w = NULL;
	int fd = open("/dev/null", O_WRONLY);

	CHECK(shard_create(&w, fd, &info, &secret) == 0);
	CHECK(shard_write(w, &good, 1) == 0);
	CHECK(shard_write(w, &bad, 1) == ERR_DATA);
	CHECK_SAYS("token 1: id 300 is not below the vocabulary of 300");
	CHECK(shard_finish(w, NULL) == ERR_DATA);
	shard_writer_free(w);
	info.tokens = 0;
	CHECK(shard_create(&w, fd, &info, &secret) == ERR_DATA);
	close(fd);
}

static void write_filled(const char *key, const char *value, const struct tensor *t, uint8_t fill)
{
	struct header h = { 0 };
	struct frame_writer *w = NULL;
	uint8_t bytes[64];
	int fd = open("odd.tok", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	memset(bytes, fill, sizeof bytes);
	CHECK(conf_set(&h.keys, "kind", "shard") == 0 && conf_set(&h.keys, "vocab", "256") == 0);
	CHECK(conf_set(&h.keys, key, value) == 0 && tensors_push(&h.tensors, t) == 0);
	CHECK(frame_create(&w, fd, &h, &secret, NULL) == 0);
	CHECK(frame_write_int(w, bytes, 8) == 0 && frame_finish(w, NULL) == 0);
	frame_writer_free(w);
	header_release(&h);
	close(fd);
}

static void write_odd(const char *key, const char *value, const struct tensor *t)
{
	write_filled(key, value, t, 0);
}

/* Well sealed, but not what a shard must be. */
static void test_odd(void)
{
	struct tensor t = { .name = "tokens", .dtype = DTYPE_U8, .rank = 1, .dim = { 8 } };
	struct shard *s;

	write_odd("vocab", "256", &t);
	CHECK(shard_open(&s, "odd.tok", NULL) == 0);
	shard_close(s);
	write_odd("vocab", "257", &t);
	CHECK(shard_open(&s, "odd.tok", NULL) == ERR_DATA);
	CHECK_SAYS("odd.tok: the tensor table is not that of a shard");
	write_odd("vocab", "0", &t);
	CHECK(shard_open(&s, "odd.tok", NULL) == ERR_DATA);
	write_odd("part", "3", &t);
	CHECK(shard_open(&s, "odd.tok", NULL) == ERR_DATA);
	CHECK_SAYS("odd.tok: 'part' and 'parts' go together");
	write_odd("kind", "delta", &t);
	CHECK(shard_open(&s, "odd.tok", NULL) == ERR_DATA);
	CHECK_SAYS("is a delta, not a shard");
	strcpy(t.name, "token");
	write_odd("vocab", "256", &t);
	CHECK(shard_open(&s, "odd.tok", NULL) == ERR_DATA);
}

/* An id that the vocabulary does not have, in a file that is otherwise right. */
static void test_bad_id(void)
{
	struct tensor t = { .name = "tokens", .dtype = DTYPE_U8, .rank = 1, .dim = { 8 } };
	struct shard *s;
	uint32_t out[8];

	write_filled("vocab", "5", &t, 9);
	CHECK(shard_open(&s, "odd.tok", NULL) == 0);
	CHECK(shard_read(s, out, 3, 2) == ERR_DATA);
	CHECK_SAYS("odd.tok: token 3: id 9 is not below the vocabulary of 5");
	shard_close(s);
}

static void test_pipe(void)
{
	struct shard_info info = { .vocab = 256, .tokens = 100000 };
	struct shard *s = NULL;

	make("b.tok", &info, NULL);
	CHECK(system("mkfifo fifo && (cat b.tok >fifo &)") == 0);
	CHECK(shard_open(&s, "fifo", NULL) == 0);
	check_ids(s, 50000, 50000);
	check_ids(s, 3, 1000);
	shard_close(s);
}

int main(void)
{
	char dir[] = "/tmp/dl-shard-XXXXXX", clean[64];

	if (!mkdtemp(dir) || chdir(dir) < 0 || sig_generate(&secret) < 0)
		return 1;
	setenv("HOME", dir, 1);
	test_round_trip(256, 1);
	test_round_trip(200, 100001);
	test_round_trip(257, 16384);
	test_round_trip(65536, 16385);
	test_round_trip(65537, 70000);
	test_writing();
	test_odd();
	test_bad_id();
	test_pipe();
	snprintf(clean, sizeof clean, "rm -rf %s", dir);
	return system(clean) != 0 || unit_done("shard");
}
