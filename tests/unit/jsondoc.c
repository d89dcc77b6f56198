/* jsondoc: what is taken, what is refused, and that a large object is read piece by piece. */
#include "unit.h"

#include "base/buf.h"
#include "form/jsondoc.h"

static int parse(const char *text)
{
	struct jsondoc *doc;
	int rc = jsondoc_parse(&doc, text, strlen(text));

	jsondoc_free(doc);
	return rc;
}

static void test_values(void)
{
	static const char text[] = "{\"n\":7,\"x\":-0.5,\"yes\":true,\"no\":null,\"t\":\"\\u00e9\",\"a\":[1,[2]]}";
	struct jsondoc *doc;
	uint64_t u = 0;
	double x = 0;
	bool b = false;
	char shown[16];

	CHECK(jsondoc_parse(&doc, text, sizeof text - 1) == 0);
	CHECK(jsondoc_is_object(doc) && jsondoc_size(doc) == 6);
	CHECK(jsondoc_u64(jsondoc_get(doc, "n"), &u) && u == 7);
	CHECK(jsondoc_f64(jsondoc_get(doc, "n"), &x) && x == 7);
	CHECK(jsondoc_f64(jsondoc_get(doc, "x"), &x) && x == -0.5);
	CHECK(!jsondoc_u64(jsondoc_get(doc, "x"), &u) && u == 7);
	CHECK(jsondoc_bool(jsondoc_get(doc, "yes"), &b) && b);
	CHECK(jsondoc_is_null(jsondoc_get(doc, "no")) && !jsondoc_is_null(jsondoc_get(doc, "none")));
	CHECK_STR(jsondoc_text(jsondoc_get(doc, "t")), "\xc3\xa9");
	CHECK(jsondoc_text(jsondoc_get(doc, "n")) == NULL);
	CHECK(jsondoc_is_array(jsondoc_get(doc, "a")) && jsondoc_size(jsondoc_get(doc, "a")) == 2);
	CHECK(jsondoc_u64(jsondoc_at(jsondoc_get(doc, "a"), 0), &u) && u == 1);
	CHECK(jsondoc_at(jsondoc_get(doc, "a"), 2) == NULL);
	CHECK(jsondoc_get(jsondoc_get(doc, "a"), "n") == NULL && !jsondoc_u64(NULL, &u));
	jsondoc_show(shown, sizeof shown, jsondoc_get(doc, "a"));
	CHECK_STR(shown, "[1, [2]]");
	jsondoc_show(shown, sizeof shown, doc);
	CHECK(strlen(shown) == sizeof shown - 1 && strcmp(shown + 12, "...") == 0);
	jsondoc_free(doc);
}

static void test_refused(void)
{
	static const char *const bad[] = { "", " ", "{", "[1", "[1,]", "{\"a\":1,}", "{'a':1}", "[1] x", "7",
		"\"text\"", "nul", "[01]", "[+1]", "[NaN]", "[1e999]", "[\"\x80\"]", "[\"\\ud800\"]", "[\"\\u0000\"]",
		"{\"a\":{\"b\":1,\"b\":1}}", "// no\n[]", "[-]", "[99999999999999999999]" };

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK(parse(bad[i]) == ERR_DATA);
		CHECK_SAYS("not JSON as it should be: line ");
	}
	CHECK(parse("{\"a\":1,\"a\":2}") == ERR_DATA);
	CHECK_SAYS("duplicate object key");
}

static void test_ten_thousand_levels(void)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	for (int i = 0; i < 10000; i++)
		rc |= buf_str(&text, "[");
	for (int i = 0; i < 10000; i++)
		rc |= buf_str(&text, "]");
	CHECK(rc == 0 && parse(text.data) == ERR_DATA);
	CHECK_SAYS("depth");
	buf_release(&text);
}

/* ---- members ---- */

struct seen {
	char text[200];
	int members, stop; /* after so many */
};

static int take(void *ctx, const char *key, const struct jsondoc *value)
{
	struct seen *s = ctx;
	size_t n = strlen(s->text);
	char shown[50];

	jsondoc_show(shown, sizeof shown, value);
	snprintf(s->text + n, sizeof s->text - n, "%s=%s;", key, shown);
	return ++s->members == s->stop ? err_set(ERR_DATA, "enough") : 0;
}

static int members(struct seen *s, const char *text, size_t limit)
{
	*s = (struct seen){ .stop = s->stop };
	return jsondoc_members(text, strlen(text), limit, take, s);
}

static void test_members(void)
{
	struct seen s = { .stop = 0 };

	CHECK(members(&s, " { \"a\" : [1,2] , \"\xc3\xa9\":{} ,\n\"n\":12,\"t\":\"}\" } \n ", 100) == 0);
	CHECK_STR(s.text, "a=[1, 2];\xc3\xa9={};n=12;t=\"}\";");
	CHECK(members(&s, "{}", 100) == 0 && s.members == 0);
	s.stop = 2;
	CHECK(members(&s, "{\"a\":1,\"b\":2,\"c\":3}", 100) == ERR_DATA && s.members == 2);
	CHECK_SAYS("enough");
}

static void test_members_refused(void)
{
	static const char *const bad[] = { "", "[]", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}",
		"{,}", "{a:1}", "{1:1}", "{\"a\" 1}", "{\"a\":1 \"b\":2}", "{}{}", "{} x", "{\"a\":}", "{\"a\":1}\x01",
		"{\"a\":{\"b\":1,\"b\":2}}", "{\"a\":[}", "{\"\x80\":1}", "{\"a" };
	struct seen s = { .stop = 0 };

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK(members(&s, bad[i], 100) == ERR_DATA);
		CHECK_SAYS("not JSON as it should be: byte ");
	}
}

static void test_a_member_has_a_limit(void)
{
	struct seen s = { .stop = 0 };

	CHECK(members(&s, "{\"a\":\"12345678\"}", 10) == 0);
	CHECK(members(&s, "{\"a\":\"123456789\"}", 10) == ERR_DATA);
	CHECK_SAYS("a value longer than 10 bytes");
	CHECK(members(&s, "{\"a\":1,\"0123456789\":1}", 10) == ERR_DATA);
}

int main(void)
{
	test_values();
	test_refused();
	test_ten_thousand_levels();
	test_members();
	test_members_refused();
	test_a_member_has_a_limit();
	return unit_done("jsondoc");
}
