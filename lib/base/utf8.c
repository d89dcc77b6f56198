#include "base/utf8.h"

#include <stdbool.h>

size_t utf8_decode(const char *s, uint32_t *point)
{
	const unsigned char *p = (const unsigned char *)s;
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = 0;
	uint32_t x;

	if (p[0] < 0x80)
		n = 1;
	else if (p[0] >> 5 == 6)
		n = 2;
	else if (p[0] >> 4 == 14)
		n = 3;
	else if (p[0] >> 3 == 30)
		n = 4;
	if (n == 0)
		return 0;
	x = n == 1 ? p[0] : p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if (p[i] >> 6 != 2) /* a NUL ends the string here, too */
			return 0;
		x = x << 6 | (p[i] & 0x3fu);
	}
	if (x < least[n] || x > 0x10ffff || (x >= 0xd800 && x <= 0xdfff))
		return 0;
	*point = x;
	return n;
}

static bool is_character(uint32_t c)
{
	return c >= 0x20 ? c != 0xfffe && c != 0xffff : c == '\t' || c == '\n' || c == '\r';
}

int utf8_clean(struct buf *out, const char *text)
{
	int rc = 0;

	while (rc == 0 && *text) {
		uint32_t point = 0;
		size_t n = utf8_decode(text, &point);

		rc = n && is_character(point) ? buf_add(out, text, n) : buf_str(out, "\xef\xbf\xbd");
		text += n ? n : 1;
	}
	return rc;
}
