/*
 * gguf - the file format of llama.cpp, version 3: keys with values, and tensors. Its writer.
 *
 *     file    = "GGUF", version u32, tensors u64, keys u64, key..., tensor..., padding, data
 *     key     = name, type u32, value
 *     tensor  = name, rank u32, dim u64..., type u32, offset u64
 *     string  = length u64, bytes                             (names too; no NUL)
 *     array   = type u32, length u64, value...
 *
 * Little-endian. Dimensions stand innermost first: the shape (out, in) of a matrix is written in, out.
 * Offsets count from the data, which begin at a multiple of 32, and so does each tensor; tensors follow
 * one another in the order of the table, zeros between them. After ggml's docs/gguf.md.
 *
 * Types of a tensor: f32; f16 (IEEE binary16) and bf16, rounded to nearest even; q8_0: blocks of 32
 * values along a row, each a scale in f16, largest magnitude / 127, and 32 signed bytes.
 *
 * It needs memory for a few rows of a tensor, whatever its size, and for the table. The reader is of the tests:
 * tests/lib/gguf_read.h.
 */
#ifndef GGUF_H
#define GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/tensor.h"

#define GGUF_VERSION 3
#define GGUF_ALIGN 32
#define GGUF_NAME 64          /* longest name of a tensor */
#define GGUF_BLOCK 32         /* values of a block of q8_0 */
#define GGUF_ROW ((uint64_t)1 << 24) /* longest row that is written */

enum gguf_type { GGUF_F32, GGUF_F16, GGUF_BF16, GGUF_Q8_0, GGUF_TYPES };
const char *gguf_type_name(enum gguf_type t);                       /* "f32", "f16", "bf16", "q8_0" */
int gguf_type_parse(const char *text, enum gguf_type *out) ERR_MUST; /* ERR_USAGE */
/* Bytes of a row of n values; q8_0: n is a multiple of GGUF_BLOCK. */
uint64_t gguf_row_bytes(enum gguf_type t, uint64_t n);
/* n values to the bytes of a type. ERR_DATA, naming the first, when a finite value is too large for f16, or a block
 * for its scale: nothing becomes infinite. */
int gguf_encode(enum gguf_type t, uint8_t *out, const float *in, size_t n) ERR_MUST;

/* ---- keys, then the table, then rows in any order ---- */

struct gguf_writer;
/* fd: an empty regular file at its beginning; stays the caller's. */
int gguf_create(struct gguf_writer **out, int fd) ERR_MUST;
void gguf_writer_free(struct gguf_writer *w);

int gguf_put_text(struct gguf_writer *w, const char *key, const char *text) ERR_MUST;
int gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value) ERR_MUST;
int gguf_put_f32(struct gguf_writer *w, const char *key, float value) ERR_MUST;
int gguf_put_bool(struct gguf_writer *w, const char *key, bool value) ERR_MUST;
/* An array: n items of one kind must follow. */
enum gguf_item { GGUF_ITEM_U8, GGUF_ITEM_I32, GGUF_ITEM_F32, GGUF_ITEM_TEXT };
int gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_item kind, uint64_t n) ERR_MUST;
int gguf_item_i32(struct gguf_writer *w, int32_t value) ERR_MUST;
int gguf_item_f32(struct gguf_writer *w, float value) ERR_MUST;
int gguf_item_text(struct gguf_writer *w, const char *bytes, size_t n) ERR_MUST;
/* All items of an array of u8. */
int gguf_item_bytes(struct gguf_writer *w, const void *bytes, size_t n) ERR_MUST;

/* The next tensor of the table, name and shape; a row is its last dimension. q8_0: a multiple of
 * GGUF_BLOCK. */
int gguf_put_tensor(struct gguf_writer *w, const struct tensor *t, enum gguf_type type) ERR_MUST;
/* n whole rows of tensor number t from `row` on; the table is complete with the first call. Values are
 * as gguf_encode takes them. Each row must come once. */
int gguf_write_rows(struct gguf_writer *w, size_t t, uint64_t row, const float *value, size_t n) ERR_MUST;
/* ERR_DATA unless there are as many rows as the table says. */
int gguf_finish(struct gguf_writer *w) ERR_MUST;

#endif
