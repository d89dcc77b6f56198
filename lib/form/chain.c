#include "form/chain.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "form/lanes.h"

/* As in PNG: a byte above 127, a name, and line ends that a transfer as text would change. */
static const uint8_t magic[CHAIN_MAGIC] = { 0x89, 'D', 'L', 'S', '\r', '\n', 0x1a, '\n' };

void prelude_put(uint8_t out[CHAIN_PRELUDE], const struct prelude *p)
{
	out[0] = p->kind;
	out[1] = p->flags;
	le16_put(out + 2, p->zero);
	le32_put(out + 4, p->stored);
	le32_put(out + 8, p->raw);
}

int prelude_get(struct prelude *p, const uint8_t in[CHAIN_PRELUDE])
{
	p->kind = in[0];
	p->flags = in[1];
	p->zero = le16_get(in + 2);
	p->stored = le32_get(in + 4);
	p->raw = le32_get(in + 8);
	if (p->stored == 0 || p->stored > CHAIN_STORED || p->raw == 0 || p->raw > CHAIN_RAW)
		return err_set(ERR_AUTH, "damaged: sizes out of range");
	return 0;
}

void preamble_put(uint8_t out[CHAIN_PREAMBLE], const struct sig_public *signer)
{
	memcpy(out, magic, CHAIN_MAGIC);
	memcpy(out + CHAIN_MAGIC, signer->b, SIG_PUBLIC);
}

static bool swapped(const uint8_t *in)
{
	for (unsigned unit = 2; unit <= CHAIN_MAGIC; unit *= 2) {
		unsigned same = 0;

		while (same < CHAIN_MAGIC && in[same ^ (unit - 1)] == magic[same])
			same++;
		if (same == CHAIN_MAGIC)
			return true;
	}
	return false;
}

/* Why eight bytes are not the magic, as well as one can tell. */
static int strange(const uint8_t *in)
{
	unsigned same = 0;

	for (unsigned i = 0; i < CHAIN_MAGIC; i++)
		same += in[i] == magic[i];
	if (same >= CHAIN_MAGIC / 2)
		return err_set(ERR_AUTH, "damaged: its first bytes are not right (sent as text?)");
	if (swapped(in))
		return err_set(ERR_DATA, "not a dl file: the order of its bytes is swapped");
	if (memcmp(in, "\x28\xb5\x2f\xfd", 4) == 0 || memcmp(in, "\x1f\x8b", 2) == 0)
		return err_set(ERR_DATA, "not a dl file: it is compressed, unpack it first");
	return err_set(ERR_DATA, "not a dl file");
}

bool preamble_sealed(const uint8_t in[CHAIN_MAGIC])
{
	return memcmp(in, magic, CHAIN_MAGIC) == 0;
}

int preamble_get(struct sig_public *signer, const uint8_t in[CHAIN_PREAMBLE], size_t n)
{
	size_t head = n < CHAIN_MAGIC ? n : CHAIN_MAGIC;

	if (n == 0)
		return err_set(ERR_AUTH, "empty: whatever should have written it did not");
	if (n < CHAIN_MAGIC && memcmp(in, magic, head) != 0)
		return err_set(ERR_DATA, "not a dl file");
	if (n >= CHAIN_MAGIC && !preamble_sealed(in))
		return strange(in);
	if (n < CHAIN_PREAMBLE)
		return err_set(ERR_AUTH, "truncated: ends before its first frame");
	memcpy(signer->b, in + CHAIN_MAGIC, SIG_PUBLIC);
	return 0;
}

void chain_start(struct chain *c, const struct sig_public *signer)
{
	static const char tag[] = "dl-file-1";
	struct sig_hash h;

	sig_hash_init(&h);
	sig_hash_add(&h, tag, sizeof tag - 1);
	sig_hash_add(&h, signer->b, SIG_PUBLIC);
	sig_hash_end(&h, &c->c);
	c->number = 0;
}

void chain_add(struct chain *c, const digest *h)
{
	uint8_t both[2 * SIG_DIGEST];

	memcpy(both, c->c.b, SIG_DIGEST);
	memcpy(both + SIG_DIGEST, h->b, SIG_DIGEST);
	sig_digest(&c->c, both, sizeof both);
	c->number++;
}

void chain_hash(digest *out, uint64_t number, const uint8_t *bytes, size_t n)
{
	static const char tag[] = "dl-frame-1";
	struct sig_hash h;
	uint8_t le[8];

	le64_put(le, number);
	sig_hash_init(&h);
	sig_hash_add(&h, tag, sizeof tag - 1);
	sig_hash_add(&h, le, sizeof le);
	sig_hash_add(&h, bytes, n);
	sig_hash_end(&h, out);
}

void chain_hash_many(digest *out, const struct chain_frame *f, size_t n)
{
	static const char tag[] = "dl-frame-1";
	uint8_t head[LANES][sizeof tag - 1 + 8];
	struct lane lane[LANES] = { { 0 } };

	for (size_t i = 0; i < n; i++) {
		memcpy(head[i], tag, sizeof tag - 1);
		le64_put(head[i] + sizeof tag - 1, f[i].number);
		lane[i] = (struct lane){ head[i], f[i].bytes, sizeof head[i], f[i].n };
	}
	lanes_digest(out, lane, n);
}

void trailer_put(uint8_t out[CHAIN_TRAILER], const struct trailer *t)
{
	le64_put(out, t->number);
	le64_put(out + 8, t->offset);
	memcpy(out + 16, t->before.b, SIG_DIGEST);
}

void trailer_get(struct trailer *t, const uint8_t in[CHAIN_TRAILER])
{
	t->number = le64_get(in);
	t->offset = le64_get(in + 8);
	memcpy(t->before.b, in + 16, SIG_DIGEST);
}
