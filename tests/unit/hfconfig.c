/* hfconfig: config.json there and back, the defaults of transformers, and what is refused by name. */
#include "unit.h"

#include "round/hfconfig.h"
#include "same_model.h"

#define LLAMA "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\""
#define MIXTRAL "\"architectures\":[\"MixtralForCausalLM\"],\"model_type\":\"mixtral\""
#define SIZES \
	"\"vocab_size\":512,\"hidden_size\":64,\"num_hidden_layers\":5,\"num_attention_heads\":8," \
	"\"intermediate_size\":172,\"max_position_embeddings\":512"
#define GOOD LLAMA "," SIZES

static int read_text(struct model_conf *c, const char *text)
{
	return hfconfig_read(c, text, strlen(text));
}

/* The good Llama with these members, too. */
static int read_more(struct model_conf *c, const char *more)
{
	char text[1000];

	snprintf(text, sizeof text, "{" GOOD "%s%s}", *more ? "," : "", more);
	return read_text(c, text);
}

static void test_defaults_of_llama(void)
{
	struct model_conf c;

	CHECK(read_more(&c, "") == 0);
	CHECK(c.vocab == 512 && c.d_model == 64 && c.layers == 5 && c.heads == 8 && c.ff == 172 && c.context == 512);
	CHECK(c.kv_heads == 8 && c.head_dim == 8 && !c.tied && c.experts == 0);
	CHECK(c.norm_eps == 1e-6 && c.rope_theta == 10000 && c.init_std == 0.02);
	CHECK(read_text(&c, "{\"model_type\":\"llama\"," SIZES "}") == 0);
	CHECK(read_text(&c, "{\"architectures\":[\"LlamaForCausalLM\"]," SIZES "}") == 0);
}

static void test_defaults_of_mixtral(void)
{
	struct model_conf c;

	CHECK(read_text(&c, "{" MIXTRAL "," SIZES "}") == 0);
	CHECK(c.experts == 8 && c.experts_per_token == 2 && c.kv_heads == 8 && c.router_aux_loss_coef == 0.001);
	CHECK(c.norm_eps == 1e-5 && c.rope_theta == 1e6);
	CHECK(read_text(&c, "{" MIXTRAL "," SIZES ",\"num_local_experts\":0}") == ERR_DATA);
}

static void test_all_keys(void)
{
	struct model_conf c;

	CHECK(read_more(&c, "\"num_key_value_heads\":2,\"head_dim\":24,\"rms_norm_eps\":1e-05,\"rope_theta\":500000.0,"
		"\"initializer_range\":0.01,\"tie_word_embeddings\":true,\"unknown_key\":[1,{}],\"bos_token_id\":1") == 0);
	CHECK(c.kv_heads == 2 && c.head_dim == 24 && c.tied && c.norm_eps == 1e-5 && c.rope_theta == 500000);
	CHECK(c.init_std == 0.01);
	CHECK(read_more(&c, "\"head_dim\":null,\"num_key_value_heads\":null") == 0 && c.head_dim == 8 && c.kv_heads == 8);
	CHECK(read_more(&c, "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":250000.0}") == 0);
	CHECK(c.rope_theta == 250000);
}

static void test_what_is_not_in_force(void)
{
	static const char *const good[] = { "\"rope_scaling\":null", "\"rope_scaling\":{\"rope_type\":\"default\"}",
		"\"rope_scaling\":{\"type\":\"default\"}",
		"\"rope_parameters\":{\"rope_type\":\"default\",\"partial_rotary_factor\":1.0}",
		"\"sliding_window\":null", "\"sliding_window\":512",
		"\"sliding_window\":64,\"use_sliding_window\":false", "\"attention_bias\":false", "\"mlp_bias\":null",
		"\"partial_rotary_factor\":1.0", "\"hidden_act\":\"silu\"", "\"attention_dropout\":0.1",
		"\"quantization_config\":null", "\"layer_types\":[\"full_attention\"]", "\"pretraining_tp\":2" };
	struct model_conf c;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		CHECK(read_more(&c, good[i]) == 0);
}

static void test_refused_by_name(void)
{
	static const char *const bad[][2] = {
		{ "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0}", "rope_scaling {\"rope_type\": \"llama3\"" },
		{ "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}", "rope_scaling {\"type\": \"linear\"" },
		{ "\"rope_scaling\":{\"factor\":2.0}", "rope_scaling" },
		{ "\"rope_scaling\":2", "rope_scaling 2" },
		{ "\"rope_parameters\":{\"rope_type\":\"yarn\"}", "rope_parameters" },
		{ "\"rope_parameters\":{\"rope_theta\":1e4,\"partial_rotary_factor\":0.5}",
		  "rope_parameters: partial_rotary_factor 0.5" },
		{ "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"llama3\"}}",
		  "rope_parameters: full_attention {" },
		{ "\"sliding_window\":64", "sliding_window 64" },
		{ "\"sliding_window\":\"x\"", "sliding_window" },
		{ "\"attention_bias\":true", "attention_bias true" },
		{ "\"mlp_bias\":true", "mlp_bias true" },
		{ "\"mlp_bias\":0", "mlp_bias 0" },
		{ "\"hidden_act\":\"gelu\"", "hidden_act \"gelu\"" },
		{ "\"hidden_act\":7", "hidden_act 7" },
		{ "\"partial_rotary_factor\":0.5", "partial_rotary_factor 0.5" },
		{ "\"quantization_config\":{\"bits\":4}", "quantization_config" },
		{ "\"auto_map\":{}", "auto_map" },
		{ "\"layer_types\":[\"full_attention\",\"sliding_attention\"]", "layer_types" },
		{ "\"num_key_value_heads\":3", "not a multiple of kv_heads" },
		{ "\"head_dim\":7", "head_dim 7 is odd" },
		{ "\"rms_norm_eps\":\"x\"", "rms_norm_eps \"x\"" },
		{ "\"tie_word_embeddings\":[]", "tie_word_embeddings []" },
		{ "\"tie_word_embeddings\":2", "tied" },
		{ "\"vocab_size\":513", "duplicate" },
	};
	struct model_conf c;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK(read_more(&c, bad[i][0]) == ERR_DATA);
		CHECK_SAYS(bad[i][1]);
	}
}

static void test_other_architectures(void)
{
	static const char *const bad[] = { "{}", "{" SIZES "}", "[]", "{\"model_type\":\"gemma\"," SIZES "}",
		"{\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\"," SIZES "}",
		"{\"architectures\":[\"MixtralForCausalLM\"],\"model_type\":\"llama\"," SIZES "}",
		"{\"architectures\":[]," SIZES "}", "{\"architectures\":\"LlamaForCausalLM\"," SIZES "}",
		"{\"architectures\":[7]," SIZES "}", "", "{" };
	struct model_conf c;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK(read_text(&c, bad[i]) == ERR_DATA);
	CHECK(read_text(&c, bad[4]) == ERR_DATA);
	CHECK_SAYS("architectures [\"Qwen2ForCausalLM\"]: only LlamaForCausalLM and MixtralForCausalLM");
}

static void test_sizes_that_make_no_sense(void)
{
	static const char *const keys[] = { "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
		"intermediate_size", "max_position_embeddings" };
	static const char *const values[] = { "0", "-1", "1e9", "99999999999", "true", "\"7\"", "1.5", "{}", NULL };
	char text[1000];
	struct model_conf c;

	for (size_t k = 0; k < 6; k++)
		for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
			int n = snprintf(text, sizeof text, "{" LLAMA);

			for (size_t i = 0; i < 6; i++)
				if (i != k || values[v])
					n += snprintf(text + n, sizeof text - (size_t)n, ",\"%s\":%s", keys[i],
						i == k ? values[v] : "8");
			snprintf(text + n, sizeof text - (size_t)n, "}");
			CHECK(read_text(&c, text) == ERR_DATA);
		}
}

static void test_round_trip(void)
{
	static const char like[] = "{\"bos_token_id\":1,\"eos_token_id\":[2,7],\"pad_token_id\":null,\"hidden_size\":9}";
	struct model_conf c, d;
	struct buf text = BUF_INIT;

	CHECK(read_text(&c, "{" MIXTRAL "," SIZES ",\"head_dim\":24,\"num_key_value_heads\":4,\"num_local_experts\":4,"
		"\"router_aux_loss_coef\":0.02,\"rope_theta\":10000,\"tie_word_embeddings\":true}") == 0);
	CHECK(hfconfig_write(&c, "bfloat16", like, sizeof like - 1, &text) == 0);
	CHECK(hfconfig_read(&d, text.data, text.len) == 0 && same_model(&c, &d));
	CHECK(strstr(text.data, "\"eos_token_id\": [2, 7]") && strstr(text.data, "\"pad_token_id\": null"));
	CHECK(strstr(text.data, "\"torch_dtype\": \"bfloat16\"") && strstr(text.data, "\"rope_theta\": 10000.0"));
	buf_clear(&text);
	CHECK(read_more(&c, "") == 0 && hfconfig_write(&c, "float32", NULL, 0, &text) == 0);
	CHECK(hfconfig_read(&d, text.data, text.len) == 0 && same_model(&c, &d));
	CHECK(strstr(text.data, "\"eos_token_id\": null") && strstr(text.data, "LlamaForCausalLM"));
	CHECK(hfconfig_write(&c, "float32", "{", 1, &text) == ERR_DATA);
	buf_release(&text);
}

int main(void)
{
	test_defaults_of_llama();
	test_defaults_of_mixtral();
	test_all_keys();
	test_what_is_not_in_force();
	test_refused_by_name();
	test_other_architectures();
	test_sizes_that_make_no_sense();
	test_round_trip();
	return unit_done("hfconfig");
}
