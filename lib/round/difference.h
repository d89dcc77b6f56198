/*
 * difference - the values of a delta: base - local, tensor by tensor, in the encoding of the file.
 */
#ifndef DIFFERENCE_H
#define DIFFERENCE_H

#include "base/tensor.h"
#include "form/frame.h"

/* Copies the layout into an empty table, for the header of a delta in this encoding. */
int difference_table(struct tensors *out, const struct tensors *layout, enum encoding enc) ERR_MUST;
/* All tensors of the layout; base and local lie flat in its order. */
int difference_write(struct frame_writer *w, const struct tensors *layout, enum encoding enc,
	const float *base, const float *local) ERR_MUST;
/* And back: the parameters that the delta was made of, as a merge sees them. r must be seekable and its table
 * that of the layout. */
int difference_undo(const struct frame_reader *r, const float *base, float *local) ERR_MUST;

#endif
