/* routed - a header that says what experts were given: what is read is no more than there was, and is written and
 * read again as the same. */
#include <stdlib.h>
#include <string.h>

#include "form/header.h"
#include "round/routed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MOST = 1000 };

static void there_and_back(const uint64_t *count, const struct tensors *layout)
{
	uint64_t *again = calloc(layout->n + 1, sizeof *again);
	struct conf keys = { 0 };

	if (!again || routed_write(&keys, ROUTED_KEY, layout, count) < 0 ||
		(keys.n && routed_read(again, &keys, ROUTED_KEY, layout, MOST) != 1) ||
		memcmp(again, count, layout->n * sizeof *again) != 0)
		abort();
	for (size_t t = 0; t < layout->n; t++)
		if (count[t] > MOST)
			abort();
	conf_release(&keys);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct header h = { 0 };
	uint64_t *count;

	if (header_parse(&h, (const char *)data, n) == 0 && (count = calloc(h.tensors.n + 1, sizeof *count))) {
		if (routed_read(count, &h.keys, ROUTED_KEY, &h.tensors, MOST) == 1)
			there_and_back(count, &h.tensors);
		free(count);
	}
	header_release(&h);
	return 0;
}
