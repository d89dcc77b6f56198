/*
 * merge - arithmetic of one outer step on slices: weights, direct averaging, RDA, Nesterov. No files, no threads.
 *
 * Everything is double, every order of summation fixed, nothing contracted: the same bits on any machine. Answers are summed in
 * the order given; callers sort them by identity first.
 *
 *   w_m = tokens * (tokens / steps), 0 for 0 steps           a_m = w_m / sum w
 *   direct:  D = sum a_m D_m
 *   RDA:     D = (sum a_m |D_m|) phi(sum a_m phi(D_m)),  phi(x) = x / |x|, phi(0) = 0; direct where the mean
 *            direction vanishes; one answer alone is itself.               (Decoupled DiLoCo, 2604.21428)
 *   outer:   v <- mu v + D;  x <- x - eta (D + mu v)         (Nesterov SGD; DiLoCo, 2311.08105)
 */
#ifndef MERGE_H
#define MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum merge_rule { MERGE_DIRECT, MERGE_RDA };
const char *merge_rule_name(enum merge_rule r);
int merge_rule_parse(const char *text, enum merge_rule *out) ERR_MUST;

double merge_weight(uint64_t tokens, uint64_t steps);
/* Sum of squares of value + rest (rest may be NULL), and whether all are finite: *bad is the first index that is not, or n. */
double merge_norm2(const float *value, const float *rest, size_t n, size_t *bad);
/* sum[i] += a * value[i]; sum_rest likewise (rest NULL: nothing added). Kept apart so that base - delta is exact. */
void merge_add(double *sum, double *sum_rest, const float *value, const float *rest, double a, size_t n);
double merge_dot(const double *a, const double *b, size_t n);

struct merge_outer { double eta, mu; };
/* out = x - eta (D + mu v), v updated in place: D = scale * sum + scale * sum_rest. With eta 1, mu 0, scale 1 and one answer the
 * result is the learner's parameters bit for bit. */
void merge_step(float *out, float *v, const float *x, const double *sum, const double *sum_rest, double scale,
	const struct merge_outer *o, size_t n);

#endif
