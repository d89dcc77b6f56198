#include "math/sample.h"

#include <math.h>

#include "base/bytes.h"

/* Logits as integers in the same order, so that the k-th largest is found by halving an interval of
 * them: no copy to sort. */
static uint32_t order(real x)
{
	const uint32_t bits = float_bits((float)x);

	return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static uint32_t count_from(const real *logits, int V, uint32_t least)
{
	uint32_t n = 0;

	for (int i = 0; i < V; i++)
		n += order(logits[i]) >= least;
	return n;
}

/* All but the k largest become -infinity; of equals, the first stay. */
static void keep_largest(real *logits, int V, uint32_t k)
{
	uint32_t kth = 0;

	for (int bit = 31; bit >= 0; bit--)
		if (count_from(logits, V, kth | 1u << bit) >= k)
			kth |= 1u << bit;
	uint32_t equals = k - (kth < UINT32_MAX ? count_from(logits, V, kth + 1) : 0);

	for (int i = 0; i < V; i++) {
		const uint32_t o = order(logits[i]);

		if (o < kth || (o == kth && equals == 0))
			logits[i] = -(real)INFINITY;
		else if (o == kth)
			equals--;
	}
}

static int largest(const real *logits, int V)
{
	int best = 0;

	for (int i = 1; i < V; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

uint32_t sample_token(real *logits, int V, const struct sample_conf *c, struct rng *rng)
{
	double sum = 0, left;
	int last;

	for (int i = 0; i < V; i++)
		if (isnan(logits[i]))
			logits[i] = -(real)INFINITY;
	last = largest(logits, V);
	if (c->temperature <= 0)
		return (uint32_t)last;
	if (c->top_k > 0 && c->top_k < (uint32_t)V)
		keep_largest(logits, V, c->top_k);
	const double top = (double)logits[last];

	for (int i = 0; i < V; i++)
		sum += exp(((double)logits[i] - top) / c->temperature);
	left = rng_unit(rng) * sum;
	for (int i = 0; i < V; i++) {
		const double p = exp(((double)logits[i] - top) / c->temperature);

		if (p > 0)
			last = i;
		if (left < p)
			break;
		left -= p;
	}
	return (uint32_t)last;
}
