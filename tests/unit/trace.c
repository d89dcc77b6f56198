/* Traces: what is written comes back; what is broken, cut or can't have happened is refused by its line. */
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "chaos/trace.h"
#include "io/fd.h"
#include "unit.h"

static const struct trace_head head = { .mode = TRACE_DECOUPLED, .learners = 3, .fragments = 2, .interval = 24,
	.overlap = 2, .quorum = 1, .grace = 0.5, .adopt = "rebase", .step_tokens = 4096, .seed = 7,
	.params = 1000, .chips = 768 };
static const unsigned both[] = { 0, 2 }, one[] = { 0 };
static const struct trace_event events[] = {
	{ .at = 0, .kind = TRACE_JOIN, .learner = 0 },
	{ .at = 0, .kind = TRACE_JOIN, .learner = 2 },
	{ .at = 1, .kind = TRACE_STEP, .learner = 0, .share = 1 },
	{ .at = 1.25, .kind = TRACE_STEP, .learner = 2, .share = 0.75 },
	{ .at = 1.5, .kind = TRACE_CALL, .round = 1, .fragment = 1 },
	{ .at = 1.75, .kind = TRACE_CALL, .round = 2, .fragment = 0, .who = both, .n = 2 },
	{ .at = 2, .kind = TRACE_STEP, .learner = 0, .share = 1 },
	{ .at = 2, .kind = TRACE_ANSWER, .round = 1, .fragment = 1, .learner = 0, .steps = 2, .tokens = 8192 },
	{ .at = 2.1, .kind = TRACE_MERGE, .round = 1, .fragment = 1, .version = 1, .who = one, .n = 1 },
	{ .at = 2.2, .kind = TRACE_STOP, .learner = 2, .seconds = 9.5, .why = TRACE_DOWN },
	{ .at = 3, .kind = TRACE_ADOPT, .learner = 0, .fragment = 1, .version = 1 },
	{ .at = 4, .kind = TRACE_LOST, .learner = 0, .kept = true },
	{ .at = 5, .kind = TRACE_BACK, .learner = 0 },
	{ .at = 12.0000015, .kind = TRACE_JOIN, .learner = 1 },
	{ .at = 86400.5, .kind = TRACE_ABANDON, .round = 2, .fragment = 0 },
	{ .at = 86400.5, .kind = TRACE_GONE, .learner = 2 },
};
#define EVENTS (sizeof events / sizeof events[0])

static int file_of(const char *text, size_t n)
{
	int fd;

	CHECK(fd_temporary(&fd) == 0);
	CHECK(fd_write(fd, text, n) == 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static void write_all(struct buf *text)
{
	struct trace_writer *w;
	int fd = file_of("", 0);

	CHECK(trace_create(&w, fd, &head) == 0);
	for (size_t i = 0; i < EVENTS; i++)
		CHECK(trace_put(w, &events[i]) == 0);
	CHECK(trace_finish(w) == 0);
	trace_discard(w);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(fd_slurp(fd, 1 << 20, text) == 0);
	close(fd);
}

static bool same(const struct trace_event *a, const struct trace_event *b)
{
	if (a->kind != b->kind || fabs(a->at - b->at) > 1e-6 || a->learner != b->learner ||
		a->fragment != b->fragment || a->round != b->round || a->version != b->version ||
		a->share != b->share || a->steps != b->steps || a->tokens != b->tokens ||
		a->seconds != b->seconds || a->why != b->why || a->kept != b->kept || a->n != b->n ||
		!a->who != !b->who)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->who[i] != b->who[i])
			return false;
	return true;
}

static void comes_back(void)
{
	struct buf text = BUF_INIT;
	struct trace_reader *r;
	struct trace_event e;
	int fd;

	write_all(&text);
	fd = file_of(text.data, text.len);
	CHECK(trace_open(&r, fd) == 0);
	CHECK(trace_head(r)->mode == head.mode && trace_head(r)->learners == 3 && trace_head(r)->grace == 0.5);
	CHECK_STR(trace_head(r)->adopt, "rebase");
	for (size_t i = 0; i < EVENTS; i++)
		CHECK(trace_next(r, &e) == 1 && same(&e, &events[i]));
	CHECK(trace_next(r, &e) == 0);
	trace_close(r);
	close(fd);
	buf_release(&text);
}

/* Reads to the end: 0, or the error. */
static int read_text(const char *text, size_t n)
{
	struct trace_reader *r;
	struct trace_event e;
	int fd = file_of(text, n), rc = trace_open(&r, fd);

	if (rc == 0)
		while ((rc = trace_next(r, &e)) > 0)
			;
	trace_close(r);
	close(fd);
	return rc;
}

/* Reads head and lines up to the end or the first error. */
static int read_lines(const char *lines)
{
	struct buf text = BUF_INIT;
	struct trace_reader *r;
	struct trace_event e;
	int fd, rc;

	CHECK(buf_fmt(&text, "0 trace format=1 mode=decoupled learners=3 fragments=2 interval=24 overlap=2 quorum=1 "
		"grace=1 adopt=overwrite step_tokens=4096 seed=1 params=1 chips=3\n%s", lines) == 0);
	fd = file_of(text.data, text.len);
	rc = trace_open(&r, fd);
	CHECK(rc == 0);
	if (rc == 0)
		while ((rc = trace_next(r, &e)) > 0)
			;
	trace_close(r);
	close(fd);
	buf_release(&text);
	return rc;
}

static void cut_anywhere_is_refused(void)
{
	struct buf text = BUF_INIT;

	write_all(&text);
	CHECK(read_text(text.data, text.len) == 0);
	for (size_t n = 0; n < text.len; n++)
		CHECK(read_text(text.data, n) == ERR_DATA);
	buf_release(&text);
}

#define CALLED "0 join learner=0\n1 step learner=0\n1 call round=1 fragment=0 version=0 invited=all\n"
#define ANSWERED CALLED "1 answer round=1 fragment=0 learner=0 steps=1 tokens=9\n"
#define MERGED ANSWERED "2 merge round=1 fragment=0 version=1 answers=0\n"

static void impossible_is_refused(void)
{
	static const struct { const char *lines, *says; } bad[] = {
		{ "0 dance learner=0\n", "line 2: 'dance' is no kind of line" },
		{ "x join learner=0\n", "'x' is no number of seconds" },
		{ "\n", "line 2: '' is no number of seconds" },
		{ "0\n", "says nothing" },
		{ "0 join learner\n", "'learner' is no KEY=VALUE" },
		{ "0 join learner=0 learner=0\n", "given twice" },
		{ "0 join\n", "'join' has no learner" },
		{ "0 join learner=-1\n", "learner: " },
		{ "0 join learner=3\n", "learner 3, of 3" },
		{ "-1 join learner=0\n", "no number of seconds" },
		{ "0 join learner=0\n0 join learner=0\n", "line 3: learner 0 is there already" },
		{ "1 join learner=0\n0 join learner=1\n", "time goes back" },
		{ "0 step learner=0\n", "learner 0 is not there" },
		{ "0 join learner=0\n1 step learner=0 share=0\n", "a step of nothing" },
		{ "0 join learner=0\n1 step learner=0 share=1.5\n", "share: 1.5 is not within 0 to 1" },
		{ "0 join learner=0\n1 lost learner=0 state=kept\n2 step learner=0\n", "line 4: learner 0 is not there" },
		{ "0 join learner=0\n1 lost learner=0 state=broken\n", "it is kept or lost" },
		{ "0 join learner=0\n1 stop learner=0 seconds=1 why=lunch\n", "'lunch' is no reason to stop" },
		{ "0 join learner=0\n1 gone learner=0\n2 back learner=0\n", "learner 0 is gone" },
		{ "0 back learner=0\n", "learner 0 is not there" },
		{ "0 call round=1 fragment=2 version=0 invited=all\n", "fragment 2, of 2" },
		{ "0 call round=1 fragment=0 version=1 invited=all\n", "is 0 by now" },
		{ "0 call round=1 fragment=0 version=0 invited=1,0\n", "ascend" },
		{ "0 call round=1 fragment=0 version=0 invited=0,3\n", "less than 3" },
		{ "0 call round=1 fragment=0 version=0 invited=0,1,2,3\n", "more than all" },
		{ CALLED "1 call round=1 fragment=1 version=0 invited=all\n", "was called before" },
		{ CALLED "1 call round=2 fragment=0 version=0 invited=all\n", "round 1 is open" },
		{ CALLED "1 answer round=2 fragment=0 learner=0 steps=1 tokens=9\n", "not the last" },
		{ ANSWERED "1 answer round=1 fragment=0 learner=0 steps=1 tokens=9\n", "answered round 1 before" },
		{ "0 join learner=0\n0 call round=1 fragment=0 version=0 invited=all\n"
		  "1 answer round=1 fragment=0 learner=0 steps=1 tokens=9\n", "no step" },
		{ "0 join learner=0\n0 call round=1 fragment=0 version=0 invited=1\n1 step learner=0\n"
		  "1 answer round=1 fragment=0 learner=0 steps=1 tokens=9\n", "not invited" },
		{ ANSWERED "2 merge round=1 fragment=0 version=2 answers=0\n", "the next version" },
		{ ANSWERED "2 merge round=1 fragment=0 version=1 answers=1\n", "learner 1 has not answered" },
		{ ANSWERED "2 merge round=1 fragment=0 version=1 answers=\n", "no answers" },
		{ MERGED "2 merge round=1 fragment=0 version=2 answers=0\n", "not open" },
		{ MERGED "2 adopt learner=0 fragment=0 version=2\n", "not published" },
		{ MERGED "2 adopt learner=0 fragment=0 version=1\n2 adopt learner=0 fragment=0 version=1\n", "by now" },
		{ MERGED "3 step learner=0\n3 call round=2 fragment=0 version=1 invited=all\n"
		  "4 answer round=2 fragment=0 learner=0 steps=1 tokens=9\n", "from version 0, not 1" },
		{ "0 join learner=0\n1 end events=2\n", "1 events were read, 2 were written" },
		{ "0 join learner=0\n1 end events=1\n2 join learner=1\n", "more behind 'end'" },
		{ "0 join learner=0\n", "line 3: the file ends before its line 'end'" },
		{ "0 join learner=0\001\n", "byte 0x01" },
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK(read_lines(bad[i].lines) == ERR_DATA);
		CHECK_SAYS(bad[i].says);
	}
	CHECK(read_lines(MERGED "2 adopt learner=0 fragment=0 version=1\n9 end events=6\n") == 0);
}

static void bad_heads_are_refused(void)
{
	static const struct { const char *line, *says; } bad[] = {
		{ "", "line 1: the file is empty" },
		{ "0 end events=0\n", "does not begin with 'trace'" },
		{ "0 trace format=2 mode=decoupled\n", "format 2 is not known" },
		{ "0 trace format=1 mode=chaos\n", "'chaos' is no mode" },
		{ "0 trace format=1 mode=diloco learners=0 fragments=1 interval=1 overlap=1 quorum=1 grace=0 adopt=rebase "
		  "step_tokens=1 seed=1 params=1 chips=1\n", "learners are 1 to" },
		{ "0 trace format=1 mode=diloco learners=1 fragments=1 interval=1 overlap=1 quorum=2 grace=0 adopt=rebase "
		  "step_tokens=1 seed=1 params=1 chips=1\n", "quorum is more" },
		{ "0 trace format=1 mode=diloco learners=65536 fragments=65536 interval=1 overlap=1 quorum=2 grace=0 "
		  "adopt=rebase step_tokens=1 seed=1 params=1 chips=1\n", "4194304" },
		{ "0 trace format=1 mode=diloco learners=1 fragments=1 interval=1 overlap=1 quorum=1 grace=0 adopt=never "
		  "step_tokens=1 seed=1 params=1 chips=1\n", "'never' is no adopt" },
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK(read_text(bad[i].line, strlen(bad[i].line)) == ERR_DATA);
		CHECK_SAYS(bad[i].says);
	}
}

static void an_endless_line_is_refused(void)
{
	size_t n = 3 * TRACE_LINE;
	char *text = malloc(n);

	CHECK(text != NULL);
	if (text) {
		memset(text, 'a', n);
		CHECK(read_text(text, n) == ERR_DATA);
		CHECK_SAYS("longer than");
	}
	free(text);
}

int main(void)
{
	comes_back();
	cut_anywhere_is_refused();
	impossible_is_refused();
	bad_heads_are_refused();
	an_endless_line_is_refused();
	return unit_done("trace");
}
