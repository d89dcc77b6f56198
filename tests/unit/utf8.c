#include "base/utf8.h"

#include "unit.h"

static void check_clean(const char *text, const char *want)
{
	struct buf out = BUF_INIT;

	CHECK(utf8_clean(&out, text) == 0);
	CHECK_STR(out.data ? out.data : "", want);
	buf_release(&out);
}

static void decoding(void)
{
	uint32_t point = 0;

	CHECK(utf8_decode("A", &point) == 1 && point == 'A');
	CHECK(utf8_decode("\xc3\xa9", &point) == 2 && point == 0xe9);
	CHECK(utf8_decode("\xe2\x82\xac", &point) == 3 && point == 0x20ac);
	CHECK(utf8_decode("\xf4\x8f\xbf\xbf", &point) == 4 && point == 0x10ffff);
	CHECK(utf8_decode("\xf4\x90\x80\x80", &point) == 0);
	CHECK(utf8_decode("\xed\xa0\x80", &point) == 0);
	CHECK(utf8_decode("\xc0\xaf", &point) == 0);
	CHECK(utf8_decode("\xe2\x82", &point) == 0);
	CHECK(utf8_decode("\x80", &point) == 0);
}

#define NONE "\xef\xbf\xbd"

static void cleaning(void)
{
	check_clean("", "");
	check_clean("caf\xc3\xa9\t\xf0\x9f\x8c\x8d\r\n", "caf\xc3\xa9\t\xf0\x9f\x8c\x8d\r\n");
	check_clean("\x01" "a\xff" "b\x1b", NONE "a" NONE "b" NONE);
	check_clean("cut \xe2\x82", "cut " NONE NONE);
	check_clean("\xef\xbf\xbe \xef\xbf\xbf", NONE " " NONE); /* no characters, although well encoded */
	check_clean("\xed\xa0\x80", NONE NONE NONE);
}

int main(void)
{
	decoding();
	cleaning();
	return unit_done("utf8");
}
