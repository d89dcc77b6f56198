/*
 * card - a fuzz target for what is read from the keys of a card and written to them again: any header is one of
 * so many fragments (first byte) or an error; one that is read is written as it was. CARD_TARGET(beat) is for
 * struct beat with beat_read, beat_write and beat_release.
 */
#ifndef CARD_H
#define CARD_H

#include <stdlib.h>
#include <string.h>

#include "form/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static inline void card_same(struct header *first, struct header *second)
{
	struct buf one = BUF_INIT, two = BUF_INIT;

	if (conf_format(&first->keys, &one) < 0 || conf_format(&second->keys, &two) < 0 ||
		strcmp(one.data, two.data) != 0)
		abort();
	header_release(first);
	header_release(second);
	buf_release(&one);
	buf_release(&two);
}

#define CARD_TARGET(type) \
	static void there_and_back(const struct type *x) \
	{ \
		struct header first = { 0 }, second = { 0 }; \
		struct type again; \
\
		if (type##_write(x, &first) < 0 || type##_read(&again, &first, x->fragments) < 0 || \
			type##_write(&again, &second) < 0) \
			abort(); \
		type##_release(&again); \
		card_same(&first, &second); \
	} \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) \
	{ \
		struct header h = { 0 }; \
		struct type x; \
\
		if (n == 0) \
			return 0; \
		if (header_parse(&h, (const char *)data + 1, n - 1) == 0 && \
			type##_read(&x, &h, data[0] % 8) == 0) { \
			there_and_back(&x); \
			type##_release(&x); \
		} \
		header_release(&h); \
		return 0; \
	}

#endif
