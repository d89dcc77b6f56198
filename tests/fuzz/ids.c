/* Any text is ids or an error, and in whatever pieces it comes the same ones. The first byte says how
 * long the pieces are. */
#include <stdlib.h>
#include <string.h>

#include "form/ids.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* All ids of the text in pieces; their number, or an error. out has room for n + 2. */
static long parse(uint32_t *out, const char *text, size_t n, size_t piece)
{
	struct ids p = { .vocab = 1000, .ends = true, .end = 7 };
	size_t total = 0, count;

	for (size_t at = 0; at < n; at += piece) {
		size_t part = n - at < piece ? n - at : piece;

		if (ids_parse(&p, out + total, &count, text + at, part) < 0)
			return ERR_DATA;
		if (count > part + 1)
			abort();
		total += count;
	}
	if (ids_end(&p, out + total, &count) < 0)
		return ERR_DATA;
	if (count > 2)
		abort();
	return (long)(total + count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint32_t *whole, *pieces;
	long a, b;

	if (n == 0)
		return 0;
	whole = calloc(n + 3, sizeof *whole);
	pieces = calloc(n + 3, sizeof *pieces);
	if (!whole || !pieces)
		abort();
	a = parse(whole, (const char *)data + 1, n - 1, n);
	b = parse(pieces, (const char *)data + 1, n - 1, 1u + data[0]);
	if (a != b || (a > 0 && memcmp(whole, pieces, (size_t)a * sizeof *whole) != 0))
		abort();
	for (long i = 0; i < a; i++)
		if (whole[i] >= 1000)
			abort();
	free(whole);
	free(pieces);
	return 0;
}
