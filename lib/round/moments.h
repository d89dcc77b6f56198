/*
 * moments - the tensors of a learner's state: those of the model three times over, as m.NAME, v.NAME and
 * p.NAME, all f32; with Muon v.NAME only of the tensors that are AdamW's. See dl-state(5).
 */
#ifndef MOMENTS_H
#define MOMENTS_H

#include "base/tensor.h"
#include "form/frame.h"
#include "math/optimizer.h"

/* Each flat, in the order of the model's layout. */
struct moments {
	enum optimizer_kind optimizer;
	float *m, *v; /* as in math/optimizer.h */
	float *p;     /* parameters reached */
};

/* The table of tensors, which was empty, and the key `optimizer`. */
int moments_header(struct header *h, const struct tensors *layout, enum optimizer_kind optimizer) ERR_MUST;
/* ERR_DATA unless the file is a state of this model and optimizer. */
int moments_check(const struct header *h, const struct tensors *layout, enum optimizer_kind optimizer)
	ERR_MUST;
/* From behind the header to the verified end. p NULL: passed over. ERR_DATA, naming file, tensor and
 * element, for a value that is not finite. */
int moments_read(const struct moments *s, const struct tensors *layout, struct frame_reader *r) ERR_MUST;
/* What is not finite is not written: a file that nobody can go on from would replace a good one. */
int moments_write(const struct moments *s, const struct tensors *layout, struct frame_writer *w) ERR_MUST;

#endif
