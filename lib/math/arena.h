/*
 * arena - one allocation cut into arrays, each at the beginning of a cache line.
 *
 * The function that cuts runs twice: with base NULL, where it only counts what the arena must hold,
 * and with the arena. Internal to math.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stddef.h>

#include "math/real.h"

enum { ARENA_ALIGN = 64 }; /* bytes */

/* The next n reals; *used grows by as many, rounded up to whole lines. */
static inline real *arena_take(real *base, size_t *used, size_t n)
{
	real *at = base ? base + *used : NULL;
	const size_t unit = ARENA_ALIGN / sizeof(real);

	*used += (n + unit - 1) / unit * unit;
	return at;
}

/* The same room as so many ints, which are no larger. */
static inline int *arena_take_ints(real *base, size_t *used, size_t n)
{
	return (int *)(void *)arena_take(base, used, n);
}

#endif
