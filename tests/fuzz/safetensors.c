/*
 * Any header is a table whose tensors fill the data exactly, and which is written and read as the same;
 * or an error of one line. The first two bytes say how long the data are.
 */
#include <stdlib.h>
#include <string.h>

#include "form/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_places(const struct safetensors *s, uint64_t at)
{
	for (size_t t = 0; t < s->tensors.n; t++) {
		if (s->part[t].begin != at)
			abort();
		at += s->tensors.v[t].count * safetensors_size(s->part[t].type);
	}
}

static void check_again(struct safetensors *s, uint64_t bytes)
{
	struct safetensors again = { 0 };
	struct buf text = BUF_INIT;

	if (safetensors_header(s, &text) < 0 || safetensors_parse(&again, text.data + 8, text.len - 8, bytes) < 0 ||
		tensors_same(&s->tensors, &again.tensors) < 0 || s->metadata.n != again.metadata.n)
		abort();
	check_places(s, text.len);
	safetensors_release(&again);
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct safetensors s = { 0 };
	uint64_t bytes;

	if (n < 2)
		return 0;
	bytes = data[0] | (uint64_t)data[1] << 8;
	if (safetensors_parse(&s, (const char *)data + 2, n - 2, bytes) == 0) {
		check_places(&s, 0);
		if (safetensors_bytes(&s) != bytes)
			abort();
		check_again(&s, bytes);
	} else if (strchr(err_text(), '\n')) {
		abort();
	}
	safetensors_release(&s);
	return 0;
}
