#include "base/num.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/say.h"

#define COUNT_MOST 0x1p53 /* whole numbers that a double has all of */

/* What was found instead, quoted so that it stays on one line however odd it is. */
static int not_a(const char *what, const char *text)
{
	char shown[80];

	say_escape(shown, sizeof shown, text);
	return err_set(ERR_DATA, "'%s' is not %s", shown, what);
}

int num_u64(const char *text, uint64_t *out)
{
	uint64_t x = 0;
	const char *p;

	for (p = text; *p >= '0' && *p <= '9'; p++) {
		unsigned digit = (unsigned)(*p - '0');

		if (x > (UINT64_MAX - digit) / 10)
			return not_a("a whole number below 2^64", text);
		x = x * 10 + digit;
	}
	if (p == text || *p)
		return not_a("a whole number", text);
	*out = x;
	return 0;
}

static const char *skip_digits(const char *p)
{
	while (*p >= '0' && *p <= '9')
		p++;
	return p;
}

/* The end of the longest [-]digits[.digits][e[+-]digits] at p, or NULL. */
static const char *decimal_end(const char *p)
{
	const char *digits, *e;
	size_t n;

	if (*p == '-')
		p++;
	digits = p;
	p = skip_digits(p);
	n = (size_t)(p - digits);
	if (*p == '.') {
		digits = p + 1;
		p = skip_digits(digits);
		n += (size_t)(p - digits);
	}
	if (n == 0)
		return NULL;
	if (*p == 'e' || *p == 'E') {
		e = p + 1;
		if (*e == '+' || *e == '-')
			e++;
		if (skip_digits(e) > e)
			p = skip_digits(e);
	}
	return p;
}

/* True when the decimal has a digit other than zero before its exponent. */
static bool decimal_nonzero(const char *p)
{
	for (; *p && *p != 'e' && *p != 'E'; p++)
		if (*p >= '1' && *p <= '9')
			return true;
	return false;
}

/* Glibc's "C" locale object is static: making it cannot fail and nothing is to be freed. */
static locale_t c_locale(void)
{
	return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

int num_f64(const char *text, double *out)
{
	const char *end = decimal_end(text);
	double x;

	if (!end || *end)
		return not_a("a decimal number", text);
	x = strtod_l(text, NULL, c_locale());
	if (!isfinite(x))
		return not_a("a number that fits", text);
	if (x == 0 && decimal_nonzero(text))
		return not_a("a number that can be told from zero", text);
	*out = x;
	return 0;
}

int num_count(const char *text, uint64_t *out)
{
	static const char units[] = "kMGT", expected[] = "a whole number such as 1200, 300k or 1.2M";
	size_t n = strlen(text);
	const char *unit = n > 1 && n < 64 ? strchr(units, text[n - 1]) : NULL;
	char decimal[80];
	double x;

	if (!unit)
		return num_u64(text, out) < 0 ? not_a(expected, text) : 0;
	if (strspn(text, "0123456789.") != n - 1)
		return not_a(expected, text);
	/* As an exponent, so that the decimal is rounded once. */
	snprintf(decimal, sizeof decimal, "%.*se%d", (int)(n - 1), text, 3 * (int)(unit - units + 1));
	if (num_f64(decimal, &x) < 0 || x > COUNT_MOST || floor(x) < x)
		return not_a(expected, text);
	*out = (uint64_t)x;
	return 0;
}

int num_seconds(const char *text, double *out)
{
	static const char expected[] = "a time such as 90, 90s, 9m, 1.5h or 2d, more than zero";
	const char *end = decimal_end(text);
	double x, unit = 1;

	if (!end || (*end && end[1]))
		return not_a(expected, text);
	switch (*end) {
	case '\0':
	case 's':
		break;
	case 'm':
		unit = 60;
		break;
	case 'h':
		unit = 3600;
		break;
	case 'd':
		unit = 86400;
		break;
	default:
		return not_a(expected, text);
	}
	x = strtod_l(text, NULL, c_locale()) * unit;
	if (!isfinite(x) || !(x > 0))
		return not_a(expected, text);
	*out = x;
	return 0;
}

/*
 * %g drops trailing zeros, so FLT_DIG or DBL_DIG digits already give every shorter decimal that
 * reads back; only subnormals, with fewer bits, need the search from one digit.
 */
void num_f64_text(char out[32], double x)
{
	locale_t old = uselocale(c_locale());
	int digits = fabs(x) < DBL_MIN ? 1 : DBL_DIG;

	do
		snprintf(out, 32, "%.*g", digits, x);
	while (++digits <= DBL_DECIMAL_DIG && strtod(out, NULL) != x);
	uselocale(old);
}

void num_f32_text(char out[32], float x)
{
	locale_t old = uselocale(c_locale());
	int digits = fabsf(x) < FLT_MIN ? 1 : FLT_DIG;

	do
		snprintf(out, 32, "%.*g", digits, (double)x);
	while (++digits <= FLT_DECIMAL_DIG && strtof(out, NULL) != x);
	uselocale(old);
}
