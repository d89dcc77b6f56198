#include <stdlib.h>
#include <unistd.h>

#include "base/say.h"
#include "unit.h"

static void check_escape(const char *text, const char *want)
{
	char out[128];

	say_escape(out, sizeof out, text);
	CHECK_STR(out, want);
}

static void test_escape(void)
{
	char out[8];

	check_escape("plain text", "plain text");
	check_escape("a\nb\tc\rd", "a\\nb\\tc\\rd");
	check_escape("\x1b[31mred\x7f", "\\x1b[31mred\\x7f");
	check_escape("caf\xc3\xa9 \xf0\x9f\x8c\x8d", "caf\xc3\xa9 \xf0\x9f\x8c\x8d");
	check_escape("lone \xe2\x81", "lone \\xe2\\x81");
	check_escape("latin \xe9t\xe9", "latin \\xe9t\\xe9");
	check_escape("overlong \xc0\xaf \xe0\x80\xaf", "overlong \\xc0\\xaf \\xe0\\x80\\xaf");
	check_escape("surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80");
	check_escape("beyond \xf4\x90\x80\x80", "beyond \\xf4\\x90\\x80\\x80");
	check_escape("c1 \xc2\x9b", "c1 \\xc2\\x9b");
	check_escape("backwards \xe2\x80\xae", "backwards \\xe2\\x80\\xae");
	say_escape(out, sizeof out, "12345678");
	CHECK_STR(out, "1234567");
	say_escape(out, sizeof out, "123456\n"); /* half an escape would lie */
	CHECK_STR(out, "123456");
	say_escape(out, 1, "x");
	CHECK_STR(out, "");
}

static FILE *caught;
static int true_stderr;

static void catch_begin(void)
{
	fflush(stderr);
	true_stderr = dup(STDERR_FILENO);
	caught = tmpfile();
	CHECK(true_stderr >= 0 && caught != NULL);
	if (caught)
		dup2(fileno(caught), STDERR_FILENO);
}

static void catch_end(const char *want)
{
	char text[512] = "";

	dup2(true_stderr, STDERR_FILENO);
	close(true_stderr);
	if (!caught)
		return;
	rewind(caught);
	text[fread(text, 1, sizeof text - 1, caught)] = '\0';
	fclose(caught);
	CHECK_STR(text, want);
}

static void say_all(bool quiet, bool verbose)
{
	struct say s;

	say_init(&s, "dl-x", quiet, verbose);
	s.terminal = false;
	say_warn(&s, "odd: %s", "a\nb");
	say_note(&s, "note");
	err_set(ERR_AUTH, "b.delta: cut");
	CHECK(say_error(&s, ERR_AUTH) == 3);
	CHECK(say_error(&s, 0) == 0);
}

static void test_levels(void)
{
	catch_begin();
	say_all(false, false);
	catch_end("dl-x: odd: a\\nb\ndl-x: b.delta: cut\n");
	catch_begin();
	say_all(false, true);
	catch_end("dl-x: odd: a\\nb\ndl-x: note\ndl-x: b.delta: cut\n");
	catch_begin();
	say_all(true, true);
	catch_end("dl-x: b.delta: cut\n");
	catch_begin();
	say_warn(NULL, "nobody");
	say_note(NULL, "nobody");
	say_progress(NULL, "nobody");
	say_progress_end(NULL);
	CHECK(!say_due(NULL) && say_error(NULL, ERR_DATA) == 1);
	catch_end("");
}

static void test_progress(void)
{
	struct say s;

	catch_begin();
	say_init(&s, "dl-x", false, true);
	s.terminal = false;
	s.shown = 1e300;
	CHECK(!say_due(&s));
	s.shown = -1e300;
	CHECK(say_due(&s));
	say_progress(&s, "step %d", 1);
	CHECK(!say_due(&s));
	say_progress_end(&s);
	catch_end("dl-x: step 1\n");

	catch_begin();
	s.terminal = true;
	say_progress(&s, "step 2");
	say_progress(&s, "step 3");
	say_warn(&s, "odd");
	say_progress(&s, "step 4");
	say_progress_end(&s);
	say_progress_end(&s);
	s.quiet = true;
	say_progress(&s, "step 5");
	CHECK(!say_due(&s));
	catch_end("\r\x1b[Kdl-x: step 2\r\x1b[Kdl-x: step 3\r\x1b[Kdl-x: odd\n"
		  "\r\x1b[Kdl-x: step 4\n");
}

int main(void)
{
	test_escape();
	test_levels();
	test_progress();
	return unit_done("say");
}
