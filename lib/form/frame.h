/*
 * frame - sealed files: the one reader and the one writer of the container of dl-frame(5).
 *
 *     file    = magic, signer, frame..., trailer
 *     magic   = 89 44 4c 53 0d 0a 1a 0a                        (8 bytes)
 *     signer  = Ed25519 public key                             (32 bytes)
 *     frame   = prelude, payload, seal
 *     prelude = kind u8, flags u8, zero u16, stored u32, raw u32     (12 bytes, little-endian)
 *     payload = one zstd frame of `stored` bytes that holds `raw` bytes, raw <= 1 MiB
 *     seal    = Ed25519 over C_i                                (64 bytes)
 *     trailer = number and offset of the final frame, C before it     (u64, u64, 32 bytes)
 *
 *     h_i = BLAKE2b-256("dl-frame-1" || u64 i || prelude || payload)
 *     C_i = BLAKE2b-256(C_(i-1) || h_i),  C_(-1) = BLAKE2b-256("dl-file-1" || signer)
 *
 * Kinds: 1 header (several, the last flagged), 2 data, 3 index (several), 4 final. Data: tensor
 * u32, zero u32, first element u64, count u32, zero u32, then codec bytes; slices of a tensor in
 * order, tensors in order of the table, nothing left out. Index and final frame: see ledger.h. With
 * the trailer a seekable reader verifies the final frame, through it the index, and then any frame
 * in any order.
 *
 * A file's identity is its last C. Files are reproducible: same header, values and key, same bytes.
 *
 * Errors of the reader begin with the name of the file, those of the writer do not. ERR_AUTH:
 * damaged, cut, put together from parts, not signed by somebody trusted. ERR_DATA: not a dl file,
 * or one that is sealed well but makes no sense to this version.
 *
 * Memory: 3 MiB a frame in flight: one without a pool, else 2 (writing) or 3 (reading) for each
 * thread, of at least four threads; plus 56 bytes a frame for writing and seekable reading.
 */
#ifndef FRAME_H
#define FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "form/header.h"
#include "form/sig.h"
#include "form/trust.h"

/* Elements of a slice that our writer makes: f32 fills 0.94 MiB; a multiple of all block sizes.
 * Integer tensors (shards) use FRAME_BYTES_INT raw bytes, small enough for random samples to be
 * cheap. */
#define FRAME_ELEMS 245760
#define FRAME_ELEMS_PAIR (FRAME_ELEMS / 2) /* f32r: 8 bytes an element */
#define FRAME_BYTES_INT 32768
size_t frame_slice_elems(const struct tensor *t); /* how many elements a full slice of t has */

/* ---- writing ---- */

struct frame_writer;

/* Seals with `key`. The header is copied and written at once. The pool (may be NULL) encodes
 * several frames at once; bytes do not depend on it. The descriptor stays the caller's. */
int frame_create(struct frame_writer **out, int fd, const struct header *h,
	const struct sig_secret *key, struct pool *pool) ERR_MUST;
/* The next n values of the file, running through the tensors in order; calls need not match slices,
 * but must not cross the end of a tensor. rest: remainders for f32r, else NULL. */
int frame_write(struct frame_writer *w, const float *value, const float *rest, size_t n) ERR_MUST;
/* Same for integer tensors: n elements, little-endian, dtype_size bytes each. */
int frame_write_int(struct frame_writer *w, const void *elements, size_t n) ERR_MUST;
/* Index, final frame, trailer. ERR_DATA when values are missing. *id (may be NULL) is the identity.
 * Without frame_finish the file stays visibly incomplete. */
int frame_finish(struct frame_writer *w, digest *id) ERR_MUST;
void frame_writer_free(struct frame_writer *w);

/* ---- reading ---- */

struct frame_reader;

/* A verified, decoded piece of one tensor. Pointers are valid until the next call on the reader. */
struct frame_slice {
	uint32_t tensor;
	uint64_t first;
	uint32_t n;
	const float *value, *rest; /* floats; rest NULL unless f32r */
	const void *elements;      /* integers */
};

/* 1: the bytes from `offset` on are, or claim to be, a sealed file. */
int frame_begins(int fd, uint64_t offset) ERR_MUST;
/* Reads and verifies magic and header, in this order: is it a dl file, is its signer trusted, does
 * the seal verify, is its format known. `name` is for messages. trust NULL: anybody's seal will do,
 * as long as it verifies, and whose it is (frame_signer) is for the caller to judge. The descriptor
 * stays the caller's. */
int frame_open(struct frame_reader **out, int fd, const char *name, const struct trust *trust,
	struct pool *pool) ERR_MUST;
/* Whom a regular file names as its signer, which nothing has verified yet: for the words that tell why
 * it was refused. */
int frame_claim(int fd, struct sig_public *signer) ERR_MUST;
void frame_reader_free(struct frame_reader *r);
const struct header *frame_header(const struct frame_reader *r);
const struct sig_public *frame_signer(const struct frame_reader *r);
const char *frame_name(const struct frame_reader *r);

/* Streaming: 1 and a slice, or 0 at the verified end (final frame, index and trailer agree with
 * what was read, and nothing follows), or an error. Nothing unverified is ever handed out. */
int frame_next(struct frame_reader *r, struct frame_slice *s) ERR_MUST;
/* The identity; after frame_next returned 0, or after frame_seekable. */
int frame_id(const struct frame_reader *r, digest *id) ERR_MUST;
uint64_t frame_bytes(const struct frame_reader *r); /* read so far, or file size when seekable */

/* Random access, for regular files only: loads and verifies final frame and index. After it, the
 * number of slices of a tensor and any slice can be had in any order, from several threads at once,
 * each with its own frame_scratch; every read is verified by its h. Works on a reader fresh from
 * frame_open, which can't stream any more then, or after its end. It keeps 56 bytes a frame. */
int frame_seekable(struct frame_reader *r) ERR_MUST;
/* From now on random access checks each frame's own seal, too, at the price of one signature. Values
 * are authentic without; but damage to the seal itself would go unnoticed. */
int frame_strict(struct frame_reader *r) ERR_MUST;
uint32_t frame_slices(const struct frame_reader *r, uint32_t tensor);
struct frame_scratch;
int frame_scratch_new(struct frame_scratch **out) ERR_MUST;
void frame_scratch_free(struct frame_scratch *s);
int frame_slice_at(const struct frame_reader *r, struct frame_scratch *scratch, uint32_t tensor,
	uint32_t slice, struct frame_slice *out) ERR_MUST;
/* The slice that holds element `at` (all slices but a tensor's last are equally long in our files;
 * others are found by search). */
int frame_slice_with(const struct frame_reader *r, struct frame_scratch *scratch, uint32_t tensor,
	uint64_t at, struct frame_slice *out) ERR_MUST;

/*
 * As frame_slice_with, in n <= FRAME_MANY files at once: read one after the other, verified together,
 * which is twice as fast. Each gets its take, in any order: rc 0 and the slice, valid during the call,
 * or its error.
 */
#define FRAME_MANY 4
typedef void frame_taker(void *ctx, size_t k, int rc, const struct frame_slice *s);
int frame_slices_with(const struct frame_reader *const r[], size_t n, struct frame_scratch *scratch,
	uint32_t tensor, uint64_t at, frame_taker *take, void *ctx) ERR_MUST;

#endif
