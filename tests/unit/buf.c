#include <stdint.h>

#include "base/buf.h"
#include "unit.h"

static void test_append(void)
{
	struct buf b = BUF_INIT;

	CHECK(buf_add(&b, NULL, 0) == 0);
	CHECK(b.len == 0);
	CHECK_STR(b.data, "");
	CHECK(buf_str(&b, "one") == 0 && buf_fmt(&b, " %d %s", 2, "three") == 0);
	CHECK_STR(b.data, "one 2 three");
	CHECK(b.len == 11);
	CHECK(buf_add(&b, "\0x", 2) == 0);
	CHECK(b.len == 13 && b.data[12] == 'x' && b.data[13] == '\0');
	buf_clear(&b);
	CHECK(b.len == 0 && b.cap > 0);
	CHECK_STR(b.data, "");
	buf_release(&b);
	CHECK(!b.data && !b.len && !b.cap);
	buf_release(&b);
}

static void test_growth(void)
{
	struct buf b = BUF_INIT;

	for (int i = 0; i < 10000; i++)
		CHECK(buf_fmt(&b, "%04d", i) == 0);
	CHECK(b.len == 40000 && b.data[b.len] == '\0');
	CHECK(memcmp(b.data + 4 * 1234, "1234", 4) == 0);
	buf_release(&b);
}

static void test_impossible_sizes(void)
{
	struct buf b = BUF_INIT;

	CHECK(buf_str(&b, "kept") == 0);
	CHECK(buf_reserve(&b, SIZE_MAX) == ERR_NOMEM);
	CHECK(buf_reserve(&b, SIZE_MAX - 4) == ERR_NOMEM);
	CHECK(buf_reserve(&b, SIZE_MAX / 2) == ERR_NOMEM);
	CHECK_STR(b.data, "kept");
	buf_release(&b);
}

int main(void)
{
	test_append();
	test_growth();
	test_impossible_sizes();
	return unit_done("buf");
}
