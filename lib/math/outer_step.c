#include "math/outer_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int outer_step_open(struct outer_step *s, size_t room, size_t most)
{
	*s = (struct outer_step){ .room = room, .most = most };
	s->coef = calloc(most, sizeof *s->coef);
	s->norm = calloc(most, sizeof *s->norm);
	s->share = calloc(most, sizeof *s->share);
	s->value = calloc(room, sizeof *s->value);
	s->rest = calloc(room, sizeof *s->rest);
	return s->coef && s->norm && s->share && s->value && s->rest ? 0 : err_nomem();
}

void outer_step_close(struct outer_step *s)
{
	free(s->coef);
	free(s->norm);
	free(s->share);
	free(s->value);
	free(s->rest);
	*s = (struct outer_step){ .coef = NULL };
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static const float *rest_at(const struct outer_step_answer *a, size_t at)
{
	return a->rest ? a->rest + at : NULL;
}

/* Of n elements from `at`, slice by slice. ERR_DATA where a value makes no sense. */
static int unit_norm2(double *out, const struct outer_step_answer *a, size_t at, size_t n)
{
	size_t bad, have;

	*out = 0;
	for (size_t i = 0; i < n; i += have) {
		have = least(a->slice, n - i);
		*out += merge_norm2(a->value + at + i, rest_at(a, at + i), have, &bad);
		if (bad < have)
			return err_set(ERR_DATA, "element %zu of an answer is %g", at + i + bad,
				(double)a->value[at + i + bad]);
	}
	return 0;
}

int outer_step_norm(double *out, const struct outer_step_answer *a, size_t n)
{
	double part;
	int rc;

	*out = 0;
	for (size_t at = 0; at < n; at += MERGE_UNIT) {
		if ((rc = unit_norm2(&part, a, at, least(MERGE_UNIT, n - at))) < 0)
			return rc;
		*out += part;
	}
	*out = sqrt(*out);
	return 0;
}

/* Elements [at, at + n) of the sum into value and rest; its sum of squares. */
static double sum_block(struct outer_step *s, const struct outer_step_answer *answer, size_t m, size_t at,
	size_t n)
{
	double sum[MERGE_BLOCK];

	merge_clear(sum, n);
	for (size_t k = 0; k < m; k++)
		merge_add(sum, answer[k].value + at, s->coef[k], n);
	merge_split(s->value + at, s->rest + at, sum, n);
	return merge_sum2(sum, n);
}

static double sum_unit(struct outer_step *s, const struct outer_step_answer *answer, size_t m, size_t at,
	size_t n)
{
	double norm2 = 0;

	for (size_t b = 0; b < n; b += MERGE_BLOCK)
		norm2 += sum_block(s, answer, m, at + b, least(MERGE_BLOCK, n - b));
	return norm2;
}

/* The length of the sum. */
static double sum_tensor(struct outer_step *s, enum merge_rule rule, const struct outer_step_answer *answer,
	size_t m, size_t n)
{
	double norm2 = 0;

	merge_coefs(s->coef, rule, s->share, s->norm, m);
	for (size_t at = 0; at < n; at += MERGE_UNIT)
		norm2 += sum_unit(s, answer, m, at, least(MERGE_UNIT, n - at));
	return sqrt(norm2);
}

/* The sum of the answers in value and rest, and what it is to be multiplied with. */
static double sum_up(struct outer_step *s, enum merge_rule rule, const struct outer_step_answer *answer,
	size_t m, size_t n)
{
	double length = sum_tensor(s, rule, answer, m, n), scale = 1;

	if (rule == MERGE_RDA && !merge_rda_scale(&scale, s->share, s->norm, m, length)) {
		sum_tensor(s, MERGE_DIRECT, answer, m, n);
		scale = 1;
	}
	return scale;
}

/* One answer is its sum already. */
static void take_one(struct outer_step *s, const struct outer_step_answer *a, size_t n)
{
	memcpy(s->value, a->value, n * sizeof *s->value);
	if (a->rest)
		memcpy(s->rest, a->rest, n * sizeof *s->rest);
	else
		memset(s->rest, 0, n * sizeof *s->rest);
}

static int check(const float *x, const float *v, size_t n)
{
	size_t bad;

	for (size_t at = 0; at < n; at += MERGE_UNIT) {
		size_t have = least(MERGE_UNIT, n - at);

		merge_norm2(x + at, v + at, have, &bad);
		if (bad < have)
			return err_set(ERR_DATA, "element %zu: merged value is %g, momentum %g", at + bad,
				(double)x[at + bad], (double)v[at + bad]);
	}
	return 0;
}

int outer_step_tensor(struct outer_step *s, const char *name, float *x, float *v,
	const struct outer_step_answer *answer, size_t m, size_t n)
{
	enum merge_rule rule = m == 1 || merge_is_table(name) ? MERGE_DIRECT : s->rule;
	double scale = 1;
	int rc = 0;

	for (size_t k = 0; k < m && rc == 0; k++) {
		s->share[k] = answer[k].share;
		rc = outer_step_norm(&s->norm[k], &answer[k], n);
	}
	if (rc == 0 && m == 1)
		take_one(s, answer, n);
	else if (rc == 0)
		scale = sum_up(s, rule, answer, m, n);
	if (rc == 0) {
		merge_step(x, v, x, v, s->value, s->rest, scale, &s->outer, n);
		rc = check(x, v, n);
	}
	return rc < 0 ? err_at(rc, "tensor '%s'", name) : 0;
}
