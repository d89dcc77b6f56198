#include "base/bytes.h"

struct cursor cursor_over(const void *bytes, size_t n)
{
	const uint8_t *at = bytes;

	return (struct cursor){ at, n ? at + n : at, false };
}

size_t cursor_left(const struct cursor *c)
{
	return c->at ? (size_t)(c->end - c->at) : 0;
}

const uint8_t *cursor_take(struct cursor *c, size_t n)
{
	const uint8_t *p = c->at;

	if (c->bad || n > cursor_left(c)) {
		c->bad = true;
		return NULL;
	}
	if (n)
		c->at += n;
	return p;
}

uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 1);

	return p ? *p : 0;
}

uint16_t cursor_u16(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 2);

	return p ? le16_get(p) : 0;
}

uint32_t cursor_u32(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 4);

	return p ? le32_get(p) : 0;
}

uint64_t cursor_u64(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 8);

	return p ? le64_get(p) : 0;
}
