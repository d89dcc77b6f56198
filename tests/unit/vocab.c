/* vocab - models of SentencePiece, and whether ids of one vocabulary may be used for another. */
#include "form/vocab.h"

#include "unit.h"

/* A protocol buffer under way. */
struct made { char b[4096]; size_t n; };

static void byte(struct made *m, unsigned v)
{
	m->b[m->n++] = (char)v;
}
static void varint(struct made *m, uint64_t v)
{
	for (; v > 127; v >>= 7)
		byte(m, (unsigned)(v & 127) | 128);
	byte(m, (unsigned)v);
}
static void bytes(struct made *m, unsigned field, const void *from, size_t n)
{
	varint(m, field << 3 | 2);
	varint(m, n);
	memcpy(m->b + m->n, from, n);
	m->n += n;
}
static void number(struct made *m, unsigned field, uint64_t v)
{
	varint(m, field << 3);
	varint(m, v);
}
static void real(struct made *m, unsigned field, float v)
{
	varint(m, field << 3 | 5);
	memcpy(m->b + m->n, &v, 4);
	m->n += 4;
}
static void piece_n(struct made *m, const char *text, size_t n, float score, int type)
{
	struct made p = { .n = 0 };

	bytes(&p, 1, text, n);
	real(&p, 2, score);
	if (type != PIECE_NORMAL)
		number(&p, 3, (uint64_t)type);
	bytes(m, 1, p.b, p.n);
}
static void piece(struct made *m, const char *text, float score, int type)
{
	piece_n(m, text, strlen(text), score, type);
}
static void begin(struct made *m)
{
	*m = (struct made){ .n = 0 };
	piece(m, "<unk>", 0, PIECE_UNKNOWN);
	piece(m, "<s>", 0, PIECE_CONTROL);
	piece(m, "</s>", 0, PIECE_CONTROL);
	piece(m, "<0x41>", 0, PIECE_BYTE);
	piece(m, "\xe2\x96\x81" "a", -1.5f, PIECE_NORMAL);
}

static void a_model_is_read(void)
{
	struct made m, trainer = { .n = 0 }, normalizer = { .n = 0 };
	struct vocab v = { .n = 0 };
	char d[VOCAB_DIGEST];

	begin(&m);
	number(&trainer, 3, VOCAB_BPE);
	number(&trainer, 24, 1);
	number(&trainer, 42, UINT64_MAX); /* -1 */
	bytes(&trainer, 2, "prefix", 6);
	bytes(&m, 2, trainer.b, trainer.n);
	bytes(&normalizer, 1, "nmt_nfkc", 8);
	bytes(&normalizer, 2, "\4\0\0\0rules", 9);
	number(&normalizer, 3, 0);
	number(&normalizer, 4, 0);
	bytes(&m, 3, normalizer.b, normalizer.n);
	bytes(&m, 4, "self test", 9);
	bytes(&m, 200, "extension", 9);
	CHECK(vocab_parse(&v, m.b, m.n) == 0);
	CHECK(v.n == 5 && v.kind == VOCAB_BPE && v.suffix && !v.dummy_prefix && !v.squeeze);
	CHECK(v.unk == 0 && v.bos == 1 && v.eos == -1 && v.pad == -1);
	CHECK(v.v[4].n == 4 && memcmp(v.bytes.data + v.v[4].at, "\xe2\x96\x81" "a", 4) == 0);
	CHECK(v.v[4].score == -1.5f && v.v[4].type == PIECE_NORMAL && v.v[3].type == PIECE_BYTE);
	CHECK(v.charsmap_n == 9 && memcmp(v.bytes.data + v.charsmap, "\4\0\0\0rules", 9) == 0);
	vocab_digest(d, &v);
	/* BLAKE2b-256, reckoned by Python's hashlib */
	CHECK_STR(d, "adb6198863a4e5857ef8162c47bb3919c0c9857974f5ab2f0d848116500ac4cb");
	vocab_release(&v);
}

static void defaults_are_those_of_the_format(void)
{
	struct vocab v = { .n = 0 };
	struct made m;

	begin(&m);
	CHECK(vocab_parse(&v, m.b, m.n) == 0);
	CHECK(v.kind == VOCAB_UNIGRAM && v.dummy_prefix && v.squeeze && !v.suffix && v.charsmap_n == 0);
	CHECK(v.unk == 0 && v.bos == 1 && v.eos == 2 && v.pad == -1);
	vocab_release(&v);
	m.n = 0;
	piece(&m, "a", 0, PIECE_NORMAL); /* where nothing special is, no id is special */
	CHECK(vocab_parse(&v, m.b, m.n) == 0 && v.unk == -1 && v.bos == -1 && v.eos == -1);
	vocab_release(&v);
}

static void refused(const struct made *m, const char *says)
{
	struct vocab v = { .n = 0 };

	CHECK(vocab_parse(&v, m->b, m->n) == ERR_DATA);
	CHECK_SAYS(says);
	CHECK(v.v == NULL && v.bytes.data == NULL);
}

static void what_makes_no_sense_is_refused(void)
{
	static const char *const odd[] = { "b", "<0x4>", "<0x0a>", "<0xGG>", "<0x041>", "<0x41]" };
	struct made m, trainer = { .n = 0 };
	size_t whole;

	m.n = 0;
	refused(&m, "no pieces: not a SentencePiece model");
	begin(&m);
	piece(&m, "<s>", 0, PIECE_NORMAL);
	refused(&m, "pieces 1 and 5 are the same");
	begin(&m);
	piece(&m, "", 0, PIECE_NORMAL);
	refused(&m, "piece 5 is empty");
	begin(&m);
	piece_n(&m, "a\0b", 3, 0, PIECE_NORMAL);
	refused(&m, "piece 5 has a NUL");
	begin(&m);
	piece(&m, "b", INFINITY, PIECE_NORMAL);
	refused(&m, "piece 5: its score is not finite");
	begin(&m);
	piece(&m, "b", 0, 99);
	refused(&m, "piece 5 is of unknown type 0");
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		begin(&m);
		piece(&m, odd[i], 0, PIECE_BYTE);
		refused(&m, "piece 5 stands for a byte, and is not named <0x00> to <0xFF>");
	}
	for (size_t n = 1; n < 9; n++) {
		struct made normalizer = { .n = 0 };

		begin(&m);
		bytes(&normalizer, 2, "\5\0\0\0rule", n);
		bytes(&m, 3, normalizer.b, normalizer.n);
		refused(&m, "its rules of normalisation are not whole");
	}
	begin(&m);
	number(&trainer, 3, 9);
	bytes(&m, 2, trainer.b, trainer.n);
	refused(&m, "of an unknown kind");
	begin(&m);
	varint(&m, 1 << 3 | 3); /* a group */
	refused(&m, "not a SentencePiece model");
	begin(&m);
	varint(&m, 1 << 3 | 2);
	varint(&m, UINT64_MAX);
	refused(&m, "not a SentencePiece model, or cut short");
	begin(&m);
	for (int i = 0; i < 11; i++)
		byte(&m, 0xff);
	refused(&m, "not a SentencePiece model, or cut short");
	m.n = 0;
	memcpy(m.b, "plain text, no model", 20);
	m.n = 20;
	refused(&m, "not a SentencePiece model");
	begin(&m);
	whole = m.n;
	for (m.n = 1; m.n < whole; m.n++) {
		struct vocab v = { .n = 0 };

		CHECK(vocab_parse(&v, m.b, m.n) <= 0); /* cut between pieces it is a smaller one */
		vocab_release(&v);
	}
}

static void ids_fit_or_are_refused(void)
{
	static const char a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

	CHECK(vocab_fits("", 256, "", 256) == 0 && vocab_fits(a, 500, a, 500) == 0);
	CHECK(vocab_fits(a, 500, a, 512) == 0); /* padded */
	CHECK(vocab_fits(a, 500, "", 500) == 0 && vocab_fits("", 500, b, 500) == 0);
	CHECK(vocab_fits("", 256, "", 512) == ERR_DATA);
	CHECK_SAYS("vocabulary of 256, the model's is 512 (dl-data --vocab, dl-model(5))");
	CHECK(vocab_fits(a, 500, "", 512) == ERR_DATA && vocab_fits(a, 512, a, 500) == ERR_DATA);
	CHECK(vocab_fits(a, 500, b, 500) == ERR_DATA);
	CHECK_SAYS("made with another vocabulary than the model: aaaaaaaaaaaaaaaa, the model's is bbbbbbbbbbbbbbbb");
}

static void a_digest_stands_for_itself(void)
{
	static const char hex[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	char out[VOCAB_DIGEST];
	uint32_t n = 7;

	CHECK(vocab_identify(out, &n, hex) == 0 && n == 0);
	CHECK_STR(out, hex);
	CHECK(vocab_identify(out, &n, "no-such-file") == ERR_IO);
	CHECK(vocab_digest_check("it", hex) == 0 && vocab_digest_check("it", "0123") == ERR_DATA);
	CHECK_SAYS("it is not 64 hex digits");
}

int main(void)
{
	a_model_is_read();
	defaults_are_those_of_the_format();
	what_makes_no_sense_is_refused();
	ids_fit_or_are_refused();
	a_digest_stands_for_itself();
	return unit_done("vocab");
}
