/* optimizer - who trains which tensor, and what is kept of it. */
#include "math/optimizer.h"

#include <stdlib.h>

#include "base/rng.h"
#include "math/blas.h"
#include "math/model_conf.h"
#include "plain.h"
#include "unit.h"

static const struct adamw_conf adamw = {
	.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1
};

static struct tensors layout_of(const char *text)
{
	struct conf conf = { 0 };
	struct tensors l = { 0 };
	struct model_conf c;

	CHECK(conf_parse(&conf, text, strlen(text)) == 0 && model_conf_read(&c, &conf) == 0);
	CHECK(model_layout(&c, &l) == 0);
	conf_release(&conf);
	return l;
}

static real *normals(uint64_t n, uint64_t stream)
{
	real *x = calloc(n, sizeof(*x));

	for (uint64_t i = 0; x && i < n; i++)
		x[i] = (real)rng_normal_at(1, stream, i);
	return x;
}

static void names_are_read_and_written(void)
{
	enum optimizer_kind kind = OPTIMIZER_ADAMW;

	CHECK(optimizer_kind_parse("muon", &kind) == 0 && kind == OPTIMIZER_MUON);
	CHECK_STR(optimizer_kind_name(kind), "muon");
	CHECK(optimizer_kind_parse("adamw", &kind) == 0 && kind == OPTIMIZER_ADAMW);
	CHECK_STR(optimizer_kind_name(kind), "adamw");
	CHECK(optimizer_kind_parse("Muon", &kind) == ERR_DATA && optimizer_kind_parse("", &kind) == ERR_DATA);
	CHECK_SAYS("'' is not adamw or muon");
}

/* Embedding, head and norms; all else of a layer is Muon's, each expert and the router, too. */
static void muon_takes_the_matrices_of_layers(void)
{
	struct tensors l = layout_of("vocab 30\nd_model 8\nlayers 2\nheads 2\nff 16\nexperts 3\ntied no\n");
	uint64_t rest = 0;

	for (size_t t = 0; t < l.n; t++) {
		const bool other = l.v[t].rank == 1 || strstr(l.v[t].name, "embed") ||
			strstr(l.v[t].name, "lm_head");

		CHECK(optimizer_squares(OPTIMIZER_MUON, &l.v[t]) == other);
		CHECK(optimizer_squares(OPTIMIZER_ADAMW, &l.v[t]));
		rest += other ? l.v[t].count : 0;
	}
	CHECK(rest == 2 * 30 * 8 + 5 * 8 && optimizer_size_v(OPTIMIZER_MUON, &l) == rest);
	CHECK(optimizer_size_v(OPTIMIZER_ADAMW, &l) == tensors_total(&l));
	CHECK(optimizer_bytes(OPTIMIZER_ADAMW, &l, 9) == 8 * tensors_total(&l));
	CHECK(optimizer_bytes(OPTIMIZER_MUON, &l, 2) - optimizer_bytes(OPTIMIZER_MUON, &l, 1) ==
		muon_bytes(&l, 1));
	tensors_release(&l);
}

/* The rest is AdamW as if there were no Muon, its squares one after the other. */
static void the_rest_is_adamw(void)
{
	struct tensors l = layout_of("vocab 30\nd_model 8\nlayers 2\nheads 2\nff 16\ntied no\n");
	const uint64_t n = tensors_total(&l);
	struct optimizer a, b;
	real *p[2] = { normals(n, 1), normals(n, 1) }, *g = NULL;
	uint64_t at = 0, v = 0;

	CHECK(optimizer_open(&a, OPTIMIZER_ADAMW, &l, NULL) == 0);
	CHECK(optimizer_open(&b, OPTIMIZER_MUON, &l, NULL) == 0);
	for (uint64_t t = 0; t < 4; t++) {
		g = normals(n, 10 + t);
		optimizer_step(&a, p[0], g, &adamw, 0.95, 0.01, 0.5);
		optimizer_step(&b, p[1], g, &adamw, 0.95, 0.01, 0.5);
		free(g);
	}
	CHECK(a.updates == 4 && b.updates == 4);
	for (size_t t = 0; t < l.n; at += l.v[t++].count) {
		const size_t bytes = l.v[t].count * sizeof(real);

		CHECK((memcmp(p[0] + at, p[1] + at, bytes) == 0) == optimizer_squares(OPTIMIZER_MUON, &l.v[t]));
		if (!optimizer_squares(OPTIMIZER_MUON, &l.v[t]))
			continue;
		CHECK(memcmp(a.m + at, b.m + at, bytes) == 0 && memcmp(a.v + at, b.v + v, bytes) == 0);
		v += l.v[t].count;
	}
	optimizer_close(&a);
	optimizer_close(&b);
	free(p[0]);
	free(p[1]);
	tensors_release(&l);
}

int main(void)
{
	blas_init();
	names_are_read_and_written();
	muon_takes_the_matrices_of_layers();
	the_rest_is_adamw();
	return unit_done("optimizer");
}
