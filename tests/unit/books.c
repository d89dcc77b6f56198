#include <inttypes.h>
#include <stdlib.h>

#include "round/books.h"
#include "unit.h"

/* Two fragments of 3 and 1 elements. */
static struct books *open_books(void)
{
	struct fragment v[2] = { { .elems = 3 }, { .elems = 1 } };
	struct fragments f = { v, 2, 1 };
	struct books *b;

	CHECK(books_open(&b, &f) == 0);
	return b;
}

/* A line from its text; "ID" is an identity made of the letter behind it. */
static __attribute__((format(printf, 2, 3))) int line(struct books *b, const char *fmt, ...)
{
	static uint64_t number;
	char text[1000], out[4000] = "", *rest = text, *word;
	struct tape_line l = { .epoch = 1, .number = ++number };
	size_t n = 0;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	for (const char *p = text; *p; p++)
		if (strncmp(p, "ID", 2) == 0)
			n += (size_t)snprintf(out + n, sizeof out - n, "%062d%02x", 0, *(p += 2));
		else
			out[n++] = *p;
	rest = out;
	l.kind = strsep(&rest, " ");
	while ((word = strsep(&rest, " "))) {
		char *key = strsep(&word, "=");

		l.field[l.fields++] = (struct tape_field){ key, word };
	}
	return books_line(b, &l);
}

static void answer(struct books *b, unsigned p, unsigned round, const char *who, char id, unsigned tokens,
	unsigned trained)
{
	CHECK(line(b, "answer round=%u fragment=f%03u learner=%s id=ID%c incarnation=1 steps=2 tokens=%u "
		"trained=%u", round, p, who, id, tokens, trained) == 0);
}

static void merged(struct books *b, unsigned p, unsigned round, const char *answers)
{
	CHECK(line(b, "merge round=%u fragment=f%03u version=1 answers=%s", round, p, answers) == 0);
	CHECK(line(b, "publish round=%u fragment=f%03u version=1", round, p) == 0);
}

static void beat(struct books *b, const char *who, unsigned trained, unsigned round0, unsigned answered0,
	unsigned lost0, unsigned round1, unsigned answered1, unsigned lost1)
{
	struct beat_fragment f[2] = { { .round = round0, .answered = answered0, .lost = lost0 },
		{ .round = round1, .answered = answered1, .lost = lost1 } };
	struct beat beat = { .incarnation = 1, .trained = trained, .fragment = f, .fragments = 2 };

	snprintf(beat.learner, sizeof beat.learner, "%s", who);
	CHECK(books_beat(b, &beat) == 0);
}

static struct books_learner find(struct books *b, const char *who)
{
	struct books_learner l = { .name = "" };

	for (size_t i = 0; i < books_learners(b); i++) {
		CHECK(books_learner(b, i, &l) == 0);
		CHECK_NEAR(l.merged + l.refused + l.open + l.lost + l.under_way, l.trained,
			l.balanced ? 1e-9 : 1e9);
		if (strcmp(l.name, who) == 0)
			return l;
	}
	CHECK(!"there is such a learner");
	return l;
}

static void check_fault(struct books *b, const char *says)
{
	struct books_learner l = find(b, "a");

	CHECK(!l.balanced);
	if (!strstr(l.why, says))
		CHECK_STR(l.why, says);
	books_close(b);
}

static void test_whole(void)
{
	struct books *b = open_books();
	struct books_learner l;

	CHECK(books_learners(b) == 0);
	CHECK(line(b, "join learner=b key=x incarnation=1") == 0);
	answer(b, 0, 1, "a", '1', 100, 100);
	answer(b, 0, 1, "c", '2', 80, 80);
	answer(b, 1, 2, "a", '3', 150, 150);
	merged(b, 0, 1, "a:ID1:0.5:1,c:ID2:0.5:1");
	CHECK(line(b, "refuse round=2 fragment=f001 learner=a id=ID3 verdict=outlier tokens=150 why=x") == 0);
	answer(b, 0, 3, "a", '4', 60, 170);
	CHECK(line(b, "refuse round=4 fragment=f000 learner=a id=ID5 verdict=late tokens=20 why=x") == 0);
	/* of no tokens of a's */
	CHECK(line(b, "refuse round=5 fragment=f000 learner=a id=ID6 verdict=other-run tokens=999") == 0);
	CHECK(line(b, "refuse round=6 fragment=f000 learner=a id=ID1 verdict=duplicate tokens=100") == 0);
	CHECK(line(b, "lost learner=a silent=3") == 0 && line(b, "new_kind x=1") == 0);
	beat(b, "a", 200, 4, 180, 10, 2, 150, 0);
	beat(b, "b", 0, 0, 0, 0, 0, 0, 0);
	beat(b, "c", 80, 1, 80, 0, 0, 0, 80);
	CHECK(books_learners(b) == 3);
	l = find(b, "a");
	CHECK_STR(l.why, "");
	CHECK(l.balanced && l.trained == 200);
	CHECK_NEAR(l.merged, 0.75 * 100, 1e-12);
	CHECK_NEAR(l.refused, 0.75 * 20 + 0.25 * 150, 1e-12);
	CHECK_NEAR(l.open, 0.75 * 60, 1e-12);
	CHECK_NEAR(l.lost, 0.75 * 10, 1e-12);
	CHECK_NEAR(l.under_way, 0.75 * 10 + 0.25 * 50, 1e-12);
	CHECK(l.answers == 6 && l.accepted == 1 && l.late == 1 && l.refusals == 3);
	l = find(b, "b");
	CHECK(l.balanced && l.trained == 0 && l.answers == 0);
	l = find(b, "c");
	CHECK(l.balanced && l.accepted == 1);
	CHECK_NEAR(l.lost, 20, 1e-12);
	books_close(b);
}

/* Killed between its answer and its beat. */
static void test_younger_than_the_beat(void)
{
	struct books *b = open_books();
	struct books_learner l;

	answer(b, 0, 1, "a", '1', 100, 100);
	answer(b, 0, 2, "a", '2', 50, 150);
	merged(b, 0, 1, "a:ID1:1:1");
	merged(b, 0, 2, "a:ID2:1:1");
	beat(b, "a", 120, 1, 100, 0, 0, 0, 120);
	l = find(b, "a");
	CHECK_STR(l.why, "");
	CHECK(l.balanced && l.trained == 150);
	/* and its next life knows it, and lost what was under way */
	beat(b, "a", 150, 2, 150, 0, 0, 0, 150);
	CHECK(find(b, "a").balanced);
	books_close(b);

	/* the same when its answer came too late, which is all that is heard of it */
	b = open_books();
	answer(b, 0, 1, "a", '1', 100, 100);
	CHECK(line(b, "refuse round=2 fragment=f000 learner=a id=ID2 verdict=late tokens=50 incarnation=1 "
		"trained=150 why=x") == 0);
	beat(b, "a", 120, 1, 100, 0, 0, 0, 120);
	l = find(b, "a");
	CHECK_STR(l.why, "");
	CHECK(l.balanced && l.trained == 150 && l.late == 1);
	/* another life of its name goes on: what an older one trained is not in its count, but in the books */
	CHECK(line(b, "refuse round=3 fragment=f000 learner=a id=ID3 verdict=old-incarnation tokens=10 "
		"incarnation=1 trained=400 why=x") == 0);
	CHECK_NEAR(find(b, "a").trained, 150 + 0.75 * 10, 1e-12);
	books_close(b);
}

static void test_revoked(void)
{
	struct books *b = open_books();
	struct books_learner l;

	CHECK(line(b, "join learner=a key=x incarnation=1") == 0);
	answer(b, 0, 1, "a", '1', 100, 100);
	merged(b, 0, 1, "a:ID1:1:1");
	answer(b, 1, 2, "a", '2', 150, 150);
	CHECK(line(b, "refuse round=3 fragment=f000 learner=a id=ID3 verdict=not-authentic tokens=70 why=x") == 0);
	CHECK(!find(b, "a").balanced);
	CHECK(books_revoke(b, "a") == 0 && books_revoke(b, "z") == 0);
	l = find(b, "a");
	CHECK(l.balanced && l.revoked && l.trained == 150);
	CHECK_NEAR(l.merged, 0.75 * 100, 1e-12);
	l = find(b, "z");
	CHECK(l.balanced && l.revoked && l.trained == 0);
	/* what does not fit is told of it, too */
	CHECK(line(b, "refuse round=1 fragment=f000 learner=a id=ID1 verdict=late tokens=100 why=x") == 0);
	CHECK(!find(b, "a").balanced);
	books_close(b);
}

static void test_faults(void)
{
	struct books *b = open_books();

	answer(b, 0, 1, "a", '1', 100, 100);
	answer(b, 0, 2, "a", '2', 100, 150);
	beat(b, "a", 150, 2, 150, 0, 0, 0, 0);
	check_fault(b, "f000: answers to rounds 1 and 2 have tokens in common");

	b = open_books();
	answer(b, 0, 1, "a", '1', 100, 100);
	merged(b, 0, 1, "a:ID1:1:1");
	merged(b, 0, 1, "a:ID1:1:1");
	beat(b, "a", 100, 1, 100, 0, 0, 0, 100);
	check_fault(b, "answer to round 1 was merged twice");

	b = open_books();
	answer(b, 0, 1, "a", '1', 100, 100);
	merged(b, 0, 1, "a:ID1:1:1");
	beat(b, "a", 100, 1, 90, 10, 0, 0, 100);
	check_fault(b, "f000: the tape has answers of 100 tokens, it answered 90");

	b = open_books();
	merged(b, 0, 1, "a:ID1:1:1");
	check_fault(b, "an answer to round 1 was merged that the tape does not know");

	b = open_books();
	answer(b, 0, 1, "a", '1', 100, 100);
	CHECK(line(b, "refuse round=1 fragment=f000 learner=a id=ID1 verdict=outlier tokens=100") == 0);
	merged(b, 0, 1, "a:ID1:1:1");
	check_fault(b, "was merged though it was refused");

	b = open_books();
	answer(b, 0, 1, "a", '1', 100, 100);
	merged(b, 0, 1, "a:ID1:1:1");
	CHECK(line(b, "refuse round=1 fragment=f000 learner=a id=ID1 verdict=outlier tokens=100") == 0);
	check_fault(b, "was refused after it was accepted");

	b = open_books();
	answer(b, 0, 1, "a", '1', 100, 100);
	check_fault(b, "there is no beat of it that counts");

	b = open_books();
	answer(b, 0, 1, "a", '1', 100, 90);
	check_fault(b, "has 100 tokens of 90 trained");

	b = open_books();
	answer(b, 0, 1, "a", '1', 10, 500);
	beat(b, "a", 100, 1, 10, 0, 0, 0, 100);
	check_fault(b, "an answer tells of 500 trained tokens, its beat of 100");

	b = open_books();
	beat(b, "a", 100, 0, 90, 20, 0, 0, 100);
	check_fault(b, "f000: answered 90 and lost 20 of 100 trained tokens");
}

static void test_abandoned(void)
{
	struct books *b = open_books();
	struct books_learner l;

	answer(b, 0, 1, "a", '1', 100, 100);
	CHECK(line(b, "merge round=1 fragment=f000 version=1 answers=a:ID1:1:1") == 0);
	beat(b, "a", 100, 1, 100, 0, 0, 0, 100);
	l = find(b, "a");
	CHECK(l.balanced && l.accepted == 0);
	CHECK_NEAR(l.open, 75, 1e-12); /* decided is not merged */
	CHECK(line(b, "abandon round=1 fragment=f000 why=gone") == 0);
	l = find(b, "a");
	CHECK(l.balanced && l.refusals == 0);
	CHECK_NEAR(l.refused, 75, 1e-12);
	CHECK(line(b, "refuse round=1 fragment=f000 learner=a id=ID1 verdict=abandoned tokens=100") == 0);
	l = find(b, "a");
	CHECK(l.balanced && l.refusals == 1);
	CHECK_NEAR(l.refused, 75, 1e-12);
	CHECK(line(b, "abandon round=9 fragment=f000 why=gone") == 0);
	books_close(b);

	/* syncers before this one told of the answers first */
	b = open_books();
	answer(b, 0, 1, "a", '1', 100, 100);
	CHECK(line(b, "merge round=1 fragment=f000 version=1 answers=a:ID1:1:1") == 0);
	beat(b, "a", 100, 1, 100, 0, 0, 0, 100);
	CHECK(line(b, "refuse round=1 fragment=f000 learner=a id=ID1 verdict=abandoned tokens=100") == 0);
	CHECK(find(b, "a").balanced);
	CHECK(line(b, "abandon round=1 fragment=f000 why=gone") == 0);
	l = find(b, "a");
	CHECK_STR(l.why, "");
	CHECK(l.balanced && l.refusals == 1 && l.accepted == 0);
	CHECK_NEAR(l.refused, 75, 1e-12);
	/* what was given up is not merged any more */
	CHECK(line(b, "publish round=1 fragment=f000 version=1") == ERR_DATA);
	books_close(b);
}

/* Whatever line tells of it: process `life` answers fragment 0, and counts `answered` of `trained` tokens by then. */
static void lived(struct books *b, const char *kind, unsigned life, unsigned round, char id, unsigned tokens,
	unsigned trained, unsigned answered)
{
	CHECK(line(b, "%s round=%u fragment=f000 learner=a id=ID%c incarnation=%u tokens=%u trained=%u answered=%u",
		kind, round, id, life, tokens, trained, answered) == 0);
}

static void lives(struct books *b, unsigned life, unsigned trained, unsigned round, unsigned answered, unsigned lost)
{
	struct beat_fragment f[2] = { { .round = round, .answered = answered, .lost = lost } };
	struct beat beat = { .learner = "a", .incarnation = life, .trained = trained, .fragment = f, .fragments = 2 };

	CHECK(books_beat(b, &beat) == 0);
}

static struct books *open_replaced(void)
{
	struct books *b = open_books();

	lived(b, "answer", 1, 1, '1', 100, 100, 100);
	merged(b, 0, 1, "a:ID1:1:1");
	return b;
}

static void check_stray(struct books *b, double merged, double refused)
{
	struct books_learner l = find(b, "a");

	CHECK_STR(l.why, "");
	CHECK(l.balanced);
	CHECK_NEAR(l.merged, 0.75 * merged, 1e-12);
	CHECK_NEAR(l.refused, 0.75 * refused, 1e-12);
	books_close(b);
}

/* Two processes of a name: the second begins, by its count, where it found the first. */
static void test_replaced(void)
{
	const char *const old = "refuse verdict=old-incarnation", *const late = "refuse verdict=late";
	struct books *b = open_replaced();

	/* the first one's next answer comes while the second starts, and is refused; its count is far ahead */
	lives(b, 2, 120, 1, 100, 20);
	lived(b, old, 1, 2, '2', 900, 1000, 1000);
	check_stray(b, 100, 900);

	/* or is merged: before the second has answered anything, and after */
	b = open_replaced();
	lives(b, 2, 120, 1, 100, 20);
	lived(b, "answer", 1, 2, '2', 30, 130, 130);
	merged(b, 0, 2, "a:ID2:1:1");
	check_stray(b, 130, 0);
	b = open_replaced();
	lived(b, "answer", 1, 2, '2', 30, 130, 130);
	merged(b, 0, 2, "a:ID2:1:1");
	lived(b, "answer", 2, 3, '3', 50, 150, 150);
	merged(b, 0, 3, "a:ID3:1:1");
	lives(b, 2, 150, 3, 150, 0);
	check_stray(b, 180, 0);

	/* or is late: tokens of two counts are not the same ones */
	b = open_replaced();
	lived(b, late, 1, 2, '2', 30, 130, 130);
	lived(b, "answer", 2, 3, '3', 50, 150, 150);
	lives(b, 2, 150, 3, 150, 0);
	check_stray(b, 100, 30);

	/* a third found it, and counts on from there */
	b = open_replaced();
	lived(b, old, 1, 2, '2', 60, 160, 160);
	lived(b, "answer", 2, 3, '3', 50, 150, 150);
	lived(b, "answer", 3, 4, '4', 10, 170, 170);
	lives(b, 3, 170, 4, 170, 0);
	check_stray(b, 100, 60);

	/* syncers before this one did not write down what was answered */
	b = open_replaced();
	lives(b, 2, 120, 1, 100, 20);
	CHECK(line(b, "%s round=2 fragment=f000 learner=a id=ID2 tokens=30 incarnation=1 trained=130", old) == 0);
	check_stray(b, 100, 30);
}

/* That there was another process excuses nothing else. */
static void test_replaced_faults(void)
{
	const char *const old = "refuse verdict=old-incarnation";
	struct books *b = open_replaced();

	lived(b, old, 1, 2, '2', 30, 130, 130);
	lived(b, "answer", 2, 3, '3', 50, 150, 150);
	lives(b, 2, 150, 3, 140, 10); /* ten of its own are missing */
	check_fault(b, "f000: the tape has answers of 180 tokens, it answered 170");

	/* the successor knew the answer, and lost its count of it */
	b = open_replaced();
	lived(b, "answer", 2, 3, '3', 50, 150, 150);
	lives(b, 2, 150, 3, 50, 0);
	check_fault(b, "f000: the tape has answers of 150 tokens, it answered ");

	b = open_replaced();
	lived(b, old, 1, 2, '2', 30, 130, 130);
	lived(b, "answer", 2, 3, '3', 50, 150, 150);
	lived(b, "answer", 2, 4, '4', 50, 170, 200);
	lives(b, 2, 200, 4, 200, 0);
	check_fault(b, "answers to rounds 3 and 4 have tokens in common");
}

static void test_no_syncer_writes_that(void)
{
	struct books *b = open_books();
	struct beat odd = { .learner = "a", .fragments = 3 };

	CHECK(line(b, "answer round=1 fragment=f002 learner=a id=ID1") == ERR_DATA);
	CHECK_SAYS("syncer/tape.1: line ");
	CHECK(line(b, "answer round=1 fragment=x learner=a id=ID1") == ERR_DATA);
	CHECK(line(b, "answer round=1 fragment=f000 learner=../a id=ID1") == ERR_DATA);
	CHECK(line(b, "answer round=1 fragment=f000 learner=a id=12") == ERR_DATA);
	CHECK(line(b, "merge round=1 fragment=f000 answers=a:b") == ERR_DATA);
	CHECK(line(b, "publish round=7 fragment=f000") == ERR_DATA);
	CHECK_SAYS("round 7 is published and was not decided");
	CHECK(books_beat(b, &odd) == ERR_DATA);
	books_close(b);
	books_close(NULL);
}

/* Many answers, some to rounds before, take no time to speak of. */
static void test_many(void)
{
	enum { ROUNDS = 20000 };
	struct books *b = open_books();
	struct books_learner l;
	char answers[200];

	for (unsigned r = 1; r <= ROUNDS; r++) {
		struct tape_line t = { .kind = "answer" };
		char round[12], id[65], trained[12];

		snprintf(round, sizeof round, "%u", r % 16 ? r : r - 3);
		snprintf(id, sizeof id, "%064x", r);
		snprintf(trained, sizeof trained, "%u", r);
		t.field[t.fields++] = (struct tape_field){ "round", round };
		t.field[t.fields++] = (struct tape_field){ "fragment", "f000" };
		t.field[t.fields++] = (struct tape_field){ "learner", "a" };
		t.field[t.fields++] = (struct tape_field){ "id", id };
		t.field[t.fields++] = (struct tape_field){ "tokens", "1" };
		t.field[t.fields++] = (struct tape_field){ "trained", trained };
		CHECK(books_line(b, &t) == 0);
		t.kind = "merge";
		t.fields = 2;
		snprintf(answers, sizeof answers, "a:%s:1:1", id);
		t.field[t.fields++] = (struct tape_field){ "answers", answers };
		CHECK(books_line(b, &t) == 0);
		t.kind = "publish";
		CHECK(books_line(b, &t) == 0);
	}
	beat(b, "a", ROUNDS, ROUNDS, ROUNDS, 0, 0, 0, ROUNDS);
	l = find(b, "a");
	CHECK(l.balanced && l.accepted == ROUNDS);
	CHECK_STR(l.why, "");
	books_close(b);
}

int main(void)
{
	test_whole();
	test_younger_than_the_beat();
	test_revoked();
	test_faults();
	test_abandoned();
	test_replaced();
	test_replaced_faults();
	test_no_syncer_writes_that();
	test_many();
	return unit_done("books");
}
