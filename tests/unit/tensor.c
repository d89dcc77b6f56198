#include "base/tensor.h"
#include "unit.h"

static struct tensor make(const char *name, const char *shape)
{
	struct tensor t = { .dtype = DTYPE_F32, .enc = ENC_F32 };

	snprintf(t.name, sizeof t.name, "%s", name);
	CHECK(tensor_shape_parse(&t, shape) == 0);
	return t;
}

static void test_shapes(void)
{
	static const char *const bad[] = { "", "x", "1x", "x1", "1xx2", "1x2x3x4x5", "-1", "1 x2", "1X2",
					   "99999999999999999999", "0123456789012345678901234567" };
	struct tensor t = make("w", "128x384");
	char text[96];

	CHECK(tensor_check(&t) == 0 && t.rank == 2 && t.count == 49152);
	tensor_shape_text(&t, text);
	CHECK_STR(text, "128x384");
	t = make("s", "scalar");
	CHECK(tensor_check(&t) == 0 && t.rank == 0 && t.count == 1);
	tensor_shape_text(&t, text);
	CHECK_STR(text, "scalar");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK(tensor_shape_parse(&t, bad[i]) == ERR_DATA);
	t = make("w", "18446744073709551615x1x1x1");
	tensor_shape_text(&t, text);
	CHECK_STR(text, "18446744073709551615x1x1x1");
	CHECK(tensor_check(&t) == ERR_DATA);
}

static void test_products_that_wrap(void)
{
	static const char *const bad[] = { "4294967296x4294967296", "65536x65536x65536x65536",
					   "18446744073709551615x18446744073709551615",
					   "281474976710657", "3x6148914691236517206", "0", "5x0",
					   "6148914691236517206x3" };
	struct tensor t;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		t = make("w", bad[i]);
		CHECK(tensor_check(&t) == ERR_DATA);
	}
	t = make("w", "281474976710656");
	CHECK(tensor_check(&t) == 0 && t.count == TENSOR_COUNT);
	t.rank = 5;
	CHECK(tensor_check(&t) == ERR_DATA);
	CHECK_STR(err_text(), "tensor 'w': 5 dimensions, limit is 4");
}

static void test_names(void)
{
	static const char *const bad[] = { "", "a/b", "a\nb", "..", ".a", "-a", "a b", "caf\xc3\xa9" };
	struct tensor t = make("layers.0.wq_-A", "1");

	CHECK(tensor_check(&t) == 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		t = make(bad[i], "1");
		CHECK(tensor_check(&t) == ERR_DATA);
	}
	memset(t.name, 'a', sizeof t.name);
	CHECK(tensor_check(&t) == ERR_DATA);
	CHECK_STR(err_text(), "tensor name is longer than 128 characters");
	t.name[TENSOR_NAME] = '\0';
	CHECK(tensor_check(&t) == 0);
}

static void test_words(void)
{
	enum dtype d;
	enum encoding e;

	for (int i = DTYPE_F32; i <= DTYPE_U32; i++)
		CHECK(dtype_parse(dtype_name((enum dtype)i), &d) == 0 && (int)d == i);
	for (int i = ENC_PLAIN; i <= ENC_BF16; i++)
		CHECK(encoding_parse(encoding_name((enum encoding)i), &e) == 0 && (int)e == i);
	CHECK(dtype_size(DTYPE_F32) == 4 && dtype_size(DTYPE_U8) == 1 && dtype_size(DTYPE_U16) == 2);
	CHECK(dtype_parse("f64", &d) == ERR_DATA && encoding_parse("", &e) == ERR_DATA);
}

static void push(struct tensors *ts, const char *name, const char *shape)
{
	struct tensor t = make(name, shape);

	CHECK(tensors_push(ts, &t) == 0);
}

static void test_tables(void)
{
	struct tensors a = { 0 }, b = { 0 };
	struct tensor t = make("a/b", "1");

	push(&a, "w", "2x3");
	push(&a, "b", "3");
	push(&a, "s", "scalar");
	CHECK(tensors_total(&a) == 10 && a.v[0].count == 6);
	CHECK(tensors_push(&a, &t) == ERR_DATA && a.n == 3);
	CHECK(tensors_unique(&a) == 0);
	CHECK(tensors_copy(&b, &a) == 0 && tensors_same(&a, &b) == 0);
	b.v[1].enc = ENC_BF16;
	CHECK(tensors_same(&a, &b) == 0);
	push(&b, "x", "1");
	CHECK(tensors_same(&a, &b) == ERR_DATA);
	CHECK_STR(err_text(), "4 tensors, not 3");
	push(&b, "b", "3");
	CHECK(tensors_unique(&b) == ERR_DATA);
	CHECK_STR(err_text(), "tensor 'b' occurs twice");
	tensors_release(&b);
	tensors_release(&a);
	CHECK(tensors_copy(&b, &a) == 0 && b.n == 0 && tensors_unique(&b) == 0);
}

static void test_differences(void)
{
	struct tensors a = { 0 }, b = { 0 };

	push(&a, "w", "2x3");
	push(&a, "v", "2x3");
	push(&b, "v", "2x3");
	push(&b, "w", "2x3");
	CHECK(tensors_same(&a, &b) == ERR_DATA); /* swapped, of the same shape */
	CHECK_STR(err_text(), "tensor 0 is 'v', not 'w'");
	tensors_release(&b);
	push(&b, "w", "3x2");
	CHECK(tensors_same(&a, &b) == ERR_DATA);
	CHECK_STR(err_text(), "tensor 'w' has shape 3x2, not 2x3");
	b.v[0] = a.v[0];
	b.v[0].dtype = DTYPE_U8;
	CHECK(tensors_same(&a, &b) == ERR_DATA);
	CHECK_STR(err_text(), "tensor 'w' is of type u8, not f32");
	tensors_release(&b);
	tensors_release(&a);
}

int main(void)
{
	test_shapes();
	test_products_that_wrap();
	test_names();
	test_words();
	test_tables();
	test_differences();
	return unit_done("tensor");
}
