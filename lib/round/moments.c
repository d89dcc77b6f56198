#include "round/moments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "math/merge.h"

static const char *const groups[] = { "m.", "v.", "p." };
#define GROUPS 3

static float *group(const struct moments *s, size_t g)
{
	return g == 0 ? s->m : g == 1 ? s->v : s->p;
}

static int push_group(struct tensors *out, const struct tensors *layout, const char *prefix)
{
	struct tensor t;
	int n, rc;

	for (size_t i = 0; i < layout->n; i++) {
		t = layout->v[i];
		t.enc = ENC_F32;
		n = snprintf(t.name, sizeof t.name, "%s%s", prefix, layout->v[i].name);
		if (n > TENSOR_NAME)
			return err_set(ERR_DATA, "tensor name '%s' is too long", layout->v[i].name);
		if ((rc = tensors_push(out, &t)) < 0)
			return rc;
	}
	return 0;
}

int moments_table(struct tensors *out, const struct tensors *layout)
{
	int rc = 0;

	for (size_t g = 0; rc == 0 && g < GROUPS; g++)
		rc = push_group(out, layout, groups[g]);
	return rc;
}

int moments_check(const struct header *h, const struct tensors *layout)
{
	struct tensors want = { 0 };
	int rc = moments_table(&want, layout);

	if (rc == 0)
		rc = tensors_same(&want, &h->tensors);
	tensors_release(&want);
	return rc;
}

static int check_finite(const struct tensor *t, uint64_t first, const float *value, size_t n)
{
	size_t bad;

	merge_norm2(value, NULL, n, &bad);
	if (bad == n)
		return 0;
	return err_set(ERR_DATA, "tensor %s: element %" PRIu64 " is not finite", t->name,
		first + bad);
}

int moments_read(const struct moments *s, const struct tensors *layout, struct frame_reader *r)
{
	const struct header *h = frame_header(r);
	struct frame_slice slice;
	uint64_t start = 0; /* of the slice's tensor in its group */
	uint32_t seen = 0;  /* the tensor that start belongs to */
	float *to;
	int rc;

	while ((rc = frame_next(r, &slice)) == 1) {
		for (; seen < slice.tensor; seen++)
			start = (seen + 1) % layout->n ? start + h->tensors.v[seen].count : 0;
		rc = check_finite(&h->tensors.v[slice.tensor], slice.first, slice.value, slice.n);
		if (rc < 0)
			return err_at(rc, "%s", frame_name(r));
		to = group(s, slice.tensor / layout->n);
		if (to)
			memcpy(to + start + slice.first, slice.value, slice.n * sizeof(float));
	}
	return rc;
}

int moments_write(const struct moments *s, const struct tensors *layout, struct frame_writer *w)
{
	const struct tensor *t;
	const float *at;
	size_t g, i;
	int rc;

	for (g = 0; g < GROUPS; g++)
		for (at = group(s, g), i = 0; i < layout->n; at += t->count, i++) {
			t = &layout->v[i];
			if ((rc = check_finite(t, 0, at, t->count)) < 0)
				return rc;
			if ((rc = frame_write(w, at, NULL, t->count)) < 0)
				return rc;
		}
	return 0;
}
