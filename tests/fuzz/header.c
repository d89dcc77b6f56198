/* header - text to header, to meta, and back: what was written is read as the same. */
#include <stdlib.h>
#include <string.h>

#include "form/header.h"
#include "form/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct header h = { 0 }, again = { 0 };
	struct buf once = BUF_INIT, twice = BUF_INIT;
	struct meta m;

	if (header_parse(&h, (const char *)data, n) == 0) {
		if (header_format(&h, &once) < 0 || header_parse(&again, once.data, once.len) < 0 ||
			header_format(&again, &twice) < 0 || once.len != twice.len ||
			memcmp(once.data, twice.data, once.len) != 0)
			abort();
		if (meta_read(&m, &h) == 0 && meta_write(&m, &h) < 0)
			abort();
	}
	header_release(&h);
	header_release(&again);
	buf_release(&once);
	buf_release(&twice);
	return 0;
}
