/* Any text is a configuration that can be written and read as the same, or an error of one line. */
#include <stdlib.h>
#include <string.h>

#include "round/hfconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int text_of(struct buf *out, const struct model_conf *c)
{
	struct conf conf = { 0 };
	int rc = model_conf_write(c, &conf);

	if (rc == 0)
		rc = conf_format(&conf, out);
	conf_release(&conf);
	return rc;
}

static bool is_same(const struct model_conf *a, const struct model_conf *b)
{
	struct buf x = BUF_INIT, y = BUF_INIT;
	bool same = text_of(&x, a) == 0 && text_of(&y, b) == 0 && strcmp(x.data, y.data) == 0;

	buf_release(&x);
	buf_release(&y);
	return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct model_conf c, again;
	struct buf text = BUF_INIT;

	if (hfconfig_read(&c, (const char *)data, n) == 0) {
		if (hfconfig_write(&c, "float32", (const char *)data, n, &text) < 0 ||
			hfconfig_read(&again, text.data, text.len) < 0 || !is_same(&c, &again))
			abort();
	} else if (strchr(err_text(), '\n')) {
		abort();
	}
	buf_release(&text);
	return 0;
}
