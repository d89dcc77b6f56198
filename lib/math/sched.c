#include "math/sched.h"

#include <math.h>

/* From lr to the last rate; done: 0 to 1. */
static double cosine(const struct sched *s, double done)
{
	const double last = s->lr * s->lr_min_ratio;

	return done < 1 ? last + (s->lr - last) * 0.5 * (1 + cos(done * acos(-1))) : last;
}

/* Without the warm-up. */
static double decayed(const struct sched *s, uint64_t step, uint64_t tokens)
{
	if (s->decay_tokens)
		return cosine(s, (double)tokens / (double)s->decay_tokens);
	if (s->decay_steps == 0 || step < s->warmup)
		return s->lr;
	if (step >= s->decay_steps)
		return cosine(s, 1);
	/* warmup <= step < decay_steps here, so the span is positive. */
	return cosine(s, (double)(step - s->warmup) / (double)(s->decay_steps - s->warmup));
}

double sched_rate(const struct sched *s, uint64_t step, uint64_t tokens)
{
	const double rate = decayed(s, step, tokens);

	return step < s->warmup ? rate * ((double)step + 1) / (double)s->warmup : rate;
}
