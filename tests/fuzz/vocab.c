/* Any bytes are a model of SentencePiece or an error; its pieces lie within it. */
#include <stdlib.h>
#include <string.h>

#include "form/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void use(const struct vocab *v)
{
	const int32_t special[] = { v->unk, v->bos, v->eos, v->pad };
	char hex[VOCAB_DIGEST];

	for (size_t i = 0; i < v->n; i++)
		if (v->v[i].n == 0 || v->v[i].at > v->bytes.len || v->v[i].n > v->bytes.len - v->v[i].at)
			abort();
	for (int i = 0; i < 4; i++)
		if (special[i] < -1 || (special[i] >= 0 && (size_t)special[i] >= v->n))
			abort();
	if (v->charsmap > v->bytes.len || v->charsmap_n > v->bytes.len - v->charsmap)
		abort();
	vocab_digest(hex, v);
	if (vocab_digest_check("it", hex) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct vocab v = { .n = 0 };

	if (vocab_parse(&v, (const char *)data, n) == 0)
		use(&v);
	else if (v.v || v.bytes.data || *err_text() == '\0')
		abort();
	vocab_release(&v);
	return 0;
}
