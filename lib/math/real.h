/*
 * real - the number type of the model: float, or double when compiled with -DREAL_DOUBLE, which
 * the tests use to compare gradients with central finite differences.
 */
#ifndef REAL_H
#define REAL_H

#ifdef REAL_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif
