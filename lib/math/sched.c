#include "math/sched.h"

#include <math.h>

double sched_rate(const struct sched *s, uint64_t step)
{
	const double floor_rate = s->lr * s->lr_min_ratio;

	if (step < s->warmup)
		return s->lr * ((double)step + 1) / (double)s->warmup;
	if (s->decay_steps == 0)
		return s->lr;
	if (step >= s->decay_steps)
		return floor_rate;
	/* warmup <= step < decay_steps here, so the span is positive. */
	const double done = (double)(step - s->warmup) / (double)(s->decay_steps - s->warmup);

	return floor_rate + (s->lr - floor_rate) * 0.5 * (1 + cos(done * acos(-1)));
}
