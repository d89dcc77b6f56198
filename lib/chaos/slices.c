#include "chaos/slices.h"

#include <math.h>
#include <stdlib.h>

/*
 * A run of uniform numbers that fall, x first, is ended by a rise after an even number of them with
 * probability exp(-x).
 */
double slices_exponential(struct rng *r)
{
	for (double whole = 0;; whole++) {
		double first = rng_unit(r), last = first, next;
		unsigned n = 2;

		for (; (next = rng_unit(r)) < last; n++)
			last = next;
		if (n % 2 == 0)
			return whole + first;
	}
}

/* ---- those that come back, the first on top ---- */

static void push(struct slices *s, double t)
{
	unsigned at = s->backs++;

	while (at > 0 && t < s->back[(at - 1) / 2]) {
		s->back[at] = s->back[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	s->back[at] = t;
}

static void pop(struct slices *s)
{
	double last = s->back[--s->backs];
	unsigned at = 0, child;

	while ((child = 2 * at + 1) < s->backs) {
		child += child + 1 < s->backs && s->back[child + 1] < s->back[child];
		if (last <= s->back[child])
			break;
		s->back[at] = s->back[child];
		at = child;
	}
	s->back[at] = last;
}

/* ---- failing ---- */

static double repair(struct slices *s)
{
	return s->c.low + (s->c.high - s->c.low) * rng_unit(&s->rng);
}

/* The process has no memory: whenever its rate changes, it may be drawn anew. */
static void draw_failure(struct slices *s, double now)
{
	double rate = s->rate * s->live;

	s->fails = rate > 0 ? now + slices_exponential(&s->rng) / rate : HUGE_VAL;
}

/* What is left of the repair that is found under way at any moment: long ones are found more often. */
static double rest_of_repair(struct slices *s)
{
	double whole = repair(s);

	while (rng_unit(&s->rng) * s->c.high >= whole)
		whole = repair(s);
	return whole * rng_unit(&s->rng);
}

static void begin_as_usual(struct slices *s, double now)
{
	double mean = (s->c.low + s->c.high) / 2, out = s->rate * mean / (1 + s->rate * mean);

	for (unsigned i = 0; i < s->total; i++)
		if (rng_unit(&s->rng) < out) {
			push(s, now + rest_of_repair(s));
			s->live--;
		}
}

int slices_open(struct slices *s, const struct slices_conf *c, uint64_t seed, unsigned learner, double now)
{
	*s = (struct slices){ .c = *c, .total = (unsigned)ceil(c->chips / c->slice) };
	s->rate = c->chips / s->total / c->mtbi;
	s->live = s->total;
	if (!(s->back = calloc(s->total, sizeof *s->back)))
		return err_nomem();
	rng_init(&s->rng, seed, rng_stream("slices") + learner);
	if (!c->fresh && !c->spares && c->high > 0)
		begin_as_usual(s, now);
	slices_regroup(s);
	draw_failure(s, now);
	return 0;
}

void slices_release(struct slices *s)
{
	free(s->back);
	*s = (struct slices){ 0 };
}

double slices_next(const struct slices *s)
{
	return s->backs ? fmin(s->fails, s->back[0]) : s->fails;
}

bool slices_happen(struct slices *s)
{
	double now = slices_next(s);
	bool failed = now == s->fails;

	if (failed && !s->c.spares) {
		push(s, now + repair(s));
		s->live--;
	} else if (!failed) {
		pop(s);
		s->live++;
	}
	draw_failure(s, now);
	return failed;
}

void slices_regroup(struct slices *s)
{
	s->part = s->live;
}

double slices_share(const struct slices *s)
{
	return (double)s->part / s->total;
}
