/*
 * ckpt - all values of a sealed file into one flat array and back: for programs that need the whole
 * model in memory (dl-learn, dl-eval). Tensors lie one after the other in table order.
 */
#ifndef CKPT_H
#define CKPT_H

#include "base/err.h"
#include "form/frame.h"

/* Streams every slice of r into `value` (sum of counts elements) up to the verified end. Float
 * tensors only; f32r adds the remainder. ERR_DATA naming tensor and element for a value that is not
 * finite. */
int ckpt_read(struct frame_reader *r, float *value) ERR_MUST;
/* The same of a regular file, which becomes seekable: one seal vouches for all, where each frame that is
 * streamed has its own verified. */
int ckpt_load(struct frame_reader *r, struct frame_scratch *scratch, float *value) ERR_MUST;
/* Writes all tensors of the writer's table from `value`. */
int ckpt_write(struct frame_writer *w, const struct tensors *table, const float *value) ERR_MUST;

#endif
