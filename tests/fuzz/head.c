/* head - any header is a head of so many fragments (first byte) or an error; one that is read is written as it
 * was. */
#include <stdlib.h>
#include <string.h>

#include "round/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void there_and_back(const struct head *x)
{
	struct header first = { 0 }, second = { 0 };
	struct buf one = BUF_INIT, two = BUF_INIT;
	struct head again;

	if (head_write(x, &first) < 0 || head_read(&again, &first, x->fragments) < 0 ||
		head_write(&again, &second) < 0 || conf_format(&first.keys, &one) < 0 ||
		conf_format(&second.keys, &two) < 0 || strcmp(one.data, two.data) != 0)
		abort();
	head_release(&again);
	header_release(&first);
	header_release(&second);
	buf_release(&one);
	buf_release(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct header h = { 0 };
	struct head x;

	if (n == 0)
		return 0;
	if (header_parse(&h, (const char *)data + 1, n - 1) == 0 && head_read(&x, &h, data[0] % 8) == 0) {
		there_and_back(&x);
		head_release(&x);
	}
	header_release(&h);
	return 0;
}
