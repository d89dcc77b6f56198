#include "round/guard.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_ID 16 /* hex digits of an identity that messages show */
#define NAME_DIGITS 8 /* of a key's fingerprint, at the head of a default name */

static const struct {
	const char *name;
	enum err code;
} verdicts[] = {
	[VERDICT_ACCEPTED] = { "accepted", ERR_OK },
	[VERDICT_UNREADABLE] = { "unreadable", ERR_IO },
	[VERDICT_NOT_AUTHENTIC] = { "not-authentic", ERR_AUTH },
	[VERDICT_NOT_DELTA] = { "not-a-delta", ERR_DATA },
	[VERDICT_OTHER_RUN] = { "other-run", ERR_AUTH },
	[VERDICT_OTHER_LAYOUT] = { "other-layout", ERR_DATA },
	[VERDICT_OTHER_BASE] = { "other-base", ERR_AUTH },
	[VERDICT_NOT_ITS_NAME] = { "not-its-name", ERR_AUTH },
	[VERDICT_ZERO_STEPS] = { "zero-steps", ERR_DATA },
	[VERDICT_NOT_FINITE] = { "not-finite", ERR_DATA },
	[VERDICT_DUPLICATE] = { "duplicate", ERR_AUTH },
	[VERDICT_OUTLIER] = { "outlier", ERR_DATA },
	[VERDICT_OLD_INCARNATION] = { "old-incarnation", ERR_AUTH },
	[VERDICT_OVERLAP] = { "overlap", ERR_AUTH },
	[VERDICT_LATE] = { "late", ERR_AGAIN },
	[VERDICT_ABANDONED] = { "abandoned", ERR_AGAIN },
	[VERDICT_NOT_CHECKED] = { "not-checked", ERR_OK },
};

const char *verdict_name(enum verdict v)
{
	return verdicts[v].name;
}

enum err verdict_code(enum verdict v)
{
	return verdicts[v].code;
}

enum verdict guard_standing(const struct answer *a)
{
	return a->verdict == VERDICT_ACCEPTED && !a->measured ? VERDICT_NOT_CHECKED : a->verdict;
}

void guard_refuse(struct answer *a, enum verdict v, const char *fmt, ...)
{
	va_list ap;

	if (a->verdict != VERDICT_ACCEPTED)
		return;
	a->verdict = v;
	va_start(ap, fmt);
	vsnprintf(a->why, sizeof a->why, fmt, ap);
	va_end(ap);
}

static void judge_base(struct answer *a, const struct guard_round *round)
{
	const struct meta *m = &a->meta;

	if (m->round < round->round || strcmp(m->base, round->base) == 0)
		guard_refuse(a, VERDICT_OTHER_BASE,
			"of round %" PRIu64 ", this is round %" PRIu64, m->round, round->round);
	else
		guard_refuse(a, VERDICT_OTHER_BASE, "made from %.*s, not from %.*s", SHORT_ID,
			m->base[0] ? m->base : "nothing", SHORT_ID, round->base);
}

/* Is it one that learner_name gives to a learner with this key? */
static bool is_default_name(const char *name, const struct sig_public *key)
{
	char print[33];

	sig_fingerprint(print, key);
	return strncmp(name, print, NAME_DIGITS) == 0 && name[NAME_DIGITS] == '-';
}

/* The key that has the name here, or would by default; NULL: anybody may use it. */
static const struct sig_public *owner_of(const char *name, const struct sig_public *signer,
	const struct trust *trust)
{
	const struct sig_public *named = trust_named(trust, name);

	if (named || is_default_name(name, signer))
		return named;
	for (const struct trust_entry *e = trust->v; e < trust->v + trust->n; e++)
		if (!e->revoked && is_default_name(name, &e->key.pub))
			return &e->key.pub;
	return NULL;
}

bool guard_owns(const char *name, const struct sig_public *signer, const struct trust *trust)
{
	const struct sig_public *owner = trust ? owner_of(name, signer, trust) : NULL;

	return !owner || memcmp(owner, signer, sizeof *owner) == 0;
}

static void judge_name(struct answer *a, const struct trust *trust)
{
	char signer[33];

	if (guard_owns(a->meta.learner, &a->signer, trust))
		return;
	sig_fingerprint(signer, &a->signer);
	guard_refuse(a, VERDICT_NOT_ITS_NAME, "says it is of '%s', but is signed by %s",
		a->meta.learner, signer);
}

/* What files of one fragment say besides: only their names stand between the rounds of one base. */
static bool other_round(const struct meta *m, const struct guard_round *round)
{
	return round->fragment[0] && (m->round != round->round || m->version != round->version);
}

void guard_header(struct answer *a, const struct guard_round *round, const struct tensors *layout,
	const struct trust *trust)
{
	const struct meta *m = &a->meta;

	if (meta_want(m, KIND_DELTA) < 0)
		guard_refuse(a, VERDICT_NOT_DELTA, "%s", err_text());
	else if (strcmp(m->run, round->run) != 0)
		guard_refuse(a, VERDICT_OTHER_RUN, "of run %.*s, not %.*s", SHORT_ID, m->run, SHORT_ID,
			round->run);
	else if (strcmp(m->model, round->model) != 0)
		guard_refuse(a, VERDICT_OTHER_LAYOUT, "of model %.*s, not %.*s", SHORT_ID, m->model,
			SHORT_ID, round->model);
	else if (strcmp(m->fragment, round->fragment) != 0)
		guard_refuse(a, VERDICT_OTHER_LAYOUT, "of %s, not %s",
			m->fragment[0] ? m->fragment : "the whole model",
			round->fragment[0] ? round->fragment : "the whole model");
	else if (tensors_same(round->layout, layout) < 0)
		guard_refuse(a, VERDICT_OTHER_LAYOUT, "%s", err_text());
	else if (strcmp(m->base, round->base) != 0 || other_round(m, round))
		judge_base(a, round);
	else
		judge_name(a, trust);
	if (m->steps == 0 || m->tokens == 0)
		guard_refuse(a, VERDICT_ZERO_STEPS, "%" PRIu64 " steps on %" PRIu64 " tokens", m->steps,
			m->tokens);
	if (m->steps > GUARD_COUNT || m->tokens > GUARD_COUNT || m->step > GUARD_COUNT ||
		m->trained > GUARD_COUNT)
		guard_refuse(a, VERDICT_OUTLIER, "%" PRIu64 " steps on %" PRIu64 " tokens, to step %" PRIu64,
			m->steps, m->tokens, m->step);
}

static bool same_learner(const struct answer *a, const struct answer *b)
{
	return strcmp(a->meta.learner, b->meta.learner) == 0 &&
	       memcmp(&a->signer, &b->signer, sizeof a->signer) == 0;
}

/* The answer of a learner that counts comes first. a and b lie in one array. */
static bool precedes(const struct answer *a, const struct answer *b)
{
	int order = memcmp(&a->id, &b->id, sizeof a->id);

	if (a->meta.tokens != b->meta.tokens)
		return a->meta.tokens > b->meta.tokens;
	return order ? order < 0 : a < b;
}

void guard_duplicates(struct answer *v, size_t n)
{
	for (struct answer *a = v; a < v + n; a++) {
		struct answer *first = a;

		if (a->verdict != VERDICT_ACCEPTED)
			continue;
		for (struct answer *b = v; b < v + n; b++)
			if ((b->verdict == VERDICT_ACCEPTED || b->verdict == VERDICT_DUPLICATE) &&
				same_learner(a, b) && precedes(b, first))
				first = b;
		if (first == a)
			continue;
		if (memcmp(&first->id, &a->id, sizeof a->id) == 0)
			guard_refuse(a, VERDICT_DUPLICATE, "the same as %s", first->name);
		else
			guard_refuse(a, VERDICT_DUPLICATE, "learner '%s' also sent %s",
				a->meta.learner, first->name);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double norm_a_step(const struct answer *a)
{
	return a->norm / (double)a->meta.steps;
}

static double lower_median(double *x, size_t n)
{
	qsort(x, n, sizeof *x, by_value);
	return x[(n - 1) / 2];
}

int guard_outliers(struct answer *v, size_t n, double limit)
{
	double *norm = calloc(n ? n : 1, sizeof *norm), *rate = calloc(n ? n : 1, sizeof *rate);
	double norm_mid, rate_mid;
	size_t m = 0;
	int rc = norm && rate ? 0 : err_nomem();

	for (size_t i = 0; i < n && rc == 0; i++)
		if (v[i].verdict == VERDICT_ACCEPTED && v[i].norm > 0) {
			norm[m] = v[i].norm;
			rate[m++] = norm_a_step(&v[i]);
		}
	if (rc < 0 || m < 2 || limit <= 0)
		goto out;
	norm_mid = lower_median(norm, m);
	rate_mid = lower_median(rate, m);
	for (struct answer *a = v; a < v + n; a++)
		if (a->verdict == VERDICT_ACCEPTED && a->norm > limit * norm_mid &&
			norm_a_step(a) > limit * rate_mid)
			guard_refuse(a, VERDICT_OUTLIER, "norm %.4g, where the median is %.4g", a->norm,
				norm_mid);
out:
	free(norm);
	free(rate);
	return rc;
}
