/*
 * tensor - name, type and shape of an array; no values, no arithmetic.
 *
 * Shapes are row-major, outermost first; a matrix of a linear layer is (out, in), as
 * in PyTorch. A scalar has rank 0 and one element. A struct tensors is the table of a
 * file or model: order matters, names are unique.
 */
#ifndef TENSOR_H
#define TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TENSOR_NAME 128           /* longest name, [A-Za-z0-9._-], no leading '.' or '-' */
#define TENSOR_RANK 4
#define TENSOR_COUNT ((uint64_t)1 << 48) /* most elements in one tensor */
#define TENSOR_TABLE 1000000      /* most tensors in one table */

enum dtype { DTYPE_F32, DTYPE_U8, DTYPE_U16, DTYPE_U32 };
enum encoding {
	ENC_PLAIN, /* as dtype, integers: no shuffle.  Text form "raw" */
	ENC_F32,   /* four byte planes.  "f32" */
	ENC_F32R,  /* f32 and f32 remainder, eight byte planes: an exact difference.  "f32r" */
	ENC_BF16   /* rounded to nearest even bfloat16, two byte planes.  "bf16" */
};

struct tensor {
	char name[TENSOR_NAME + 1];
	enum dtype dtype;
	enum encoding enc;
	unsigned rank;
	uint64_t dim[TENSOR_RANK];
	uint64_t count; /* product of dim, set by tensor_check */
};
struct tensors {
	struct tensor *v;
	size_t n, cap;
};

const char *dtype_name(enum dtype d);
int dtype_parse(const char *text, enum dtype *out) ERR_MUST;
size_t dtype_size(enum dtype d);
const char *encoding_name(enum encoding e);
int encoding_parse(const char *text, enum encoding *out) ERR_MUST;

/* Name, rank, dims > 0, product without wrap and within TENSOR_COUNT; sets count. */
int tensor_check(struct tensor *t) ERR_MUST;
/* "128x384", "scalar" for rank 0. */
void tensor_shape_text(const struct tensor *t, char out[96]);
int tensor_shape_parse(struct tensor *t, const char *text) ERR_MUST;

void tensors_release(struct tensors *ts);
/* Checks and appends a copy; ERR_DATA for a name that is there already is found by
 * tensors_unique. */
int tensors_push(struct tensors *ts, const struct tensor *t) ERR_MUST;
int tensors_copy(struct tensors *to, const struct tensors *from) ERR_MUST;
/* ERR_DATA naming the first name that occurs twice. O(n log n). */
int tensors_unique(const struct tensors *ts) ERR_MUST;
/* 0, or ERR_DATA naming the first difference in number, name, order, dtype or shape (not
 * encoding). */
int tensors_same(const struct tensors *want, const struct tensors *have) ERR_MUST;
uint64_t tensors_total(const struct tensors *ts); /* elements of all */

#endif
