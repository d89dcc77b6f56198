/* The writing half of frame.h. */
#include <stdlib.h>
#include <string.h>

#include "form/gang.h"
#include "form/ledger.h"
#include "io/fd.h"

struct frame_writer {
	int fd;
	struct sig_secret key;
	struct header header;
	struct gang gang;
	struct batch *filling; /* its block[n] is being filled */
	struct batch *waiting; /* packed, to be hashed, signed and stored; or NULL */
	struct progress at;    /* of the next value */
	struct chain chain;
	struct ledger ledger;
	struct buf index;      /* the entry of every data frame */
	uint64_t written;
	int failed; /* the first error: what follows it would have a hole */
};

size_t frame_slice_elems(const struct tensor *t)
{
	if (t->enc == ENC_PLAIN)
		return FRAME_BYTES_INT / dtype_size(t->dtype);
	return t->enc == ENC_F32R ? FRAME_ELEMS_PAIR : FRAME_ELEMS;
}

static const struct tensor *tensor_at(const struct frame_writer *w)
{
	return w->at.tensor < w->header.tensors.n ? &w->header.tensors.v[w->at.tensor] : NULL;
}

static int enter(struct frame_writer *w, const struct block *b)
{
	struct entry e = { b->slice.tensor, b->slice.n, b->slice.first, b->offset, b->h };
	uint8_t bytes[LEDGER_ENTRY];

	if (b->p.kind == CHAIN_FINAL)
		return 0;
	if (b->p.kind != CHAIN_DATA)
		return ledger_mark(&w->ledger, b->p.kind, b->offset, &b->h);
	w->ledger.data++;
	entry_put(bytes, &e);
	return buf_add(&w->index, bytes, sizeof bytes);
}

static int store(struct frame_writer *w, struct batch *batch)
{
	int rc;

	for (int i = 0; i < batch->n; i++)
		batch->block[i].number = w->chain.number + (uint64_t)i;
	for (int part = 0; part < batch_parts(batch); part++)
		batch_hash(batch, part);
	for (int i = 0; i < batch->n; i++) {
		struct block *b = &batch->block[i];

		b->before = w->chain.c;
		chain_add(&w->chain, &b->h);
		b->c = w->chain.c;
		block_sign(b, &w->key);
		b->offset = w->written;
		if ((rc = enter(w, b)) < 0 || (rc = block_store(b, w->fd)) < 0)
			return rc;
		w->written += block_size(b);
	}
	batch->n = 0;
	return 0;
}

static int pack(struct frame_writer *w, int i, int thread)
{
	struct block *b = &w->filling->block[i];
	const struct tensor *t;

	if (b->p.kind != CHAIN_DATA)
		return block_pack(b, &w->gang.zs[thread], 0);
	t = &w->header.tensors.v[b->slice.tensor];
	block_encode(b, t);
	return block_pack(b, &w->gang.zs[thread], t->enc == ENC_PLAIN ? 0 : b->slice.n);
}

static int store_or_pack(void *ctx, int i, int thread)
{
	struct frame_writer *w = ctx;

	if (w->waiting)
		i--;
	return i < 0 ? store(w, w->waiting) : pack(w, i, thread);
}

/* Packs the batch; it then waits to be hashed, signed and stored by one thread while the others pack
 * the next one. */
static int flush(struct frame_writer *w)
{
	struct batch *batch = w->filling;
	int rc = pool_run(w->gang.pool, store_or_pack, w, batch->n + (w->waiting != NULL));

	if (rc < 0)
		return rc;
	if (w->gang.batches == 1)
		return store(w, batch);
	w->filling = &w->gang.batch[batch == &w->gang.batch[0]];
	w->waiting = batch;
	return 0;
}

/* All that is there goes to the file. */
static int drain(struct frame_writer *w)
{
	int rc = flush(w);

	if (rc == 0 && w->waiting)
		rc = store(w, w->waiting);
	w->waiting = NULL;
	return rc;
}

/* One more block of the batch is filled. */
static int push(struct frame_writer *w)
{
	return ++w->filling->n == w->gang.size ? flush(w) : 0;
}

/* A text or table as frames of one kind. `unit`: pieces that a frame does not break. */
static int push_bytes(
	struct frame_writer *w, enum chain_kind kind, const struct buf *bytes, size_t unit)
{
	size_t most = CHAIN_RAW / unit * unit;
	int rc = 0;

	for (size_t at = 0; at < bytes->len && rc == 0; at += most) {
		size_t n = bytes->len - at < most ? bytes->len - at : most;
		struct block *b = &w->filling->block[w->filling->n];

		b->p = (struct prelude){ .kind = (uint8_t)kind, .raw = (uint32_t)n };
		if (kind == CHAIN_HEADER && at + n == bytes->len)
			b->p.flags = CHAIN_LAST;
		memcpy(b->raw, bytes->data + at, n);
		rc = push(w);
	}
	return rc == 0 ? drain(w) : rc;
}

static int start(struct frame_writer *w)
{
	uint8_t preamble[CHAIN_PREAMBLE];
	struct buf text = BUF_INIT;
	int rc;

	preamble_put(preamble, &w->key.pub);
	chain_start(&w->chain, &w->key.pub);
	if ((rc = header_format(&w->header, &text)) < 0 ||
		(rc = fd_write(w->fd, preamble, sizeof preamble)) < 0)
		goto out;
	w->written = sizeof preamble;
	rc = push_bytes(w, CHAIN_HEADER, &text, 1);
out:
	buf_release(&text);
	return rc;
}

int frame_create(struct frame_writer **out, int fd, const struct header *h,
	const struct sig_secret *key, struct pool *pool)
{
	struct frame_writer *w = calloc(1, sizeof *w);
	int rc;

	if (!w)
		return err_nomem();
	w->fd = fd;
	w->key = *key;
	w->filling = &w->gang.batch[0];
	if ((rc = sig_init()) < 0 || (rc = header_copy(&w->header, h)) < 0 ||
		(rc = gang_init(&w->gang, pool, 2)) < 0 || (rc = start(w)) < 0) {
		frame_writer_free(w);
		return rc;
	}
	*out = w;
	return 0;
}

void frame_writer_free(struct frame_writer *w)
{
	if (!w)
		return;
	gang_release(&w->gang);
	header_release(&w->header);
	ledger_release(&w->ledger);
	buf_release(&w->index);
	sig_secret_wipe(&w->key);
	free(w);
}

/* What the caller brings: floats, or integers of the tensor's size. */
struct source {
	const float *value, *rest;
	const uint8_t *elements;
};

static struct source source_at(const struct source *from, const struct tensor *t, size_t at)
{
	return (struct source){
		.value = from->value ? from->value + at : NULL,
		.rest = from->rest ? from->rest + at : NULL,
		.elements = from->elements ? from->elements + at * dtype_size(t->dtype) : NULL,
	};
}

/* n more elements into the memory of the block. */
static void copy_in(struct block *b, const struct tensor *t, const struct source *from, size_t n)
{
	size_t to = b->slice.n, size = dtype_size(t->dtype);

	memcpy(b->plain + to * size, from->elements ? from->elements : (const void *)from->value,
		n * size);
	if (t->enc == ENC_F32R && from->rest)
		memcpy(block_rest(b) + to, from->rest, n * size);
	else if (t->enc == ENC_F32R)
		memset(block_rest(b) + to, 0, n * size);
	b->slice.n += (uint32_t)n;
	b->slice.elements = from->elements ? b->plain : NULL;
	b->slice.value = from->value ? (const float *)(const void *)b->plain : NULL;
	b->slice.rest = t->enc == ENC_F32R ? block_rest(b) : NULL;
}

/* A whole slice is packed from where it is. */
static void borrow(struct block *b, const struct source *from, size_t n)
{
	b->slice.n = (uint32_t)n;
	b->slice.value = from->value;
	b->slice.rest = from->rest;
	b->slice.elements = from->elements;
}

/* Before the caller gets its memory back, what has been borrowed and not yet packed is copied. */
static void give_back(struct frame_writer *w)
{
	for (int i = 0; i < w->filling->n; i++) {
		struct block *b = &w->filling->block[i];
		const struct frame_slice *s = &b->slice;
		struct source from = { s->value, s->rest, s->elements };
		size_t n = s->n;

		if (s->elements == b->plain || s->value == (const float *)(const void *)b->plain)
			continue;
		b->slice.n = 0;
		copy_in(b, &w->header.tensors.v[s->tensor], &from, n);
	}
}

/* n elements that all belong to tensor t, into one block after the other. */
static int fill(struct frame_writer *w, const struct tensor *t, const struct source *from, size_t n)
{
	size_t most = frame_slice_elems(t);
	int rc;

	for (size_t done = 0; done < n;) {
		struct block *b = &w->filling->block[w->filling->n];
		struct source rest = source_at(from, t, done);
		size_t part = n - done;
		bool begins = w->at.first % most == 0;

		if (begins)
			b->slice = (struct frame_slice){ w->at.tensor, w->at.first, .n = 0 };
		b->p.kind = CHAIN_DATA;
		if (part > most - b->slice.n)
			part = most - b->slice.n;
		if (begins && (part == most || part == t->count - w->at.first))
			borrow(b, &rest, part);
		else
			copy_in(b, t, &rest, part);
		rc = progress_add(&w->at, &w->header.tensors, w->at.tensor, w->at.first, part);
		if (rc == 0 && w->at.first % most == 0) /* a slice is full, or the tensor done */
			rc = push(w);
		if (rc < 0)
			return rc;
		done += part;
	}
	give_back(w);
	return 0;
}

static int fail(struct frame_writer *w, int rc)
{
	if (rc < 0 && w->failed == 0)
		w->failed = rc;
	return rc;
}

static int may_write(const struct frame_writer *w, bool floats, size_t n)
{
	const struct tensor *t = tensor_at(w);

	if (w->failed < 0)
		return err_set(w->failed, "writing failed before");
	if (!t)
		return err_set(ERR_DATA, "more values than the header announces");
	if (floats != (t->enc != ENC_PLAIN))
		return err_set(ERR_DATA, "tensor '%s' takes values of type %s", t->name,
			dtype_name(t->dtype));
	if (n > t->count - w->at.first)
		return err_set(ERR_DATA, "more values than tensor '%s' has elements", t->name);
	return 0;
}

int frame_write(struct frame_writer *w, const float *value, const float *rest, size_t n)
{
	struct source from = { value, rest, NULL };
	int rc = may_write(w, true, n);

	if (rc < 0)
		return rc;
	if (rest && tensor_at(w)->enc != ENC_F32R)
		return err_set(
			ERR_DATA, "tensor '%s' has no room for remainders", tensor_at(w)->name);
	return fail(w, fill(w, tensor_at(w), &from, n));
}

int frame_write_int(struct frame_writer *w, const void *elements, size_t n)
{
	struct source from = { NULL, NULL, elements };
	int rc = may_write(w, false, n);

	return rc < 0 ? rc : fail(w, fill(w, tensor_at(w), &from, n));
}

/* The final frame, which tells about all before it, and the trailer, which tells where it is. */
static int write_end(struct frame_writer *w)
{
	struct trailer t = { w->chain.number, w->written, w->chain.c };
	uint8_t bytes[CHAIN_TRAILER];
	struct buf final = BUF_INIT;
	int rc = ledger_put(&w->ledger, &final);

	if (rc == 0 && final.len > CHAIN_RAW)
		rc = err_set(ERR_DATA, "too many frames for one file");
	if (rc == 0)
		rc = push_bytes(w, CHAIN_FINAL, &final, 1);
	buf_release(&final);
	if (rc < 0)
		return rc;
	trailer_put(bytes, &t);
	return fd_write(w->fd, bytes, sizeof bytes);
}

int frame_finish(struct frame_writer *w, digest *id)
{
	const struct tensor *t = tensor_at(w);
	int rc;

	if (w->failed < 0)
		return err_set(w->failed, "writing failed before");
	if (t)
		return err_set(ERR_DATA, "tensor '%s' is not complete", t->name);
	if ((rc = drain(w)) < 0 || (rc = push_bytes(w, CHAIN_INDEX, &w->index, LEDGER_ENTRY)) < 0 ||
		(rc = write_end(w)) < 0)
		return fail(w, rc);
	if (id)
		*id = w->chain.c;
	return 0;
}
