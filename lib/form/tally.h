/*
 * tally - what there is to say about the values of a tensor, or about the difference of two, added
 * up slice by slice in order.
 */
#ifndef TALLY_H
#define TALLY_H

#include <stdint.h>

#include "base/tensor.h"
#include "form/frame.h"

/* Start from zeroed memory. */
struct tally {
	uint64_t n;       /* values so far */
	uint64_t strange; /* of them infinite or NaN: they count nowhere below */
	double min, max;  /* of the others, if there are any; integers are exact, too */
	double sum, sum2; /* of values and of squares */
};
/* Value and remainder of an f32r slice are one value here. */
void tally_add(struct tally *y, const struct tensor *t, const struct frame_slice *s);
double tally_mean(const struct tally *y); /* NaN when there is no finite value */
double tally_norm(const struct tally *y);

/* Start from zeroed memory. */
struct contrast {
	uint64_t n;
	uint64_t differ;  /* pairs that are not equal; NaN equals NaN, and zeros have no sign */
	uint64_t first;   /* where the first of them is */
	uint64_t strange; /* pairs with an infinity or NaN: they count nowhere below */
	double max;       /* largest |a - b| */
	double sum2;      /* of a - b */
	double dot, a2, b2;
};
/* m values that both slices have: from element i of a and j of b on. */
void contrast_add(struct contrast *c, const struct tensor *t, const struct frame_slice *a,
	uint32_t i, const struct frame_slice *b, uint32_t j, uint32_t m);
/* Takes the pairs of another tensor in; `first` tells nothing after it. */
void contrast_join(struct contrast *c, const struct contrast *more);
double contrast_norm(const struct contrast *c);   /* of a - b */
double contrast_cosine(const struct contrast *c); /* of a and b; NaN where one is zero */

#endif
