/* manifest - any header is a manifest or an error; one that is read is written as it was. */
#include <stdlib.h>
#include <string.h>

#include "round/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void there_and_back(const struct manifest *m)
{
	struct header first = { 0 }, second = { 0 };
	struct buf one = BUF_INIT, two = BUF_INIT;
	struct manifest again;
	struct trust t;

	if (manifest_write(m, &first) < 0 || manifest_read(&again, &first, &m->owner) < 0 ||
		manifest_write(&again, &second) < 0 || conf_format(&first.keys, &one) < 0 ||
		conf_format(&second.keys, &two) < 0 || strcmp(one.data, two.data) != 0)
		abort();
	if (manifest_trust(&again, ROLE_LEARNER, NULL, NULL, &t) < 0)
		abort();
	trust_release(&t);
	manifest_release(&again);
	header_release(&first);
	header_release(&second);
	buf_release(&one);
	buf_release(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct sig_public owner = { { 7 } };
	struct header h = { 0 };
	struct manifest m;

	if (header_parse(&h, (const char *)data, n) == 0 && manifest_read(&m, &h, &owner) == 0) {
		there_and_back(&m);
		manifest_release(&m);
	}
	header_release(&h);
	return 0;
}
