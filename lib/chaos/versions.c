#include "chaos/versions.h"

#include <stdlib.h>
#include <string.h>

static int open_arrays(struct versions *v, uint64_t n)
{
	size_t entries = (size_t)v->cut->n * VERSIONS_KEPT;

	v->start = calloc(v->cut->n, sizeof *v->start);
	v->newest = calloc(v->cut->n, sizeof *v->newest);
	v->momentum = calloc(n, sizeof *v->momentum);
	v->entry = calloc(entries, sizeof *v->entry);
	v->counted = calloc(entries * v->learners, sizeof *v->counted);
	v->answer = calloc(v->learners, sizeof *v->answer);
	if (!v->start || !v->newest || !v->momentum || !v->entry || !v->counted || !v->answer)
		return err_nomem();
	for (int i = 0; i < VERSIONS_KEPT; i++)
		if (!(v->value[i] = calloc(n, sizeof **v->value)))
			return err_nomem();
	for (size_t i = 0; i < entries; i++)
		v->entry[i].counted = v->counted + i * v->learners;
	return 0;
}

/* Versions of different fragments, too, are not the same. */
static void identify(struct replica_version *v, unsigned p)
{
	memcpy(v->id.b, &v->version, sizeof v->version);
	memcpy(v->id.b + sizeof v->version, &p, sizeof p);
}

static struct versions_entry *entry(const struct versions *v, unsigned p, uint64_t version)
{
	return &v->entry[(size_t)p * VERSIONS_KEPT + version % VERSIONS_KEPT];
}

static float *value_of(const struct versions *v, unsigned p, uint64_t version)
{
	return v->value[version % VERSIONS_KEPT] + v->start[p];
}

static uint64_t longest_tensor(const struct fragments *cut)
{
	uint64_t most = 0;

	for (unsigned p = 0; p < cut->n; p++)
		for (size_t t = 0; t < cut->v[p].n; t++)
			if (cut->v[p].layout.v[t].count > most)
				most = cut->v[p].layout.v[t].count;
	return most;
}

int versions_open(struct versions *v, const struct fragments *cut, const float *params, uint64_t step,
	unsigned learners)
{
	uint64_t n = 0;
	int rc;

	*v = (struct versions){ .cut = cut, .learners = learners, .slice = MERGE_UNIT };
	for (unsigned p = 0; p < cut->n; p++)
		n += cut->v[p].elems;
	if ((rc = open_arrays(v, n)) < 0)
		return rc;
	n = 0;
	for (unsigned p = 0; p < cut->n; n += cut->v[p++].elems) {
		v->start[p] = n;
		entry(v, p, 0)->version.step = step;
		identify(&entry(v, p, 0)->version, p);
		fragment_gather(&cut->v[p], value_of(v, p, 0), params);
	}
	return outer_step_open(&v->outer, longest_tensor(cut), learners);
}

void versions_close(struct versions *v)
{
	for (int i = 0; i < VERSIONS_KEPT; i++)
		free(v->value[i]);
	free(v->start);
	free(v->newest);
	free(v->momentum);
	free(v->entry);
	free(v->counted);
	free(v->answer);
	outer_step_close(&v->outer);
	*v = (struct versions){ .cut = NULL };
}

const float *versions_get(const struct versions *v, unsigned p, uint64_t version, unsigned learner,
	struct replica_version *out)
{
	const struct versions_entry *e = entry(v, p, version);

	if (version > v->newest[p] || e->version.version != version)
		return NULL;
	*out = e->version;
	out->counted = e->counted[learner];
	return value_of(v, p, version);
}

/* ---- merging ---- */

/* Shares by weight, into v->answer; and the mean of the learners' global steps, weighted as their values are. */
static uint64_t weigh(struct versions *v, const struct versions_answer *a, size_t n)
{
	double sum = 0, step = 0;

	for (size_t k = 0; k < n; k++)
		sum += merge_weight(a[k].tokens, a[k].steps);
	for (size_t k = 0; k < n; k++) {
		double share = merge_weight(a[k].tokens, a[k].steps) / sum;

		v->answer[k] = (struct outer_step_answer){ NULL, NULL, share, v->slice };
		step += share * (double)a[k].step;
	}
	return (uint64_t)(step + 0.5);
}

/* The momentum stays in its place, the values go from one version to the next. */
static int step_tensors(struct versions *v, unsigned p, float *x, const struct versions_answer *a, size_t n)
{
	const struct tensors *layout = &v->cut->v[p].layout;
	uint64_t at = 0;
	int rc = 0;

	for (size_t t = 0; t < layout->n && rc == 0; at += layout->v[t++].count) {
		for (size_t k = 0; k < n; k++) {
			v->answer[k].value = a[k].value + at;
			v->answer[k].rest = a[k].rest ? a[k].rest + at : NULL;
		}
		rc = outer_step_tensor(&v->outer, layout->v[t].name, x + at, v->momentum + v->start[p] + at,
			v->answer, n, layout->v[t].count);
	}
	return rc;
}

int versions_merge(struct versions *v, unsigned p, uint64_t round, const struct versions_answer *a, size_t n)
{
	const struct versions_entry *base = entry(v, p, v->newest[p]);
	uint64_t next = v->newest[p] + 1, step = weigh(v, a, n);
	struct versions_entry *e = entry(v, p, next);
	float *x = value_of(v, p, next);
	int rc;

	memcpy(x, value_of(v, p, v->newest[p]), v->cut->v[p].elems * sizeof *x);
	if ((rc = step_tensors(v, p, x, a, n)) < 0)
		return rc;
	e->version = (struct replica_version){ .version = next, .round = round,
		.step = step > base->version.step ? step : base->version.step };
	identify(&e->version, p);
	memset(e->counted, 0, v->learners * sizeof *e->counted);
	for (size_t k = 0; k < n; k++) {
		e->counted[a[k].learner] = true;
		v->tokens += a[k].tokens;
	}
	v->newest[p] = next;
	v->merges++;
	return 0;
}

/* ---- all fragments ---- */

void versions_gather(const struct versions *v, float *params)
{
	for (unsigned p = 0; p < v->cut->n; p++)
		fragment_scatter(&v->cut->v[p], params, value_of(v, p, v->newest[p]));
}

uint64_t versions_step(const struct versions *v)
{
	uint64_t most = 0;

	for (unsigned p = 0; p < v->cut->n; p++)
		if (entry(v, p, v->newest[p])->version.step > most)
			most = entry(v, p, v->newest[p])->version.step;
	return most;
}
