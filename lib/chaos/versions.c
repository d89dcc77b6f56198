#include "chaos/versions.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/model_conf.h"

/* ---- entries ---- */

static void drop(struct versions_entry *e)
{
	free(e->value);
	free(e->counted);
}

static struct versions_entry *newest(const struct versions *v, unsigned p)
{
	const struct versions_fragment *f = &v->fragment[p];

	return &f->v[f->n - 1];
}

/* Without those that nobody will adopt any more. */
static void tidy(struct versions *v, unsigned p)
{
	struct versions_fragment *f = &v->fragment[p];
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		if (i + 1 < f->n && adoptions_left(v->adoptions, p, f->v[i].version.version) == 0)
			drop(&f->v[i]);
		else
			f->v[n++] = f->v[i];
	f->n = n;
}

static struct versions_entry *find(const struct versions *v, unsigned p, uint64_t version)
{
	const struct versions_fragment *f = &v->fragment[p];

	for (size_t i = f->n; i-- > 0;)
		if (f->v[i].version.version == version)
			return &f->v[i];
	return NULL;
}

/* One more entry at the end, its values to be filled in. */
static int append(struct versions *v, unsigned p, struct versions_entry **out)
{
	struct versions_fragment *f = &v->fragment[p];
	struct versions_entry e = { .value = malloc(v->cut->v[p].elems * sizeof *e.value),
		.counted = calloc(v->learners, sizeof *e.counted) };

	if (f->n == f->room) {
		struct versions_entry *to = realloc(f->v, (f->room + 4) * sizeof *to);

		if (to) {
			f->v = to;
			f->room += 4;
		}
	}
	if (!e.value || !e.counted || f->n == f->room) {
		drop(&e);
		return err_nomem();
	}
	f->v[f->n] = e;
	*out = &f->v[f->n++];
	return 0;
}

/* Versions of different fragments, too, are not the same. */
static void identify(struct replica_version *v, unsigned p)
{
	memcpy(v->id.b, &v->version, sizeof v->version);
	memcpy(v->id.b + sizeof v->version, &p, sizeof p);
}

/* ---- opening ---- */

static uint64_t longest_tensor(const struct fragments *cut)
{
	uint64_t most = 0;

	for (unsigned p = 0; p < cut->n; p++)
		for (size_t t = 0; t < cut->v[p].n; t++)
			if (cut->v[p].layout.v[t].count > most)
				most = cut->v[p].layout.v[t].count;
	return most;
}

static int first_version(struct versions *v, unsigned p, const float *params, uint64_t step)
{
	struct versions_entry *e;
	int rc = append(v, p, &e);

	if (rc < 0)
		return rc;
	e->version.step = step;
	identify(&e->version, p);
	fragment_gather(&v->cut->v[p], e->value, params);
	return 0;
}

int versions_open(struct versions *v, const struct fragments *cut, struct adoptions *adoptions,
	const float *params, uint64_t step, unsigned learners)
{
	uint64_t n = 0;
	int rc = 0;

	*v = (struct versions){ .cut = cut, .adoptions = adoptions, .learners = learners, .slice = MERGE_UNIT };
	v->start = calloc(cut->n, sizeof *v->start);
	v->fragment = calloc(cut->n, sizeof *v->fragment);
	v->answer = calloc(learners, sizeof *v->answer);
	v->judged = calloc(learners, sizeof *v->judged);
	v->share = calloc(learners, sizeof *v->share);
	v->routed = calloc(learners, sizeof *v->routed);
	if (!v->start || !v->fragment || !v->answer || !v->judged || !v->share || !v->routed)
		return err_nomem();
	for (unsigned p = 0; p < cut->n && rc == 0; n += cut->v[p++].elems) {
		v->start[p] = n;
		rc = first_version(v, p, params, step);
	}
	if (rc < 0)
		return rc;
	v->momentum = calloc(n, sizeof *v->momentum);
	return v->momentum ? outer_step_open(&v->outer, longest_tensor(cut), learners) : err_nomem();
}

void versions_close(struct versions *v)
{
	for (unsigned p = 0; v->fragment && p < v->cut->n; p++) {
		for (size_t i = 0; i < v->fragment[p].n; i++)
			drop(&v->fragment[p].v[i]);
		free(v->fragment[p].v);
	}
	free(v->fragment);
	free(v->start);
	free(v->momentum);
	free(v->answer);
	free(v->judged);
	free(v->share);
	free(v->routed);
	outer_step_close(&v->outer);
	*v = (struct versions){ .cut = NULL };
}

uint64_t versions_newest(const struct versions *v, unsigned p)
{
	return newest(v, p)->version.version;
}

const float *versions_get(const struct versions *v, unsigned p, uint64_t version, unsigned learner,
	struct replica_version *out)
{
	const struct versions_entry *e = find(v, p, version);

	if (!e)
		return NULL;
	*out = e->version;
	out->counted = e->counted[learner];
	return e->value;
}

void versions_adopted(struct versions *v, unsigned p, uint64_t version)
{
	adoptions_done(v->adoptions, p, version);
	tidy(v, p);
}

/* ---- merging ---- */

/* Shares by weight; and the mean of the learners' global steps, weighted as their values are. */
static uint64_t weigh(struct versions *v, const struct versions_answer *a, size_t n)
{
	double step = 0;

	for (size_t k = 0; k < n; k++)
		v->share[k] = merge_weight(a[k].tokens, a[k].steps);
	merge_shares(v->share, n);
	for (size_t k = 0; k < n; k++)
		step += v->share[k] * (double)a[k].step;
	return (uint64_t)(step + 0.5);
}

/* Those for tensor t of a fragment. */
static const double *shares(struct versions *v, const struct tensors *layout, size_t t,
	const struct versions_answer *a, size_t n)
{
	uint32_t layer, expert;

	if (v->experts == MERGE_BY_TOKENS || !model_expert(layout->v[t].name, &layer, &expert))
		return v->share;
	for (size_t k = 0; k < n; k++) {
		if (!a[k].routed)
			return v->share;
		v->routed[k] = merge_weight(a[k].routed[t], a[k].steps);
	}
	return merge_shares(v->routed, n) ? v->routed : v->share;
}

/* The part of an answer that is of the tensor which begins `at` there. */
static struct outer_step_answer tensor_of(const struct versions *v, const struct versions_answer *a, uint64_t at,
	double share)
{
	return (struct outer_step_answer){ a->value + at, a->rest ? a->rest + at : NULL, share, v->slice };
}

/* As round/answers.c sums it up. */
static int length_of(const struct versions *v, unsigned p, const struct versions_answer *a, double *out)
{
	const struct tensors *layout = &v->cut->v[p].layout;
	double norm2 = 0, norm;
	uint64_t at = 0;
	int rc = 0;

	for (size_t t = 0; t < layout->n && rc == 0; at += layout->v[t++].count) {
		struct outer_step_answer of = tensor_of(v, a, at, 0);

		if ((rc = outer_step_norm(&norm, &of, layout->v[t].count)) == 0)
			norm2 += norm * norm;
	}
	*out = sqrt(norm2);
	return rc;
}

int versions_judge(struct versions *v, unsigned p, struct versions_answer *a, size_t *n, double limit, struct say *say)
{
	size_t left = 0;
	int rc = 0;

	if (*n < 2 || limit <= 0)
		return 0;
	for (size_t k = 0; k < *n && rc == 0; k++) {
		v->judged[k] = (struct answer){ .meta = { .steps = a[k].steps }, .verdict = VERDICT_ACCEPTED };
		rc = length_of(v, p, &a[k], &v->judged[k].norm);
	}
	if (rc == 0)
		rc = guard_outliers(v->judged, *n, limit);
	for (size_t k = 0; k < *n && rc == 0; k++)
		if (v->judged[k].verdict == VERDICT_ACCEPTED)
			a[left++] = a[k];
		else
			say_warn(say, "learner %u, fragment %u, step %" PRIu64 ": refused: %s", a[k].learner, p,
				a[k].step, v->judged[k].why);
	if (rc == 0)
		*n = left;
	return rc;
}

/* x: values of the base, which become those of the next version; so does the momentum, in its place. */
static int step_tensors(struct versions *v, unsigned p, float *x, const struct versions_answer *a, size_t n)
{
	const struct tensors *layout = &v->cut->v[p].layout;
	uint64_t at = 0;
	int rc = 0;

	for (size_t t = 0; t < layout->n && rc == 0; at += layout->v[t++].count) {
		const double *share = shares(v, layout, t, a, n);

		for (size_t k = 0; k < n; k++)
			v->answer[k] = tensor_of(v, &a[k], at, share[k]);
		rc = outer_step_tensor(&v->outer, layout->v[t].name, x + at, v->momentum + v->start[p] + at,
			v->answer, n, layout->v[t].count);
	}
	return rc;
}

int versions_merge(struct versions *v, unsigned p, uint64_t round, const struct versions_answer *a, size_t n)
{
	uint64_t step = weigh(v, a, n);
	struct versions_entry *e, *base;
	int rc = append(v, p, &e);

	if (rc < 0)
		return rc;
	base = e - 1;
	memcpy(e->value, base->value, v->cut->v[p].elems * sizeof *e->value);
	e->version = (struct replica_version){ .version = base->version.version + 1, .round = round,
		.step = step > base->version.step ? step : base->version.step, .answers = (unsigned)n };
	identify(&e->version, p);
	if ((rc = step_tensors(v, p, e->value, a, n)) < 0)
		return rc;
	for (size_t k = 0; k < n; k++) {
		e->counted[a[k].learner] = true;
		v->tokens += a[k].tokens;
	}
	v->merges++;
	tidy(v, p);
	return 0;
}

/* ---- all fragments ---- */

void versions_gather(const struct versions *v, float *params)
{
	for (unsigned p = 0; p < v->cut->n; p++)
		fragment_scatter(&v->cut->v[p], params, newest(v, p)->value);
}

uint64_t versions_step(const struct versions *v)
{
	uint64_t most = 0;

	for (unsigned p = 0; p < v->cut->n; p++)
		if (newest(v, p)->version.step > most)
			most = newest(v, p)->version.step;
	return most;
}
