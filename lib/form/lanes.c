#include "form/lanes.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

#define BLOCK 128 /* bytes that one compression takes of a message */

static void digest_alone(digest *out, const struct lane *in)
{
	struct sig_hash h;

	sig_hash_init(&h);
	sig_hash_add(&h, in->head, in->head_n);
	sig_hash_add(&h, in->body, in->body_n);
	sig_hash_end(&h, out);
}

#if defined(__x86_64__)

#define WIDE __attribute__((target("avx2")))
#define ROUNDS 12

typedef uint64_t vec __attribute__((vector_size(32)));
typedef uint8_t vec_bytes __attribute__((vector_size(32)));

static const uint64_t start[8] = { 0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
	0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b,
	0x5be0cd19137e2179 };
#define PARAMETERS 0x01010020 /* 32 bytes of digest, no key, one message a tree */

static const uint8_t order[ROUNDS][16] = {
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	{ 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
	{ 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 },
	{ 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
	{ 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 },
	{ 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
	{ 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 },
	{ 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
	{ 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 },
	{ 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	{ 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
};

/* Rotations to the right by whole bytes are shuffles within each lane of eight. */
#define TURN(x, a, b, c, d, e, f, g, h) \
	((vec)__builtin_shufflevector((vec_bytes)(x), (vec_bytes)(x), a, b, c, d, e, f, g, h, 8 + a, \
		8 + b, 8 + c, 8 + d, 8 + e, 8 + f, 8 + g, 8 + h, 16 + a, 16 + b, 16 + c, 16 + d, \
		16 + e, 16 + f, 16 + g, 16 + h, 24 + a, 24 + b, 24 + c, 24 + d, 24 + e, 24 + f, \
		24 + g, 24 + h))
#define TURN32(x) TURN(x, 4, 5, 6, 7, 0, 1, 2, 3)
#define TURN24(x) TURN(x, 3, 4, 5, 6, 7, 0, 1, 2)
#define TURN16(x) TURN(x, 2, 3, 4, 5, 6, 7, 0, 1)
#define TURN63(x) ((x) >> 63 | ((x) + (x)))

#define MIX(a, b, c, d, x, y) \
	do { \
		a += b + (x); \
		d = TURN32(d ^ a); \
		c += d; \
		b = TURN24(b ^ c); \
		a += b + (y); \
		d = TURN16(d ^ a); \
		c += d; \
		b ^= c; \
		b = TURN63(b); \
	} while (0)

#define EVERY(x) ((vec){ x, x, x, x })

/* The compression function in every lane: h (8) with 128 bytes at each of `block` (LANES). `count`: bytes
 * of the message with these; `last`: all ones in lanes of which they are the last. */
WIDE static void compress(vec *h, const uint8_t *const *block, vec count, vec last)
{
	vec m[16], v[16];

	for (int i = 0; i < 16; i++)
		m[i] = (vec){ le64_get(block[0] + 8 * i), le64_get(block[1] + 8 * i),
			le64_get(block[2] + 8 * i), le64_get(block[3] + 8 * i) };
	for (int i = 0; i < 8; i++) {
		v[i] = h[i];
		v[8 + i] = EVERY(start[i]);
	}
	v[12] ^= count;
	v[14] ^= last;
	for (int r = 0; r < ROUNDS; r++) {
		const uint8_t *s = order[r];

		MIX(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
		MIX(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
		MIX(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
		MIX(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
		MIX(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
		MIX(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
		MIX(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
		MIX(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
	}
	for (int i = 0; i < 8; i++)
		h[i] ^= v[i] ^ v[8 + i];
}

/* How far each message has come. A lane that is done, or was never used, goes on with zeros. */
struct progress {
	const struct lane *in;
	size_t n;
	uint64_t done[LANES];
	bool ended[LANES];
	uint8_t block[LANES][BLOCK]; /* the ends of messages, and their beginnings with the head */
};

static uint64_t length(const struct lane *in)
{
	return in->head_n + in->body_n;
}

/* Bytes [from, from + n) of a message, then zeros up to a block. */
static void copy(uint8_t *block, const struct lane *in, uint64_t from, size_t n)
{
	size_t head = from < in->head_n ? in->head_n - (size_t)from : 0;

	if (head > n)
		head = n;
	if (head)
		memcpy(block, in->head + from, head);
	if (n > head)
		memcpy(block + head, in->body + (from + head - in->head_n), n - head);
	memset(block + n, 0, BLOCK - n);
}

/* The next block of lane k, where it lies or as a copy. */
static const uint8_t *next_block(struct progress *p, size_t k, bool *last)
{
	const struct lane *in = &p->in[k];
	uint64_t from = p->done[k], left;

	*last = false;
	if (k >= p->n || p->ended[k])
		return p->block[k];
	left = length(in) - from;
	p->done[k] += left < BLOCK ? left : BLOCK;
	*last = p->ended[k] = left <= BLOCK;
	if (!*last && from >= in->head_n)
		return in->body + (from - in->head_n);
	copy(p->block[k], in, from, left < BLOCK ? (size_t)left : BLOCK);
	return p->block[k];
}

/* Blocks that all lanes still have before their last ones, all of them in bodies. */
static uint64_t run_length(const struct progress *p)
{
	uint64_t run = UINT64_MAX;

	if (p->n < LANES)
		return 0;
	for (size_t k = 0; k < LANES; k++) {
		uint64_t left = length(&p->in[k]) - p->done[k];
		uint64_t whole = left ? (left - 1) / BLOCK : 0;

		if (p->ended[k] || p->done[k] < p->in[k].head_n)
			return 0;
		if (whole < run)
			run = whole;
	}
	return run;
}

WIDE static void compress_run(vec *h, struct progress *p, uint64_t run)
{
	const uint8_t *block[LANES];
	vec count = { p->done[0], p->done[1], p->done[2], p->done[3] };

	for (size_t k = 0; k < LANES; k++) {
		block[k] = p->in[k].body + (p->done[k] - p->in[k].head_n);
		p->done[k] += run * BLOCK;
	}
	while (run--) {
		count += EVERY(BLOCK);
		compress(h, block, count, EVERY(0));
		for (size_t k = 0; k < LANES; k++)
			block[k] += BLOCK;
	}
}

WIDE static void digest_wide(digest *out, const struct lane *in, size_t n)
{
	struct progress p = { .in = in, .n = n };
	size_t going = n;
	vec h[8];

	for (int i = 0; i < 8; i++)
		h[i] = EVERY(start[i]);
	h[0] ^= EVERY(PARAMETERS);
	while (going) {
		const uint8_t *block[LANES];
		bool last[LANES];
		uint64_t run = run_length(&p);

		if (run)
			compress_run(h, &p, run);
		for (size_t k = 0; k < LANES; k++)
			block[k] = next_block(&p, k, &last[k]);
		compress(h, block, (vec){ p.done[0], p.done[1], p.done[2], p.done[3] },
			(vec){ -(uint64_t)last[0], -(uint64_t)last[1], -(uint64_t)last[2],
			-(uint64_t)last[3] });
		for (size_t k = 0; k < n; k++) {
			if (!last[k])
				continue;
			for (int i = 0; i < SIG_DIGEST / 8; i++)
				le64_put(out[k].b + 8 * i, h[i][k]);
			going--;
		}
	}
}

void lanes_digest(digest *out, const struct lane *in, size_t n)
{
	bool wide = __builtin_cpu_supports("avx2");

	while (n) {
		size_t now = n < LANES ? n : LANES;

		if (wide && now > 1)
			digest_wide(out, in, now);
		else
			for (size_t k = 0; k < now; k++)
				digest_alone(&out[k], &in[k]);
		out += now;
		in += now;
		n -= now;
	}
}

#else

void lanes_digest(digest *out, const struct lane *in, size_t n)
{
	for (size_t k = 0; k < n; k++)
		digest_alone(&out[k], &in[k]);
}

#endif
