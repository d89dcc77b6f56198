/*
 * merge - arithmetic of one outer step on runs of values: weights, direct averaging, RDA, Nesterov.
 * No files, no threads.
 *
 * Sums are in double, in a fixed order, and nothing is contracted: the same bits on any machine.
 * Answers are added in the order of the calls; callers sort them by identity first. With m answers,
 * w_m = tokens * (tokens / steps), share a_m = w_m / sum w, and phi(x) = x / |x|, phi(0) = 0:
 *
 *   direct:  D = sum a_m D_m
 *   RDA:     D = (sum a_m |D_m|) phi(sum a_m phi(D_m)), norms over one tensor; direct where the mean
 *            direction vanishes, and one answer alone is itself.  (Decoupled DiLoCo, 2604.21428)
 *   outer:   v <- mu v + D;  x <- x - eta (D + mu v)             (Nesterov SGD; DiLoCo, 2311.08105)
 *
 * Both rules are one sum of c_m D_m with coefficients of the rule, times one scale a tensor. Such a
 * sum is kept as two floats, value + rest. A delta that comes as two floats itself (encoding f32r) is
 * kept as it is when it is the only one, so that base - delta gives the learner's parameters back
 * exactly; among several its rest, below half an ulp, counts for nothing.
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

/* What weighs an answer for the tensors of an expert: all its tokens, or those that were routed to the expert. */
enum merge_experts { MERGE_BY_TOKENS, MERGE_BY_ROUTED };
const char *merge_experts_name(enum merge_experts e);
int merge_experts_parse(const char *text, enum merge_experts *out) ERR_MUST;

/* Sums over a tensor are over units of so many elements, and in them over blocks, one after the other. */
#define MERGE_UNIT 245760
#define MERGE_BLOCK 1024

/* Lookup tables, of which an answer touches only some rows: a common direction means little there, so they
 * are merged directly whatever the rule. */
bool merge_is_table(const char *tensor);

/* A magnitude no difference of parameters has, far below where squares and sums leave the doubles. */
#define MERGE_LIMIT 1e18

double merge_weight(uint64_t tokens, uint64_t steps); /* 0 for 0 steps */
/* Weights (m) to shares that sum to 1, in their place. False, and nothing done, when all weights are 0. */
bool merge_shares(double *weight, size_t m);

/* Sum of squares of value + rest (rest may be NULL). *bad is the first index that is not finite or
 * beyond MERGE_LIMIT, or n when all are sound. */
double merge_norm2(const float *value, const float *rest, size_t n, size_t *bad);

/* c (m): what each answer is multiplied with; share (m) sums to 1, norm (m) is of the tensor. */
void merge_coefs(double *c, enum merge_rule rule, const double *share, const double *norm, size_t m);
/* RDA's scale for a mean direction of this length. False where it vanishes: to be merged directly. */
bool merge_rda_scale(double *scale, const double *share, const double *norm, size_t m,
	double direction);

void merge_clear(double *sum, size_t n); /* to -0, to which adding changes nothing, not even a sign */
void merge_add(double *sum, const float *value, double c, size_t n); /* sum += c * value */
/* sum as value + rest, to 48 bits. */
void merge_split(float *value, float *rest, const double *sum, size_t n);
double merge_sum2(const double *sum, size_t n); /* sum of squares */
double merge_dot(const float *value, const double *sum, size_t n);

struct merge_outer {
	double eta, mu;
};
/*
 * out = x - eta (D + mu v_out), v_out = mu v + D, with D = scale * (value + rest). With scale 1, eta 1,
 * mu 0 it is x - value - rest in double, rounded once. out and v_out may be the arrays of value and
 * rest, or of x and v, element on element.
 */
void merge_step(float *out, float *v_out, const float *x, const float *v, const float *value,
	const float *rest, double scale, const struct merge_outer *o, size_t n);

#endif
