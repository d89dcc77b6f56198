/*
 * differences - gradients against central finite differences, in double.
 *
 * With step h the quotient (f(x+h) - f(x-h)) / 2h is off by h^2 f'''/6 for the terms left out and
 * by about e |f| / h for rounding, e = 2^-53. h = 2^-16 makes that some 1e-10 f''' and 1e-11 |f|:
 * for functions of order ten, with third derivatives of order ten, differences below 1e-8 mean
 * agreement, and a wrong term shows in the first digits.
 */
#ifndef DIFFERENCES_H
#define DIFFERENCES_H

#include <stddef.h>

#include "math/real.h"
#include "unit.h"

#define DIFFERENCE_STEP 0x1p-16
#define DIFFERENCE_TOL 1e-8

/* f(ctx) depends on x (n), an array of its own; dx is the gradient to check. */
static inline void check_gradient(
	const char *name, double (*f)(void *ctx), void *ctx, real *x, const real *dx, size_t n)
{
	double worst = 0;
	size_t where = 0;

	for (size_t i = 0; i < n; i++) {
		const real at = x[i];

		x[i] = at + (real)DIFFERENCE_STEP;
		const double above = f(ctx);

		x[i] = at - (real)DIFFERENCE_STEP;
		const double below = f(ctx), want = (above - below) / (2 * DIFFERENCE_STEP);
		const double off = fabs((double)dx[i] - want) / fmax(1, fabs(want));

		x[i] = at;
		if (!(off <= worst)) {
			worst = off;
			where = i;
		}
	}
	unit_checks++;
	if (!(worst < DIFFERENCE_TOL)) {
		unit_failures++;
		fprintf(stderr, "gradient of %s: element %zu is off by %.3g\n", name, where, worst);
	}
}

#endif
