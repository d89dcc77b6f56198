#include "math/merge.h"

#include <math.h>
#include <string.h>

#include "base/say.h"

/* Sums run in this many lanes, element i in lane i % LANES, added up pairwise at the end: an order
 * that is fixed and that vector units of any width can follow. */
#define LANES 8

/* A mean direction shorter than this is rounding error: m unit vectors that are merely unrelated
 * leave 1 / sqrt(m). */
#define VANISHED 1e-6

static const char *const rules[] = { [MERGE_DIRECT] = "direct", [MERGE_RDA] = "rda" };

static const char *const experts[] = { [MERGE_BY_TOKENS] = "tokens", [MERGE_BY_ROUTED] = "routed" };

/* Which of two it is. kind, expected: for the error. */
static int which(const char *text, const char *const name[2], const char *kind, const char *expected)
{
	char shown[80];

	for (int i = 0; i < 2; i++)
		if (strcmp(text, name[i]) == 0)
			return i;
	say_escape(shown, sizeof shown, text);
	return err_set(ERR_DATA, "unknown %s '%s', expected %s", kind, shown, expected);
}

const char *merge_rule_name(enum merge_rule r)
{
	return rules[r];
}

int merge_rule_parse(const char *text, enum merge_rule *out)
{
	int found = which(text, rules, "rule", "rda or direct");

	if (found < 0)
		return found;
	*out = (enum merge_rule)found;
	return 0;
}

const char *merge_experts_name(enum merge_experts e)
{
	return experts[e];
}

int merge_experts_parse(const char *text, enum merge_experts *out)
{
	int found = which(text, experts, "weights", "tokens or routed");

	if (found < 0)
		return found;
	*out = (enum merge_experts)found;
	return 0;
}

bool merge_is_table(const char *tensor)
{
	return strcmp(tensor, "model.embed_tokens.weight") == 0 || strcmp(tensor, "lm_head.weight") == 0;
}

double merge_weight(uint64_t tokens, uint64_t steps)
{
	double t = (double)tokens;

	return steps ? t * (t / (double)steps) : 0;
}

bool merge_shares(double *weight, size_t m)
{
	double sum = 0;

	for (size_t k = 0; k < m; k++)
		sum += weight[k];
	if (!(sum > 0))
		return false;
	for (size_t k = 0; k < m; k++)
		weight[k] /= sum;
	return true;
}

static double lanes_total(const double lane[LANES])
{
	return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
	       ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static void square_lanes(double lane[restrict LANES], const double x[restrict LANES])
{
	for (size_t j = 0; j < LANES; j++)
		lane[j] += x[j] * x[j];
}

static size_t first_bad(const float *value, const float *rest, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(fabs((double)value[i] + (rest ? rest[i] : 0)) <= MERGE_LIMIT))
			return i;
	return n;
}

double merge_norm2(const float *value, const float *rest, size_t n, size_t *bad)
{
	double lane[LANES] = { 0 }, total;
	size_t i = 0;

	for (; n - i >= LANES; i += LANES) {
		double x[LANES];

		for (size_t j = 0; j < LANES; j++)
			x[j] = value[i + j];
		if (rest)
			for (size_t j = 0; j < LANES; j++)
				x[j] += rest[i + j];
		square_lanes(lane, x);
	}
	for (size_t j = 0; i < n; i++, j++) {
		double x = (double)value[i] + (rest ? rest[i] : 0);

		lane[j] += x * x;
	}
	total = lanes_total(lane);
	/* One unsound value shows in the sum, so the search is only made when there is one. */
	*bad = total <= MERGE_LIMIT * MERGE_LIMIT ? n : first_bad(value, rest, n);
	return total;
}

void merge_coefs(double *c, enum merge_rule rule, const double *share, const double *norm, size_t m)
{
	for (size_t i = 0; i < m; i++) {
		if (rule == MERGE_DIRECT)
			c[i] = share[i];
		else
			c[i] = norm[i] > 0 ? share[i] / norm[i] : 0;
	}
}

bool merge_rda_scale(double *scale, const double *share, const double *norm, size_t m,
	double direction)
{
	double mean = 0;

	for (size_t i = 0; i < m; i++)
		mean += share[i] * norm[i];
	*scale = 0;
	if (mean == 0)
		return true;
	if (direction < VANISHED)
		return false;
	*scale = mean / direction;
	return true;
}

void merge_clear(double *sum, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum[i] = -0.0;
}

static void add_lanes(double sum[restrict LANES], const float x[restrict LANES], double c)
{
	for (size_t j = 0; j < LANES; j++)
		sum[j] += c * x[j];
}

void merge_add(double *sum, const float *value, double c, size_t n)
{
	size_t i = 0;

	for (; n - i >= LANES; i += LANES)
		add_lanes(sum + i, value + i, c);
	for (; i < n; i++)
		sum[i] += c * value[i];
}

void merge_split(float *value, float *rest, const double *sum, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		value[i] = (float)sum[i];
		rest[i] = (float)(sum[i] - value[i]);
	}
}

double merge_sum2(const double *sum, size_t n)
{
	double lane[LANES] = { 0 };
	size_t i = 0;

	for (; n - i >= LANES; i += LANES)
		square_lanes(lane, sum + i);
	for (size_t j = 0; i < n; i++, j++)
		lane[j] += sum[i] * sum[i];
	return lanes_total(lane);
}

static void dot_lanes(double lane[restrict LANES], const float x[restrict LANES],
	const double y[restrict LANES])
{
	for (size_t j = 0; j < LANES; j++)
		lane[j] += x[j] * y[j];
}

double merge_dot(const float *value, const double *sum, size_t n)
{
	double lane[LANES] = { 0 };
	size_t i = 0;

	for (; n - i >= LANES; i += LANES)
		dot_lanes(lane, value + i, sum + i);
	for (size_t j = 0; i < n; i++, j++)
		lane[j] += value[i] * sum[i];
	return lanes_total(lane);
}

/*
 * The parts of D are taken off one after the other, and the term of v not at all when it is zero:
 * with one answer these are the very operations that its delta was made to undo.
 */
void merge_step(float *out, float *v_out, const float *x, const float *v, const float *value,
	const float *rest, double scale, const struct merge_outer *o, size_t n)
{
	double eta = o->eta, mu = o->mu;

	for (size_t i = 0; i < n; i++) {
		double d = scale * value[i], r = scale * rest[i];
		double next = mu * v[i] + (d + r), y = (x[i] - eta * d) - eta * r;

		if (mu != 0)
			y -= eta * (mu * next);
		out[i] = (float)y;
		v_out[i] = (float)next;
	}
}
