/*
 * hostile - what readers of sealed files make of files that are not what an honest writer wrote: damaged
 * on the way, put together from parts, or made with malice by somebody whose key is trusted.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "form/block.h"
#include "form/ledger.h"
#include "io/fd.h"
#include "unit.h"

#define ELEMENTS 5 /* of tensor a; b has one */

static const char text[] = "format 1\nkind checkpoint\ntensor a f32 5 f32\ntensor b u8 scalar raw\n";
static const float values[ELEMENTS] = { 1, -2, 3, 4, 5 };

/* ---- a file as it is made, frame by frame ---- */

struct forge {
	struct sig_secret key;
	struct chain chain;
	struct ledger ledger;
	struct buf bytes, entries;
	size_t start[16]; /* of each frame; the last one is the trailer's */
	int frames;
	struct zs zs;
};

static void forge_init(struct forge *f, uint8_t seed)
{
	uint8_t bytes[SIG_SEED] = { seed }, preamble[CHAIN_PREAMBLE];

	*f = (struct forge){ .frames = 0 };
	CHECK(sig_init() == 0 && sig_from_seed(&f->key, bytes) == 0);
	chain_start(&f->chain, &f->key.pub);
	preamble_put(preamble, &f->key.pub);
	CHECK(buf_add(&f->bytes, preamble, sizeof preamble) == 0);
}

static void forge_release(struct forge *f)
{
	buf_release(&f->bytes);
	buf_release(&f->entries);
	ledger_release(&f->ledger);
	zs_release(&f->zs);
}

/* A frame with any prelude and any payload, sealed as it should be. Returns its h. */
static digest forge_payload(struct forge *f, const struct prelude *p, const void *payload)
{
	uint8_t head[CHAIN_PRELUDE], seal[SIG_SEAL];
	size_t start = f->bytes.len;
	digest h;

	f->start[f->frames++] = start;
	prelude_put(head, p);
	CHECK(buf_add(&f->bytes, head, sizeof head) == 0 && buf_add(&f->bytes, payload, p->stored) == 0);
	chain_hash(&h, f->chain.number, (const uint8_t *)f->bytes.data + start, f->bytes.len - start);
	chain_add(&f->chain, &h);
	sig_sign(seal, &f->chain.c, &f->key);
	CHECK(buf_add(&f->bytes, seal, sizeof seal) == 0);
	return h;
}

static void forge_frame(struct forge *f, uint8_t kind, uint8_t flags, const void *raw, size_t n)
{
	struct prelude p = { .kind = kind, .flags = flags, .raw = (uint32_t)n };
	size_t offset = f->bytes.len, stored = zs_bound(n);
	uint8_t *payload = malloc(stored);
	digest h;

	CHECK(zs_pack(&f->zs, payload, &stored, raw, n, ZS_TEXT) == 0);
	p.stored = (uint32_t)stored;
	h = forge_payload(f, &p, payload);
	free(payload);
	if (kind == CHAIN_HEADER || kind == CHAIN_INDEX)
		CHECK(ledger_mark(&f->ledger, kind, offset, &h) == 0);
}

static void forge_header(struct forge *f, const char *header)
{
	forge_frame(f, CHAIN_HEADER, CHAIN_LAST, header, strlen(header));
}

/* A data frame that claims what it is told to, and its entry of the index. */
static void forge_data(struct forge *f, uint32_t tensor, uint64_t first, uint32_t count, const void *bytes, size_t n)
{
	struct entry e = { tensor, count, first, f->bytes.len, { { 0 } } };
	struct prelude p = { .kind = CHAIN_DATA, .raw = (uint32_t)(BLOCK_SLICE + n) };
	uint8_t raw[256] = { 0 }, payload[1024], entry[LEDGER_ENTRY];
	size_t stored = sizeof payload;

	le32_put(raw, tensor);
	le64_put(raw + 8, first);
	le32_put(raw + 16, count);
	memcpy(raw + BLOCK_SLICE, bytes, n);
	CHECK(zs_pack(&f->zs, payload, &stored, raw, BLOCK_SLICE + n, ZS_TEXT) == 0);
	p.stored = (uint32_t)stored;
	e.h = forge_payload(f, &p, payload);
	entry_put(entry, &e);
	CHECK(buf_add(&f->entries, entry, sizeof entry) == 0);
	f->ledger.data++;
}

/* Elements [first, first + count) of a, as planes. */
static void forge_values(struct forge *f, uint32_t first, uint32_t count)
{
	uint8_t planes[4 * ELEMENTS];

	for (uint32_t i = 0; i < count; i++)
		for (unsigned k = 0; k < 4; k++) {
			uint32_t bits;

			memcpy(&bits, &values[first + i], sizeof bits);
			planes[k * count + i] = (uint8_t)(bits >> 8 * k);
		}
	forge_data(f, 0, first, count, planes, 4 * (size_t)count);
}

static void forge_index(struct forge *f)
{
	forge_frame(f, CHAIN_INDEX, 0, f->entries.data, f->entries.len);
}

static void forge_trailer(struct forge *f, const struct trailer *t)
{
	uint8_t bytes[CHAIN_TRAILER];

	trailer_put(bytes, t);
	f->start[f->frames] = f->bytes.len;
	CHECK(buf_add(&f->bytes, bytes, sizeof bytes) == 0);
}

static void forge_final_with(struct forge *f, const void *raw, size_t n)
{
	struct trailer t = { f->chain.number, f->bytes.len, f->chain.c };

	forge_frame(f, CHAIN_FINAL, 0, raw, n);
	forge_trailer(f, &t);
}

static void forge_final(struct forge *f)
{
	struct buf raw = BUF_INIT;

	CHECK(ledger_put(&f->ledger, &raw) == 0);
	forge_final_with(f, raw.data, raw.len);
	buf_release(&raw);
}

static void forge_end(struct forge *f)
{
	forge_index(f);
	forge_final(f);
}

static void forge_good(struct forge *f, uint8_t seed)
{
	forge_init(f, seed);
	forge_header(f, text);
	forge_values(f, 0, 3);
	forge_values(f, 3, 2);
	forge_data(f, 1, 0, 1, "\x07", 1);
	forge_end(f);
}

/* ---- reading, with everything that is handed out compared ---- */

static int slice_is_right(const struct frame_slice *s)
{
	if (s->tensor == 0)
		return s->first + s->n <= ELEMENTS && memcmp(s->value, values + s->first, s->n * sizeof *values) == 0;
	return s->tensor == 1 && s->n == 1 && *(const uint8_t *)s->elements == 7;
}

static int fd_of(const void *bytes, size_t n)
{
	int fd = memfd_create("hostile", 0);

	CHECK(fd_write(fd, bytes, n) == 0);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* The code that a reader of all ends with; says so when a slice is not what was written. */
static int stream(const void *bytes, size_t n)
{
	struct frame_reader *r = NULL;
	int fd = fd_of(bytes, n), rc = frame_open(&r, fd, "x", NULL, NULL);
	struct frame_slice s;

	while (rc == 0 && (rc = frame_next(r, &s)) > 0) {
		CHECK(slice_is_right(&s));
		rc = 0;
	}
	if (rc < 0 && r)
		CHECK(frame_next(r, &s) == rc); /* and it stays with it */
	frame_reader_free(r);
	close(fd);
	return rc;
}

static int seek_all(struct frame_reader *r)
{
	struct frame_scratch *scratch;
	struct frame_slice s;
	int rc = frame_seekable(r);

	if (rc < 0)
		return rc;
	CHECK(frame_scratch_new(&scratch) == 0);
	for (uint32_t t = 0; t < frame_header(r)->tensors.n && rc == 0; t++)
		for (uint32_t k = 0; k < frame_slices(r, t) && rc == 0; k++) {
			rc = frame_slice_at(r, scratch, t, k, &s);
			if (rc == 0)
				CHECK(slice_is_right(&s));
		}
	frame_scratch_free(scratch);
	return rc;
}

static int seek(const void *bytes, size_t n)
{
	struct frame_reader *r = NULL;
	int fd = fd_of(bytes, n), rc = frame_open(&r, fd, "x", NULL, NULL);

	if (rc == 0)
		rc = seek_all(r);
	frame_reader_free(r);
	close(fd);
	return rc;
}

/* ---- damage on the way ---- */

static void test_good(struct forge *f)
{
	CHECK(stream(f->bytes.data, f->bytes.len) == 0);
	CHECK(seek(f->bytes.data, f->bytes.len) == 0);
}

static void test_truncated(struct forge *f)
{
	size_t refused = 0, refused_seek = 0;

	for (size_t n = 0; n < f->bytes.len; n++) {
		refused += stream(f->bytes.data, n) == ERR_AUTH;
		refused_seek += seek(f->bytes.data, n) == ERR_AUTH;
	}
	CHECK(refused == f->bytes.len && refused_seek == f->bytes.len);
	CHECK(stream(f->bytes.data, 0) == ERR_AUTH);
	CHECK_SAYS("x: empty");
	CHECK(stream(f->bytes.data, f->start[2] + 20) == ERR_AUTH);
	CHECK_SAYS("x: frame 2: truncated");
}

/* A reader of all refuses every flip; one that picks, those in what it uses: not the seals of frames that
 * the index vouches for. */
static void test_flipped_bits(struct forge *f)
{
	uint8_t *bytes = (uint8_t *)f->bytes.data;
	size_t refused = 0, accepted_seek = 0, seals = (size_t)(f->frames - 2) * SIG_SEAL * 8;

	for (size_t bit = 0; bit < 8 * f->bytes.len; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		refused += stream(bytes, f->bytes.len) == ERR_AUTH;
		accepted_seek += seek(bytes, f->bytes.len) != ERR_AUTH;
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK(refused == 8 * f->bytes.len);
	CHECK(accepted_seek <= seals);
}

/* Frames of a, and from 100 on of b, in another order; -1 ends the list. The trailer is that of a. */
static void check_order(const struct forge *a, const struct forge *b, const int *order, const char *what)
{
	struct buf bytes = BUF_INIT;

	CHECK(buf_add(&bytes, a->bytes.data, CHAIN_PREAMBLE) == 0);
	for (; *order >= 0; order++) {
		const struct forge *from = *order >= 100 ? b : a;
		size_t start = from->start[*order % 100], end = from->start[*order % 100 + 1];

		CHECK(buf_add(&bytes, from->bytes.data + start, end - start) == 0);
	}
	CHECK(buf_add(&bytes, a->bytes.data + a->start[a->frames], CHAIN_TRAILER) == 0);
	CHECK(stream(bytes.data, bytes.len) == ERR_AUTH);
	CHECK_SAYS(what);
	/* one that picks takes another's frame for what it is: the same bytes, for which the index vouches */
	CHECK(seek(bytes.data, bytes.len) == ERR_AUTH || (b != a && b->key.seed[0] != a->key.seed[0]));
	buf_release(&bytes);
}

static void test_rearranged(const struct forge *f)
{
	static const int dropped[] = { 0, 1, 3, 4, 5, -1 }, doubled[] = { 0, 1, 2, 2, 3, 4, 5, -1 };
	static const int swapped[] = { 0, 2, 1, 3, 4, 5, -1 }, headless[] = { 1, 2, 3, 4, 5, -1 };
	static const int endless[] = { 0, 1, 2, 3, 4, -1 }, spliced[] = { 0, 1, 102, 3, 4, 5, -1 };
	static const int grafted[] = { 100, 1, 2, 3, 4, 5, -1 }, short_end[] = { 0, 1, 2, 3, 5, -1 };
	struct forge same_key, other_key;

	/* the same header and a key that is trusted, too, but another file */
	forge_init(&same_key, 1);
	forge_header(&same_key, text);
	forge_values(&same_key, 0, 2);
	forge_values(&same_key, 2, 3);
	forge_data(&same_key, 1, 0, 1, "\x07", 1);
	forge_end(&same_key);
	forge_good(&other_key, 2);
	CHECK(stream(same_key.bytes.data, same_key.bytes.len) == 0);
	CHECK(stream(other_key.bytes.data, other_key.bytes.len) == 0);

	check_order(f, f, dropped, "frame 2: seal does not verify");
	check_order(f, f, doubled, "frame 3: seal does not verify");
	check_order(f, f, swapped, "frame 1: seal does not verify");
	check_order(f, f, headless, "frame 0: seal does not verify");
	check_order(f, f, short_end, "frame 4: seal does not verify");
	check_order(f, f, endless, "frame 5: ");
	check_order(f, &same_key, spliced, "frame 2: seal does not verify");
	check_order(f, &other_key, spliced, "frame 2: seal does not verify");
	check_order(f, &other_key, grafted, "frame 0: seal does not verify");
	forge_release(&same_key);
	forge_release(&other_key);
}

static void test_appended(const struct forge *f)
{
	struct buf bytes = BUF_INIT;

	CHECK(buf_add(&bytes, f->bytes.data, f->bytes.len) == 0 && buf_str(&bytes, "x") == 0);
	CHECK(stream(bytes.data, bytes.len) == ERR_AUTH);
	CHECK_SAYS("x: damaged: more bytes follow its end");
	CHECK(seek(bytes.data, bytes.len) == ERR_AUTH);
	bytes.len--;
	CHECK(buf_add(&bytes, f->bytes.data, f->bytes.len) == 0);
	CHECK(stream(bytes.data, bytes.len) == ERR_AUTH);
	CHECK(seek(bytes.data, bytes.len) == ERR_AUTH);
	buf_release(&bytes);
}

static void test_not_ours(const struct forge *f)
{
	uint8_t swapped[200];

	CHECK(stream("plain text, longer than a preamble is", 38) == ERR_DATA);
	CHECK_SAYS("x: not a dl file");
	CHECK(stream("abc", 3) == ERR_DATA);
	CHECK(stream("\x28\xb5\x2f\xfd rather short", 16) == ERR_DATA);
	CHECK_SAYS("compressed");
	CHECK(stream("\x89" "DLS\n\x1a\n sent as text............", 33) == ERR_AUTH);
	for (unsigned unit = 2; unit <= 8; unit *= 2) {
		for (size_t i = 0; i < sizeof swapped; i++)
			swapped[i] = (uint8_t)f->bytes.data[i ^ (unit - 1)];
		CHECK(stream(swapped, sizeof swapped) == ERR_DATA);
		CHECK_SAYS("order of its bytes");
	}
}

/* ---- malice of a signer ---- */

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

/* Index and final frame agree with each other, so that only their lengths can save a seekable reader. */
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
	struct forge f;

	forge_good(&f, 1);
	test_good(&f);
	test_truncated(&f);
	test_flipped_bits(&f);
	test_rearranged(&f);
	test_appended(&f);
	test_not_ours(&f);
	forge_release(&f);

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
	return unit_done("hostile");
}
