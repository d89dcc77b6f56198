/*
 * malice - what readers of sealed files make of files that a signer whom they trust made with
 * malice: every seal is good, and what it covers is not.
 */
#include "forge.h"

enum where { BOTH, STREAM_ONLY };

/* Both readers refuse what has been forged, with these words. */
static void refused_by(struct forge *f, int code, const char *says, enum where where)
{
	CHECK(stream(f->bytes.data, f->bytes.len) == code);
	CHECK_SAYS(says);
	if (where == BOTH) {
		int rc = seek(f->bytes.data, f->bytes.len);

		CHECK(rc == ERR_AUTH || rc == ERR_DATA);
	}
	forge_release(f);
}

static void refused(struct forge *f, const char *says)
{
	refused_by(f, ERR_DATA, says, BOTH);
}

static void test_headers(void)
{
	static const struct { const char *header, *says; } bad[] = {
		{ "format 2\nkind from the future\n", "x: frame 0: format 2, made by newer programs" },
		{ "format 1000000000000\n", "made by newer programs" },
		{ "format 0\n", "does not begin with its format" },
		{ "format 1", "does not begin with its format" },
		{ "format one\n", "does not begin with its format" },
		{ "kind checkpoint\nformat 1\n", "does not begin with its format" },
		{ "format 1\ntensor a f32 5 f32\ntensor a f32 5 f32\n", "x: header: tensor 'a' occurs twice" },
		{ "format 1\ntensor a f32 0 f32\n", "zero" },
		{ "format 1\ntensor a f32 4294967296x4294967296 f32\n", "2^48" },
		{ "format 1\ntensor a f32 65536x65536x65536x65536 f32\n", "2^48" },
		{ "format 1\ntensor ../a f32 5 f32\n", "not a tensor name" },
		{ "format 1\ntensor a/b f32 5 f32\n", "not a tensor name" },
		{ "format 1\ntensor a f64 5 f32\n", "x: header: line 2: unknown element type 'f64'" },
		{ "format 1\ntensor a f32 5 q4\n", "unknown encoding 'q4'" },
		{ "format 1\ntensor a u8 5 f32\n", "type u8 with encoding f32" },
		{ "format 1\ntensor a f32 5 raw\n", "type f32 with encoding raw" },
		{ "format 1\ntensor a f32 5\n", "not a tensor line" },
		{ "format 1\ntensor a f32 5 f32 f32\n", "not a tensor line" },
		{ "format 1\nkind a\nkind b\n", "x: header: line 3: key 'kind' given twice" },
		{ "format 1\nkind a\x01" "b\n", "control character" },
	};
	struct forge f;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		forge_init(&f, 1);
		forge_header(&f, bad[i].header);
		forge_final(&f);
		refused(&f, bad[i].says);
	}
}

static void test_newer_but_damaged(void)
{
	struct forge f;

	forge_init(&f, 1);
	forge_header(&f, "format 2\n");
	f.bytes.data[f.bytes.len - 1] ^= 1;
	refused_by(&f, ERR_AUTH, "x: frame 0: seal does not verify", BOTH);
}

static void test_header_frames(void)
{
	struct forge f;

	forge_init(&f, 1); /* a second header; the first one without an end; no header at all */
	forge_header(&f, text);
	forge_header(&f, text);
	refused(&f, "x: frame 1: header frame after the header");
	forge_init(&f, 1);
	forge_frame(&f, CHAIN_HEADER, 0, text, strlen(text));
	forge_values(&f, 0, 5);
	refused(&f, "x: frame 1: not a header frame");
	forge_init(&f, 1);
	forge_final(&f);
	refused(&f, "x: frame 0: not a header frame");
}

static void test_preludes(void)
{
	struct prelude large = { .kind = CHAIN_DATA, .stored = 10, .raw = CHAIN_RAW + 1 };
	struct prelude flags = { .kind = CHAIN_DATA, .flags = 2, .stored = 10, .raw = 10 };
	struct prelude zero = { .kind = CHAIN_DATA, .zero = 1, .stored = 10, .raw = 10 };
	struct prelude kind = { .kind = 9, .stored = 10, .raw = 10 };
	struct forge f;

	forge_init(&f, 1);
	forge_header(&f, text);
	forge_payload(&f, &large, "0123456789");
	refused_by(&f, ERR_AUTH, "x: frame 1: damaged: sizes out of range", BOTH);
	forge_init(&f, 1);
	forge_header(&f, text);
	forge_payload(&f, &flags, "0123456789");
	refused(&f, "x: frame 1: unknown flags");
	forge_init(&f, 1);
	forge_header(&f, text);
	forge_payload(&f, &zero, "0123456789");
	refused(&f, "x: frame 1: unknown flags");
	forge_init(&f, 1);
	forge_header(&f, text);
	forge_payload(&f, &kind, "0123456789");
	refused(&f, "x: frame 1: unknown kind 9");
}

/* Payloads that are not one zstd frame of the size that was announced. */
static void test_payloads(void)
{
	static const struct { const char *payload; uint32_t n, raw; const char *says; } bad[] = {
		{ "0123456789", 10, 10, "not a zstd frame" },
		{ "\x28\xb5\x2f", 3, 10, "not a zstd frame" },
		/* one that announces a terabyte, and the bomb of a bug report */
		{ "\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00", 16, 100, "frame of 1099511627776" },
		{ "\x28\xb5\x2f\xfd\xe0\x6c\x06\x06\x06\x63\x63\x63\x63", 13, 1000, "zstd: " },
		/* a skippable frame; an early format; two frames; a frame and a byte */
		{ "\x50\x2a\x4d\x18\x02\x00\x00\x00" "ab", 10, 10, "not a zstd frame" },
		{ "\x22\xb5\x2f\xfd\x00\x00\x00\x00", 8, 8, "not a zstd frame" },
		{ "\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00" "a\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00" "a", 20, 1, "one frame" },
		{ "\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00" "ab", 11, 1, "one frame" },
		/* shorter and longer than announced; a window of gigabytes; a broken block */
		{ "\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00" "a", 10, 2, "frame of 1 bytes, expected 2" },
		{ "\x28\xb5\x2f\xfd\x00\x58\x09\x00\x00" "a", 10, 2, "zstd: 1 bytes, expected 2" },
		{ "\x28\xb5\x2f\xfd\x00\xff\x09\x00\x00" "a", 10, 1, "zstd: " },
		{ "\x28\xb5\x2f\xfd\x20\x01\x0f\x00\x00" "a", 10, 1, "zstd: " },
	};
	struct forge f;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct prelude p = { .kind = CHAIN_DATA, .stored = bad[i].n, .raw = bad[i].raw };

		forge_init(&f, 1);
		forge_header(&f, text);
		forge_payload(&f, &p, bad[i].payload);
		refused(&f, bad[i].says);
	}
}

/* A zstd frame that does not say its size is fine, as long as it has it. */
static void test_payload_of_unknown_size(void)
{
	static const uint8_t frame[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x09, 0x00, 0x00, 'a' };
	struct zs zs = { 0 };
	char out = 0;

	CHECK(zs_unpack(&zs, &out, 1, frame, sizeof frame) == 0);
	CHECK(out == 'a');
	zs_release(&zs);
}

static void test_slices(void)
{
	static const struct { uint32_t tensor; uint64_t first; uint32_t count; size_t n; const char *says; } bad[] = {
		{ 2, 0, 1, 1, "values of tensor 2, of 2" },
		{ 0xffffffff, 0, 1, 1, "values of tensor 4294967295, of 2" },
		{ 0, 0, 0, 0, "slice of 0 elements" },
		{ 0, 0, 3, 13, "slice of 3 elements in" },
		{ 0, 0, 0xffffffff, 12, "slice of 4294967295 elements" },
		{ 0, 0, 0x40000001, 4, "slice of 1073741825 elements" },
		{ 0, 0, 6, 24, "6 elements of tensor 'a', which has 5 left" },
		{ 0, 1, 1, 4, "tensor 0 from element 1, where tensor 0 from element 0 should be" },
		{ 0, UINT64_MAX, 1, 4, "should be" },
		{ 1, 0, 1, 1, "should be" },
	};
	uint8_t bytes[64] = { 0 };
	struct forge f;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		forge_init(&f, 1);
		forge_header(&f, text);
		forge_data(&f, bad[i].tensor, bad[i].first, bad[i].count, bytes, bad[i].n);
		forge_end(&f);
		refused(&f, bad[i].says);
	}
	forge_init(&f, 1); /* a slice twice; one left out; too many */
	forge_header(&f, text);
	forge_values(&f, 0, 3);
	forge_values(&f, 0, 3);
	forge_end(&f);
	refused(&f, "x: frame 2: tensor 0 from element 0, where");
	forge_init(&f, 1);
	forge_header(&f, text);
	forge_values(&f, 0, 5);
	forge_end(&f);
	refused(&f, "x: frame 3: tensor 'b' is not complete");
	forge_init(&f, 1);
	forge_header(&f, text);
	forge_values(&f, 0, 5);
	forge_data(&f, 1, 0, 1, "\x07", 1);
	forge_data(&f, 2, 0, 1, "\x07", 1);
	forge_end(&f);
	refused(&f, "x: frame 3: values of tensor 2, of 2");
}

static void test_short_payloads(void)
{
	uint8_t raw[BLOCK_SLICE] = { 0 };
	struct forge f;

	forge_init(&f, 1);
	forge_header(&f, text);
	forge_frame(&f, CHAIN_DATA, 0, raw, BLOCK_SLICE - 1);
	refused(&f, "not a slice of a tensor");
	forge_init(&f, 1);
	forge_header(&f, text);
	raw[4] = 1;
	forge_frame(&f, CHAIN_DATA, 0, raw, BLOCK_SLICE);
	refused(&f, "not a slice of a tensor");
}

/* Header and data in order: what can be wrong after them? */
static void forge_body(struct forge *f)
{
	forge_init(f, 1);
	forge_header(f, text);
	forge_values(f, 0, 5);
	forge_data(f, 1, 0, 1, "\x07", 1);
}

static void test_index(void)
{
	struct forge f;

	forge_body(&f);
	forge_final(&f);
	refused(&f, "index does not agree with the data");
	forge_body(&f);
	forge_index(&f);
	forge_end(&f);
	refused(&f, "index does not agree with the data");
	forge_body(&f);
	forge_frame(&f, CHAIN_INDEX, 0, f.entries.data, f.entries.len - 1);
	forge_final(&f);
	refused(&f, "x: frame 3: index is broken in the middle of an entry");
	forge_body(&f);
	forge_index(&f);
	forge_values(&f, 0, 5);
	forge_final(&f);
	refused(&f, "x: frame 4: data after the index");
	for (size_t at = 0; at < 2 * LEDGER_ENTRY; at += 4) {
		forge_body(&f);
		f.entries.data[at] ^= 1;
		forge_end(&f);
		refused(&f, "index does not agree with the data");
	}
}

static void test_final(void)
{
	struct forge f;

	for (size_t at = 0; at < 24 + 2 * 40; at++) {
		struct buf raw = BUF_INIT;

		forge_body(&f);
		forge_index(&f);
		CHECK(ledger_put(&f.ledger, &raw) == 0 && raw.len == 24 + 2 * 40);
		raw.data[at] ^= (char)0x80;
		forge_final_with(&f, raw.data, raw.len);
		buf_release(&raw);
		refused(&f, "x: frame 4: final frame does not agree");
	}
	forge_body(&f);
	forge_index(&f);
	forge_final_with(&f, "", 1);
	refused(&f, "x: frame 4: final frame does not agree");
}

/* Index and final frame agree with each other, so that only their lengths can save a seekable
 * reader. */
static void test_huge_counts(void)
{
	struct forge f;

	forge_body(&f);
	f.ledger.data = UINT32_MAX;
	forge_index(&f);
	forge_final(&f);
	refused(&f, "final frame does not agree");
	forge_body(&f);
	f.ledger.data = UINT64_MAX - 1;
	forge_index(&f);
	forge_final(&f);
	refused(&f, "final frame does not agree");
}

static void test_trailer(void)
{
	struct forge f;

	for (int what = 0; what < 3; what++) {
		struct trailer t;

		forge_good(&f, 1);
		trailer_get(&t, (const uint8_t *)f.bytes.data + f.bytes.len - CHAIN_TRAILER);
		t.number += what == 0;
		t.offset = what == 1 ? UINT64_MAX : t.offset;
		t.before.b[0] ^= what == 2;
		f.bytes.len -= CHAIN_TRAILER;
		forge_trailer(&f, &t);
		refused_by(&f, ERR_AUTH, "x: damaged: the trailer is not right", BOTH);
	}
}

/* Two chains with the same end: the trailer names a predecessor that the frames do not lead to. */
static void test_two_chains(void)
{
	struct forge f;

	forge_body(&f);
	forge_index(&f);
	f.chain.c.b[0] ^= 1;
	forge_final(&f);
	CHECK(seek(f.bytes.data, f.bytes.len) == ERR_AUTH);
	CHECK_SAYS("x: damaged: its frames are not one chain");
	refused_by(&f, ERR_AUTH, "x: frame 4: seal does not verify", BOTH);
}

int main(void)
{
	test_headers();
	test_newer_but_damaged();
	test_header_frames();
	test_preludes();
	test_payloads();
	test_payload_of_unknown_size();
	test_slices();
	test_short_payloads();
	test_index();
	test_final();
	test_huge_counts();
	test_trailer();
	test_two_chains();
	return unit_done("malice");
}
