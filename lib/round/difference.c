#include "round/difference.h"

#include <stdlib.h>

#include "form/codec.h"

int difference_table(struct tensors *out, const struct tensors *layout, enum encoding enc)
{
	int rc = tensors_copy(out, layout);

	for (size_t i = 0; rc == 0 && i < out->n; i++)
		out->v[i].enc = enc;
	return rc;
}

/* One tensor, a slice at a time. work: (2, FRAME_ELEMS_PAIR). */
static int write_tensor(struct frame_writer *w, enum encoding enc, const float *base,
	const float *local, uint64_t count, float *work)
{
	float *rest = enc == ENC_F32R ? work + FRAME_ELEMS_PAIR : NULL;
	uint64_t at;
	size_t n;
	int rc;

	for (at = 0; at < count; at += n) {
		n = count - at < FRAME_ELEMS_PAIR ? count - at : FRAME_ELEMS_PAIR;
		codec_difference(work, work + FRAME_ELEMS_PAIR, base + at, local + at, n);
		if ((rc = frame_write(w, work, rest, n)) < 0)
			return rc;
	}
	return 0;
}

int difference_write(struct frame_writer *w, const struct tensors *layout, enum encoding enc,
	const float *base, const float *local)
{
	float *work = malloc(2 * FRAME_ELEMS_PAIR * sizeof *work);
	uint64_t start = 0;
	int rc = work ? 0 : err_nomem();

	for (size_t i = 0; rc == 0 && i < layout->n; i++) {
		rc = write_tensor(w, enc, base + start, local + start, layout->v[i].count, work);
		start += layout->v[i].count;
	}
	free(work);
	return rc;
}
