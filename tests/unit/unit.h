/*
 * unit - checks for C tests. A test program is a main() of calls to functions that CHECK; it
 * prints one line a failure and exits with their number, silent when all hold but for a last
 * line "ok NAME (N checks)".
 */
#ifndef UNIT_H
#define UNIT_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static int unit_checks, unit_failures;

#define CHECK(cond) \
	do { \
		unit_checks++; \
		if (!(cond)) { \
			unit_failures++; \
			fprintf(stderr, "%s:%d: %s: not so: %s (last error: %s)\n", __FILE__, \
				__LINE__, __func__, #cond, err_text()); \
		} \
	} while (0)
#define CHECK_STR(have, want) \
	do { \
		const char *h_ = (have), *w_ = (want); \
		unit_checks++; \
		if (!h_ || strcmp(h_, w_) != 0) { \
			unit_failures++; \
			fprintf(stderr, "%s:%d: %s: have '%s', want '%s'\n", __FILE__, __LINE__, \
				__func__, h_ ? h_ : "(null)", w_); \
		} \
	} while (0)
/* |have - want| <= tol * max(1, |want|); false for NaN. */
#define CHECK_NEAR(have, want, tol) \
	do { \
		double h_ = (have), w_ = (want), s_ = fabs(w_) > 1 ? fabs(w_) : 1; \
		unit_checks++; \
		if (!(fabs(h_ - w_) <= (tol)*s_)) { \
			unit_failures++; \
			fprintf(stderr, "%s:%d: %s: %s is %.9g, want %.9g\n", __FILE__, __LINE__, \
				__func__, #have, h_, w_); \
		} \
	} while (0)
/* The sentence of the last error contains this text. */
#define CHECK_SAYS(text) CHECK(strstr(err_text(), (text)) != NULL)

static inline int unit_done(const char *name)
{
	if (unit_failures)
		fprintf(stderr, "not ok %s (%d of %d checks)\n", name, unit_failures, unit_checks);
	else
		printf("ok %s (%d checks)\n", name, unit_checks);
	return unit_failures > 0;
}

#endif
