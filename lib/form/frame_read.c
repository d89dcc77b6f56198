/* The streaming half of reading in frame.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "form/reader.h"
#include "io/fd.h"

#define BATCHES 3 /* see step_together */

int reader_error(const struct frame_reader *r, int code, uint64_t number)
{
	return err_at(err_at(code, "frame %" PRIu64, number), "%s", r->name);
}

/* Fills the batch. What ends it early is kept for later: first come the frames before it. Nothing
 * is loaded after a frame that calls itself final, however that turns out. */
static void load(struct frame_reader *r, struct batch *batch, int most)
{
	for (batch->n = 0; batch->n < most && r->pending.code == 0 && !r->final; batch->n++) {
		struct block *b = &batch->block[batch->n];
		int rc;

		b->number = r->number;
		b->offset = r->offset;
		rc = block_load(b, r->fd, false);
		if (rc == 0)
			rc = err_set(ERR_AUTH, "truncated: ends before the frame");
		if (rc < 0) {
			reader_error(r, rc, b->number);
			err_save(&r->pending, rc);
			break;
		}
		r->number++;
		r->offset += block_size(b);
		r->final = b->p.kind == CHAIN_FINAL;
	}
}

static void add_to_chain(struct frame_reader *r, struct batch *batch)
{
	for (int i = 0; i < batch->n; i++) {
		struct block *b = &batch->block[i];

		b->before = r->chain.c;
		chain_add(&r->chain, &b->h);
		b->c = r->chain.c;
	}
}

static int open_block(const struct frame_reader *r, struct block *b, int thread)
{
	int rc = block_open(b, &r->gang.zs[thread], &r->signer);

	if (rc == 0 && b->p.kind == CHAIN_DATA && r->headed)
		rc = block_decode(b, &r->header.tensors);
	return rc < 0 ? reader_error(r, rc, b->number) : 0;
}

/* One frame from the file to the hand. */
static int step_alone(struct frame_reader *r)
{
	struct batch *batch = r->opened;

	load(r, batch, 1);
	if (batch->n == 0)
		return 0;
	block_hash(&batch->block[0]);
	add_to_chain(r, batch);
	return open_block(r, &batch->block[0], 0);
}

static int step_job(void *ctx, int i, int thread)
{
	struct frame_reader *r = ctx;

	int parts = batch_parts(r->hashed);

	if (i == 0)
		load(r, r->loaded, r->gang.size);
	else if (i <= parts)
		batch_hash(r->hashed, i - 1);
	else
		return open_block(r, &r->opened->block[i - 1 - parts], thread);
	return 0;
}

/*
 * Three batches move through the file behind each other: while one is loaded, one is hashed, and
 * one, whose place in the chain is known from the step before, is verified and decoded. So threads
 * wait for each other once a step, and no frame is unpacked before its seal has been verified.
 */
static int step_together(struct frame_reader *r)
{
	struct batch *spent = r->opened;
	int rc;

	r->opened = r->hashed;
	r->hashed = r->loaded;
	r->loaded = spent;
	rc = pool_run(r->gang.pool, step_job, r, 1 + batch_parts(r->hashed) + r->opened->n);
	add_to_chain(r, r->hashed);
	return rc;
}

/* More frames, verified and decoded, or what has ended the file too early. In the header nothing is
 * loaded ahead, for nobody knows yet whether what follows it is for us. */
static int next_batch(struct frame_reader *r)
{
	bool together = r->headed && r->gang.batches > 1;
	int rc;

	r->next = 0;
	do
		rc = together ? step_together(r) : step_alone(r);
	while (rc == 0 && together && r->opened->n == 0 && (r->hashed->n > 0 || r->loaded->n > 0));
	return rc == 0 && r->opened->n == 0 ? err_restore(&r->pending) : rc;
}

/* ---- opening ---- */

int frame_claim(int fd, struct sig_public *signer)
{
	uint8_t preamble[CHAIN_PREAMBLE];
	ssize_t got = fd_read_at(fd, preamble, sizeof preamble, 0);

	return got < 0 ? (int)got : preamble_get(signer, preamble, (size_t)got);
}

static int read_preamble(struct frame_reader *r, const struct trust *trust)
{
	uint8_t preamble[CHAIN_PREAMBLE];
	ssize_t got = fd_read(r->fd, preamble, sizeof preamble);
	int rc = got < 0 ? (int)got : preamble_get(&r->signer, preamble, (size_t)got);

	if (rc == 0 && trust)
		rc = trust_judge(trust, &r->signer, NULL);
	if (rc < 0)
		return err_at(rc, "%s", r->name);
	chain_start(&r->chain, &r->signer);
	r->offset = r->bytes = sizeof preamble;
	return 0;
}

/* One header frame; the first one tells whether the others are for us. */
static int add_header(struct frame_reader *r, const struct block *b, struct buf *text)
{
	int rc;

	if (b->p.kind != CHAIN_HEADER)
		return err_set(ERR_DATA, "not a header frame");
	if (text->len == 0 && (rc = header_version((const char *)b->raw, b->p.raw)) < 0)
		return rc;
	if (b->p.raw > HEADER_BYTES - text->len)
		return err_set(ERR_DATA, "header is longer than %zu bytes", HEADER_BYTES);
	if ((rc = buf_add(text, b->raw, b->p.raw)) < 0)
		return rc;
	r->bytes += block_size(b);
	return ledger_mark(&r->ledger, CHAIN_HEADER, b->offset, &b->h);
}

static int read_header(struct frame_reader *r)
{
	struct buf text = BUF_INIT;
	struct block *b = &r->opened->block[0];
	int rc;

	do {
		if ((rc = next_batch(r)) < 0)
			goto out;
		if ((rc = add_header(r, b, &text)) < 0) {
			reader_error(r, rc, b->number);
			goto out;
		}
	} while (!(b->p.flags & CHAIN_LAST));
	r->next = r->opened->n = 0; /* nothing to hand out */
	if ((rc = header_parse(&r->header, text.data, text.len)) < 0)
		err_at(err_at(rc, "header"), "%s", r->name);
out:
	buf_release(&text);
	return rc;
}

static int start(struct frame_reader *r)
{
	int rc;

	r->opened = &r->gang.batch[0];
	r->hashed = &r->gang.batch[1];
	r->loaded = &r->gang.batch[2];
	if ((rc = read_header(r)) < 0)
		return rc;
	r->headed = true;
	sig_hash_init(&r->entries);
	sig_hash_init(&r->index);
	return 0;
}

int frame_begins(int fd, uint64_t offset)
{
	uint8_t first[CHAIN_MAGIC];
	ssize_t n = fd_read_at(fd, first, sizeof first, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n == sizeof first && preamble_sealed(first);
}

int frame_open(struct frame_reader **out, int fd, const char *name, const struct trust *trust,
	struct pool *pool)
{
	struct frame_reader *r = calloc(1, sizeof *r);
	int rc;

	if (!r || !(r->name = strdup(name))) {
		free(r);
		return err_nomem();
	}
	r->fd = fd;
	if ((rc = sig_init()) < 0 || (rc = read_preamble(r, trust)) < 0 ||
		(rc = gang_init(&r->gang, pool, BATCHES)) < 0 || (rc = start(r)) < 0) {
		frame_reader_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

void frame_reader_free(struct frame_reader *r)
{
	if (!r)
		return;
	gang_release(&r->gang);
	header_release(&r->header);
	ledger_release(&r->ledger);
	free(r->entry);
	free(r->slice_of);
	free(r->sealed);
	free(r->name);
	free(r);
}

const struct header *frame_header(const struct frame_reader *r)
{
	return &r->header;
}

const struct sig_public *frame_signer(const struct frame_reader *r)
{
	return &r->signer;
}

const char *frame_name(const struct frame_reader *r)
{
	return r->name;
}

uint64_t frame_bytes(const struct frame_reader *r)
{
	return r->bytes;
}

int frame_id(const struct frame_reader *r, digest *id)
{
	if (!r->identified)
		return err_set(ERR_DATA, "%s: has no identity before its end is read", r->name);
	*id = r->id;
	return 0;
}

/* ---- going through ---- */

static int take_data(struct frame_reader *r, const struct block *b, struct frame_slice *s)
{
	struct entry e = { b->slice.tensor, b->slice.n, b->slice.first, b->offset, b->h };
	uint8_t bytes[LEDGER_ENTRY];
	int rc;

	if (r->ledger.indexes > 0)
		return err_set(ERR_DATA, "data after the index");
	if ((rc = progress_add(&r->at, &r->header.tensors, e.tensor, e.first, e.count)) < 0)
		return rc;
	entry_put(bytes, &e);
	sig_hash_add(&r->entries, bytes, sizeof bytes);
	r->ledger.data++;
	*s = b->slice;
	return 1;
}

static int take_index(struct frame_reader *r, const struct block *b)
{
	if (b->p.raw % LEDGER_ENTRY != 0)
		return err_set(ERR_DATA, "index is broken in the middle of an entry");
	sig_hash_add(&r->index, b->raw, b->p.raw);
	return ledger_mark(&r->ledger, CHAIN_INDEX, b->offset, &b->h);
}

/* Is the end in line with what came before? */
static int check_final(struct frame_reader *r, const struct block *b)
{
	struct buf want = BUF_INIT;
	digest entries, index;
	int rc = ledger_put(&r->ledger, &want);

	sig_hash_end(&r->entries, &entries);
	sig_hash_end(&r->index, &index);
	if (rc == 0 && r->at.tensor < r->header.tensors.n)
		rc = err_set(ERR_DATA, "tensor '%s' is not complete",
			r->header.tensors.v[r->at.tensor].name);
	if (rc == 0 && memcmp(entries.b, index.b, SIG_DIGEST) != 0)
		rc = err_set(ERR_DATA, "index does not agree with the data");
	if (rc == 0 && (want.len != b->p.raw || memcmp(want.data, b->raw, want.len) != 0))
		rc = err_set(ERR_DATA, "final frame does not agree with those before it");
	buf_release(&want);
	return rc;
}

/* The trailer is not signed, but there is only one that is right. */
static int check_trailer(struct frame_reader *r, const struct block *b)
{
	struct trailer t = { b->number, b->offset, b->before };
	uint8_t want[CHAIN_TRAILER], have[CHAIN_TRAILER + 1];
	ssize_t got = fd_read(r->fd, have, sizeof have);

	if (got < 0)
		return (int)got;
	if (got < CHAIN_TRAILER)
		return err_set(ERR_AUTH, "truncated: ends inside the trailer");
	trailer_put(want, &t);
	if (memcmp(want, have, CHAIN_TRAILER) != 0)
		return err_set(ERR_AUTH, "damaged: the trailer is not right");
	if (got > CHAIN_TRAILER)
		return err_set(ERR_AUTH, "damaged: more bytes follow its end");
	return 0;
}

static int take_final(struct frame_reader *r, const struct block *b)
{
	int rc = check_final(r, b);

	if (rc < 0)
		return reader_error(r, rc, b->number);
	if ((rc = check_trailer(r, b)) < 0)
		return err_at(rc, "%s", r->name);
	r->id = b->c;
	r->identified = r->ended = true;
	r->bytes = b->offset + block_size(b) + CHAIN_TRAILER;
	return 0;
}

/* 1 with a slice, 0 to go on, or an error. */
static int take(struct frame_reader *r, const struct block *b, struct frame_slice *s)
{
	int rc;

	if (b->p.kind == CHAIN_FINAL)
		return take_final(r, b);
	if (b->p.kind == CHAIN_DATA)
		rc = take_data(r, b, s);
	else if (b->p.kind == CHAIN_INDEX)
		rc = take_index(r, b);
	else
		rc = err_set(ERR_DATA, "header frame after the header");
	if (rc < 0)
		return reader_error(r, rc, b->number);
	r->bytes = b->offset + block_size(b);
	return rc;
}

int frame_next(struct frame_reader *r, struct frame_slice *s)
{
	int rc = r->failure.code < 0 ? err_restore(&r->failure) : 0;

	while (rc == 0 && !r->ended) {
		if (r->next == r->opened->n)
			rc = next_batch(r);
		else
			rc = take(r, &r->opened->block[r->next++], s);
	}
	if (rc < 0)
		err_save(&r->failure, rc);
	return rc;
}
