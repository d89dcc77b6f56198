#include <float.h>
#include <locale.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/rng.h"
#include "unit.h"

static void test_whole_numbers(void)
{
	static const char *const bad[] = { "", " 1", "1 ", "+1", "-1", "1.0", "0x10", "1e3", "ten",
					   "18446744073709551616", "99999999999999999999999" };
	uint64_t x = 7;

	CHECK(num_u64("0", &x) == 0 && x == 0);
	CHECK(num_u64("007", &x) == 0 && x == 7);
	CHECK(num_u64("18446744073709551615", &x) == 0 && x == UINT64_MAX);
	x = 7;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK(num_u64(bad[i], &x) == ERR_DATA);
	CHECK(x == 7);
	CHECK(num_u64("1\n2", &x) == ERR_DATA);
	CHECK_STR(err_text(), "'1\\n2' is not a whole number");
}

static void test_counts(void)
{
	static const char *const bad[] = { "", "k", "-1k", "1K", "1kk", "1 k", "1e3k", "1.2", "1.2345k", "1.2.3k", ".k",
					   "0x1k", "9007199254740993k", "18446744073709551616", "ten" };
	uint64_t x = 7;

	CHECK(num_count("300k", &x) == 0 && x == 300000);
	CHECK(num_count("1.2M", &x) == 0 && x == 1200000);
	CHECK(num_count("1.001k", &x) == 0 && x == 1001); /* 1.001 * 1000 is not */
	CHECK(num_count("2G", &x) == 0 && x == 2000000000);
	CHECK(num_count(".5T", &x) == 0 && x == 500000000000);
	CHECK(num_count("0k", &x) == 0 && x == 0);
	CHECK(num_count("18446744073709551615", &x) == 0 && x == UINT64_MAX);
	x = 7;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK(num_count(bad[i], &x) == ERR_DATA);
	CHECK(x == 7);
	CHECK_STR(err_text(), "'ten' is not a whole number such as 1200, 300k or 1.2M");
}

static void test_decimals(void)
{
	static const char *const bad[] = { "", " 1", "1 ", "+1", "0.7abc", "0,7", "1e999", "-1e999",
					   "nan", "inf", "-", ".", "-.", "e5", "1e", "1e+", "0x1p3",
					   "1.2.3", "1e-999", "infinity" };
	double x = 7;

	CHECK(num_f64("0.7", &x) == 0 && x == 0.7);
	CHECK(num_f64("-.5e-3", &x) == 0 && x == -.5e-3);
	CHECK(num_f64("5.", &x) == 0 && x == 5);
	CHECK(num_f64("1E+2", &x) == 0 && x == 100);
	CHECK(num_f64("0e-999", &x) == 0 && x == 0);
	CHECK(num_f64("4.9e-324", &x) == 0 && x > 0);
	CHECK(num_f64("1.7976931348623157e308", &x) == 0 && x == DBL_MAX);
	x = 7;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK(num_f64(bad[i], &x) == ERR_DATA);
	CHECK(x == 7);
}

static void test_seconds(void)
{
	static const char *const bad[] = { "", "0", "-1", "0s", "9 m", "9mm", "1w", "m", "1e999d",
					   "nan", "1e308d" };
	double x = 7;

	CHECK(num_seconds("90", &x) == 0 && x == 90);
	CHECK(num_seconds("90s", &x) == 0 && x == 90);
	CHECK(num_seconds("9m", &x) == 0 && x == 540);
	CHECK(num_seconds("1.5h", &x) == 0 && x == 5400);
	CHECK(num_seconds("2d", &x) == 0 && x == 172800);
	x = 7;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK(num_seconds(bad[i], &x) == ERR_DATA);
	CHECK(x == 7);
}

static void check_text(double x, const char *want)
{
	char text[32];

	num_f64_text(text, x);
	CHECK_STR(text, want);
}

static void test_shortest_text(void)
{
	char text[32];

	check_text(0, "0");
	check_text(0.1, "0.1");
	check_text(0.1 + 0.2, "0.30000000000000004");
	check_text(1e9, "1000000000");
	check_text(1e22, "1e+22");
	check_text(-1.0 / 3, "-0.3333333333333333");
	check_text(5e-324, "5e-324");
	num_f32_text(text, 0.1f);
	CHECK_STR(text, "0.1");
	num_f32_text(text, 16777216.0f);
	CHECK_STR(text, "16777216");
	num_f32_text(text, 1e-45f);
	CHECK_STR(text, "1e-45");
}

static void test_text_reads_back(void)
{
	struct rng rng;
	char text[32];

	rng_init(&rng, 1, 2);
	for (int i = 0; i < 20000; i++) {
		uint64_t bits = rng_u64(&rng);
		double x, y;
		float f, g;

		memcpy(&x, &bits, sizeof x);
		if (isfinite(x)) {
			num_f64_text(text, x);
			CHECK(strlen(text) < 31 && num_f64(text, &y) == 0 && memcmp(&x, &y, sizeof x) == 0);
		}
		memcpy(&f, &bits, sizeof f);
		if (isfinite(f)) {
			num_f32_text(text, f);
			g = strtof(text, NULL);
			CHECK(memcmp(&f, &g, sizeof f) == 0);
		}
	}
}

/* The whole program under a locale with a decimal comma. Skipped where none is installed. */
static void test_decimal_comma(void)
{
	double x;

	if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "de_DE.utf8") &&
	    !setlocale(LC_ALL, "fr_FR.UTF-8"))
		return;
	CHECK(num_f64("0.7", &x) == 0 && x == 0.7);
	CHECK(num_f64("0,7", &x) == ERR_DATA);
	CHECK(num_seconds("1.5h", &x) == 0 && x == 5400);
	check_text(0.25, "0.25");
	setlocale(LC_ALL, "C");
}

int main(void)
{
	test_whole_numbers();
	test_counts();
	test_decimals();
	test_seconds();
	test_shortest_text();
	test_text_reads_back();
	test_decimal_comma();
	return unit_done("num");
}
