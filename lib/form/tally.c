#include "form/tally.h"

#include <math.h>

/* Element k of a slice as a number; *rest is the part of it beyond the float. */
static double element(const struct tensor *t, const struct frame_slice *s, uint32_t k, double *rest)
{
	*rest = 0;
	switch (t->dtype) {
	case DTYPE_F32:
		if (s->rest)
			*rest = s->rest[k];
		return s->value[k];
	case DTYPE_U8: return ((const uint8_t *)s->elements)[k];
	case DTYPE_U16: return ((const uint16_t *)s->elements)[k];
	case DTYPE_U32: break;
	}
	return ((const uint32_t *)s->elements)[k];
}

void tally_add(struct tally *y, const struct tensor *t, const struct frame_slice *s)
{
	for (uint32_t k = 0; k < s->n; k++) {
		double rest, x = element(t, s, k, &rest);

		x += rest;
		if (!isfinite(x)) {
			y->strange++;
			continue;
		}
		if (y->n + k == y->strange) /* the first that is finite */
			y->min = y->max = x;
		y->min = x < y->min ? x : y->min;
		y->max = x > y->max ? x : y->max;
		y->sum += x;
		y->sum2 += x * x;
	}
	y->n += s->n;
}

double tally_mean(const struct tally *y)
{
	return y->n > y->strange ? y->sum / (double)(y->n - y->strange) : NAN;
}

double tally_norm(const struct tally *y)
{
	return sqrt(y->sum2);
}

static int same(double x, double y)
{
	return x == y || (isnan(x) && isnan(y));
}

void contrast_add(struct contrast *c, const struct tensor *t, const struct frame_slice *a,
	uint32_t i, const struct frame_slice *b, uint32_t j, uint32_t m)
{
	for (uint32_t k = 0; k < m; k++) {
		double rest_x, rest_y, d;
		double x = element(t, a, i + k, &rest_x), y = element(t, b, j + k, &rest_y);

		if (!same(x, y) || !same(rest_x, rest_y))
			if (c->differ++ == 0)
				c->first = a->first + i + k;
		d = (x - y) + (rest_x - rest_y);
		x += rest_x;
		y += rest_y;
		if (!isfinite(x) || !isfinite(y)) {
			c->strange++;
			continue;
		}
		c->max = fabs(d) > c->max ? fabs(d) : c->max;
		c->sum2 += d * d;
		c->dot += x * y;
		c->a2 += x * x;
		c->b2 += y * y;
	}
	c->n += m;
}

void contrast_join(struct contrast *c, const struct contrast *more)
{
	c->n += more->n;
	c->differ += more->differ;
	c->strange += more->strange;
	c->max = more->max > c->max ? more->max : c->max;
	c->sum2 += more->sum2;
	c->dot += more->dot;
	c->a2 += more->a2;
	c->b2 += more->b2;
}

double contrast_norm(const struct contrast *c)
{
	return sqrt(c->sum2);
}

double contrast_cosine(const struct contrast *c)
{
	double product = sqrt(c->a2) * sqrt(c->b2);
	double cosine = product > 0 ? c->dot / product : NAN;

	return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}
