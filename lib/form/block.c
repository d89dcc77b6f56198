#include "form/block.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "form/codec.h"
#include "form/lanes.h"
#include "io/fd.h"

uint8_t *block_image(void)
{
	return malloc(CHAIN_PRELUDE + CHAIN_STORED + SIG_SEAL);
}

int block_init(struct block *b)
{
	*b = (struct block){ 0 };
	b->image = block_image();
	b->raw = malloc(CHAIN_RAW);
	b->plain = malloc(CHAIN_RAW);
	return b->image && b->raw && b->plain ? 0 : err_nomem();
}

void block_release(struct block *b)
{
	free(b->image);
	free(b->raw);
	free(b->plain);
	*b = (struct block){ 0 };
}

size_t block_size(const struct block *b)
{
	return CHAIN_PRELUDE + (size_t)b->p.stored + SIG_SEAL;
}

/* Bytes that an element takes in `plain`. */
static size_t plain_size(const struct tensor *t)
{
	return t->enc == ENC_F32R ? 2 * sizeof(float) : dtype_size(t->dtype);
}

size_t block_elems(const struct tensor *t)
{
	size_t plain = CHAIN_RAW / plain_size(t),
	       raw = (CHAIN_RAW - BLOCK_SLICE) / codec_size(t, 1);

	return plain < raw ? plain : raw;
}

float *block_rest(const struct block *b)
{
	return (float *)(void *)(b->plain + CHAIN_RAW / 2);
}

void block_encode(struct block *b, const struct tensor *t)
{
	const struct frame_slice *s = &b->slice;
	uint8_t *to = b->raw + BLOCK_SLICE;

	le32_put(b->raw, s->tensor);
	le32_put(b->raw + 4, 0);
	le64_put(b->raw + 8, s->first);
	le32_put(b->raw + 16, s->n);
	le32_put(b->raw + 20, 0);
	if (t->enc == ENC_PLAIN)
		codec_order(t, to, s->elements, s->n);
	else
		codec_encode(t, to, s->value, s->rest, s->n);
	b->p = (struct prelude){ .kind = CHAIN_DATA };
	b->p.raw = (uint32_t)(BLOCK_SLICE + codec_size(t, s->n));
}

int block_pack(struct block *b, struct zs *zs, size_t plane)
{
	uint8_t *to = b->image + CHAIN_PRELUDE;
	size_t stored = CHAIN_STORED;
	int rc;

	if (plane)
		rc = zs_pack_planes(zs, to, &stored, b->raw, b->p.raw, BLOCK_SLICE, plane);
	else
		rc = zs_pack(zs, to, &stored, b->raw, b->p.raw);
	if (rc < 0)
		return rc;
	b->p.stored = (uint32_t)stored;
	prelude_put(b->image, &b->p);
	return 0;
}

void block_hash(struct block *b)
{
	chain_hash(&b->h, b->number, b->image, CHAIN_PRELUDE + (size_t)b->p.stored);
}

void block_hash_many(struct block *const b[], size_t n)
{
	struct chain_frame f[LANES] = { { 0 } };
	digest h[LANES];

	for (size_t i = 0; i < n; i++)
		f[i] = (struct chain_frame){ b[i]->number, b[i]->image,
			CHAIN_PRELUDE + (size_t)b[i]->p.stored };
	chain_hash_many(h, f, n);
	for (size_t i = 0; i < n; i++)
		b[i]->h = h[i];
}

void block_sign(struct block *b, const struct sig_secret *key)
{
	sig_sign(b->image + CHAIN_PRELUDE + b->p.stored, &b->c, key);
}

int block_store(const struct block *b, int fd)
{
	return fd_write(fd, b->image, block_size(b));
}

static ssize_t load_part(const struct block *b, int fd, bool at, size_t from, size_t n)
{
	return at ? fd_read_at(fd, b->image + from, n, b->offset + from)
		  : fd_read(fd, b->image + from, n);
}

int block_load(struct block *b, int fd, bool at)
{
	ssize_t got = load_part(b, fd, at, 0, CHAIN_PRELUDE);
	size_t more;
	int rc;

	if (got <= 0)
		return (int)got;
	if (got < CHAIN_PRELUDE)
		return err_set(ERR_AUTH, "truncated: ends inside the frame");
	if ((rc = prelude_get(&b->p, b->image)) < 0)
		return rc;
	more = block_size(b) - CHAIN_PRELUDE;
	got = load_part(b, fd, at, CHAIN_PRELUDE, more);
	if (got < 0)
		return (int)got;
	return (size_t)got == more ? 1 : err_set(ERR_AUTH, "truncated: ends inside the frame");
}

bool block_sealed(const struct block *b, const digest *c, const struct sig_public *signer)
{
	return sig_verify(b->image + CHAIN_PRELUDE + b->p.stored, c, signer);
}

int block_open(struct block *b, struct zs *zs, const struct sig_public *signer)
{
	if (!block_sealed(b, &b->c, signer))
		return err_set(ERR_AUTH, "seal does not verify");
	return block_unpack(b, zs);
}

int block_unpack(struct block *b, struct zs *zs)
{
	bool last_allowed = b->p.kind == CHAIN_HEADER;

	if (b->p.kind < CHAIN_HEADER || b->p.kind > CHAIN_FINAL)
		return err_set(ERR_DATA, "unknown kind %u", b->p.kind);
	if ((b->p.flags & ~(last_allowed ? CHAIN_LAST : 0)) != 0 || b->p.zero != 0)
		return err_set(ERR_DATA, "unknown flags");
	return zs_unpack(zs, b->raw, b->p.raw, b->image + CHAIN_PRELUDE, b->p.stored);
}

static int slice_get(struct block *b, const struct tensors *ts)
{
	struct cursor c = cursor_over(b->raw, b->p.raw);
	struct frame_slice *s = &b->slice;
	uint32_t zero;

	*s = (struct frame_slice){ .tensor = cursor_u32(&c) };
	zero = cursor_u32(&c);
	s->first = cursor_u64(&c);
	s->n = cursor_u32(&c);
	zero |= cursor_u32(&c);
	if (c.bad || zero != 0)
		return err_set(ERR_DATA, "not a slice of a tensor");
	if (s->tensor >= ts->n)
		return err_set(ERR_DATA, "values of tensor %" PRIu32 ", of %zu", s->tensor, ts->n);
	if (s->n == 0 || s->n > block_elems(&ts->v[s->tensor]) ||
		cursor_left(&c) != codec_size(&ts->v[s->tensor], s->n))
		return err_set(ERR_DATA, "slice of %" PRIu32 " elements in %" PRIu32 " bytes", s->n,
			b->p.raw);
	return 0;
}

int block_decode(struct block *b, const struct tensors *ts)
{
	struct frame_slice *s = &b->slice;
	const uint8_t *from = b->raw + BLOCK_SLICE;
	const struct tensor *t;
	int rc;

	if (b->p.kind != CHAIN_DATA)
		return err_set(ERR_DATA, "not a data frame");
	if ((rc = slice_get(b, ts)) < 0)
		return rc;
	t = &ts->v[s->tensor];
	if (t->enc == ENC_PLAIN) {
		codec_order(t, b->plain, from, s->n);
		s->elements = b->plain;
		return 0;
	}
	s->value = (const float *)(const void *)b->plain;
	s->rest = t->enc == ENC_F32R ? block_rest(b) : NULL;
	codec_decode(t, (float *)(void *)b->plain, t->enc == ENC_F32R ? block_rest(b) : NULL, from,
		s->n);
	return 0;
}
