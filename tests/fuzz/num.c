/* Numbers, times and shapes from text; a double written and read again is the same double. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/say.h"
#include "base/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_text(const char *text)
{
	char again[32];
	double x, y;
	uint64_t u;

	if (num_f64(text, &x) == 0) {
		num_f64_text(again, x);
		if (num_f64(again, &y) < 0 || memcmp(&x, &y, sizeof x) != 0)
			abort();
	}
	if (num_seconds(text, &x) == 0 && !(x > 0))
		abort();
	if (num_u64(text, &u) == 0 && strspn(text, "0123456789") != strlen(text))
		abort();
}

static void check_shape(const char *text)
{
	struct tensor t = { .name = "w" }, again = t;
	char shape[96];

	if (tensor_shape_parse(&t, text) < 0 || tensor_check(&t) < 0)
		return;
	tensor_shape_text(&t, shape);
	if (tensor_shape_parse(&again, shape) < 0 || tensor_check(&again) < 0 ||
	    again.count != t.count)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1), *shown = malloc(n + 1);

	if (!text || !shown)
		abort();
	if (n)
		memcpy(text, data, n);
	text[n] = '\0';
	check_text(text);
	check_shape(text);
	say_escape(shown, n + 1, text);
	if (strpbrk(shown, "\n\r\t\x1b"))
		abort();
	free(shown);
	free(text);
	return 0;
}
