/* words - lines as commands */
#include "base/words.h"

#include <string.h>

#include "unit.h"

/* The words of a line with | between. */
static const char *split(const char *line)
{
	static char text[256];
	struct words w = { 0 };
	int rc = words_split(&w, line, strlen(line));

	text[0] = '\0';
	for (size_t i = 0; i < w.n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "|" : "", w.v[i]);
	CHECK(rc < 0 ? w.n == 0 && !w.v : !w.v || !w.v[w.n]);
	words_release(&w);
	return rc < 0 ? err_text() : text;
}

static void lines_become_words(void)
{
	CHECK_STR(split(""), "");
	CHECK_STR(split(" \t \r\n"), "");
	CHECK_STR(split("a b  c\td\r\n"), "a|b|c|d");
	CHECK_STR(split("sh -c 'a  \"b\" \\ c'"), "sh|-c|a  \"b\" \\ c");
	CHECK_STR(split("\"a \\\" \\\\ \\n\" b"), "a \" \\ \\n|b");
	CHECK_STR(split("a\\ b c\\'d"), "a b|c'd");
	CHECK_STR(split("x'y z'\"w\""), "xy zw");
	CHECK_STR(split("'' \"\" a"), "||a");
	CHECK_STR(split("$HOME *.c `id` ~ a&b"), "$HOME|*.c|`id`|~|a&b");
	CHECK_STR(split("a # b c"), "a");
	CHECK_STR(split("a#b"), "a#b");
	CHECK_STR(split("# a"), "");
	CHECK_STR(split("a 'b"), "a quotation that does not end");
	CHECK_STR(split("a b\""), "a quotation that does not end");
	CHECK_STR(split("a\\"), "a\\");
}

static void a_nul_is_refused(void)
{
	struct words w = { 0 };

	CHECK(words_split(&w, "a\0b", 3) == ERR_DATA);
}

static void what_is_quoted_comes_back(void)
{
	static const char *const text[] = { "", "a", "a b", "it's", "\"", "\\", "#", "a#b", "$x", "a\nb", "-r", "/x/y.tok",
					    "'", "''", " ", "\t", "\xff\xfe", NULL };

	for (int i = 0; text[i]; i++) {
		struct buf line = BUF_INIT;
		struct words w = { 0 };

		CHECK(words_quote(&line, text[i]) == 0 && words_split(&w, line.data, line.len) == 0);
		CHECK(w.n == 1);
		CHECK_STR(w.v[0], text[i]);
		words_release(&w);
		buf_release(&line);
	}
}

int main(void)
{
	lines_become_words();
	a_nul_is_refused();
	what_is_quoted_comes_back();
	return unit_done("words");
}
