#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"

/*
 * Philox4x32-10: ten rounds of a keyed bijection of 128 bits; block number and stream are the
 * counter, the seed is the key. The two top bits of the block number keep the uses of one
 * (seed, stream) apart: words in sequence, normals by index, permutations.
 */
#define ROUNDS 10
#define MULTIPLY_0 0xD2511F53u
#define MULTIPLY_1 0xCD9E8D57u
#define WEYL_0 0x9E3779B9u
#define WEYL_1 0xBB67AE85u

#define USE_NORMAL ((uint64_t)1 << 62)
#define USE_PERMUTE ((uint64_t)2 << 62)

struct block {
	uint32_t w[4];
};

static struct block philox(uint64_t key, uint64_t number, uint64_t stream)
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t a = (uint32_t)number, b = (uint32_t)(number >> 32);
	uint32_t c = (uint32_t)stream, d = (uint32_t)(stream >> 32);

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t p = (uint64_t)MULTIPLY_0 * a, q = (uint64_t)MULTIPLY_1 * c;

		a = (uint32_t)(q >> 32) ^ b ^ k0;
		b = (uint32_t)q;
		c = (uint32_t)(p >> 32) ^ d ^ k1;
		d = (uint32_t)p;
		k0 += WEYL_0;
		k1 += WEYL_1;
	}
	return (struct block){ { a, b, c, d } };
}

void rng_block(uint32_t out[4], uint64_t seed, uint64_t number, uint64_t stream)
{
	struct block b = philox(seed, number, stream);

	memcpy(out, b.w, sizeof b.w);
}

static uint64_t join(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

uint64_t rng_stream(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
	return hash;
}

void rng_init(struct rng *r, uint64_t seed, uint64_t stream)
{
	*r = (struct rng){ seed, stream, 0 };
}

uint32_t rng_u32(struct rng *r)
{
	uint64_t at = r->counter++;

	return philox(r->seed, at / 4, r->stream).w[at % 4];
}

uint64_t rng_u64(struct rng *r)
{
	uint32_t low = rng_u32(r);

	return join(low, rng_u32(r));
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	uint64_t uneven = (0 - n) % n; /* 2^64 mod n: so many draws would favour the low results */
	uint64_t x;

	do
		x = rng_u64(r);
	while (x < uneven);
	return x % n;
}

double rng_unit(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

/*
 * Natural logarithm of a positive normal number to about 1e-14: x = m 2^e with m in
 * [sqrt(1/2), sqrt(2)), log m = 2 atanh t, t = (m - 1)/(m + 1), |t| < 0.172. Libm's differs
 * between machines in the last bit, this one cannot.
 */
static double log_exact(double x)
{
	const double ln2 = 0x1.62e42fefa39efp-1;
	uint64_t bits, fraction;
	double m, t, s, sum = 0;
	int e;

	bits = double_bits(x);
	e = (int)(bits >> 52) - 1023;
	fraction = bits & 0xfffffffffffffu;
	if (fraction > 0x6a09e667f3bcdu) /* m > sqrt(2): take half of it */
		e++;
	bits = fraction | (uint64_t)(fraction > 0x6a09e667f3bcdu ? 1022 : 1023) << 52;
	m = double_from(bits);
	t = (m - 1) / (m + 1);
	s = t * t;
	for (int k = 17; k >= 1; k -= 2)
		sum = sum * s + 1.0 / k;
	return e * ln2 + 2 * t * sum;
}

/* Uniform in (-1, 1), symmetric, never 0. */
static double signed_unit(uint64_t x)
{
	return ((double)((int64_t)x >> 11) + 0.5) * 0x1p-52;
}

/*
 * Marsaglia's polar method: a point of the unit disc, uniform, gives two independent normals;
 * normals 2j and 2j + 1 share theirs. Attempts count up in the high bits of the block number,
 * so each pair has its own sequence of them.
 */
float rng_normal_at(uint64_t seed, uint64_t stream, uint64_t i)
{
	for (uint64_t attempt = 0;; attempt++) {
		struct block b = philox(seed, USE_NORMAL | attempt << 54 | i / 2, stream);
		double x = signed_unit(join(b.w[0], b.w[1])), y = signed_unit(join(b.w[2], b.w[3]));
		double s = x * x + y * y;

		if (s < 1)
			return (float)((i & 1 ? y : x) * sqrt(-2 * log_exact(s) / s));
	}
}

/* Feistel network over two halves of `half` bits. */
static uint64_t shuffle(uint64_t seed, uint64_t stream, unsigned half, uint64_t x)
{
	uint64_t mask = ((uint64_t)1 << half) - 1;
	uint64_t left = x >> half & mask, right = x & mask;

	for (uint64_t round = 0; round < 6; round++) {
		struct block b = philox(seed, USE_PERMUTE | round << 32 | right, stream);
		uint64_t next = left ^ (b.w[0] & mask);

		left = right;
		right = next;
	}
	return left << half | right;
}

uint64_t rng_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i)
{
	unsigned half = 1;

	while (half < 31 && (uint64_t)1 << 2 * half < n)
		half++;
	/* What falls outside [0, n) is sent on until it is back: at most 4 times on average, and
	 * the way is a cycle of a permutation, so it comes back to distinct places. */
	do
		i = shuffle(seed, stream, half, i);
	while (i >= n);
	return i;
}
