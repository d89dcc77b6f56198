/*
 * safetensors - files of that format, in which the field passes tensors around: read and written as
 * streams.
 *
 *     file   = u64 n, n bytes of header, data                  (little-endian, row-major)
 *     header = JSON: { "__metadata__": { KEY: TEXT, ... },
 *                      NAME: { "dtype": TYPE, "shape": [2, 3], "data_offsets": [BEGIN, END] }, ... }
 *
 * Offsets count from the beginning of the data, which the tensors fill without holes or overlaps, in
 * any order. Blanks may follow the JSON, so that the data begin at a multiple of 8.
 * https://github.com/huggingface/safetensors describes it.
 *
 * The reader refuses, before it allocates anything by what they say: a header that is empty, longer than
 * the file or than SAFETENSORS_HEADER; JSON that jsondoc refuses; a name that is given twice or is no
 * name of a tensor (tensor.h); types other than below; shapes that do not fit the offsets; offsets
 * that run backwards, overlap, leave holes, or end before or behind the file. Errors do not name the file.
 *
 * Memory: the header's text while it is read, then 200 bytes a tensor.
 */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/tensor.h"

#define SAFETENSORS_HEADER 100000000 /* bytes; the limit of other readers, too */

enum safetensors_type {
	SAFETENSORS_F32, SAFETENSORS_BF16, SAFETENSORS_F16, /* floats */
	SAFETENSORS_U8, SAFETENSORS_U16, SAFETENSORS_U32
};
const char *safetensors_type_name(enum safetensors_type t); /* "F32", "BF16", ... */
size_t safetensors_size(enum safetensors_type t); /* bytes of an element */
/* Option text "f32", "bf16" or "f16". ERR_USAGE. */
int safetensors_float_type(enum safetensors_type *out, const char *text) ERR_MUST;
/* What holds the values of a tensor of ours without loss: f32 as F32, or as BF16 when encoded so. */
enum safetensors_type safetensors_type_of(const struct tensor *t);

struct safetensors_part {
	enum safetensors_type type;
	uint64_t begin; /* of the data of the tensor, from the beginning of the file */
};
/* Zeroed memory is an empty one. */
struct safetensors {
	/* In the order of the data. Floats are of dtype f32, encoded bf16 when BF16 and else f32;
	 * integers are of their type. */
	struct tensors tensors;
	struct safetensors_part *part; /* (tensors.n) */
	/* Of the metadata, what a line of a header can hold; the rest is passed over. */
	struct conf metadata;
	/* while reading */
	int fd;
	bool regular;
	uint64_t at;   /* of a stream: bytes read */
	uint8_t *work; /* bytes on their way to becoming floats */
};
void safetensors_release(struct safetensors *s);

/* ---- reading ---- */

/* Reads the header from the beginning of the file or stream, which stays the caller's. */
int safetensors_open(struct safetensors *s, int fd) ERR_MUST;
/* The header alone, n bytes; `data` bytes follow it (UINT64_MAX: not known). For safetensors_open, and
 * for the fuzzer. */
int safetensors_parse(struct safetensors *s, const char *header, size_t n, uint64_t data) ERR_MUST;
/* n elements of tensor t from `first`: floats widened to float, or integers as they are, little-endian.
 * Of a stream only in the order of the data. ERR_DATA when the file ends before. */
int safetensors_floats(struct safetensors *s, size_t t, uint64_t first, float *out, size_t n) ERR_MUST;
int safetensors_integers(struct safetensors *s, size_t t, uint64_t first, void *out, size_t n) ERR_MUST;
/* ERR_DATA when a stream goes on after its last tensor. */
int safetensors_end(struct safetensors *s) ERR_MUST;

/* ---- writing ---- */

/* Appends one tensor to those that will be written. */
int safetensors_add(struct safetensors *s, const struct tensor *t, enum safetensors_type type) ERR_MUST;
/* Appends length and header to out: all that goes before the data of the tensors, which follow in their
 * order. Sets `begin` of each. */
int safetensors_header(struct safetensors *s, struct buf *out) ERR_MUST;
uint64_t safetensors_bytes(const struct safetensors *s); /* of all data */
/* Writes n values as the type has them; ERR_DATA when one is too large for it (finite, and would become
 * infinite), with its place counted from `first`. Through memory on the stack. */
int safetensors_put(int fd, enum safetensors_type type, uint64_t first, const float *value, size_t n)
	ERR_MUST;

#endif
