/* Any text is a key, or a list of revoked ones, or an error; a key written and read again is the same. */
#include <stdlib.h>
#include <string.h>

#include "form/trust.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *text = (const char *)data;
	struct trust t = { 0 };
	struct buf line = BUF_INIT;
	struct key_pub p, again;
	struct key k;

	if (key_parse(&k, text, n) == 0 && key_name_check("key", k.name) < 0)
		abort();
	if (key_pub_parse(&p, text, n) == 0)
		if (key_pub_text(&p, &line) < 0 || key_pub_parse(&again, line.data, line.len) < 0 ||
		    memcmp(&p.pub, &again.pub, sizeof p.pub) != 0 || strcmp(p.name, again.name) != 0)
			abort();
	if (trust_parse_revoked(&t, text, n) == 0)
		for (size_t i = 0; i < t.revoked_n; i++)
			if (strspn(t.revoked[i].print, "0123456789abcdef") != TRUST_PRINT - 1 ||
			    (t.revoked[i].name[0] && key_name_check("key", t.revoked[i].name) < 0))
				abort();
	trust_release(&t);
	buf_release(&line);
	return 0;
}
