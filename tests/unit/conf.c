#include "base/conf.h"
#include "unit.h"

static int parse(struct conf *c, const char *text)
{
	*c = (struct conf){ 0 };
	return conf_parse(c, text, strlen(text));
}

/* The text is refused with this sentence. */
static void refused(const char *text, const char *why)
{
	struct conf c;

	CHECK(parse(&c, text) == ERR_DATA);
	CHECK_STR(err_text(), why);
	conf_release(&c);
}

static void test_lines(void)
{
	struct conf c;

	CHECK(parse(&c, "# model\n\n  dim 128   \nlr = 3e-3 # fast\nname=a b#c\n\ttie\tyes") == 0);
	CHECK(c.n == 4);
	CHECK_STR(conf_get(&c, "dim"), "128");
	CHECK_STR(conf_get(&c, "lr"), "3e-3");
	CHECK_STR(conf_get(&c, "name"), "a b#c");
	CHECK_STR(conf_get(&c, "tie"), "yes");
	CHECK(c.v[0].line == 3 && c.v[3].line == 6);
	CHECK(conf_get(&c, "absent") == NULL);
	conf_release(&c);
	CHECK(parse(&c, "") == 0 && c.n == 0);
	CHECK(conf_parse(&c, NULL, 0) == 0);
}

static void test_editors(void)
{
	struct conf c;

	CHECK(parse(&c, "\xef\xbb\xbf# note\r\ndim 128\r\nname caf\xc3\xa9\r\n\r\n") == 0);
	CHECK(c.n == 2);
	CHECK_STR(conf_get(&c, "dim"), "128");
	CHECK_STR(conf_get(&c, "name"), "caf\xc3\xa9");
	conf_release(&c);
}

static void test_refused_lines(void)
{
	struct conf c = { 0 };

	refused("a 1\nb 2\na 3\n", "line 3: key 'a' given twice");
	refused("a 1\nb\n", "line 2: key 'b' has no value");
	refused("b =\n", "line 1: key 'b' has no value");
	refused("b  # nothing\n", "line 1: key 'b' has no value");
	refused("b = = 1\n", "line 1: value of 'b' begins with '='");
	refused("b=#1\n", "line 1: value of 'b' begins with '#'");
	refused("Dim 128\n", "line 1: 'Dim' is not a key");
	refused("= 128\n", "line 1: '' is not a key");
	refused("a/b 1\n", "line 1: 'a/b' is not a key");
	refused("a 1\rb 2\n", "line 1: control character 0x0d");
	refused("a \x1b[31m\n", "line 1: control character 0x1b");
	refused("k23456789012345678901234567890123456789012345678901234567890123456 1",
		"line 1: 'k234567890123456789012345678901234567890123456789012345678901234' is not a key");
	CHECK(conf_parse(&c, "a 1\0b 2", 7) == ERR_DATA);
	CHECK_STR(err_text(), "line 1: control character 0x00");
	conf_release(&c);
}

static void test_too_many(void)
{
	struct buf text = BUF_INIT;
	struct conf c = { 0 };

	for (int i = 0; i < 5000; i++)
		CHECK(buf_fmt(&text, "k%d 1\n", i) == 0);
	CHECK(conf_parse(&c, text.data, text.len) == ERR_DATA);
	CHECK_SAYS("more than 4096 keys");
	conf_release(&c);
	buf_release(&text);
}

static void test_typed(void)
{
	struct conf c;
	uint64_t u = 7;
	double x = 7;
	int yes = 7;

	CHECK(parse(&c, "n 12\nx 0.7\non yes\noff 0\nbad 0.7abc\nbig 1e999\nnone nan\n") == 0);
	CHECK(conf_u64(&c, "n", 1, 12, &u) == 1 && u == 12);
	CHECK(conf_f64(&c, "x", 0, 1, &x) == 1 && x == 0.7);
	CHECK(conf_bool(&c, "on", &yes) == 1 && yes == 1);
	CHECK(conf_bool(&c, "off", &yes) == 1 && yes == 0);
	CHECK(conf_u64(&c, "absent", 0, 1, &u) == 0 && conf_f64(&c, "absent", 0, 1, &x) == 0);
	CHECK(conf_bool(&c, "absent", &yes) == 0);
	CHECK(u == 12 && x == 0.7 && yes == 0);
	CHECK(conf_u64(&c, "n", 13, 20, &u) == ERR_DATA);
	CHECK_STR(err_text(), "line 1: n: 12 is not within 13 to 20");
	CHECK(conf_f64(&c, "x", 0, 0.5, &x) == ERR_DATA);
	CHECK_STR(err_text(), "line 2: x: 0.7 is not within 0 to 0.5");
	CHECK(conf_u64(&c, "x", 0, 9, &u) == ERR_DATA);
	CHECK_STR(err_text(), "line 2: x: '0.7' is not a whole number");
	CHECK(conf_f64(&c, "bad", 0, 9, &x) == ERR_DATA);
	CHECK_STR(err_text(), "line 5: bad: '0.7abc' is not a decimal number");
	CHECK(conf_f64(&c, "big", 0, 9, &x) == ERR_DATA && conf_f64(&c, "none", 0, 9, &x) == ERR_DATA);
	CHECK(conf_bool(&c, "n", &yes) == ERR_DATA);
	CHECK_STR(err_text(), "line 1: n: '12' is neither yes nor no");
	conf_release(&c);
}

static void test_known(void)
{
	static const char *const known[] = { "heads", "steps", "lr", NULL };
	static const char *const long_names[] = { "decay_steps", "lr_min_ratio", "kv_heads", "head_dim", NULL };
	struct conf c;

	CHECK(parse(&c, "lr 1\nstpes 4\n") == 0);
	CHECK(conf_known(&c, known) == ERR_DATA);
	CHECK_STR(err_text(), "line 2: unknown key 'stpes', did you mean 'steps'?");
	conf_release(&c);
	CHECK(parse(&c, "quorum 4\n") == 0);
	CHECK(conf_known(&c, known) == ERR_DATA);
	CHECK_STR(err_text(), "line 1: unknown key 'quorum'");
	conf_release(&c);
	CHECK(parse(&c, "lr 4\n") == 0 && conf_known(&c, known) == 0);
	conf_release(&c);
	CHECK_STR(conf_nearest("head", known), "heads");
	CHECK_STR(conf_nearest("steps", long_names), "decay_steps");
	CHECK_STR(conf_nearest("lr_min", long_names), "lr_min_ratio");
	CHECK(conf_nearest("head", long_names) == NULL); /* two have it within */
	CHECK(conf_nearest("", known) == NULL && conf_nearest("x", known) == NULL);
}

static void test_set_and_format(void)
{
	static const char *const bad[] = { "", " a", "a ", "=a", "#a", "a #b", "a\nb", "a\x7f" };
	struct buf text = BUF_INIT;
	struct conf c = { 0 }, again = { 0 };

	CHECK(conf_set(&c, "name", "a b") == 0 && conf_set_u64(&c, "n", UINT64_MAX) == 0);
	CHECK(conf_set_f64(&c, "x", 0.1) == 0 && conf_set(&c, "name", "c") == 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK(conf_set(&c, "name", bad[i]) == ERR_DATA);
	CHECK(conf_set(&c, "Name", "1") == ERR_DATA && conf_set(&c, "", "1") == ERR_DATA);
	CHECK(conf_format(&c, &text) == 0);
	CHECK_STR(text.data, "name c\nn 18446744073709551615\nx 0.1\n");
	CHECK(conf_parse(&again, text.data, text.len) == 0 && again.n == 3);
	conf_release(&again);
	conf_release(&c);
	buf_release(&text);
}

int main(void)
{
	test_lines();
	test_editors();
	test_refused_lines();
	test_too_many();
	test_typed();
	test_known();
	test_set_and_format();
	return unit_done("conf");
}
