#include "round/claims.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "round/guard.h"
#include "round/pace.h"

#define LEAST 10.0 /* steps of H, at least: answers are on their way for a while, however short steps are */

static double lower_median(double *v, size_t n)
{
	return n ? pace_select(v, n, (n - 1) / 2) : 0;
}

int claims_gather(struct claims *c, const struct roster *r, unsigned fragment, uint64_t version)
{
	double *v = calloc(3 * r->n + 1, sizeof *v), *since = v + r->n, *batch = since + r->n;
	size_t n = 0, from_newest = 0, trained = 0;

	if (!v)
		return err_nomem();
	for (size_t i = 0; i < r->n; i++) {
		const struct roster_learner *l = r->v[i];
		const struct beat_fragment *f;

		if (!l->seen || l->lost)
			continue;
		f = &l->beat.fragment[fragment];
		v[n++] = (double)l->beat.step;
		if (f->version == version)
			since[from_newest++] = (double)f->steps;
		if (l->beat.steps)
			batch[trained++] = (double)l->beat.trained / (double)l->beat.steps;
	}
	c->step = (uint64_t)lower_median(v, n);
	c->since = (uint64_t)lower_median(since, from_newest);
	c->batch = lower_median(batch, trained);
	free(v);
	return 0;
}

void claims_judge(struct answer *a, const struct claims *c, uint64_t step, uint64_t interval, double limit)
{
	const struct meta *m = &a->meta;
	const double H = fmax((double)interval, LEAST);
	const double batch = (double)m->tokens / (double)(m->steps ? m->steps : 1);
	const double ahead = (double)m->step - fmax((double)step, (double)c->step);

	if (limit <= 0)
		return;
	if (c->batch > 0 && batch > limit * c->batch)
		guard_refuse(a, VERDICT_OUTLIER, "says %.4g tokens a step, where the median is %.4g", batch,
			c->batch);
	if ((double)m->steps > limit * limit * fmax(H, (double)c->since))
		guard_refuse(a, VERDICT_OUTLIER, "says %" PRIu64 " steps since its base, where the median is %"
			PRIu64, m->steps, c->since);
	if (ahead > (double)m->steps + limit * H)
		guard_refuse(a, VERDICT_OUTLIER, "says it is at step %" PRIu64 ", where the run is at %" PRIu64
			" and the median at %" PRIu64, m->step, step, c->step);
}
