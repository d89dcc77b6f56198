/* Any line is words or an error; words that are quoted and read again are the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct words first = { 0 }, second = { 0 };
	struct buf text = BUF_INIT;

	if (words_split(&first, (const char *)data, n) == 0 && first.n) {
		if (words_join(&text, (const char *const *)first.v) < 0 || words_split(&second, text.data, text.len) < 0 ||
		    first.n != second.n)
			abort();
		for (size_t i = 0; i < first.n; i++)
			if (strcmp(first.v[i], second.v[i]) != 0)
				abort();
	}
	buf_release(&text);
	words_release(&first);
	words_release(&second);
	return 0;
}
