#include "round/fragment.h"

#include <stdlib.h>

#include "math/model_conf.h"
#include "unit.h"

static void push(struct tensors *ts, const char *name, uint64_t n)
{
	struct tensor t = { .dtype = DTYPE_F32, .enc = ENC_BF16, .rank = 1, .dim = { n } };

	snprintf(t.name, sizeof t.name, "%s", name);
	CHECK(tensors_push(ts, &t) == 0);
}

static void the_largest_goes_to_the_smallest(void)
{
	static const uint64_t size[] = { 3, 9, 5, 5, 1, 4 };
	struct tensors ts = { 0 };
	struct fragments f;
	char name[] = "a";

	for (int i = 0; i < 6; i++, name[0]++)
		push(&ts, name, size[i]);
	/* b9 -> 0, c5 -> 1, d5 -> 2, f4 -> 1 (the first of two of 5), a3 -> 2, e1 -> 2 */
	CHECK(fragments_cut(&f, &ts, 3) == 0 && f.n == 3);
	CHECK(f.v[0].n == 1 && f.v[0].tensor[0] == 1 && f.v[0].elems == 9 && f.v[0].offset[0] == 3);
	CHECK(f.v[1].n == 2 && f.v[1].tensor[0] == 2 && f.v[1].tensor[1] == 5 && f.v[1].elems == 9);
	CHECK(f.v[1].offset[0] == 12 && f.v[1].offset[1] == 23);
	CHECK(f.v[2].n == 3 && f.v[2].tensor[0] == 0 && f.v[2].tensor[1] == 3 && f.v[2].tensor[2] == 4);
	CHECK_STR(f.v[2].layout.v[2].name, "e");
	CHECK(f.v[2].layout.v[2].enc == ENC_F32);
	CHECK_NEAR(f.imbalance, 1, 0);
	fragments_release(&f);
	tensors_release(&ts);
}

static void gather_and_scatter_are_inverse(void)
{
	struct tensors ts = { 0 };
	struct fragments f;
	float model[10], again[10] = { 0 }, part[10];

	push(&ts, "a", 2);
	push(&ts, "b", 5);
	push(&ts, "c", 3);
	for (int i = 0; i < 10; i++)
		model[i] = (float)i + 1;
	CHECK(fragments_cut(&f, &ts, 2) == 0);
	CHECK(f.v[0].elems == 5 && f.v[1].elems == 5);
	fragment_gather(&f.v[1], part, model);
	CHECK(part[0] == 1 && part[1] == 2 && part[2] == 8 && part[4] == 10);
	fragment_scatter(&f.v[1], again, part);
	fragment_gather(&f.v[0], part, model);
	fragment_scatter(&f.v[0], again, part);
	CHECK(memcmp(model, again, sizeof model) == 0);
	fragments_release(&f);
	tensors_release(&ts);
}

/* Every tensor once, whatever the count; and balanced where tensors are many. */
static void a_model_is_cut_up(void)
{
	struct conf conf = { 0 };
	struct model_conf model;
	struct tensors ts = { 0 };
	const char *text = model_preset("tiny");

	CHECK(conf_parse(&conf, text, strlen(text)) == 0 && model_conf_read(&model, &conf) == 0);
	CHECK(model_layout(&model, &ts) == 0);
	for (unsigned p = 1; p <= ts.n; p++) {
		struct fragments f;
		uint64_t elems = 0;
		size_t tensors = 0;

		CHECK(fragments_cut(&f, &ts, p) == 0 && f.n == p);
		for (unsigned i = 0; i < p; i++) {
			CHECK(f.v[i].n > 0 && tensors_total(&f.v[i].layout) == f.v[i].elems);
			elems += f.v[i].elems;
			tensors += f.v[i].n;
		}
		CHECK(tensors == ts.n && elems == tensors_total(&ts) && f.imbalance >= 1);
		if (p <= 8)
			CHECK(f.imbalance < 1.15);
		fragments_release(&f);
	}
	tensors_release(&ts);
	conf_release(&conf);
}

static void counts_that_cannot_be(void)
{
	struct tensors ts = { 0 };
	struct fragments f;

	push(&ts, "a", 2);
	push(&ts, "b", 2);
	CHECK(fragments_cut(&f, &ts, 0) == ERR_USAGE);
	CHECK(fragments_cut(&f, &ts, 3) == ERR_USAGE);
	CHECK_SAYS("only 2 tensors");
	CHECK(fragments_cut(&f, &ts, FRAGMENT_MAX + 1) == ERR_USAGE);
	CHECK(fragments_cut(&f, &ts, 2) == 0);
	fragments_release(&f);
	fragments_release(&f);
	tensors_release(&ts);
}

int main(void)
{
	the_largest_goes_to_the_smallest();
	gather_and_scatter_are_inverse();
	a_model_is_cut_up();
	counts_that_cannot_be();
	return unit_done("fragment");
}
