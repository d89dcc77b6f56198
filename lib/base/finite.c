#include "base/finite.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#define RUN 1024 /* values looked at together; nearly always there is nothing odd among them */

static bool all_finite(const float *value, size_t n)
{
	unsigned odd = 0;

	for (size_t i = 0; i < n; i++)
		odd |= !(fabsf(value[i]) <= FLT_MAX);
	return odd == 0;
}

void finite_look(struct finite *f, const float *value, size_t n)
{
	for (size_t at = 0, part; at < n; at += part) {
		bool odd;

		part = n - at < RUN ? n - at : RUN;
		odd = !all_finite(value + at, part);
		for (size_t i = at; odd && i < at + part; i++)
			if (!isfinite(value[i]) && f->odd++ == 0) {
				f->first = f->seen + i;
				f->value = value[i];
			}
	}
	f->seen += n;
}

int finite_check(const struct finite *f)
{
	if (f->odd == 0)
		return 0;
	return err_set(ERR_DATA, "%" PRIu64 " of %" PRIu64 " values are not finite, the first is element %" PRIu64
		", %g", f->odd, f->seen, f->first, (double)f->value);
}
