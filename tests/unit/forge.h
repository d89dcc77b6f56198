/*
 * forge - sealed files made frame by frame, with good seals over whatever one likes, and both
 * readers of them. For tests of what readers refuse.
 */
#ifndef FORGE_H
#define FORGE_H

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

static inline void forge_init(struct forge *f, uint8_t seed)
{
	uint8_t bytes[SIG_SEED] = { seed }, preamble[CHAIN_PREAMBLE];

	*f = (struct forge){ .frames = 0 };
	CHECK(sig_init() == 0 && sig_from_seed(&f->key, bytes) == 0);
	chain_start(&f->chain, &f->key.pub);
	preamble_put(preamble, &f->key.pub);
	CHECK(buf_add(&f->bytes, preamble, sizeof preamble) == 0);
}

static inline void forge_release(struct forge *f)
{
	buf_release(&f->bytes);
	buf_release(&f->entries);
	ledger_release(&f->ledger);
	zs_release(&f->zs);
}

/* A frame with any prelude and any payload, sealed as it should be. Returns its h. */
static inline digest forge_payload(struct forge *f, const struct prelude *p, const void *payload)
{
	uint8_t head[CHAIN_PRELUDE], seal[SIG_SEAL];
	size_t start = f->bytes.len;
	digest h;

	f->start[f->frames++] = start;
	prelude_put(head, p);
	CHECK(buf_add(&f->bytes, head, sizeof head) == 0);
	CHECK(buf_add(&f->bytes, payload, p->stored) == 0);
	chain_hash(&h, f->chain.number, (const uint8_t *)f->bytes.data + start,
		f->bytes.len - start);
	chain_add(&f->chain, &h);
	sig_sign(seal, &f->chain.c, &f->key);
	CHECK(buf_add(&f->bytes, seal, sizeof seal) == 0);
	return h;
}

static inline void forge_frame(
	struct forge *f, uint8_t kind, uint8_t flags, const void *raw, size_t n)
{
	struct prelude p = { .kind = kind, .flags = flags, .raw = (uint32_t)n };
	size_t offset = f->bytes.len, stored = zs_bound(n);
	uint8_t *payload = malloc(stored);
	digest h;

	CHECK(zs_pack(&f->zs, payload, &stored, raw, n) == 0);
	p.stored = (uint32_t)stored;
	h = forge_payload(f, &p, payload);
	free(payload);
	if (kind == CHAIN_HEADER || kind == CHAIN_INDEX)
		CHECK(ledger_mark(&f->ledger, kind, offset, &h) == 0);
}

static inline void forge_header(struct forge *f, const char *header)
{
	forge_frame(f, CHAIN_HEADER, CHAIN_LAST, header, strlen(header));
}

/* A data frame that claims what it is told to, and its entry of the index. */
static inline void forge_data(struct forge *f, uint32_t tensor, uint64_t first, uint32_t count,
	const void *bytes, size_t n)
{
	struct entry e = { tensor, count, first, f->bytes.len, { { 0 } } };
	struct prelude p = { .kind = CHAIN_DATA, .raw = (uint32_t)(BLOCK_SLICE + n) };
	uint8_t raw[256] = { 0 }, payload[1024], entry[LEDGER_ENTRY];
	size_t stored = sizeof payload;

	le32_put(raw, tensor);
	le64_put(raw + 8, first);
	le32_put(raw + 16, count);
	memcpy(raw + BLOCK_SLICE, bytes, n);
	CHECK(zs_pack(&f->zs, payload, &stored, raw, BLOCK_SLICE + n) == 0);
	p.stored = (uint32_t)stored;
	e.h = forge_payload(f, &p, payload);
	entry_put(entry, &e);
	CHECK(buf_add(&f->entries, entry, sizeof entry) == 0);
	f->ledger.data++;
}

/* Elements [first, first + count) of a, as planes. */
static inline void forge_values(struct forge *f, uint32_t first, uint32_t count)
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

static inline void forge_index(struct forge *f)
{
	forge_frame(f, CHAIN_INDEX, 0, f->entries.data, f->entries.len);
}

static inline void forge_trailer(struct forge *f, const struct trailer *t)
{
	uint8_t bytes[CHAIN_TRAILER];

	trailer_put(bytes, t);
	f->start[f->frames] = f->bytes.len;
	CHECK(buf_add(&f->bytes, bytes, sizeof bytes) == 0);
}

static inline void forge_final_with(struct forge *f, const void *raw, size_t n)
{
	struct trailer t = { f->chain.number, f->bytes.len, f->chain.c };

	forge_frame(f, CHAIN_FINAL, 0, raw, n);
	forge_trailer(f, &t);
}

static inline void forge_final(struct forge *f)
{
	struct buf raw = BUF_INIT;

	CHECK(ledger_put(&f->ledger, &raw) == 0);
	forge_final_with(f, raw.data, raw.len);
	buf_release(&raw);
}

static inline void forge_end(struct forge *f)
{
	forge_index(f);
	forge_final(f);
}

static inline void forge_good(struct forge *f, uint8_t seed)
{
	forge_init(f, seed);
	forge_header(f, text);
	forge_values(f, 0, 3);
	forge_values(f, 3, 2);
	forge_data(f, 1, 0, 1, "\x07", 1);
	forge_end(f);
}

/* ---- reading, with everything that is handed out compared ---- */

static inline int slice_is_right(const struct frame_slice *s)
{
	if (s->tensor == 0)
		return s->first + s->n <= ELEMENTS &&
			memcmp(s->value, values + s->first, s->n * sizeof *values) == 0;
	return s->tensor == 1 && s->n == 1 && *(const uint8_t *)s->elements == 7;
}

static inline int fd_of(const void *bytes, size_t n)
{
	int fd = memfd_create("forge", 0);

	CHECK(fd_write(fd, bytes, n) == 0);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* The code that a reader of all ends with; says so when a slice is not what was written. */
static inline int stream(const void *bytes, size_t n)
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

static inline int seek_all(struct frame_reader *r)
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

static inline int seek(const void *bytes, size_t n)
{
	struct frame_reader *r = NULL;
	int fd = fd_of(bytes, n), rc = frame_open(&r, fd, "x", NULL, NULL);

	if (rc == 0)
		rc = seek_all(r);
	frame_reader_free(r);
	close(fd);
	return rc;
}

#endif
