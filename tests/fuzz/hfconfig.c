/* Any text is a configuration that can be written and read as the same, or an error of one line. */
#include <stdlib.h>
#include <string.h>

#include "../unit/same_model.h"
#include "round/hfconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct model_conf c, again;
	struct buf text = BUF_INIT;

	if (hfconfig_read(&c, (const char *)data, n) == 0) {
		if (hfconfig_write(&c, "float32", (const char *)data, n, &text) < 0 ||
			hfconfig_read(&again, text.data, text.len) < 0 || !same_model(&c, &again))
			abort();
	} else if (strchr(err_text(), '\n')) {
		abort();
	}
	buf_release(&text);
	return 0;
}
