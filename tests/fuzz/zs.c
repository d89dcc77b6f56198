/* zs - payloads: the first two bytes are the size that the prelude announced. */
#include <stdlib.h>

#include "base/bytes.h"
#include "form/zs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct zs zs = { 0 };
	uint8_t *out;
	size_t size;

	if (n < 2)
		return 0;
	size = le16_get(data);
	out = malloc(size + 1);
	if (out && zs_unpack(&zs, out, size, data + 2, n - 2) < 0 && *err_text() == '\0')
		abort();
	free(out);
	zs_release(&zs);
	return 0;
}
