/*
 * header - the text at the head of a sealed file: what it is, and its table of tensors.
 *
 *     format 1
 *     kind delta
 *     signer <64 hex digits>
 *     ...                          the keys of meta.h, then of configurations
 *     tensor NAME DTYPE SHAPE ENCODING
 *
 * Unknown keys are kept and passed on; a format above HEADER_FORMAT is refused.
 */
#ifndef HEADER_H
#define HEADER_H

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/tensor.h"

#define HEADER_FORMAT 1
#define HEADER_BYTES ((size_t)256 << 20) /* largest text; TENSOR_TABLE limits the lines */

struct header {
	struct conf keys; /* without format and the tensor lines */
	struct tensors tensors;
};

void header_release(struct header *h);
int header_copy(struct header *to, const struct header *from) ERR_MUST;
int header_parse(struct header *h, const char *text, size_t n) ERR_MUST;
int header_format(const struct header *h, struct buf *out) ERR_MUST;

#endif
