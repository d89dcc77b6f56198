#include "math/sched.h"
#include "unit.h"

static void rate_warms_up_falls_and_stays(void)
{
	const struct sched s = { .lr = 3e-3, .lr_min_ratio = 0.1, .warmup = 40, .decay_steps = 768 };

	CHECK_NEAR(sched_rate(&s, 0) / 3e-3, 1.0 / 40, 1e-14);
	CHECK_NEAR(sched_rate(&s, 19) / 3e-3, 0.5, 1e-14);
	CHECK_NEAR(sched_rate(&s, 39) / 3e-3, 1, 1e-14);
	CHECK_NEAR(sched_rate(&s, 40) / 3e-3, 1, 1e-14);
	CHECK_NEAR(sched_rate(&s, 404) / 3e-3, 0.55, 1e-12); /* half way between 1 and 0.1 */
	CHECK_NEAR(sched_rate(&s, 768) / 3e-3, 0.1, 1e-14);
	CHECK_NEAR(sched_rate(&s, UINT64_MAX) / 3e-3, 0.1, 1e-14);
	for (uint64_t i = 41; i < 768; i++)
		CHECK(sched_rate(&s, i) < sched_rate(&s, i - 1));
}

static void rate_of_unusual_schedules(void)
{
	const struct sched flat = { .lr = 1, .lr_min_ratio = 0.1, .warmup = 4, .decay_steps = 0 };
	const struct sched short_run = { .lr = 1, .lr_min_ratio = 0.25, .warmup = 10, .decay_steps = 5 };
	const struct sched no_warmup = { .lr = 1, .lr_min_ratio = 0, .warmup = 0, .decay_steps = 2 };

	CHECK(sched_rate(&flat, 3) == 1 && sched_rate(&flat, 1000000) == 1);
	CHECK(sched_rate(&short_run, 7) == 0.8 && sched_rate(&short_run, 10) == 0.25);
	CHECK(sched_rate(&no_warmup, 0) == 1 && sched_rate(&no_warmup, 2) == 0);
	CHECK_NEAR(sched_rate(&no_warmup, 1), 0.5, 1e-14);
}

int main(void)
{
	rate_warms_up_falls_and_stays();
	rate_of_unusual_schedules();
	return unit_done("sched");
}
