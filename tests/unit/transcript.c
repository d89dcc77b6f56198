/* transcript - ids as text, for pipes and terminals; prompts as ids. */
#include "round/transcript.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/fd.h"
#include "unit.h"

/* What n ids look like on the way out. */
static void check_written(const uint32_t *ids, size_t n, uint32_t vocab, bool terminal,
	const char *want, size_t want_n)
{
	struct buf have = BUF_INIT;
	struct transcript t;
	int ends[2], rc = pipe(ends);

	CHECK(rc == 0);
	transcript_init(&t, ends[1], vocab > 256, terminal);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = transcript_add(&t, ids[i]);
	CHECK(rc == 0 && transcript_end(&t) == 0);
	transcript_release(&t);
	close(ends[1]);
	CHECK(fd_slurp(ends[0], 1 << 16, &have) == 0);
	CHECK(have.len == want_n && memcmp(have.data ? have.data : "", want, want_n) == 0);
	close(ends[0]);
	buf_release(&have);
}

static void bytes_pass_through_a_pipe(void)
{
	const uint32_t ids[] = { 'a', 0, '\n', 27, 255, 'b' };

	check_written(ids, 6, 256, false, "a\0\n\033\377b", 6);
	check_written(NULL, 0, 256, false, "", 0);
}

static void a_terminal_sees_no_control_characters(void)
{
	const uint32_t ids[] = { 'a', 0, 27, '[', '2', 'J', '\n', 0xc3, 0xa4, 0xe2, 0x81 };
	const char want[] = "a\\x00\\x1b[2J\n\xc3\xa4\\xe2\\x81\n";

	check_written(ids, 11, 256, true, want, sizeof want - 1);
	check_written(ids, 7, 256, true, want, 13);
}

static void a_long_line_comes_in_pieces(void)
{
	uint32_t *ids = malloc(20000 * sizeof *ids);
	char *want = malloc(20000);

	for (int i = 0; i < 20000; i++)
		ids[i] = (uint32_t)(want[i] = (char)('a' + i % 26));
	check_written(ids, 20000, 256, false, want, 20000);
	free(ids);
	free(want);
}

static void larger_vocabularies_are_numbers(void)
{
	const uint32_t ids[] = { 1, 31999, 10 };

	check_written(ids, 3, 32000, false, "1 31999 10\n", 11);
	check_written(ids, 3, 32000, true, "1 31999 10\n", 11);
}

static void prompts_are_bytes_or_numbers(void)
{
	uint32_t *ids;
	size_t n;

	CHECK(transcript_prompt(&ids, &n, "h\303\244", false, 256, 5) == 0);
	CHECK(n == 3 && ids[0] == 'h' && ids[1] == 0xc3 && ids[2] == 0xa4);
	free(ids);
	CHECK(transcript_prompt(&ids, &n, " 7  499\n", true, 500, 0) == 0);
	CHECK(n == 2 && ids[0] == 7 && ids[1] == 499);
	free(ids);
}

static void bad_prompts_are_refused(void)
{
	uint32_t *ids;
	size_t n;

	CHECK(transcript_prompt(&ids, &n, "", false, 256, 1) == ERR_USAGE);
	CHECK_SAYS("nothing to go on from");
	CHECK(transcript_prompt(&ids, &n, "a", false, 64, 1) == ERR_USAGE);
	CHECK_SAYS("byte 97 is not in the vocabulary of 64");
	CHECK(transcript_prompt(&ids, &n, "12 500", true, 500, 1) == ERR_USAGE);
	CHECK_SAYS("'500' is not an id below 500");
	CHECK(transcript_prompt(&ids, &n, "12 in", true, 500, 1) == ERR_USAGE);
	CHECK(transcript_prompt(&ids, &n, "123456789012345678901234567890", true, 500, 1) == ERR_USAGE);
}

int main(void)
{
	bytes_pass_through_a_pipe();
	a_terminal_sees_no_control_characters();
	a_long_line_comes_in_pieces();
	larger_vocabularies_are_numbers();
	prompts_are_bytes_or_numbers();
	bad_prompts_are_refused();
	return unit_done("transcript");
}
