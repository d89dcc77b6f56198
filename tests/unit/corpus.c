/* Ids from text in pieces, and corpora of several inputs. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "form/corpus.h"
#include "form/ids.h"
#include "io/fd.h"
#include "unit.h"

/* Parses text in pieces of `piece` bytes; ids, blank-separated, in `line`. */
static int parse(struct ids p, const char *text, size_t n, size_t piece, char line[200])
{
	uint32_t out[300];
	size_t count, used = 0;
	int rc = 0;

	line[0] = '\0';
	for (size_t at = 0; rc == 0 && at <= n; at += piece) {
		size_t part = n - at < piece ? n - at : piece;

		rc = at < n ? ids_parse(&p, out, &count, text + at, part) : 0;
		if (rc == 0 && at + piece > n) {
			for (size_t i = 0; at < n && i < count; i++)
				used += (size_t)snprintf(line + used, 200 - used, "%u ", out[i]);
			rc = ids_end(&p, out, &count);
		}
		for (size_t i = 0; rc == 0 && i < count; i++)
			used += (size_t)snprintf(line + used, 200 - used, "%u ", out[i]);
	}
	return rc;
}

static void test_ids(void)
{
	static const char text[] = "1 22\t333\r\n\n  \n7\n65 4";
	struct ids plain = { .vocab = 1000 }, ended = { .vocab = 1000, .ends = true, .end = 2 };
	char line[200];

	for (size_t piece = 1; piece <= sizeof text; piece++) {
		CHECK(parse(plain, text, sizeof text - 1, piece, line) == 0);
		CHECK_STR(line, "1 22 333 7 65 4 ");
		CHECK(parse(ended, text, sizeof text - 1, piece, line) == 0);
		CHECK_STR(line, "1 22 333 2 7 2 65 4 2 ");
	}
	CHECK(parse(plain, "", 0, 1, line) == 0);
	CHECK_STR(line, "");
}

static void refuse(const char *text, size_t n, const char *why)
{
	struct ids p = { .vocab = 8192 };
	char line[200];

	for (size_t piece = 1; piece <= n; piece++) {
		CHECK(parse(p, text, n, piece, line) == ERR_DATA);
		CHECK_SAYS(why);
	}
}

static void test_bad_ids(void)
{
	refuse("1\n2\n9000\n", 9, "line 3: id 9000 is not below the vocabulary of 8192");
	refuse("1\n8192", 6, "line 2: id 8192 is not below the vocabulary of 8192");
	refuse("1 -1", 4, "line 1: '-1' is not a token id");
	refuse("12x ", 4, "line 1: '12x' is not a token id");
	refuse("12\0003 ", 5, "line 1: '12' is not a token id");
	refuse("[1, 2]", 6, "'[1,' is not a token id");
	refuse("18446744073709551616", 20, "is not a token id");
	refuse("000000000000000000000000000000001", 33, "is not a token id");
}

static int file_of(const void *bytes, size_t n)
{
	int fd = -1;

	CHECK(fd_temporary(&fd) == 0 && fd_write(fd, bytes, n) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static int pipe_of(const void *bytes, size_t n)
{
	int fd[2] = { -1, -1 };

	CHECK(pipe(fd) == 0 && fd_write(fd[1], bytes, n) == 0);
	close(fd[1]);
	return fd[0];
}

static void test_bytes(void)
{
	struct corpus_conf conf = { .format = CORPUS_BYTES, .vocab = 256 };
	struct corpus_input in[4] = {
		{ file_of("ab\xff\0", 4), "a" }, { file_of("", 0), "empty" }, { pipe_of("xyz", 3), "pipe" },
		{ file_of("12345", 5), "offset" },
	};
	const uint32_t want[] = { 'a', 'b', 0xff, 0, 'x', 'y', 'z', '4', '5' };
	struct corpus *c;
	uint32_t out[9];

	CHECK(lseek(in[3].fd, 3, SEEK_SET) == 3); /* what a shell has read of it is not ours */
	CHECK(corpus_open(&c, &conf, in, 4) == 0);
	CHECK(corpus_tokens(c) == 9);
	CHECK(corpus_read(c, out, 0, 9) == 0 && memcmp(out, want, sizeof want) == 0);
	for (uint64_t at = 0; at < 9; at++)
		CHECK(corpus_read(c, out, at, 1) == 0 && out[0] == want[at]);
	CHECK(corpus_read(c, out, 9, 0) == 0);
	CHECK(corpus_read(c, out, 9, 1) == ERR_DATA);
	CHECK(ftruncate(in[0].fd, 1) == 0);
	CHECK(corpus_read(c, out, 0, 4) == ERR_DATA);
	CHECK_SAYS("a: became shorter");
	corpus_close(c);
	for (int i = 0; i < 4; i++)
		close(in[i].fd);
}

static void test_binary(void)
{
	static const uint8_t u16[] = { 1, 0, 2, 1 };
	struct corpus_conf conf = { .format = CORPUS_U16, .vocab = 258 };
	struct corpus_input in[2] = { { pipe_of(u16, 4), "a" }, { file_of(u16, 3), "odd" } };
	struct corpus *c;
	uint32_t out[2];

	CHECK(corpus_open(&c, &conf, in, 1) == 0);
	CHECK(corpus_read(c, out, 0, 2) == ERR_DATA);
	CHECK_SAYS("a: token 1: id 258 is not below the vocabulary of 258");
	corpus_close(c);
	CHECK(corpus_open(&c, &conf, in + 1, 1) == ERR_DATA);
	CHECK_SAYS("odd: 3 bytes are not whole ids of 2 bytes");
	close(in[0].fd);
	close(in[1].fd);
}

static void test_text(void)
{
	struct corpus_conf conf = { .format = CORPUS_IDS, .vocab = 100, .ends = true, .end = 9 };
	struct corpus_input in[2] = { { pipe_of("1 2\n3", 5), "a" }, { file_of("4\n", 2), "b" } };
	const uint32_t want[] = { 1, 2, 9, 3, 9, 4, 9 };
	struct corpus *c;
	uint32_t out[7];

	CHECK(corpus_open(&c, &conf, in, 2) == 0);
	CHECK(corpus_tokens(c) == 7);
	CHECK(corpus_read(c, out, 0, 7) == 0 && memcmp(out, want, sizeof want) == 0);
	corpus_close(c);
	close(in[0].fd);
	in[0].fd = pipe_of("1\n100\n", 6);
	CHECK(corpus_open(&c, &conf, in, 1) == ERR_DATA);
	CHECK_SAYS("a: line 2: id 100");
	close(in[0].fd);
	close(in[1].fd);
}

/* A file of 5 GiB that takes no room: offsets are 64 bits wide everywhere. */
static void test_large(void)
{
	const uint64_t size = (uint64_t)5 << 30;
	struct corpus_conf conf = { .format = CORPUS_BYTES, .vocab = 256 };
	struct corpus_input in[2] = { { file_of("", 0), "sparse" }, { file_of("yz", 2), "more" } };
	const uint32_t want[] = { 0, 'x', 'y', 'z' };
	struct corpus *c;
	uint32_t out[4];

	CHECK(sizeof(off_t) == 8);
	CHECK(pwrite(in[0].fd, "x", 1, (off_t)(size - 1)) == 1);
	CHECK(corpus_open(&c, &conf, in, 2) == 0);
	CHECK(corpus_tokens(c) == size + 2);
	CHECK(corpus_read(c, out, size - 2, 4) == 0 && memcmp(out, want, sizeof want) == 0);
	corpus_close(c);
	close(in[0].fd);
	close(in[1].fd);
}

int main(void)
{
	test_ids();
	test_bad_ids();
	test_bytes();
	test_binary();
	test_text();
	test_large();
	return unit_done("corpus");
}
