#include "math/optimizer.h"

#include <stdlib.h>
#include <string.h>

bool optimizer_squares(enum optimizer_kind kind, const struct tensor *t)
{
	return kind == OPTIMIZER_ADAMW || !muon_takes(t);
}

uint64_t optimizer_size_v(enum optimizer_kind kind, const struct tensors *layout)
{
	uint64_t n = 0;

	for (size_t t = 0; t < layout->n; t++)
		if (optimizer_squares(kind, &layout->v[t]))
			n += layout->v[t].count;
	return n;
}

uint64_t optimizer_bytes(enum optimizer_kind kind, const struct tensors *layout, int threads)
{
	const uint64_t values = tensors_total(layout) + optimizer_size_v(kind, layout);

	return values * sizeof(real) + (kind == OPTIMIZER_MUON ? muon_bytes(layout, threads) : 0);
}

int optimizer_open(struct optimizer *o, enum optimizer_kind kind, const struct tensors *layout,
	struct pool *pool)
{
	*o = (struct optimizer){ .kind = kind, .layout = layout, .pool = pool };
	o->m = calloc(tensors_total(layout), sizeof(*o->m));
	o->v = calloc(optimizer_size_v(kind, layout) + 1, sizeof(*o->v));
	if (!o->m || !o->v)
		return err_nomem();
	return kind == OPTIMIZER_MUON ? muon_open(&o->muon, layout, pool) : 0;
}

void optimizer_close(struct optimizer *o)
{
	muon_close(o->muon);
	free(o->m);
	free(o->v);
	o->muon = NULL;
	o->m = o->v = NULL;
}

static void take(real *to, const real *from, uint64_t n)
{
	if (from)
		memcpy(to, from, n * sizeof(*to));
	else
		memset(to, 0, n * sizeof(*to));
}

void optimizer_take(struct optimizer *o, const struct optimizer *from)
{
	take(o->m, from ? from->m : NULL, tensors_total(o->layout));
	take(o->v, from ? from->v : NULL, optimizer_size_v(o->kind, o->layout));
	o->updates = from ? from->updates : 0;
}

/* The tensors that are not Muon's, one after the other: a few vectors and two tables. */
static void step_rest(struct optimizer *o, real *p, const real *g, const struct adamw_conf *adamw, double lr,
	double scale)
{
	uint64_t at = 0, at_v = 0;

	for (size_t t = 0; t < o->layout->n; at += o->layout->v[t++].count) {
		const struct tensors one = { .v = &o->layout->v[t], .n = 1 };

		if (!optimizer_squares(o->kind, one.v))
			continue;
		adamw_step(p + at, o->m + at, o->v + at_v, g + at, &one, adamw, lr, scale, o->updates,
			o->pool);
		at_v += one.v->count;
	}
}

void optimizer_step(struct optimizer *o, real *p, const real *g, const struct adamw_conf *adamw,
	double momentum, double lr, double scale)
{
	const struct muon_conf muon = { momentum, adamw->weight_decay };

	o->updates++;
	if (o->kind == OPTIMIZER_ADAMW) {
		adamw_step(p, o->m, o->v, g, o->layout, adamw, lr, scale, o->updates, o->pool);
		return;
	}
	muon_step(o->muon, p, o->m, g, &muon, lr, scale);
	step_rest(o, p, g, adamw, lr, scale);
}
