/*
 * bytes - little-endian integers in memory, the bits of floats, and a cursor that cannot leave its bounds.
 *
 * A cursor that was asked for more than is left sets `bad`, stays where it is and
 * yields zeros; check `bad` once, after the last get.
 */
#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t le16_get(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t le32_get(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t le64_get(const uint8_t *p)
{
	return le32_get(p) | (uint64_t)le32_get(p + 4) << 32;
}
static inline void le16_put(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}
static inline void le32_put(uint8_t *p, uint32_t v)
{
	le16_put(p, (uint16_t)v);
	le16_put(p + 2, (uint16_t)(v >> 16));
}
static inline void le64_put(uint8_t *p, uint64_t v)
{
	le32_put(p, (uint32_t)v);
	le32_put(p + 4, (uint32_t)(v >> 32));
}

static inline uint32_t float_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}
static inline float float_from(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}
static inline uint64_t double_bits(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}
static inline double double_from(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};
struct cursor cursor_over(const void *bytes, size_t n);
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
const uint8_t *cursor_take(struct cursor *c, size_t n); /* NULL when fewer are left */
size_t cursor_left(const struct cursor *c);

#endif
