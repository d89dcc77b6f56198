/* Any text is a plan or an error; a plan written and read again is the same, in order of time. */
#include <stdlib.h>
#include <string.h>

#include "chaos/fault_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char *const name[] = { "syncer", "learner-0", "a" };
	static const struct fault_names names = { name, 3 };
	struct fault *first, *second = NULL;
	size_t firsts, seconds;
	struct buf text = BUF_INIT;

	if (fault_file_parse(&first, &firsts, (const char *)data, n, &names) == 0) {
		if (fault_file_plan(&text, first, firsts, NULL, 0, &names) < 0 ||
		    (firsts && (fault_file_parse(&second, &seconds, text.data, text.len, &names) < 0 || firsts != seconds)))
			abort();
		for (size_t i = 0; i < firsts; i++)
			if (memcmp(&first[i].at, &second[i].at, sizeof first[i].at) != 0 || first[i].who != second[i].who ||
			    first[i].kind != second[i].kind || (i && first[i].at < first[i - 1].at))
				abort();
	}
	buf_release(&text);
	free(first);
	free(second);
	return 0;
}
