#include "base/rng.h"
#include "math/batch.h"
#include "unit.h"

enum { SAMPLES = 1009 };

static void samples_need_their_last_target(void)
{
	CHECK(batch_samples(0, 128) == 0 && batch_samples(1, 128) == 0 &&
		batch_samples(128, 128) == 0);
	CHECK(batch_samples(129, 128) == 1 && batch_samples(256, 128) == 1 &&
		batch_samples(257, 128) == 2);
	CHECK(batch_samples(UINT64_MAX, 1) == UINT64_MAX - 1);
}

static void every_epoch_visits_each_sample_once(void)
{
	const struct batch_order o = { .seed = 5, .stream = rng_stream("a"), .samples = SAMPLES };

	for (uint64_t epoch = 0; epoch < 3; epoch++) {
		int seen[SAMPLES] = { 0 };

		for (uint64_t i = 0; i < SAMPLES; i++) {
			const uint64_t s = batch_sample_at(&o, epoch * SAMPLES + i);

			CHECK(s < SAMPLES);
			seen[s]++;
		}
		for (uint64_t i = 0; i < SAMPLES; i++)
			CHECK(seen[i] == 1);
	}
}

/* Two independent random orders of n agree in about one place; 12 of 1009 would be an accident of
 * 1e-9. */
static void check_unlike(const struct batch_order *a, const struct batch_order *b, uint64_t shift)
{
	int same = 0;

	for (uint64_t i = 0; i < SAMPLES; i++)
		same += batch_sample_at(a, i) == batch_sample_at(b, i + shift);
	CHECK(same < 12);
}

static void epochs_learners_and_seeds_differ(void)
{
	const struct batch_order a = { .seed = 5, .stream = rng_stream("a"), .samples = SAMPLES };
	const struct batch_order b = { .seed = 5, .stream = rng_stream("b"), .samples = SAMPLES };
	const struct batch_order c = { .seed = 6, .stream = rng_stream("a"), .samples = SAMPLES };

	check_unlike(&a, &b, 0);
	check_unlike(&a, &c, 0);
	check_unlike(&a, &a, SAMPLES);
	check_unlike(&a, &a, 1);
	check_unlike(&a, &b, SAMPLES);
}

static void one_sample_is_repeated(void)
{
	const struct batch_order o = { .seed = 1, .stream = 2, .samples = 1 };

	for (uint64_t i = 0; i < 10; i++)
		CHECK(batch_sample_at(&o, i) == 0);
}

int main(void)
{
	samples_need_their_last_target();
	every_epoch_visits_each_sample_once();
	epochs_learners_and_seeds_differ();
	one_sample_is_repeated();
	return unit_done("batch");
}
