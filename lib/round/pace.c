#include "round/pace.h"

#include <math.h>
#include <stdlib.h>

#define SILENT 4    /* beat intervals after which a learner does not count until it is back */
#define FORGET 0.98 /* of the longest beat interval, each beat: bursts do not make a learner look silent */
#define SLACK 2     /* a beat interval is this much longer, at most, than the steps in it take */
#define FAR 1e9     /* no more steps than this are extrapolated or believed at once: keeps sums exact */

void pace_release(struct pace *p)
{
	free(p->learner);
	free(p->scratch);
	*p = (struct pace){ 0 };
}

int pace_grow(struct pace *p, size_t n)
{
	size_t room = p->room ? p->room : 8;
	void *v;

	while (room < n)
		room *= 2;
	if (room > p->room) {
		if (!(v = realloc(p->learner, room * sizeof *p->learner)))
			return err_nomem();
		p->learner = v;
		if (!(v = realloc(p->scratch, room * sizeof *p->scratch)))
			return err_nomem();
		p->scratch = v;
		p->room = room;
	}
	for (; p->n < n; p->n++)
		p->learner[p->n] = (struct pace_learner){ 0 };
	return 0;
}

/* ---- one learner ---- */

static double ahead(const struct pace_learner *l, double now)
{
	if (l->step <= 0)
		return 0;
	return fmin(fmin((now - l->moved) / l->step, fmax(l->gap / l->step, 1)), FAR);
}

/* Since the mark. */
static double done(const struct pace_learner *l, double now)
{
	return (double)(l->steps - l->mark) + ahead(l, now) - l->ahead;
}

static void count_from(struct pace_learner *l, double now)
{
	l->mark = l->steps;
	l->ahead = ahead(l, now);
}

static void learn_step(struct pace_learner *l, double now, uint64_t steps, double seconds)
{
	if (isfinite(seconds) && seconds > 0)
		l->step = seconds;
	else if (l->trains && steps > l->steps && now > l->moved)
		l->step = fmin(now - l->moved, FAR) / (double)(steps - l->steps);
}

/* The time since the last beat, but not an outage in it: that is no beat interval, in which steps would be made. */
static double interval(const struct pace_learner *l, double now, uint64_t steps)
{
	double quiet = now - l->seen;

	if (l->step <= 0 || steps < l->steps)
		return quiet;
	return fmin(quiet, SLACK * l->step * ((double)(steps - l->steps) + 1));
}

void pace_beat(struct pace *p, double now, size_t learner, uint64_t steps, double seconds, bool trains)
{
	struct pace_learner *l = &p->learner[learner];
	bool trained = l->trains;

	learn_step(l, now, steps, seconds);
	if (trained)
		l->gap = fmax(interval(l, now, steps), FORGET * l->gap);
	if (steps < l->steps || (double)(steps - l->steps) > FAR) { /* counts anew: from where it was */
		double was = done(l, now);

		l->mark = steps;
		l->ahead = -was;
	}
	if (steps != l->steps || !l->trains)
		l->moved = now;
	l->steps = steps;
	l->seen = now;
	l->trains = trains;
}

void pace_drop(struct pace *p, size_t learner)
{
	p->learner[learner].trains = false;
}

/* ---- the median ---- */

static void swap(double *a, double *b)
{
	double t = *a;

	*a = *b;
	*b = t;
}

/* Selection after Hoare and Wirth. */
double pace_select(double *v, size_t n, size_t k)
{
	ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, want = (ptrdiff_t)k;

	while (low < high) {
		double pivot = v[want];
		ptrdiff_t i = low, j = high;

		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (pivot < v[j])
				j--;
			if (i <= j)
				swap(&v[i++], &v[j--]);
		}
		if (j < want)
			low = i;
		if (want < i)
			high = j;
	}
	return v[want];
}

double pace_median(double *v, size_t n)
{
	double upper = pace_select(v, n, n / 2), lower = upper;

	if (n % 2 == 0) {
		lower = v[0];
		for (size_t i = 1; i < n / 2; i++)
			lower = fmax(lower, v[i]);
	}
	return lower + (upper - lower) / 2;
}

static double median_done(const struct pace *p, double now)
{
	size_t n = 0;

	for (const struct pace_learner *l = p->learner; l < p->learner + p->n; l++)
		if (l->counted)
			p->scratch[n++] = done(l, now);
	return n ? pace_median(p->scratch, n) : 0;
}

static double median_step(const struct pace *p)
{
	size_t n = 0;

	for (const struct pace_learner *l = p->learner; l < p->learner + p->n; l++)
		if (l->counted && l->step > 0)
			p->scratch[n++] = l->step;
	return n ? pace_median(p->scratch, n) : 0;
}

/* ---- the clock ---- */

static bool heard(const struct pace_learner *l, double now)
{
	return l->trains && (l->gap <= 0 || now - l->seen <= SILENT * l->gap);
}

/* Who is to count now: those that train and are heard of; when none is, all that train. */
static bool to_count(const struct pace_learner *l, double now, bool any_heard)
{
	return any_heard ? heard(l, now) : l->trains;
}

static void set_mark(struct pace *p, double now, double at, bool any_heard)
{
	p->start = at;
	for (struct pace_learner *l = p->learner; l < p->learner + p->n; l++) {
		l->counted = to_count(l, now, any_heard);
		count_from(l, now);
	}
}

void pace_go(struct pace *p, double now, double renew)
{
	const struct pace_learner *end = p->learner + p->n;
	double at = p->start + median_done(p, now);
	bool any_heard = false, changed = at - p->start >= renew;

	for (const struct pace_learner *l = p->learner; l < end && !any_heard; l++)
		any_heard = heard(l, now);
	for (const struct pace_learner *l = p->learner; l < end && !changed; l++)
		changed = l->counted != to_count(l, now, any_heard);
	p->steps = fmax(p->steps, at);
	if (changed)
		set_mark(p, now, at, any_heard);
	p->step_seconds = median_step(p);
}
