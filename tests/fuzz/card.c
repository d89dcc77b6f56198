/* card - any bytes are a card or an error; an even first byte: any header survives being one. */
#include <stdlib.h>
#include <string.h>

#include "form/card.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void there_and_back(const struct header *h)
{
	uint8_t seed[SIG_SEED] = { 1 };
	struct sig_public signer;
	struct header again = { 0 };
	struct buf bytes = BUF_INIT, one = BUF_INIT, two = BUF_INIT;
	struct sig_secret key;

	if (sig_from_seed(&key, seed) < 0 || card_seal(&bytes, h, &key, NULL) < 0 ||
		card_parse(&again, &signer, bytes.data, bytes.len, "card", NULL) < 0 ||
		memcmp(&signer, &key.pub, sizeof signer) != 0 || header_format(h, &one) < 0 ||
		header_format(&again, &two) < 0 || one.len != two.len ||
		memcmp(one.data, two.data, one.len) != 0)
		abort();
	header_release(&again);
	buf_release(&bytes);
	buf_release(&one);
	buf_release(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct sig_public signer;
	struct header h = { 0 };

	if (n == 0)
		return 0;
	if (data[0] % 2) {
		(void)!card_parse(&h, &signer, (const char *)data + 1, n - 1, "card", NULL);
	} else if (n < 65536 && header_parse(&h, (const char *)data + 1, n - 1) == 0 && h.tensors.n == 0) {
		there_and_back(&h);
	}
	header_release(&h);
	return 0;
}
