#include "base/clock.h"

#include <stddef.h>
#include <time.h>

double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double monotonic_now(void *ctx)
{
	(void)ctx;
	return clock_seconds();
}

struct clock clock_monotonic(void)
{
	return (struct clock){ monotonic_now, NULL };
}
