#include "base/bytes.h"
#include "unit.h"

static void test_little_endian(void)
{
	uint8_t p[8];

	le64_put(p, 0x0102030405060708u);
	CHECK(p[0] == 8 && p[7] == 1);
	CHECK(le64_get(p) == 0x0102030405060708u);
	CHECK(le32_get(p) == 0x05060708u && le16_get(p) == 0x0708);
	le64_put(p, UINT64_MAX);
	CHECK(le64_get(p) == UINT64_MAX && le32_get(p + 4) == UINT32_MAX && le16_get(p) == 0xffff);
}

static void test_cursor_reads(void)
{
	static const uint8_t bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
	struct cursor c = cursor_over(bytes, sizeof bytes);

	CHECK(cursor_u8(&c) == 1);
	CHECK(cursor_u16(&c) == 0x0302);
	CHECK(cursor_u32(&c) == 0x07060504);
	CHECK(cursor_u64(&c) == 0x0f0e0d0c0b0a0908u);
	CHECK(cursor_left(&c) == 1 && !c.bad);
	CHECK(cursor_take(&c, 1) == bytes + 15);
	CHECK(cursor_left(&c) == 0 && !c.bad);
	CHECK(cursor_take(&c, 0) != NULL && !c.bad);
}

static void test_cursor_stays_inside(void)
{
	static const uint8_t bytes[] = { 1, 2, 3 };
	struct cursor c = cursor_over(bytes, sizeof bytes);

	CHECK(cursor_u32(&c) == 0 && c.bad);
	CHECK(cursor_left(&c) == 3);
	CHECK(cursor_u8(&c) == 0 && c.bad); /* bad for good */
	c = cursor_over(bytes, sizeof bytes);
	CHECK(cursor_take(&c, SIZE_MAX) == NULL && c.bad);
	c = cursor_over(NULL, 0);
	CHECK(cursor_left(&c) == 0 && cursor_u64(&c) == 0 && c.bad);
}

int main(void)
{
	test_little_endian();
	test_cursor_reads();
	test_cursor_stays_inside();
	return unit_done("bytes");
}
