/* header, meta: text in and out, and what is refused. */
#include <stdlib.h>

#include "form/header.h"
#include "form/meta.h"
#include "unit.h"

static int parse(struct header *h, const char *text)
{
	*h = (struct header){ 0 };
	return header_parse(h, text, strlen(text));
}

static void check_bad(const char *text, const char *says)
{
	struct header h;

	CHECK(parse(&h, text) == ERR_DATA);
	CHECK_SAYS(says);
	header_release(&h);
}

static void test_round_trip(void)
{
	static const char text[] = "format 1\nkind delta\nx.new_key-7 a value with blanks\nlast 1\n"
				   "tensor a f32 2x3 f32\ntensor b.c_d-e u16 7 raw\ntensor s f32 scalar bf16\n";
	struct buf out = BUF_INIT;
	struct header h, copy = { 0 };

	CHECK(parse(&h, text) == 0);
	CHECK(h.keys.n == 3 && h.tensors.n == 3);
	CHECK_STR(conf_get(&h.keys, "x.new_key-7"), "a value with blanks");
	CHECK(h.tensors.v[0].count == 6 && h.tensors.v[2].rank == 0 && h.tensors.v[2].count == 1);
	CHECK(header_copy(&copy, &h) == 0);
	CHECK(header_format(&copy, &out) == 0);
	CHECK_STR(out.data, text);
	buf_release(&out);
	header_release(&h);
	header_release(&copy);
}

/* Where keys and tensors stand, and how lines end, is free. */
static void test_lenient(void)
{
	struct header h;

	CHECK(parse(&h, "format 1\ntensor a  f32 1 f32\nkind = x\n\n# a comment\nb 2\r\n") == 0);
	CHECK(h.keys.n == 2 && h.tensors.n == 1);
	header_release(&h);
	CHECK(parse(&h, "format 1\n") == 0);
	header_release(&h);
}

static void test_bad(void)
{
	char line[500];

	check_bad("", "does not begin with its format");
	check_bad("format 2\n", "newer programs");
	check_bad("format 1\nkind\n", "line 2: key 'kind' has no value");
	check_bad("format 1\ntensor a f32 1 f32\n\nkind\n", "line 4: key 'kind' has no value");
	check_bad("format 1\nformat 1\nformat 1\n", "line 3: key 'format' given twice");
	check_bad("format 1\nformat 1\n", "'format' is not a key");
	check_bad("format 1\ntensor\ta f32 1 f32\n", "'tensor' is not a key");
	check_bad("format 1\na ==b\n", "line 2: value of 'a' begins with '='");
	check_bad("format 1\na =#b\n", "line 2: value of 'a' begins with '#'");
	check_bad("format 1\ntensor\n", "line 2: key 'tensor' has no value");
	snprintf(line, sizeof line, "format 1\ntensor %0300d f32 1 f32\n", 0);
	check_bad(line, "line 2: tensor name is longer than 128 characters");
	snprintf(line, sizeof line, "format 1\ntensor %0400d f32 1 f32\n", 0);
	check_bad(line, "line 2: tensor line of 417 characters");
	check_bad("format 1\ntensor a f32 1x1x1x1x1 f32\n", "more than 4 dimensions");
	check_bad("format 1\ntensor a f32 18446744073709551616 f32\n", "not a shape");
	check_bad("format 1\ntensor a f32 -1 f32\n", "not a shape");
	check_bad("format 1\ntensor a f32 281474976710657 f32\n", "more than 2^48 elements");
	check_bad("format 1\ntensor -a f32 1 f32\n", "'-a' is not a tensor name");
	check_bad("format 1\ntensor \xc3\xa4 f32 1 f32\n", "is not a tensor name");
}

static void test_nul(void)
{
	static const char text[] = "format 1\ntensor a\0b f32 1 f32\n", key[] = "format 1\na b\0c\n";
	struct header h = { 0 };

	CHECK(header_parse(&h, text, sizeof text - 1) == ERR_DATA);
	header_release(&h);
	CHECK(header_parse(&h, key, sizeof key - 1) == ERR_DATA);
	header_release(&h);
}

/* A billion lines would be refused for their length; this many for their number. */
static void test_too_many(void)
{
	size_t room = (size_t)(TENSOR_TABLE + 1) * 32;
	char *text = malloc(room);
	struct header h = { 0 };
	size_t n = (size_t)sprintf(text, "format 1\n");

	for (int i = 0; i <= TENSOR_TABLE; i++)
		n += (size_t)sprintf(text + n, "tensor t%d u8 1 raw\n", i);
	CHECK(header_parse(&h, text, n) == ERR_DATA);
	CHECK_SAYS("line 1000002: more than 1000000 tensors");
	header_release(&h);
	CHECK(header_parse(&h, text, HEADER_BYTES + 1) == ERR_DATA);
	CHECK_SAYS("limit is");
	free(text);
}

static void test_bad_tables(void)
{
	struct tensor t = { .name = "a", .dtype = DTYPE_U8, .enc = ENC_F32, .rank = 1, .dim = { 1 } };
	struct header h = { 0 };
	struct buf out = BUF_INIT;

	CHECK(tensors_push(&h.tensors, &t) == 0);
	CHECK(header_format(&h, &out) == ERR_DATA);
	h.tensors.v[0].enc = ENC_PLAIN;
	CHECK(tensors_push(&h.tensors, &h.tensors.v[0]) == 0);
	CHECK(header_format(&h, &out) == ERR_DATA);
	CHECK_SAYS("occurs twice");
	h.tensors.n = 1;
	CHECK(conf_set(&h.keys, "format", "7") == 0);
	CHECK(header_format(&h, &out) == ERR_DATA);
	buf_release(&out);
	header_release(&h);
}

static void test_meta(void)
{
	struct meta m = { .kind = KIND_DELTA, .round = 3, .steps = 24, .tokens = UINT64_MAX, .loss_mean = 0.1 },
		    back;
	struct header h = { 0 };

	memset(m.base, 'a', 64);
	memset(m.run, '0', 32);
	strcpy(m.learner, "a.b-c_D");
	CHECK(meta_write(&m, &h) == 0);
	CHECK(conf_get(&h.keys, "step") == NULL);
	CHECK(meta_read(&back, &h) == 0);
	CHECK(memcmp(&m, &back, sizeof m) == 0);
	CHECK(meta_want(&back, KIND_DELTA) == 0);
	CHECK(meta_want(&back, KIND_OUTER) == ERR_DATA);
	CHECK_SAYS("is a delta, not an outer");

	m = (struct meta){ .kind = KIND_CHECKPOINT, .round = 4 }; /* what no longer holds goes away */
	CHECK(meta_write(&m, &h) == 0);
	CHECK(h.keys.n == 4); /* kind, and round, step and tokens, zero or not */
	CHECK_STR(conf_get(&h.keys, "step"), "0");
	CHECK(meta_is_text("learner") && meta_is_text("kind") && !meta_is_text("round") &&
		!meta_is_text("conf.lr") && meta_is_text("routed") && meta_is_text("routed.f003"));
	header_release(&h);
}

static void test_bad_meta(void)
{
	static const struct { const char *key, *value; } bad[] = {
		{ "kind", "nothing" }, { "run", "abc" }, { "run", "0123456789ABCDEF0123456789ABCDEF" },
		{ "base", "0123456789abcdef0123456789abcdef" }, { "round", "-1" }, { "round", "18446744073709551616" },
		{ "loss_mean", "nan" }, { "loss_mean", "1e999" }, { "learner", "../../etc/x" }, { "learner", "-rf" },
		{ "learner", "a b" },
	};
	struct header h = { 0 };
	struct meta m;

	CHECK(meta_read(&m, &h) == ERR_DATA);
	CHECK_SAYS("does not say what kind");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK(conf_set(&h.keys, "kind", "delta") == 0);
		CHECK(conf_set(&h.keys, bad[i].key, bad[i].value) == 0);
		CHECK(meta_read(&m, &h) == ERR_DATA);
		header_release(&h);
	}
}

int main(void)
{
	test_round_trip();
	test_lenient();
	test_bad();
	test_nul();
	test_too_many();
	test_bad_tables();
	test_meta();
	test_bad_meta();
	return unit_done("header");
}
