#include <stdlib.h>

#include "base/rng.h"
#include "math/model_conf.h"
#include "math/train_conf.h"
#include "unit.h"

static int read_text(struct model_conf *c, const char *text)
{
	struct conf conf = { 0 };
	int rc = conf_parse(&conf, text, strlen(text));

	if (rc == 0)
		rc = model_conf_read(c, &conf);
	conf_release(&conf);
	return rc;
}

static uint64_t parameters(const char *preset)
{
	struct tensors layout = { 0 };
	struct model_conf c;

	CHECK(read_text(&c, model_preset(preset)) == 0);
	CHECK(model_layout(&c, &layout) == 0);
	CHECK(tensors_unique(&layout) == 0);
	const uint64_t n = tensors_total(&layout);

	tensors_release(&layout);
	return n;
}

static void presets_have_the_published_sizes(void)
{
	CHECK(parameters("tiny") ==
		256 * 128 + 4 * (2 * 128 + 4 * 128 * 128 + 3 * 128 * 384) + 128);
	CHECK(parameters("small") ==
		8192 * 256 + 6 * (2 * 256 + 4 * 256 * 256 + 3 * 256 * 704) + 256);
	CHECK(parameters("medium") ==
		256 * 384 + 6 * (2 * 384 + 4 * 384 * 384 + 3 * 384 * 1024) + 384);
	CHECK(parameters("moe") ==
		256 * 128 + 4 * (2 * 128 + 4 * 128 * 128 + 8 * 128 + 8 * 3 * 128 * 192) + 128);
	CHECK(model_preset("huge") == NULL);
}

static void presets_hold_known_keys_only(void)
{
	static const char *const names[] = { "tiny", "moe", "small", "medium" };
	const char *known[64];
	size_t n = 0;

	for (const char *const *k = model_keys; *k; k++)
		known[n++] = *k;
	for (const char *const *k = train_keys; *k; k++)
		known[n++] = *k;
	known[n] = NULL;
	for (size_t i = 0; i < 4; i++) {
		struct conf conf = { 0 };
		struct train_conf t;
		const char *text = model_preset(names[i]);

		CHECK(conf_parse(&conf, text, strlen(text)) == 0 && conf_known(&conf, known) == 0);
		CHECK(train_conf_read(&t, &conf) == 0);
		CHECK(t.context == (i < 2 ? 128u : 256u) && t.batch == 8 && t.adamw.clip == 1);
		conf_release(&conf);
	}
}

static void missing_keys_get_defaults(void)
{
	struct model_conf c;

	CHECK(read_text(&c, "d_model 96\nlayers 2\nheads 6\n") == 0);
	CHECK(c.vocab == 256 && c.kv_heads == 6 && c.head_dim == 16 && c.ff == 256 &&
		c.context == 256 && c.tied);
	CHECK(c.rope_theta == 10000 && c.norm_eps == 1e-5 && c.init_std == 0.02 && c.experts == 0);
	CHECK(read_text(&c, "d_model 10\nlayers 1\nheads 4\nhead_dim 6\nkv_heads 2\ntied no\n") ==
		0);
	CHECK(c.head_dim == 6 && c.kv_heads == 2 && !c.tied);
	CHECK(c.experts_per_token == 0 && c.router_aux_loss_coef == 0);
	CHECK(read_text(&c, "d_model 96\nlayers 2\nheads 6\nexperts 8\n") == 0);
	CHECK(c.experts == 8 && c.experts_per_token == 2 && c.router_aux_loss_coef == 0.01);
	CHECK(read_text(&c, "d_model 96\nlayers 2\nheads 6\nexperts 1\n") == 0);
	CHECK(c.experts_per_token == 1);
}

static void contradictions_are_named(void)
{
	struct model_conf c;

	CHECK(read_text(&c, "layers 2\nheads 6\n") == ERR_DATA);
	CHECK_SAYS("'d_model' is missing");
	CHECK(read_text(&c, "d_model 100\nlayers 2\nheads 6\n") == ERR_DATA);
	CHECK_SAYS("d_model 100 is not a multiple of heads 6");
	CHECK(read_text(&c, "d_model 96\nlayers 2\nheads 6\nkv_heads 4\n") == ERR_DATA);
	CHECK_SAYS("heads 6 is not a multiple of kv_heads 4");
	CHECK(read_text(&c, "d_model 18\nlayers 2\nheads 6\n") == ERR_DATA);
	CHECK_SAYS("head_dim 3 is odd");
	CHECK(read_text(&c, "d_model 96\nlayers 2\nheads 6\nexperts 4\nexperts_per_token 5\n") ==
		ERR_DATA);
	CHECK_SAYS("experts_per_token 5 is more than experts 4");
	CHECK(read_text(&c, "d_model 96\nlayers 2\nheads 6\nexperts 4\nexperts_per_token 0\n") ==
		ERR_DATA);
	CHECK_SAYS("experts_per_token");
	CHECK(read_text(&c, "d_model 96\nlayers 64\nheads 6\nexperts 1025\n") == ERR_DATA);
	CHECK_SAYS("64 layers of experts 1025: at most 65536 experts in all");
	CHECK(read_text(&c, "d_model 96\nlayers 64\nheads 6\nexperts 1024\n") == 0);
	CHECK(read_text(&c, "d_model 96\nlayers 0\nheads 6\n") == ERR_DATA);
	CHECK_SAYS("layers");
	CHECK(read_text(&c, "d_model 96\nlayers 2\nheads 6\ncontext 99999999\n") == ERR_DATA);
	CHECK_SAYS("context");
}

static void what_is_written_reads_back(void)
{
	struct conf conf = { 0 };
	struct model_conf c, again;
	struct train_conf t, t_again;

	CHECK(read_text(&c, "d_model 96\nlayers 3\nheads 6\nkv_heads 2\ntied no\n"
		"rope_theta 5e5\ninit_std 0.013\n") == 0);
	CHECK(model_conf_write(&c, &conf) == 0);
	CHECK(train_conf_read(&t, &conf) == 0);
	t.sched.lr = 0.1 + 0.2;
	t.sched.decay_tokens = UINT64_MAX;
	t.batch = 77;
	CHECK(train_conf_write(&t, &conf) == 0);
	CHECK(model_conf_read(&again, &conf) == 0 && train_conf_read(&t_again, &conf) == 0);
	CHECK(again.kv_heads == 2 && !again.tied && again.rope_theta == 5e5 &&
		again.init_std == 0.013);
	CHECK(again.ff == c.ff && again.layers == 3 && again.context == c.context);
	CHECK(t_again.sched.lr == 0.1 + 0.2 && t_again.sched.decay_tokens == UINT64_MAX && t_again.batch == 77 && t_again.context == c.context);
	for (const char *const *k = model_keys; *k; k++)
		CHECK((conf_get(&conf, *k) != NULL) ==
			(strcmp(*k, "experts_per_token") && strcmp(*k, "router_aux_loss_coef") &&
				strcmp(*k, "vocabulary")));
	for (const char *const *k = train_keys; *k; k++)
		CHECK(conf_get(&conf, *k) != NULL);
	conf_release(&conf);
}

#define HEX64 "7aac8b09dce58b1faadabbe41b1730fc86bf3ef5abf41c21db6bf006d8fda6fc"

static void experts_read_back(void)
{
	struct conf conf = { 0 };
	struct model_conf c, again;

	CHECK(read_text(&c, "d_model 96\nlayers 3\nheads 6\nexperts 6\nexperts_per_token 3\n"
		"router_aux_loss_coef 0.002\nvocabulary " HEX64 "\n") == 0);
	CHECK(model_conf_write(&c, &conf) == 0 && model_conf_read(&again, &conf) == 0);
	CHECK(again.experts == 6 && again.experts_per_token == 3 &&
		again.router_aux_loss_coef == 0.002);
	CHECK_STR(again.vocabulary, HEX64);
	CHECK(read_text(&c, "d_model 8\nlayers 1\nheads 2\nvocabulary 7aac\n") == ERR_DATA);
	CHECK_SAYS("key 'vocabulary' is not 64 hex digits");
	for (const char *const *k = model_keys; *k; k++)
		CHECK(conf_get(&conf, *k) != NULL);
	conf_release(&conf);
}

static void layout_keeps_fused_groups_together(void)
{
	struct tensors layout = { 0 };
	struct model_conf c;

	CHECK(read_text(&c, "d_model 8\nlayers 2\nheads 2\nkv_heads 1\nff 12\n"
		"tied no\nvocab 11\n") == 0);
	CHECK(model_layout(&c, &layout) == 0 && layout.n == 1 + 2 * 9 + 2);
	CHECK_STR(layout.v[0].name, "model.embed_tokens.weight");
	CHECK_STR(layout.v[10].name, "model.layers.1.input_layernorm.weight");
	CHECK_STR(layout.v[11].name, "model.layers.1.self_attn.q_proj.weight");
	CHECK_STR(layout.v[12].name, "model.layers.1.self_attn.k_proj.weight");
	CHECK_STR(layout.v[13].name, "model.layers.1.self_attn.v_proj.weight");
	CHECK_STR(layout.v[16].name, "model.layers.1.mlp.gate_proj.weight");
	CHECK_STR(layout.v[17].name, "model.layers.1.mlp.up_proj.weight");
	CHECK_STR(layout.v[20].name, "lm_head.weight");
	CHECK(layout.v[12].dim[0] == 4 && layout.v[12].dim[1] == 8 && layout.v[18].dim[0] == 8);
	tensors_release(&layout);
}

static void experts_are_named_as_in_mixtral(void)
{
	struct tensors layout = { 0 };
	struct model_conf c;

	CHECK(read_text(&c, "d_model 8\nlayers 2\nheads 2\nff 12\nexperts 3\nvocab 11\n") == 0);
	CHECK(model_layout(&c, &layout) == 0 && layout.n == 1 + 2 * (6 + 1 + 3 * 3) + 1);
	CHECK_STR(layout.v[6].name, "model.layers.0.post_attention_layernorm.weight");
	CHECK_STR(layout.v[7].name, "model.layers.0.block_sparse_moe.gate.weight");
	CHECK_STR(layout.v[8].name, "model.layers.0.block_sparse_moe.experts.0.w1.weight");
	CHECK_STR(layout.v[9].name, "model.layers.0.block_sparse_moe.experts.0.w3.weight");
	CHECK_STR(layout.v[10].name, "model.layers.0.block_sparse_moe.experts.0.w2.weight");
	CHECK_STR(layout.v[31].name, "model.layers.1.block_sparse_moe.experts.2.w3.weight");
	CHECK(layout.v[7].dim[0] == 3 && layout.v[7].dim[1] == 8);
	CHECK(layout.v[9].dim[0] == 12 && layout.v[9].dim[1] == 8 && layout.v[10].dim[0] == 8);
	tensors_release(&layout);
}

/* Bits of known values, so that every machine and compiler is seen to agree: FNV-1a over the bytes
 * of all tensors. */
static void initial_values_are_the_same_everywhere(void)
{
	struct tensors layout = { 0 };
	struct model_conf c;
	uint64_t hash = 0xcbf29ce484222325u;
	double sum2 = 0;
	size_t n = 0;

	CHECK(read_text(&c, "d_model 32\nlayers 2\nheads 2\nff 48\n") == 0 &&
		model_layout(&c, &layout) == 0);
	for (uint32_t t = 0; t < layout.n; t++) {
		float v[256 * 32];
		const uint64_t count = layout.v[t].count;

		model_init_slice(&c, &layout, 7, t, 0, v, count);
		for (uint64_t i = 0; i < count; i++) {
			uint32_t bits;

			memcpy(&bits, &v[i], 4);
			for (int b = 0; b < 4; b++)
				hash = (hash ^ (bits >> 8 * b & 0xff)) * 0x100000001b3u;
			sum2 += layout.v[t].rank == 2 ? (double)v[i] * v[i] : 0;
			n += layout.v[t].rank == 2;
			CHECK(layout.v[t].rank == 2 || v[i] == 1);
		}
	}
	CHECK_NEAR(sqrt(sum2 / (double)n), 0.02, 0.0005);
	CHECK(hash == 0x41030a8e2540b091u);
	tensors_release(&layout);
}

static void slices_in_any_order_give_the_same_bits(void)
{
	struct tensors layout = { 0 };
	struct model_conf c;
	float whole[48 * 32], parts[48 * 32], other[48 * 32];

	CHECK(read_text(&c, "d_model 32\nlayers 1\nheads 2\nff 48\n") == 0 &&
		model_layout(&c, &layout) == 0);
	model_init_slice(&c, &layout, 3, 7, 0, whole, 48 * 32);
	model_init_slice(&c, &layout, 3, 7, 1000, parts + 1000, 48 * 32 - 1000);
	model_init_slice(&c, &layout, 3, 7, 1, parts + 1, 999);
	model_init_slice(&c, &layout, 3, 7, 0, parts, 1);
	CHECK(memcmp(whole, parts, sizeof(whole)) == 0);
	model_init_slice(&c, &layout, 3, 8, 0, other, 48 * 32);
	CHECK(memcmp(whole, other, sizeof(whole)) != 0);
	model_init_slice(&c, &layout, 4, 7, 0, other, 48 * 32);
	CHECK(memcmp(whole, other, sizeof(whole)) != 0);
	tensors_release(&layout);
}

static void tensors_of_experts_are_known_by_name(void)
{
	static const char *const others[] = { "model.layers.0.block_sparse_moe.gate.weight", "lm_head.weight",
		"model.layers.0.mlp.up_proj.weight", "model.layers.0.block_sparse_moe.experts.1.w4.weight",
		"model.layers.0.block_sparse_moe.experts.w1.weight", "model.layers..block_sparse_moe.experts.1.w1.weight",
		"model.layers.0.block_sparse_moe.experts.1.w1.weight2", "model.layers.1234567890.block_sparse_moe.experts.1.w1.weight",
		"" };
	struct tensors layout = { 0 };
	uint32_t layer, expert, seen = 0;
	struct model_conf c;

	CHECK(read_text(&c, "d_model 32\nlayers 2\nheads 2\nff 48\nexperts 12\n") == 0 && model_layout(&c, &layout) == 0);
	for (size_t t = 0; t < layout.n; t++)
		if (model_expert(layout.v[t].name, &layer, &expert)) {
			CHECK(layer == seen / 36 && expert == seen / 3 % 12);
			seen++;
		}
	CHECK(seen == 2 * 12 * 3);
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		CHECK(!model_expert(others[i], &layer, &expert));
	tensors_release(&layout);
}

int main(void)
{
	presets_have_the_published_sizes();
	presets_hold_known_keys_only();
	missing_keys_get_defaults();
	contradictions_are_named();
	what_is_written_reads_back();
	experts_read_back();
	layout_keeps_fused_groups_together();
	experts_are_named_as_in_mixtral();
	tensors_of_experts_are_known_by_name();
	initial_values_are_the_same_everywhere();
	slices_in_any_order_give_the_same_bits();
	return unit_done("model_conf");
}
