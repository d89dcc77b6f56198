/*
 * clock - seconds that never run backwards; replaceable, so that a simulator or a
 * test supplies its own time. No wall-clock time is ever compared across machines.
 */
#ifndef CLOCK_H
#define CLOCK_H

struct clock {
	double (*now)(void *ctx); /* seconds from an arbitrary origin */
	void *ctx;
};
struct clock clock_monotonic(void);
/* What that says now, for those whose clock nobody replaces. */
double clock_seconds(void);
static inline double clock_now(const struct clock *c) { return c->now(c->ctx); }

#endif
