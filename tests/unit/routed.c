/* routed - counts of tokens by experts, in a header and back. */
#include "round/routed.h"

#include <stdlib.h>

#include "math/model_conf.h"
#include "unit.h"

#define EXPERT(layer, expert, w) "model.layers." #layer ".block_sparse_moe.experts." #expert "." #w ".weight"

/* A fragment: an expert whole, one in two tensors that are no neighbours, one of another layer. */
static const char *const names[] = { "model.norm.weight", EXPERT(0, 1, w1), EXPERT(0, 1, w3), EXPERT(0, 1, w2),
	EXPERT(0, 2, w1), EXPERT(0, 10, w1), EXPERT(0, 2, w2), "model.layers.1.self_attn.q_proj.weight", EXPERT(1, 2, w3) };
enum { TENSORS = sizeof names / sizeof names[0], EXPERTS = 11 };

static struct tensors layout;

static void make_layout(void)
{
	struct tensor t = { .enc = ENC_F32, .rank = 1, .dim = { 4 } };

	for (size_t i = 0; i < TENSORS; i++) {
		snprintf(t.name, sizeof t.name, "%s", names[i]);
		CHECK(tensors_push(&layout, &t) == 0);
	}
}

static void each_tensor_counts_for_its_expert(void)
{
	static const uint64_t want[TENSORS] = { 0, 2, 2, 2, 4, 20, 4, 0, 2 * (EXPERTS + 2) };
	uint64_t load[2 * EXPERTS], count[TENSORS] = { 0 };
	uint32_t route[TENSORS];

	for (uint64_t i = 0; i < 2 * EXPERTS; i++)
		load[i] = i;
	CHECK(routed_experts(&layout) == EXPERTS);
	routed_map(route, &layout, EXPERTS);
	CHECK(route[0] == ROUTED_NONE && route[1] == 1 && route[8] == EXPERTS + 2);
	routed_add(count, route, load, TENSORS);
	routed_add(count, route, load, TENSORS);
	CHECK(memcmp(count, want, sizeof want) == 0);
}

static void what_is_written_is_read(void)
{
	static const uint64_t count[TENSORS] = { 0, 7, 7, 7, 0, 30, 5, 0, 12 };
	uint64_t again[TENSORS] = { 0 };
	struct conf c = { 0 };

	CHECK(routed_write(&c, "routed.f007", &layout, count) == 0);
	CHECK_STR(conf_get(&c, "routed.f007"), "7 0 30 5 12");
	CHECK(routed_read(again, &c, "routed.f007", &layout, 30) == 1);
	CHECK(memcmp(again, count, sizeof count) == 0);
	CHECK(routed_read(again, &c, ROUTED_KEY, &layout, 30) == 0);
	conf_release(&c);
}

static void a_table_without_experts_has_no_key(void)
{
	const struct tensor t = { .name = "model.norm.weight", .enc = ENC_F32, .rank = 1, .dim = { 4 } };
	struct tensors dense = { 0 };
	uint64_t count[1] = { 3 };
	struct conf c = { 0 };

	CHECK(tensors_push(&dense, &t) == 0 && routed_experts(&dense) == 0);
	CHECK(routed_write(&c, ROUTED_KEY, &dense, count) == 0 && c.n == 0);
	CHECK(conf_set(&c, ROUTED_KEY, "3") == 0);
	CHECK(routed_read(count, &c, ROUTED_KEY, &dense, 30) == ERR_DATA);
	CHECK_SAYS("key 'routed': more counts than experts");
	tensors_release(&dense);
	conf_release(&c);
}

static void refused(const char *value, const char *why)
{
	uint64_t count[TENSORS] = { 0 };
	struct conf c = { 0 };

	CHECK(conf_set(&c, ROUTED_KEY, value) == 0);
	CHECK(routed_read(count, &c, ROUTED_KEY, &layout, 30) == ERR_DATA);
	CHECK_SAYS(why);
	conf_release(&c);
}

static void other_lists_are_refused(void)
{
	refused("7 0 30 5", "key 'routed': fewer counts than experts");
	refused("7 0 30 5 12 1", "key 'routed': more counts than experts");
	refused("7 0 31 5 12", "key 'routed': 31 of 30 tokens");
	refused("7 0 -1 5 12", "key 'routed': '-1'");
	refused("7  0 30 5 12", "key 'routed': ''");
	refused("7 0 1e1 5 12", "key 'routed': '1e1'");
	refused("18446744073709551616 0 30 5 12", "key 'routed': '18446744073709551616'");
}

int main(void)
{
	make_layout();
	each_tensor_counts_for_its_expert();
	what_is_written_is_read();
	a_table_without_experts_has_no_key();
	other_lists_are_refused();
	tensors_release(&layout);
	return unit_done("routed");
}
