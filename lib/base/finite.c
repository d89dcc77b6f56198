#include "base/finite.h"

#include <inttypes.h>
#include <math.h>

void finite_look(struct finite *f, const float *value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(value[i]) && f->odd++ == 0) {
			f->first = f->seen + i;
			f->value = value[i];
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
