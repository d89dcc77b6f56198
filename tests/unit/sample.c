#include "math/sample.h"
#include "unit.h"

enum { V = 6 };
static const real base[V] = { 1, 3, 2, 3, -5, 0 };

static uint32_t draw(const real *from, double temperature, uint32_t top_k, struct rng *rng)
{
	const struct sample_conf c = { .temperature = temperature, .top_k = top_k };
	real logits[V];

	memcpy(logits, from, sizeof(logits));
	return sample_token(logits, V, &c, rng);
}

static void temperature_zero_takes_the_first_largest(void)
{
	struct rng rng;

	rng_init(&rng, 1, 1);
	CHECK(draw(base, 0, 0, &rng) == 1);
	CHECK(draw(base, 0, 3, &rng) == 1);
	CHECK(rng.counter == 0);
}

/* 100000 draws: a frequency of p is within 5 sqrt(p / 100000) but for one run in a million. */
static void frequencies_are_probabilities(double temperature, uint32_t top_k, const int *allowed)
{
	enum { DRAWS = 100000 };
	int count[V] = { 0 };
	double total = 0;
	struct rng rng;

	rng_init(&rng, 2, 3);
	for (int i = 0; i < DRAWS; i++)
		count[draw(base, temperature, top_k, &rng)]++;
	for (int i = 0; i < V; i++)
		total += allowed[i] * exp((double)base[i] / temperature);
	for (int i = 0; i < V; i++) {
		const double p = allowed[i] * exp((double)base[i] / temperature) / total;

		CHECK(fabs((double)count[i] / DRAWS - p) <= 5 * sqrt(p / DRAWS));
	}
}

static void the_largest_k_are_kept_and_the_first_of_equals(void)
{
	frequencies_are_probabilities(1, 0, (const int[V]){ 1, 1, 1, 1, 1, 1 });
	frequencies_are_probabilities(2.5, 6, (const int[V]){ 1, 1, 1, 1, 1, 1 });
	frequencies_are_probabilities(1, 100, (const int[V]){ 1, 1, 1, 1, 1, 1 });
	frequencies_are_probabilities(1, 5, (const int[V]){ 1, 1, 1, 1, 0, 1 });
	frequencies_are_probabilities(0.7, 3, (const int[V]){ 0, 1, 1, 1, 0, 0 });
	frequencies_are_probabilities(1, 2, (const int[V]){ 0, 1, 0, 1, 0, 0 });
	frequencies_are_probabilities(1, 1, (const int[V]){ 0, 1, 0, 0, 0, 0 });
}

static void same_seed_same_tokens(void)
{
	struct rng a, b;

	rng_init(&a, 9, 9);
	rng_init(&b, 9, 9);
	for (int i = 0; i < 1000; i++)
		CHECK(draw(base, 1, 0, &a) == draw(base, 1, 0, &b));
}

static void odd_logits_are_survived(void)
{
	const real nans[V] = { NAN, NAN, 1, NAN, -INFINITY, NAN };
	const real none[V] = { NAN, NAN, NAN, NAN, NAN, NAN };
	const real huge[V] = { 1e30f, -1e30f, 0, INFINITY, 5, 5 };
	struct rng rng;

	rng_init(&rng, 1, 1);
	for (int i = 0; i < 100; i++) {
		CHECK(draw(nans, 1, (uint32_t)i % 7, &rng) == 2);
		CHECK(draw(none, 1, (uint32_t)i % 7, &rng) < V);
		CHECK(draw(huge, 1, (uint32_t)i % 7, &rng) == 3);
	}
	CHECK(draw(base, 1e-9, 0, &rng) == 1 || draw(base, 1e-9, 0, &rng) == 3);
}

int main(void)
{
	temperature_zero_takes_the_first_largest();
	the_largest_k_are_kept_and_the_first_of_equals();
	same_seed_same_tokens();
	odd_logits_are_survived();
	return unit_done("sample");
}
