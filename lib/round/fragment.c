#include "round/fragment.h"

#include <stdlib.h>
#include <string.h>

#define ELEMS_MAX ((uint64_t)1 << 60) /* no sum of elements wraps */

/* A tensor on its way into a fragment. */
struct piece {
	uint32_t tensor;
	uint64_t count;
};

static int by_size(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static struct fragment *smallest(struct fragments *f)
{
	struct fragment *least = &f->v[0];

	for (unsigned i = 1; i < f->n; i++)
		if (f->v[i].elems < least->elems)
			least = &f->v[i];
	return least;
}

/* owner (tensors) gets the fragment of each; sizes are summed up. */
static int assign(struct fragments *f, uint32_t *owner, const struct tensors *layout)
{
	struct piece *piece = calloc(layout->n, sizeof *piece);

	if (!piece)
		return err_nomem();
	for (size_t t = 0; t < layout->n; t++)
		piece[t] = (struct piece){ (uint32_t)t, layout->v[t].count };
	qsort(piece, layout->n, sizeof *piece, by_size);
	for (size_t i = 0; i < layout->n; i++) {
		struct fragment *to = smallest(f);

		owner[piece[i].tensor] = (uint32_t)(to - f->v);
		to->elems += piece[i].count;
		to->n++;
	}
	free(piece);
	return 0;
}

static int add_tensor(struct fragment *f, const struct tensor *t, uint32_t number, uint64_t offset)
{
	struct tensor copy = *t;

	copy.enc = ENC_F32;
	f->tensor[f->n] = number;
	f->offset[f->n++] = offset;
	return tensors_push(&f->layout, &copy);
}

static int fill(struct fragments *f, const uint32_t *owner, const struct tensors *layout)
{
	uint64_t offset = 0;
	int rc = 0;

	for (unsigned i = 0; i < f->n; i++) {
		f->v[i].tensor = calloc(f->v[i].n, sizeof *f->v[i].tensor);
		f->v[i].offset = calloc(f->v[i].n, sizeof *f->v[i].offset);
		if (!f->v[i].tensor || !f->v[i].offset)
			return err_nomem();
		f->v[i].n = 0;
	}
	for (size_t t = 0; t < layout->n && rc == 0; t++) {
		rc = add_tensor(&f->v[owner[t]], &layout->v[t], (uint32_t)t, offset);
		offset += layout->v[t].count;
	}
	return rc;
}

static int check(const struct tensors *layout, unsigned count)
{
	uint64_t total = 0;

	if (count == 0)
		return err_set(ERR_USAGE, "0 fragments: at least one is needed");
	if (count > FRAGMENT_MAX)
		return err_set(ERR_USAGE, "%u fragments: at most %d are possible", count, FRAGMENT_MAX);
	if (count > layout->n)
		return err_set(ERR_USAGE, "%u fragments, and the model has only %zu tensors: choose fewer",
			count, layout->n);
	for (size_t t = 0; t < layout->n; t++) {
		if (layout->v[t].dtype != DTYPE_F32)
			return err_set(ERR_USAGE, "tensor '%s' is not of floats", layout->v[t].name);
		if (layout->v[t].count > ELEMS_MAX - total)
			return err_set(ERR_USAGE, "a model of more than 2^60 parameters");
		total += layout->v[t].count;
	}
	return 0;
}

static double imbalance(const struct fragments *f)
{
	uint64_t largest = 0, total = 0;

	for (unsigned i = 0; i < f->n; i++) {
		total += f->v[i].elems;
		if (f->v[i].elems > largest)
			largest = f->v[i].elems;
	}
	return (double)largest * f->n / (double)total;
}

int fragments_cut(struct fragments *f, const struct tensors *layout, unsigned count)
{
	uint32_t *owner;
	int rc = check(layout, count);

	*f = (struct fragments){ 0 };
	if (rc < 0)
		return rc;
	f->v = calloc(count, sizeof *f->v);
	owner = calloc(layout->n, sizeof *owner);
	rc = f->v && owner ? 0 : err_nomem();
	if (rc == 0) {
		f->n = count;
		rc = assign(f, owner, layout);
	}
	if (rc == 0)
		rc = fill(f, owner, layout);
	if (rc == 0)
		f->imbalance = imbalance(f);
	free(owner);
	if (rc < 0)
		fragments_release(f);
	return rc;
}

void fragments_release(struct fragments *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		free(f->v[i].tensor);
		free(f->v[i].offset);
		tensors_release(&f->v[i].layout);
	}
	free(f->v);
	*f = (struct fragments){ 0 };
}

void fragment_gather(const struct fragment *f, float *out, const float *model)
{
	for (size_t i = 0; i < f->n; i++) {
		memcpy(out, model + f->offset[i], f->layout.v[i].count * sizeof *out);
		out += f->layout.v[i].count;
	}
}

void fragment_scatter(const struct fragment *f, float *model, const float *in)
{
	for (size_t i = 0; i < f->n; i++) {
		memcpy(model + f->offset[i], in, f->layout.v[i].count * sizeof *in);
		in += f->layout.v[i].count;
	}
}
