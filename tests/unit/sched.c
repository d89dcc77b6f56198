#include "math/sched.h"
#include "unit.h"

static void rate_warms_up_falls_and_stays(void)
{
	const struct sched s = { .lr = 3e-3, .lr_min_ratio = 0.1, .warmup = 40, .decay_steps = 768 };

	CHECK_NEAR(sched_rate(&s, 0, 0) / 3e-3, 1.0 / 40, 1e-14);
	CHECK_NEAR(sched_rate(&s, 19, 0) / 3e-3, 0.5, 1e-14);
	CHECK_NEAR(sched_rate(&s, 39, 0) / 3e-3, 1, 1e-14);
	CHECK_NEAR(sched_rate(&s, 40, 0) / 3e-3, 1, 1e-14);
	CHECK_NEAR(sched_rate(&s, 404, 0) / 3e-3, 0.55, 1e-12); /* half way between 1 and 0.1 */
	CHECK_NEAR(sched_rate(&s, 768, 0) / 3e-3, 0.1, 1e-14);
	CHECK_NEAR(sched_rate(&s, UINT64_MAX, 0) / 3e-3, 0.1, 1e-14);
	for (uint64_t i = 41; i < 768; i++)
		CHECK(sched_rate(&s, i, 0) < sched_rate(&s, i - 1, 0));
}

static void rate_of_unusual_schedules(void)
{
	const struct sched flat = { .lr = 1, .lr_min_ratio = 0.1, .warmup = 4, .decay_steps = 0 };
	const struct sched short_run = { .lr = 1, .lr_min_ratio = 0.25, .warmup = 10, .decay_steps = 5 };
	const struct sched no_warmup = { .lr = 1, .lr_min_ratio = 0, .warmup = 0, .decay_steps = 2 };

	CHECK(sched_rate(&flat, 3, 0) == 1 && sched_rate(&flat, 1000000, 0) == 1);
	CHECK(sched_rate(&short_run, 7, 0) == 0.8 && sched_rate(&short_run, 10, 0) == 0.25);
	CHECK(sched_rate(&no_warmup, 0, 0) == 1 && sched_rate(&no_warmup, 2, 0) == 0);
	CHECK_NEAR(sched_rate(&no_warmup, 1, 0), 0.5, 1e-14);
}

static void rate_follows_tokens(void)
{
	const struct sched s = { .lr = 2, .lr_min_ratio = 0.1, .warmup = 4, .decay_steps = 5, .decay_tokens = 1000 };

	CHECK_NEAR(sched_rate(&s, 1000000, 0), 2, 1e-14); /* whatever the steps */
	CHECK_NEAR(sched_rate(&s, 4, 500), 1.1, 1e-12);
	CHECK_NEAR(sched_rate(&s, 0, 500), 1.1 / 4, 1e-12);
	CHECK_NEAR(sched_rate(&s, 9, 1000), 0.2, 1e-14);
	CHECK_NEAR(sched_rate(&s, 9, UINT64_MAX), 0.2, 1e-14);
	for (uint64_t t = 1; t <= 1000; t++)
		CHECK(sched_rate(&s, 4, t) < sched_rate(&s, 4, t - 1));
}

int main(void)
{
	rate_warms_up_falls_and_stays();
	rate_of_unusual_schedules();
	rate_follows_tokens();
	return unit_done("sched");
}
