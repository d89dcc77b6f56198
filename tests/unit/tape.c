#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/fd.h"
#include "round/tape.h"
#include "unit.h"

#define RUN "00112233445566778899aabbccddeeff"

/* ---- a directory for each test ---- */

static char home[] = "/tmp/unit-tape.XXXXXX";

static void clear(void)
{
	DIR *d = opendir("syncer");
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			CHECK(unlinkat(dirfd(d), e->d_name, 0) == 0);
	if (d)
		closedir(d);
	rmdir("syncer");
}

static const char *path_of(uint64_t epoch)
{
	static char path[64];

	snprintf(path, sizeof path, "syncer/tape.%" PRIu64, epoch);
	return path;
}

static void slurp(uint64_t epoch, struct buf *out)
{
	int fd;

	buf_clear(out);
	CHECK(fd_open_in(path_of(epoch), &fd) == 0 && fd_slurp(fd, 64 << 20, out) == 0);
	close(fd);
}

static void spew(uint64_t epoch, const void *bytes, size_t n, int flags)
{
	int fd = open(path_of(epoch), O_WRONLY | O_CREAT | flags, 0644);

	CHECK(fd >= 0 && fd_write(fd, bytes, n) == 0);
	close(fd);
}

/* ---- writing a few lines ---- */

static struct tape *begin(uint64_t epoch, uint64_t after, const digest *last)
{
	struct tape *t;
	digest start;

	tape_start(&start, RUN);
	CHECK(tape_open(&t, RUN, epoch, after, last ? last : &start) == 0);
	if (tape_lines(t) == after) {
		tape_begin(t, 0, "epoch");
		tape_put_u64(t, "epoch", epoch);
		tape_put_u64(t, "after", after);
		CHECK(tape_end(t, true) == 0);
	}
	return t;
}

static void add(struct tape *t, uint64_t round)
{
	tape_begin(t, (double)round / 8, "call");
	tape_put_u64(t, "round", round);
	tape_put(t, "fragment", "f000");
	CHECK(tape_end(t, false) == 0);
}

/* The rounds of the lines, "-" for a line without, and how it ends. */
static const char *read_all(uint64_t epoch)
{
	static struct buf text;
	struct tape_reader *r;
	const struct tape_line *l;
	int rc = tape_read_open(&r, RUN, epoch);

	buf_clear(&text);
	if (rc < 0)
		return "not opened";
	while ((rc = tape_read(r, &l)) > 0)
		CHECK(buf_fmt(&text, "%s ", l->fields && strcmp(l->kind, "call") == 0 ?
			tape_text(l, "round") : "-") == 0);
	CHECK(buf_str(&text, rc == 0 ? tape_read_torn(r) ? "torn" : "end" :
		rc == ERR_AUTH ? "broken" : "failed") == 0);
	tape_read_close(r);
	return text.data;
}

/* ---- tests ---- */

static void test_nothing(void)
{
	uint64_t epoch;

	clear();
	CHECK_STR(read_all(3), "end");
	CHECK(tape_newest(&epoch) == 0 && epoch == 0);
	CHECK(mkdir("syncer", 0777) == 0);
	CHECK_STR(read_all(3), "end");
	CHECK(tape_newest(&epoch) == 0 && epoch == 0);
}

static void test_round_trip(void)
{
	static const char odd[] = "two words, 100%\n\x01 caf\xc3\xa9=";
	struct tape_reader *r;
	const struct tape_line *l;
	struct tape *t;
	struct buf text = BUF_INIT;
	digest id = { { 0xab, 1, 2 } }, last, hash;

	clear();
	t = begin(1, 0, NULL);
	tape_begin(t, 1234.5678, "refuse");
	tape_put(t, "why", odd);
	tape_put(t, "empty", "");
	tape_put_u64(t, "round", UINT64_MAX);
	tape_put_f64(t, "norm", 0.1);
	tape_put_id(t, "id", &id);
	CHECK(tape_end(t, true) == 0);
	CHECK(tape_lines(t) == 2);
	tape_last(t, &last);
	tape_close(t);

	CHECK(tape_read_open(&r, RUN, 1) == 0);
	CHECK(tape_read(r, &l) == 1 && l->number == 1 && l->epoch == 1);
	CHECK_STR(l->kind, "epoch");
	CHECK(tape_read(r, &l) == 1 && l->number == 2 && l->fields == 5);
	CHECK(l->seconds == 1234.568);
	CHECK_STR(l->kind, "refuse");
	CHECK_STR(tape_text(l, "why"), odd);
	CHECK_STR(tape_text(l, "empty"), "");
	CHECK_STR(tape_text(l, "none"), "");
	CHECK(tape_u64(l, "round") == UINT64_MAX && tape_u64(l, "why") == 0);
	CHECK(tape_f64(l, "norm") == 0.1 && tape_f64(l, "none") == 0);
	CHECK(strncmp(tape_text(l, "id"), "ab0102", 6) == 0 && strlen(tape_text(l, "id")) == 64);
	CHECK(memcmp(&l->hash, &last, sizeof last) == 0);
	CHECK(tape_read(r, &l) == 0 && !tape_read_torn(r));
	tape_read_hash(r, &hash);
	CHECK(tape_read_number(r) == 2 && memcmp(&hash, &last, sizeof last) == 0);
	tape_read_close(r);

	slurp(1, &text);
	CHECK(strstr(text.data, "2 1234.568 refuse why=two%20words,%20100%25%0A%01%20caf%C3%A9= empty= "));
	buf_release(&text);
}

static void test_goes_on(void)
{
	struct tape *t;
	digest last, other = { { 1 } };

	clear();
	t = begin(1, 0, NULL);
	add(t, 1);
	tape_last(t, &last);
	tape_close(t);
	CHECK(tape_open(&t, RUN, 1, 3, &last) == ERR_DATA);
	CHECK_SAYS("its last line is 2, not 3");
	CHECK(tape_open(&t, RUN, 1, 2, &other) == ERR_DATA);
	CHECK_SAYS("line 2 is another one");
	CHECK(tape_open(&t, RUN, 2, 0, &other) == ERR_USAGE);
	CHECK(tape_open(&t, RUN, 1, 2, &last) == 0);
	add(t, 2);
	tape_close(t);
	CHECK_STR(read_all(1), "- 1 2 end");
}

static void test_torn(void)
{
	struct buf whole = BUF_INIT;
	struct tape *t;
	size_t two;
	digest last;

	clear();
	t = begin(1, 0, NULL);
	add(t, 1);
	tape_last(t, &last);
	slurp(1, &whole);
	two = whole.len;
	add(t, 2);
	tape_close(t);
	slurp(1, &whole);
	for (size_t n = two; n < whole.len; n++) {
		spew(1, whole.data, n, O_TRUNC);
		CHECK_STR(read_all(1), n == two ? "- 1 end" : "- 1 torn");
		CHECK(tape_open(&t, RUN, 1, 2, &last) == 0);
		tape_close(t);
		CHECK_STR(read_all(1), "- 1 end");
	}
	/* zeros, as after a power failure */
	spew(1, "\0\0\0 3 xx\n", 9, O_APPEND);
	CHECK_STR(read_all(1), "- 1 torn");
	CHECK(tape_open(&t, RUN, 1, 2, &last) == 0);
	add(t, 7);
	tape_close(t);
	CHECK_STR(read_all(1), "- 1 7 end");
	/* nothing but the beginning of the first line */
	tape_start(&last, RUN);
	spew(1, whole.data, 10, O_TRUNC);
	CHECK_STR(read_all(1), "end");
	t = begin(1, 0, NULL);
	tape_close(t);
	CHECK_STR(read_all(1), "- end");
	buf_release(&whole);
}

static void test_any_change(void)
{
	struct buf whole = BUF_INIT;
	struct tape *t;
	size_t end;

	clear();
	t = begin(1, 0, NULL);
	add(t, 1);
	tape_close(t);
	slurp(1, &whole);
	end = whole.len;
	for (size_t i = 0; i < end - 1; i++) {
		char old = whole.data[i];
		const char *got;

		whole.data[i] = (char)(old ^ 1);
		spew(1, whole.data, end, O_TRUNC);
		got = read_all(1);
		CHECK(strstr(got, "broken") || strcmp(got, "not opened") == 0);
		whole.data[i] = old;
	}
	buf_release(&whole);
}

/* Lines whose hash is right and that no tape has. */
static void check_hostile(const char *text, const char *says)
{
	struct buf line = BUF_INIT;
	struct sig_hash h;
	struct tape_reader *r;
	const struct tape_line *l;
	struct tape *t;
	char hex[33];
	digest d;

	clear();
	t = begin(1, 0, NULL);
	tape_last(t, &d);
	tape_close(t);
	sig_hash_init(&h);
	sig_hash_add(&h, d.b, sizeof d.b);
	sig_hash_add(&h, text, strlen(text));
	sig_hash_end(&h, &d);
	sig_hex(hex, d.b, 16);
	CHECK(buf_fmt(&line, "%s %s\n", text, hex) == 0);
	spew(1, line.data, line.len, O_APPEND);
	CHECK(tape_read_open(&r, RUN, 1) == 0);
	CHECK(tape_read(r, &l) == 1);
	if (says) {
		CHECK(tape_read(r, &l) == ERR_AUTH);
		CHECK_SAYS("syncer/tape.1: line 2: ");
		CHECK_SAYS(says);
	} else
		CHECK(tape_read(r, &l) == 1);
	tape_read_close(r);
	buf_release(&line);
}

static void test_hostile(void)
{
	char many[8 * 70] = "2 0 call";

	check_hostile("2 0 call a=b", NULL);
	check_hostile("2 0 call", NULL);
	check_hostile("2 0 call a=%41%FF", NULL);
	check_hostile("3 0 call", "has number 3");
	check_hostile("02 0 call", "no number");
	check_hostile("-2 0 call", "no number");
	check_hostile("2x 0 call", "no number");
	check_hostile("99999999999999999999 0 call", "no number");
	check_hostile("2 -1 call", "number of seconds");
	check_hostile("2 nan call", "number of seconds");
	check_hostile("2 0", "kind of line");
	check_hostile("2 0 Call", "kind of line");
	check_hostile("2 0 abcdefghijklmnopq", "kind of line");
	check_hostile("2  0 call", "number of seconds");
	check_hostile("2 0 call a", "KEY=VALUE");
	check_hostile("2 0 call  a=1", "KEY=VALUE");
	check_hostile("2 0 call =1", "KEY=VALUE");
	check_hostile("2 0 call A=1", "KEY=VALUE");
	check_hostile("2 0 call a=1 b=2 a=3", "a given twice");
	check_hostile("2 0 call a=%", "bad escape");
	check_hostile("2 0 call a=%4", "bad escape");
	check_hostile("2 0 call a=%4g", "bad escape");
	check_hostile("2 0 call a=%00", "bad escape");
	check_hostile("2 0 call a=\x1b[2J", "byte 0x1b");
	check_hostile("2 0 call a=\xff", "byte 0xff");
	check_hostile("2 0 call a=1\r", "byte 0x0d");
	check_hostile("2 0 epoch epoch=2 after=1", "begins an epoch");
	for (int i = 0; i < 65; i++)
		snprintf(many + strlen(many), 16, " k%d=", i);
	check_hostile(many, "more than 64 fields");
}

static void test_huge_line(void)
{
	struct tape_reader *r;
	const struct tape_line *l;
	struct tape *t;
	char *big = malloc(TAPE_LINE + 1);

	clear();
	t = begin(1, 0, NULL);
	memset(big, 'a', TAPE_LINE);
	big[TAPE_LINE] = '\0';
	tape_begin(t, 0, "merge");
	tape_put(t, "answers", big);
	CHECK(tape_end(t, false) == ERR_DATA);
	CHECK_SAYS("line 2: longer than");
	big[TAPE_LINE - 100] = '\0';
	tape_begin(t, 0, "merge");
	tape_put(t, "answers", big);
	CHECK(tape_end(t, false) == 0);
	add(t, 1);
	tape_close(t);
	CHECK_STR(read_all(1), "- - 1 end");
	big[TAPE_LINE - 100] = 'a';
	spew(1, big, TAPE_LINE, O_APPEND);
	CHECK(tape_read_open(&r, RUN, 1) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(tape_read(r, &l) == 1);
	CHECK(tape_read(r, &l) == ERR_AUTH);
	CHECK_SAYS("line 4: longer than");
	tape_read_close(r);
	free(big);
}

/* A disk that is full: the line is gone, and the next one is written as if nothing had been. */
static void test_append_fails(void)
{
	struct rlimit old, small;
	struct tape *t;
	digest before, after;
	struct stat st;

	clear();
	t = begin(1, 0, NULL);
	add(t, 1);
	tape_last(t, &before);
	CHECK(stat(path_of(1), &st) == 0);
	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
	for (rlim_t more = 0; more < 60; more += 13) {
		small = (struct rlimit){ (rlim_t)st.st_size + more, old.rlim_max };
		CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
		tape_begin(t, 2, "call");
		tape_put(t, "round", "2");
		tape_put(t, "fragment", "f000");
		CHECK(tape_end(t, true) < 0);
		CHECK_SAYS("syncer/tape.1: line 3: ");
		CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
		tape_last(t, &after);
		CHECK(tape_lines(t) == 2 && memcmp(&before, &after, sizeof after) == 0);
		CHECK_STR(read_all(1), "- 1 end");
	}
	CHECK(tape_end(t, true) == ERR_USAGE); /* the line was dropped */
	add(t, 3);
	CHECK_STR(read_all(1), "- 1 3 end");
	tape_close(t);
}

static void test_bad_lines_are_not_written(void)
{
	struct tape *t;

	clear();
	t = begin(1, 0, NULL);
	tape_begin(t, 0, "call me");
	CHECK(tape_end(t, false) == ERR_USAGE);
	tape_begin(t, 0, "call");
	tape_put(t, "no key", "x");
	CHECK(tape_end(t, false) == ERR_USAGE);
	tape_begin(t, 0, "call");
	tape_put(t, "a", "x");
	tape_put(t, "a", "y");
	CHECK(tape_end(t, false) == ERR_AUTH);
	CHECK_SAYS("a given twice");
	add(t, 1);
	CHECK_STR(read_all(1), "- 1 end");
	/* a second writer, and a file that is gone */
	spew(1, "x", 1, O_APPEND);
	tape_begin(t, 0, "call");
	CHECK(tape_end(t, false) == ERR_DATA && !tape_lost(t));
	CHECK_SAYS("somebody else");
	add(t, 1); /* without what the other wrote */
	CHECK_STR(read_all(1), "- 1 1 end");
	CHECK(truncate(path_of(1), 10) == 0);
	tape_begin(t, 0, "call");
	CHECK(tape_end(t, false) == ERR_AUTH && tape_lost(t));
	CHECK_SAYS("was cut");
	CHECK(unlink(path_of(1)) == 0);
	tape_begin(t, 0, "call");
	CHECK(tape_end(t, false) == ERR_AUTH && tape_lost(t));
	CHECK_SAYS("was removed");
	tape_close(t);
}

static void test_epochs(void)
{
	struct tape *one, *two, *three, *five;
	digest at2, at4, at7;
	uint64_t epoch;

	clear();
	one = begin(1, 0, NULL);
	add(one, 1);
	tape_last(one, &at2);
	add(one, 2);
	add(one, 3);
	tape_last(one, &at4);
	CHECK_STR(read_all(9), "- 1 2 3 end");
	two = begin(2, 4, &at4);
	add(two, 4);
	add(one, 99); /* does not know that it is superseded */
	CHECK_STR(read_all(1), "- 1 2 3 99 end");
	CHECK_STR(read_all(2), "- 1 2 3 - 4 end");
	/* one that saw less supersedes the second altogether, and a half of the first */
	three = begin(3, 2, &at2);
	add(three, 5);
	CHECK_STR(read_all(3), "- 1 - 5 end");
	CHECK_STR(read_all(2), "- 1 2 3 - 4 end");
	/* the fourth died before it wrote a line, or while it did */
	spew(4, "5 0 epo", 7, O_TRUNC);
	add(three, 6);
	add(three, 7);
	add(three, 8);
	tape_last(three, &at7);
	five = begin(5, 7, &at7);
	CHECK_STR(read_all(5), "- 1 - 5 6 7 8 - end");
	add(three, 9);
	CHECK_STR(read_all(5), "- 1 - 5 6 7 8 - end");
	CHECK(tape_newest(&epoch) == 0 && epoch == 5);
	/* a line of an epoch on which another builds is missing */
	CHECK(truncate(path_of(3), 100) == 0);
	CHECK(strstr(read_all(5), "broken") != NULL);
	CHECK_SAYS("but epoch 5 goes on behind line 7");
	CHECK(unlink(path_of(3)) == 0);
	CHECK(strstr(read_all(5), "broken") != NULL);
	tape_close(five);
	tape_close(three);
	tape_close(two);
	tape_close(one);
}

static void test_wrong_place(void)
{
	struct tape *t;

	clear();
	t = begin(1, 0, NULL);
	add(t, 1);
	tape_close(t);
	CHECK(rename("syncer/tape.1", "syncer/tape.2") == 0);
	CHECK_STR(read_all(2), "broken");
	CHECK_SAYS("syncer/tape.2: line 1: begins epoch 1 behind line 0");
	CHECK(symlink("tape.2", "syncer/tape.1") == 0);
	CHECK_STR(read_all(1), "not opened");
	CHECK(unlink("syncer/tape.1") == 0);
	CHECK(mkfifo("syncer/tape.1", 0666) == 0);
	CHECK_STR(read_all(1), "not opened");
	CHECK_SAYS("not a regular file");
	CHECK_STR(read_all(0), "end");
}

static void test_follow(void)
{
	struct tape_reader *r;
	const struct tape_line *l;
	struct tape *one, *two;
	digest at3;

	clear();
	CHECK(tape_read_open(&r, RUN, 1) == 0);
	CHECK(tape_read(r, &l) == 0);
	one = begin(1, 0, NULL);
	CHECK(tape_read(r, &l) == 1 && tape_read(r, &l) == 0);
	add(one, 1);
	spew(1, "3 0.", 4, O_APPEND); /* half of a line, which is cut back */
	CHECK(tape_read(r, &l) == 1);
	CHECK_STR(tape_text(l, "round"), "1");
	CHECK(tape_read(r, &l) == 0 && tape_read_torn(r));
	tape_begin(one, 0, "call");
	CHECK(tape_end(one, false) == ERR_DATA);
	tape_last(one, &at3);
	tape_close(one);
	CHECK(tape_open(&one, RUN, 1, 2, &at3) == 0);
	add(one, 2);
	CHECK(tape_read(r, &l) == 1 && !tape_read_torn(r));
	CHECK_STR(tape_text(l, "round"), "2");
	CHECK(tape_read(r, &l) == 0);
	/* a later epoch, which counts only when told */
	tape_last(one, &at3);
	two = begin(2, 3, &at3);
	add(two, 3);
	CHECK(tape_read(r, &l) == 0);
	tape_read_upto(r, 2);
	CHECK(tape_read(r, &l) == 1 && l->epoch == 2 && tape_read(r, &l) == 1 && tape_read(r, &l) == 0);
	CHECK(tape_read_number(r) == 5);
	/* what was read is superseded */
	tape_close(two);
	two = begin(3, 3, &at3);
	tape_read_upto(r, 3);
	CHECK(tape_read(r, &l) == ERR_AGAIN);
	tape_read_close(r);
	CHECK_STR(read_all(3), "- 1 2 - end");
	tape_close(two);
	tape_close(one);
}

static int read_expecting(uint64_t number, const digest *hash)
{
	struct tape_reader *r;
	const struct tape_line *l;
	int rc;

	CHECK(tape_read_open(&r, RUN, 1) == 0);
	tape_read_expect(r, number, hash);
	while ((rc = tape_read(r, &l)) > 0)
		;
	tape_read_close(r);
	return rc;
}

static void test_expected(void)
{
	struct tape *t;
	digest at2, at3;

	clear();
	t = begin(1, 0, NULL);
	add(t, 1);
	tape_last(t, &at2);
	add(t, 2);
	tape_last(t, &at3);
	tape_close(t);
	CHECK(read_expecting(2, &at2) == 0);
	CHECK(read_expecting(3, &at3) == 0);
	CHECK(read_expecting(2, &at3) == ERR_AUTH);
	CHECK_SAYS("syncer/tape.1: line 2: is not the line that the head names");
	CHECK(read_expecting(4, &at3) == ERR_AUTH);
	CHECK_SAYS("ends with line 3, but the head knows 4");
}

static void test_answers(void)
{
	struct tape_answer a = { "a", { { 1, 2 } }, 0.1, 1e-9 }, b = { "b.c-d", { { 3 } }, 0.9, 2 }, got;
	struct buf text = BUF_INIT;
	const char *at;

	CHECK(tape_answer_add(&text, &a) == 0 && tape_answer_add(&text, &b) == 0);
	at = text.data;
	CHECK(tape_answer_next(&got, &at) == 1 && memcmp(&got.id, &a.id, sizeof a.id) == 0);
	CHECK_STR(got.learner, "a");
	CHECK(got.share == 0.1 && got.norm == 1e-9);
	CHECK(tape_answer_next(&got, &at) == 1 && got.norm == 2);
	CHECK_STR(got.learner, "b.c-d");
	CHECK(tape_answer_next(&got, &at) == 0);
	for (size_t n = 1; n < text.len; n++) {
		text.data[n] = text.data[n] == ':' ? ',' : ':';
		at = text.data;
		CHECK(tape_answer_next(&got, &at) < 0 || tape_answer_next(&got, &at) < 0);
		text.data[n] = '\0';
		buf_clear(&text);
		CHECK(tape_answer_add(&text, &a) == 0 && tape_answer_add(&text, &b) == 0);
	}
	buf_release(&text);
}

static void test_many_lines(void)
{
	enum { LINES = 12000 };
	struct tape_reader *r;
	const struct tape_line *l;
	struct tape *t;
	uint64_t sum = 0;

	clear();
	t = begin(1, 0, NULL);
	for (uint64_t i = 1; i <= LINES; i++)
		add(t, i);
	tape_close(t);
	CHECK(tape_read_open(&r, RUN, 1) == 0);
	while (tape_read(r, &l) == 1)
		sum += tape_u64(l, "round");
	CHECK(sum == (uint64_t)LINES * (LINES + 1) / 2 && tape_read_number(r) == LINES + 1);
	tape_read_close(r);
}

static void test_many_epochs(void)
{
	struct tape *t;
	digest last;
	struct tape_reader *r;
	const struct tape_line *l;
	uint64_t lines = 0;

	clear();
	tape_start(&last, RUN);
	for (uint64_t e = 1; e <= 50; e++) {
		t = begin(e, 2 * (e - 1), &last);
		add(t, e);
		tape_last(t, &last);
		tape_close(t);
	}
	CHECK(tape_read_open(&r, RUN, 50) == 0);
	while (tape_read(r, &l) == 1)
		lines++;
	CHECK(lines == 100);
	tape_read_close(r);
}

int main(void)
{
	CHECK(sig_init() == 0);
	CHECK(mkdtemp(home) != NULL && chdir(home) == 0);
	test_nothing();
	test_round_trip();
	test_goes_on();
	test_torn();
	test_any_change();
	test_hostile();
	test_huge_line();
	test_append_fails();
	test_bad_lines_are_not_written();
	test_epochs();
	test_wrong_place();
	test_follow();
	test_expected();
	test_answers();
	test_many_lines();
	test_many_epochs();
	clear();
	CHECK(chdir("/") == 0 && rmdir(home) == 0);
	return unit_done("tape");
}
