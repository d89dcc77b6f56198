/*
 * finite - values of a tensor that are no numbers: how many, and which is the first.
 */
#ifndef FINITE_H
#define FINITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Zeroed memory has seen nothing. */
struct finite {
	uint64_t seen, odd; /* values so far, those of them that are infinite or NaN */
	uint64_t first;     /* of the odd ones: its place */
	float value;        /* and what it is */
};
void finite_look(struct finite *f, const float *value, size_t n); /* the next n */
/* ERR_DATA: "3 of 128 values are not finite, the first is element 17, nan". */
int finite_check(const struct finite *f) ERR_MUST;

#endif
