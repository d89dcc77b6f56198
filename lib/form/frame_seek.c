/* The seekable half of reading in frame.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "form/lanes.h"
#include "form/reader.h"
#include "io/fd.h"

struct frame_scratch {
	struct block block;
	struct zs zs;
	struct block lane[LANES]; /* images only: frames that are hashed together */
};

int frame_scratch_new(struct frame_scratch **out)
{
	struct frame_scratch *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return err_nomem();
	if ((rc = block_init(&s->block)) < 0) {
		frame_scratch_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void frame_scratch_free(struct frame_scratch *s)
{
	if (!s)
		return;
	block_release(&s->block);
	zs_release(&s->zs);
	for (int i = 0; i < LANES; i++)
		block_release(&s->lane[i]);
	free(s);
}

/* Frame `number` at `offset`, as it is in the file. */
static int fetch(const struct frame_reader *r, struct block *b, uint64_t number, uint64_t offset)
{
	int rc;

	b->number = number;
	b->offset = offset;
	if ((rc = block_load(b, r->fd, true)) < 0)
		return rc;
	return rc > 0 ? 0 : err_set(ERR_AUTH, "truncated: ends before the frame");
}

/* The same, hashed but not verified. */
static int load(const struct frame_reader *r, struct block *b, uint64_t number, uint64_t offset)
{
	int rc = fetch(r, b, number, offset);

	if (rc == 0)
		block_hash(b);
	return rc;
}

/* Unpacks what was loaded, if its h is the one that a sealed frame vouches for. */
static int unpack_known(struct frame_scratch *s, const digest *h)
{
	if (memcmp(s->block.h.b, h->b, SIG_DIGEST) != 0)
		return err_set(ERR_AUTH, "seal does not verify"); /* nor could its own, over this h */
	return block_unpack(&s->block, &s->zs);
}

static int load_known(const struct frame_reader *r, struct frame_scratch *s, uint64_t number,
	uint64_t offset, const digest *h)
{
	int rc = load(r, &s->block, number, offset);

	return rc < 0 ? rc : unpack_known(s, h);
}

/* *size: of the file, which is asked for once: a call that fails later is no damage. */
static int read_trailer(const struct frame_reader *r, struct trailer *t, uint64_t *size)
{
	uint8_t bytes[CHAIN_TRAILER];
	ssize_t got;

	if (!fd_regular(r->fd, size))
		return err_set(ERR_IO, "not a regular file, so it cannot be read out of order");
	if (*size < CHAIN_PREAMBLE + CHAIN_TRAILER)
		return err_set(ERR_AUTH, "truncated: has no trailer");
	got = fd_read_at(r->fd, bytes, sizeof bytes, *size - CHAIN_TRAILER);
	if (got < 0)
		return (int)got;
	trailer_get(t, bytes);
	if (got < CHAIN_TRAILER || t->offset >= *size - CHAIN_TRAILER ||
		t->number > t->offset / (CHAIN_PRELUDE + SIG_SEAL)) /* more frames than have room before it */
		return err_set(ERR_AUTH, "truncated or damaged: no trailer at its end");
	return 0;
}

/* The final frame is verified by its own seal over a C that follows from the one in the trailer. */
static int read_final(struct frame_reader *r, struct frame_scratch *s, const struct trailer *t, uint64_t size,
	struct ledger *l)
{
	struct chain chain = { t->before, t->number };
	struct block *b = &s->block;
	int rc;

	if ((rc = load(r, b, t->number, t->offset)) < 0)
		return rc;
	chain_add(&chain, &b->h);
	b->c = chain.c;
	if ((rc = block_open(b, &s->zs, &r->signer)) < 0)
		return rc;
	if (b->p.kind != CHAIN_FINAL)
		return err_set(ERR_DATA, "not a final frame");
	if (b->offset + block_size(b) != size - CHAIN_TRAILER)
		return err_set(ERR_AUTH, "damaged: bytes between final frame and trailer");
	if ((rc = ledger_get(l, b->raw, b->p.raw)) < 0)
		return rc;
	if (l->data > UINT32_MAX || l->headers + l->data + l->indexes != t->number ||
		l->headers != r->ledger.headers ||
		memcmp(l->marks, r->ledger.marks, (size_t)l->headers * sizeof *l->marks) != 0)
		return err_set(ERR_DATA, "final frame does not agree with the header");
	r->id = chain.c;
	r->bytes = size;
	return 0;
}

/* The entries of one index frame, *n of them being there already. */
static int add_entries(struct frame_reader *r, const struct block *b, struct progress *at,
	uint64_t *n, uint64_t most)
{
	struct cursor c = cursor_over(b->raw, b->p.raw);
	int rc;

	if (b->p.kind != CHAIN_INDEX || b->p.raw % LEDGER_ENTRY != 0 ||
		b->p.raw / LEDGER_ENTRY > most - *n)
		return err_set(ERR_DATA, "not the index that the final frame announces");
	while (cursor_left(&c) > 0) {
		struct entry e = entry_get(&c);

		if ((rc = progress_add(at, &r->header.tensors, e.tensor, e.first, e.count)) < 0)
			return rc;
		r->slice_of[e.tensor + 1]++;
		r->entry[(*n)++] = e;
	}
	return 0;
}

static int read_index(struct frame_reader *r, struct frame_scratch *s, const struct ledger *l)
{
	const struct mark *m = l->marks + l->headers;
	struct progress at = { 0, 0 };
	uint64_t n = 0;
	int rc;

	if (l->data > l->indexes * (CHAIN_RAW / LEDGER_ENTRY))
		return err_set(ERR_DATA, "%s: more frames than its index has room for", r->name);
	r->entry = calloc((size_t)l->data + 1, sizeof *r->entry);
	r->slice_of = calloc(r->header.tensors.n + 1, sizeof *r->slice_of);
	if (!r->entry || !r->slice_of)
		return err_nomem();
	for (uint64_t i = 0; i < l->indexes; i++) {
		uint64_t number = l->headers + l->data + i;

		if ((rc = load_known(r, s, number, m[i].offset, &m[i].h)) < 0 ||
			(rc = add_entries(r, &s->block, &at, &n, l->data)) < 0)
			return reader_error(r, rc, number);
	}
	if (n != l->data || at.tensor != r->header.tensors.n)
		return err_set(ERR_DATA, "%s: index is not complete", r->name);
	for (size_t t = 0; t < r->header.tensors.n; t++)
		r->slice_of[t + 1] += r->slice_of[t];
	return 0;
}

/* The seal of a frame that was verified by its h. */
static int check_seal(const struct frame_reader *r, struct frame_scratch *s, uint64_t number,
	uint64_t offset, const digest *c)
{
	int rc = load(r, &s->block, number, offset);

	if (rc == 0 && !block_sealed(&s->block, c, &r->signer))
		rc = err_set(ERR_AUTH, "seal does not verify");
	return rc < 0 ? reader_error(r, rc, number) : 0;
}

/* All h are known now: do they lead to the C that was signed last? Then this reader and a streaming
 * one see the same file, whoever made it. */
static int check_chain(const struct frame_reader *r, struct frame_scratch *s,
	const struct ledger *l, const digest *before)
{
	struct chain chain;
	int rc = 0;

	chain_start(&chain, &r->signer);
	for (uint64_t i = 0; i < l->headers; i++)
		chain_add(&chain, &l->marks[i].h);
	for (uint64_t i = 0; i < l->data; i++)
		chain_add(&chain, &r->entry[i].h);
	for (uint64_t i = 0; i < l->indexes && rc == 0; i++) {
		const struct mark *m = &l->marks[l->headers + i];

		chain_add(&chain, &m->h);
		rc = check_seal(r, s, l->headers + l->data + i, m->offset, &chain.c);
	}
	if (rc < 0)
		return rc;
	if (memcmp(chain.c.b, before->b, SIG_DIGEST) != 0)
		return err_set(ERR_AUTH, "%s: damaged: its frames are not one chain", r->name);
	return 0;
}

static int load_tables(struct frame_reader *r, struct frame_scratch *s)
{
	struct ledger l = { 0 };
	struct trailer t;
	uint64_t size;
	int rc;

	if ((rc = read_trailer(r, &t, &size)) < 0)
		return err_at(rc, "%s", r->name);
	if ((rc = read_final(r, s, &t, size, &l)) < 0)
		reader_error(r, rc, t.number);
	else if ((rc = read_index(r, s, &l)) == 0)
		rc = check_chain(r, s, &l, &t.before);
	ledger_release(&l);
	return rc;
}

int frame_seekable(struct frame_reader *r)
{
	struct frame_scratch *s = NULL;
	int rc;

	if (r->entry)
		return 0;
	if ((rc = frame_scratch_new(&s)) < 0)
		return rc;
	rc = load_tables(r, s);
	frame_scratch_free(s);
	if (rc < 0) {
		free(r->entry);
		free(r->slice_of);
		r->entry = NULL;
		r->slice_of = NULL;
		return rc;
	}
	r->identified = true;
	if (!r->ended) /* where it was in the file is gone with what was read ahead */
		err_save(&r->failure, err_set(ERR_USAGE, "%s: opened for random access", r->name));
	gang_release(&r->gang); /* many open files take little memory */
	return 0;
}

int frame_strict(struct frame_reader *r)
{
	uint64_t n = r->slice_of ? r->slice_of[r->header.tensors.n] : 0;
	struct chain chain;

	if (!r->entry)
		return err_set(ERR_USAGE, "%s: not opened for random access", r->name);
	if (r->sealed)
		return 0;
	if (!(r->sealed = calloc((size_t)n + 1, sizeof *r->sealed)))
		return err_nomem();
	chain_start(&chain, &r->signer);
	for (uint64_t i = 0; i < r->ledger.headers; i++)
		chain_add(&chain, &r->ledger.marks[i].h);
	for (uint64_t i = 0; i < n; i++) {
		chain_add(&chain, &r->entry[i].h);
		r->sealed[i] = chain.c;
	}
	return 0;
}

uint32_t frame_slices(const struct frame_reader *r, uint32_t tensor)
{
	if (!r->entry || tensor >= r->header.tensors.n)
		return 0;
	return (uint32_t)(r->slice_of[tensor + 1] - r->slice_of[tensor]);
}

static uint64_t number_of(const struct frame_reader *r, const struct entry *e)
{
	return r->ledger.headers + (uint64_t)(e - r->entry);
}

/* The slice that was loaded, verified and decoded. */
static int open_slice(const struct frame_reader *r, struct frame_scratch *s, const struct entry *e)
{
	const struct frame_slice *have = &s->block.slice;
	int rc = unpack_known(s, &e->h);

	if (rc == 0 && r->sealed &&
		!block_sealed(&s->block, &r->sealed[e - r->entry], &r->signer))
		rc = err_set(ERR_AUTH, "seal does not verify");
	if (rc == 0 && (rc = block_decode(&s->block, &r->header.tensors)) == 0 &&
		(have->tensor != e->tensor || have->first != e->first || have->n != e->count))
		rc = err_set(ERR_DATA, "not the slice that the index announces");
	return rc;
}

static int read_slice(const struct frame_reader *r, struct frame_scratch *s, const struct entry *e,
	struct frame_slice *out)
{
	int rc = load(r, &s->block, number_of(r, e), e->offset);

	if (rc < 0 || (rc = open_slice(r, s, e)) < 0)
		return reader_error(r, rc, number_of(r, e));
	*out = s->block.slice;
	return 0;
}

int frame_slice_at(const struct frame_reader *r, struct frame_scratch *scratch, uint32_t tensor,
	uint32_t slice, struct frame_slice *out)
{
	if (slice >= frame_slices(r, tensor))
		return err_set(ERR_DATA, "%s: has no slice %" PRIu32 " of tensor %" PRIu32, r->name,
			slice, tensor);
	return read_slice(r, scratch, &r->entry[r->slice_of[tensor] + slice], out);
}

static int entry_with(const struct frame_reader *r, uint32_t tensor, uint64_t at,
	const struct entry **out)
{
	uint32_t low = 0, high = frame_slices(r, tensor);
	const struct entry *e = high ? &r->entry[r->slice_of[tensor]] : NULL;

	if (!e || at >= r->header.tensors.v[tensor].count)
		return err_set(ERR_DATA, "%s: has no element %" PRIu64 " of tensor %" PRIu32,
			r->name, at, tensor);
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		*(e[middle].first <= at ? &low : &high) = middle;
	}
	*out = e + low;
	return 0;
}

int frame_slice_with(const struct frame_reader *r, struct frame_scratch *scratch, uint32_t tensor,
	uint64_t at, struct frame_slice *out)
{
	const struct entry *e;
	int rc = entry_with(r, tensor, at, &e);

	return rc < 0 ? rc : read_slice(r, scratch, e, out);
}

/* ---- several files ---- */

static int lanes_new(struct frame_scratch *s)
{
	for (int i = 0; i < LANES; i++)
		if (!s->lane[i].image && !(s->lane[i].image = block_image()))
			return err_nomem();
	return 0;
}

/* The frame in a lane becomes the one to be opened. Its image is all that a lane has. */
static void take_lane(struct frame_scratch *s, struct block *lane)
{
	uint8_t *image = s->block.image;

	s->block.image = lane->image;
	lane->image = image;
	s->block.number = lane->number;
	s->block.offset = lane->offset;
	s->block.p = lane->p;
	s->block.h = lane->h;
}

int frame_slices_with(const struct frame_reader *const r[], size_t n, struct frame_scratch *s,
	uint32_t tensor, uint64_t at, frame_taker *take, void *ctx)
{
	const struct entry *e[LANES];
	struct block *lane[LANES];
	size_t whose[LANES], m = 0;
	int rc = lanes_new(s);

	if (rc < 0)
		return rc;
	for (size_t k = 0; k < n; k++) {
		lane[m] = &s->lane[m];
		whose[m] = k;
		if ((rc = entry_with(r[k], tensor, at, &e[m])) == 0 &&
			(rc = fetch(r[k], lane[m], number_of(r[k], e[m]), e[m]->offset)) < 0)
			reader_error(r[k], rc, number_of(r[k], e[m]));
		if (rc < 0)
			take(ctx, k, rc, NULL);
		else
			m++;
	}
	block_hash_many(lane, m);
	for (size_t i = 0; i < m; i++) {
		const struct frame_reader *from = r[whose[i]];

		take_lane(s, lane[i]);
		if ((rc = open_slice(from, s, e[i])) < 0)
			reader_error(from, rc, number_of(from, e[i]));
		take(ctx, whose[i], rc, rc < 0 ? NULL : &s->block.slice);
	}
	return 0;
}
