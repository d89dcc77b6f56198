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

/* Is there a tensor of this group for t? */
static bool holds(size_t g, const struct tensor *t, enum optimizer_kind optimizer)
{
	return g != 1 || optimizer_squares(optimizer, t);
}

static int push_group(struct tensors *out, const struct tensors *layout, size_t g, enum optimizer_kind optimizer)
{
	struct tensor t;
	int n, rc;

	for (size_t i = 0; i < layout->n; i++) {
		if (!holds(g, &layout->v[i], optimizer))
			continue;
		t = layout->v[i];
		t.enc = ENC_F32;
		n = snprintf(t.name, sizeof t.name, "%s%s", groups[g], layout->v[i].name);
		if (n > TENSOR_NAME)
			return err_set(ERR_DATA, "tensor name '%s' is too long", layout->v[i].name);
		if ((rc = tensors_push(out, &t)) < 0)
			return rc;
	}
	return 0;
}

static int make_table(struct tensors *out, const struct tensors *layout, enum optimizer_kind optimizer)
{
	int rc = 0;

	for (size_t g = 0; rc == 0 && g < GROUPS; g++)
		rc = push_group(out, layout, g, optimizer);
	return rc;
}

int moments_header(struct header *h, const struct tensors *layout, enum optimizer_kind optimizer)
{
	int rc = conf_set(&h->keys, "optimizer", optimizer_kind_name(optimizer));

	return rc < 0 ? rc : make_table(&h->tensors, layout, optimizer);
}

/* Files of before there was a choice do not say. */
static int check_optimizer(const struct header *h, enum optimizer_kind optimizer)
{
	const char *text = conf_get(&h->keys, "optimizer");
	enum optimizer_kind have = OPTIMIZER_ADAMW;
	int rc = text ? optimizer_kind_parse(text, &have) : 0;

	if (rc < 0)
		return err_at(rc, "key 'optimizer'");
	if (have == optimizer)
		return 0;
	return err_set(ERR_DATA, "has moments of %s, not of %s (--optimizer %s goes on with them)",
		optimizer_kind_name(have), optimizer_kind_name(optimizer), optimizer_kind_name(have));
}

int moments_check(const struct header *h, const struct tensors *layout, enum optimizer_kind optimizer)
{
	struct tensors want = { 0 };
	int rc = check_optimizer(h, optimizer);

	if (rc == 0)
		rc = make_table(&want, layout, optimizer);
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

/* A tensor of the file: that of the layout, its group, and where it starts in the group's array. */
struct place {
	size_t group, i;
	uint64_t start;
};

static void next_place(struct place *p, const struct tensors *layout, enum optimizer_kind optimizer)
{
	p->start += layout->v[p->i++].count;
	while (p->i < layout->n && !holds(p->group, &layout->v[p->i], optimizer))
		p->i++;
	if (p->i < layout->n)
		return;
	*p = (struct place){ .group = p->group + 1 };
	while (p->group < GROUPS && p->i < layout->n && !holds(p->group, &layout->v[p->i], optimizer))
		p->i++;
}

int moments_read(const struct moments *s, const struct tensors *layout, struct frame_reader *r)
{
	const struct header *h = frame_header(r);
	struct place at = { 0 };
	struct frame_slice slice;
	uint32_t seen = 0; /* the tensor that is at `at` */
	float *to;
	int rc;

	while ((rc = frame_next(r, &slice)) == 1) {
		for (; seen < slice.tensor; seen++)
			next_place(&at, layout, s->optimizer);
		rc = check_finite(&h->tensors.v[slice.tensor], slice.first, slice.value, slice.n);
		if (rc < 0)
			return err_at(rc, "%s", frame_name(r));
		to = group(s, at.group);
		if (to)
			memcpy(to + at.start + slice.first, slice.value, slice.n * sizeof(float));
	}
	return rc;
}

int moments_write(const struct moments *s, const struct tensors *layout, struct frame_writer *w)
{
	const struct tensor *t;
	struct place at = { 0 };
	const float *value;
	int rc;

	for (; at.group < GROUPS; next_place(&at, layout, s->optimizer)) {
		t = &layout->v[at.i];
		value = group(s, at.group) + at.start;
		if ((rc = check_finite(t, 0, value, t->count)) < 0)
			return rc;
		if ((rc = frame_write(w, value, NULL, t->count)) < 0)
			return rc;
	}
	return 0;
}
