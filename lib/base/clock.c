#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static double monotonic_now(void *ctx)
{
	struct timespec t;

	(void)ctx;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct clock clock_monotonic(void)
{
	return (struct clock){ monotonic_now, NULL };
}
