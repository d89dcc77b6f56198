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

static void undo_slice(float *local, const float *base, const struct frame_slice *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		local[i] = (float)(((double)base[i] - s->value[i]) - (s->rest ? s->rest[i] : 0));
}

int difference_undo(const struct frame_reader *r, const float *base, float *local)
{
	const struct tensors *ts = &frame_header(r)->tensors;
	struct frame_scratch *scratch;
	struct frame_slice s;
	uint64_t start = 0;
	int rc = frame_scratch_new(&scratch);

	if (rc < 0)
		return rc;
	for (uint32_t t = 0; t < ts->n && rc == 0; start += ts->v[t++].count)
		for (uint32_t i = 0; i < frame_slices(r, t) && rc == 0; i++)
			if ((rc = frame_slice_at(r, scratch, t, i, &s)) == 0)
				undo_slice(local + start + s.first, base + start + s.first, &s);
	frame_scratch_free(scratch);
	return rc;
}
