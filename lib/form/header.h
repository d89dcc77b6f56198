/*
 * header - the text at the head of a sealed file: what it is, and its table of tensors.
 *
 *     format 1
 *     kind delta
 *     ...                          the keys of meta.h, then of configurations
 *     tensor NAME DTYPE SHAPE ENCODING
 *
 * Unknown keys are kept and passed on; a format above HEADER_FORMAT is refused. Who signed is not
 * in the text: it stands before it, where it can be checked first (frame_signer).
 */
#ifndef HEADER_H
#define HEADER_H

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/tensor.h"

#define HEADER_FORMAT 1
#define HEADER_BYTES ((size_t)256 << 20) /* largest text; TENSOR_TABLE limits the lines */

/* Zeroed memory is an empty header. */
struct header {
	struct conf keys; /* without format and the tensor lines */
	struct tensors tensors;
};

void header_release(struct header *h);
/* Both fill a header that is empty, and leave it to header_release also when they fail. */
int header_copy(struct header *to, const struct header *from) ERR_MUST;
int header_parse(struct header *h, const char *text, size_t n) ERR_MUST;
int header_format(const struct header *h, struct buf *out) ERR_MUST;
/* Looks only at the first line: ERR_DATA when there is none, or says that a newer program is
 * needed. */
int header_version(const char *text, size_t n) ERR_MUST;

#endif
