/* Several digests at once, against one after the other by libsodium. */
#include "form/lanes.h"

#include <stdlib.h>

#include "base/rng.h"
#include "unit.h"

#define BYTES 5000
#define MANY 11

static uint8_t data[MANY][BYTES];

static digest alone(const struct lane *in)
{
	struct sig_hash h;
	digest d;

	sig_hash_init(&h);
	sig_hash_add(&h, in->head, in->head_n);
	sig_hash_add(&h, in->body, in->body_n);
	sig_hash_end(&h, &d);
	return d;
}

static void compare(const struct lane *in, size_t n)
{
	digest have[MANY];

	lanes_digest(have, in, n);
	for (size_t k = 0; k < n; k++) {
		digest want = alone(&in[k]);

		CHECK(memcmp(&have[k], &want, sizeof want) == 0);
	}
}

/* Every length around the sizes of blocks, with every kind of head. */
static void equal_lengths(void)
{
	static const size_t heads[] = { 0, 1, 18, 127, 128 };

	for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++)
		for (size_t n = 0; n < 600; n += n < 300 ? 1 : 17) {
			struct lane in[LANES];

			for (size_t k = 0; k < LANES; k++)
				in[k] = (struct lane){ data[k], data[k] + heads[h], heads[h], n };
			compare(in, LANES);
		}
}

static void unequal_lengths(void)
{
	struct rng r;

	rng_init(&r, 1, 1);
	for (int round = 0; round < 300; round++) {
		struct lane in[MANY];
		size_t n = 1 + rng_below(&r, MANY);

		for (size_t k = 0; k < n; k++) {
			size_t head = rng_below(&r, LANES_HEAD + 1), most = BYTES - head;

			if (rng_below(&r, 3) == 0)
				most = 200;
			in[k] = (struct lane){ data[k], data[k] + head, head, rng_below(&r, most + 1) };
		}
		compare(in, n);
	}
}

int main(void)
{
	CHECK(sig_init() == 0);
	for (size_t k = 0; k < MANY; k++)
		for (size_t i = 0; i < BYTES; i++)
			data[k][i] = (uint8_t)(i * 7 + k * 31 + (i >> 5));
	equal_lengths();
	unequal_lengths();
	return unit_done("lanes");
}
