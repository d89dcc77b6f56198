/* Any text is a conf or an error; a conf written and read again is the same conf. */
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char *const known[] = { "lr", "steps", "heads", NULL };
	struct conf first = { 0 }, second = { 0 };
	struct buf text = BUF_INIT;
	uint64_t u;
	double x;
	int yes;

	if (conf_parse(&first, (const char *)data, n) == 0) {
		if (conf_u64(&first, "steps", 1, 100, &u) < 0 || conf_bool(&first, "on", &yes) < 0 ||
		    conf_f64(&first, "lr", 0, 1, &x) < 0 || conf_known(&first, known) < 0)
			(void)err_text();
		if (conf_format(&first, &text) < 0 || conf_parse(&second, text.data, text.len) < 0 ||
		    first.n != second.n)
			abort();
		for (size_t i = 0; i < first.n; i++)
			if (strcmp(first.v[i].key, second.v[i].key) != 0 ||
			    strcmp(first.v[i].value, second.v[i].value) != 0)
				abort();
	}
	buf_release(&text);
	conf_release(&second);
	conf_release(&first);
	return 0;
}
