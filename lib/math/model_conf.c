#include "math/model_conf.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

/* Of all layers together: a few words of a header must not make a table of millions of tensors. */
enum { EXPERTS_MOST = 1 << 16 };

const char *const model_keys[] = { "vocab", "d_model", "layers", "heads", "kv_heads", "head_dim",
	"ff", "context", "tied", "rope_theta", "norm_eps", "init_std", "experts",
	"experts_per_token", "router_aux_loss_coef", "vocabulary", NULL };

#define TRAINING \
	"lr_min_ratio 0.1\nwarmup 40\ndecay_steps 768\nbeta1 0.9\nbeta2 0.95\n" \
	"eps 1e-8\nweight_decay 0.1\nclip 1\nbatch 8\n"

static const struct {
	const char *name, *text;
} presets[] = {
	{ "tiny",
		"vocab 256\nd_model 128\nlayers 4\nheads 4\nff 384\n"
		"context 128\ntied yes\nlr 3e-3\n" TRAINING },
	{ "small",
		"vocab 8192\nd_model 256\nlayers 6\nheads 8\nff 704\n"
		"context 256\ntied yes\nlr 1e-3\n" TRAINING },
	{ "medium",
		"vocab 256\nd_model 384\nlayers 6\nheads 6\nff 1024\n"
		"context 256\ntied yes\nlr 1e-3\n" TRAINING },
	{ "moe",
		"vocab 256\nd_model 128\nlayers 4\nheads 4\nff 192\n"
		"experts 8\nexperts_per_token 2\n"
		"context 128\ntied yes\nlr 3e-3\n" TRAINING },
};

const char *model_preset(const char *name)
{
	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
		if (strcmp(presets[i].name, name) == 0)
			return presets[i].text;
	return NULL;
}

/* A whole number of the configuration. Absent: *value stays, and is an error when below min. */
static int read_u32(const struct conf *from, const char *key, uint32_t min, uint32_t max,
	uint32_t *value)
{
	uint64_t v = *value;
	int rc = conf_u64(from, key, min, max, &v);

	if (rc < 0)
		return rc;
	if (rc == 0 && v < min)
		return err_set(ERR_DATA, "key '%s' is missing", key);
	*value = (uint32_t)v;
	return 0;
}

static int read_sizes(struct model_conf *c, const struct conf *from)
{
	int rc;

	if ((rc = read_u32(from, "vocab", 2, 1 << 24, &c->vocab)) < 0 ||
		(rc = read_u32(from, "d_model", 1, 1 << 16, &c->d_model)) < 0 ||
		(rc = read_u32(from, "layers", 1, 1 << 12, &c->layers)) < 0 ||
		(rc = read_u32(from, "heads", 1, 1 << 12, &c->heads)) < 0)
		return rc;
	c->kv_heads = c->heads;
	c->head_dim = c->d_model / c->heads;
	c->ff = (8 * c->d_model / 3 + 63) / 64 * 64;
	if (!conf_get(from, "head_dim") && c->d_model % c->heads)
		return err_set(ERR_DATA,
			"d_model %u is not a multiple of heads %u (or give head_dim)", c->d_model,
			c->heads);
	if ((rc = read_u32(from, "kv_heads", 1, 1 << 12, &c->kv_heads)) < 0 ||
		(rc = read_u32(from, "head_dim", 1, 1 << 12, &c->head_dim)) < 0 ||
		(rc = read_u32(from, "ff", 1, 1 << 18, &c->ff)) < 0 ||
		(rc = read_u32(from, "context", 1, MODEL_CONTEXT_MAX, &c->context)) < 0)
		return rc;
	return 0;
}

static int read_rest(struct model_conf *c, const struct conf *from)
{
	int tied = c->tied, rc;

	if ((rc = conf_bool(from, "tied", &tied)) < 0 ||
		(rc = conf_f64(from, "rope_theta", 1, 1e12, &c->rope_theta)) < 0 ||
		(rc = conf_f64(from, "norm_eps", 1e-12, 1, &c->norm_eps)) < 0 ||
		(rc = conf_f64(from, "init_std", 0, 10, &c->init_std)) < 0)
		return rc;
	c->tied = tied;
	return 0;
}

static int read_experts(struct model_conf *c, const struct conf *from)
{
	int rc;

	c->router_aux_loss_coef = 0.01;
	if ((rc = read_u32(from, "experts", 0, 1 << 12, &c->experts)) < 0)
		return rc;
	c->experts_per_token = c->experts == 1 ? 1 : 2;
	rc = read_u32(from, "experts_per_token", 1, 1 << 8, &c->experts_per_token);
	if (rc < 0)
		return rc;
	rc = conf_f64(from, "router_aux_loss_coef", 0, 1e3, &c->router_aux_loss_coef);
	if (rc < 0)
		return rc;
	if (c->experts && c->experts_per_token > c->experts)
		return err_set(ERR_DATA, "experts_per_token %u is more than experts %u",
			c->experts_per_token, c->experts);
	if (c->experts > EXPERTS_MOST / c->layers)
		return err_set(ERR_DATA, "%u layers of experts %u: at most %d experts in all",
			c->layers, c->experts, EXPERTS_MOST);
	if (c->experts == 0) {
		c->experts_per_token = 0;
		c->router_aux_loss_coef = 0;
	}
	return 0;
}

static int read_vocabulary(struct model_conf *c, const struct conf *from)
{
	const char *hex = conf_get(from, "vocabulary");

	if (!hex)
		return 0;
	if (strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64)
		return err_set(ERR_DATA, "key 'vocabulary' is not 64 hex digits");
	memcpy(c->vocabulary, hex, sizeof(c->vocabulary));
	return 0;
}

int model_conf_read(struct model_conf *c, const struct conf *from)
{
	int rc;

	*c = (struct model_conf){
		.vocab = 256,
		.context = MODEL_CONTEXT,
		.tied = true,
		.rope_theta = 10000,
		.norm_eps = 1e-5,
		.init_std = 0.02,
	};
	if ((rc = read_sizes(c, from)) < 0 || (rc = read_rest(c, from)) < 0 ||
		(rc = read_experts(c, from)) < 0 || (rc = read_vocabulary(c, from)) < 0)
		return rc;
	if (c->heads % c->kv_heads)
		return err_set(ERR_DATA, "heads %u is not a multiple of kv_heads %u", c->heads,
			c->kv_heads);
	if (c->head_dim % 2)
		return err_set(ERR_DATA,
			"head_dim %u is odd: rotary embeddings turn pairs of channels",
			c->head_dim);
	return 0;
}

int model_conf_write(const struct model_conf *c, struct conf *to)
{
	const struct {
		const char *key;
		uint32_t value;
	} sizes[] = {
		{ "vocab", c->vocab },
		{ "d_model", c->d_model },
		{ "layers", c->layers },
		{ "heads", c->heads },
		{ "kv_heads", c->kv_heads },
		{ "head_dim", c->head_dim },
		{ "ff", c->ff },
		{ "context", c->context },
		{ "experts", c->experts },
	};
	int rc;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if ((rc = conf_set_u64(to, sizes[i].key, sizes[i].value)) < 0)
			return rc;
	if ((rc = conf_set(to, "tied", c->tied ? "yes" : "no")) < 0 ||
		(rc = conf_set_f64(to, "rope_theta", c->rope_theta)) < 0 ||
		(rc = conf_set_f64(to, "norm_eps", c->norm_eps)) < 0 ||
		(rc = conf_set_f64(to, "init_std", c->init_std)) < 0)
		return rc;
	if (c->experts &&
		((rc = conf_set_u64(to, "experts_per_token", c->experts_per_token)) < 0 ||
			(rc = conf_set_f64(to, "router_aux_loss_coef",
				 c->router_aux_loss_coef)) < 0))
		return rc;
	return c->vocabulary[0] ? conf_set(to, "vocabulary", c->vocabulary) : 0;
}

/* A matrix, or a vector when cols is 0. layer < 0: not part of one. */
static int push(struct tensors *out, int layer, const char *name, uint64_t rows, uint64_t cols)
{
	struct tensor t = {
		.dtype = DTYPE_F32, .enc = ENC_F32, .rank = cols ? 2 : 1, .dim = { rows, cols }
	};

	if (layer < 0)
		snprintf(t.name, sizeof(t.name), "%s.weight", name);
	else
		snprintf(t.name, sizeof(t.name), "model.layers.%d.%s.weight", layer, name);
	return tensors_push(out, &t);
}

struct part { const char *name; uint64_t rows, cols; };

static int push_parts(struct tensors *out, int layer, const struct part *parts, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = push(out, layer, parts[i].name, parts[i].rows, parts[i].cols);
	return rc;
}

/* W1 and W3 are neighbours: one product. */
static int push_experts(struct tensors *out, const struct model_conf *c, int layer)
{
	const uint64_t C = c->d_model, F = c->ff;
	int rc = push(out, layer, "block_sparse_moe.gate", c->experts, C);

	for (uint32_t e = 0; e < c->experts && rc == 0; e++) {
		char name[3][48];
		const struct part parts[] = { { name[0], F, C }, { name[1], F, C }, { name[2], C, F } };

		for (int i = 0; i < 3; i++)
			snprintf(name[i], sizeof(name[i]), "block_sparse_moe.experts.%u.w%c", e,
				"132"[i]);
		rc = push_parts(out, layer, parts, 3);
	}
	return rc;
}

static int push_feed_forward(struct tensors *out, const struct model_conf *c, int layer)
{
	const uint64_t C = c->d_model, F = c->ff;
	const struct part parts[] = {
		{ "mlp.gate_proj", F, C },
		{ "mlp.up_proj", F, C },
		{ "mlp.down_proj", C, F },
	};

	return c->experts ? push_experts(out, c, layer) : push_parts(out, layer, parts, 3);
}

static int push_layer(struct tensors *out, const struct model_conf *c, int layer)
{
	const uint64_t C = c->d_model;
	const uint64_t q = (uint64_t)c->heads * c->head_dim;
	const uint64_t kv = (uint64_t)c->kv_heads * c->head_dim;
	const struct part parts[] = {
		{ "input_layernorm", C, 0 },
		{ "self_attn.q_proj", q, C },
		{ "self_attn.k_proj", kv, C },
		{ "self_attn.v_proj", kv, C },
		{ "self_attn.o_proj", C, q },
		{ "post_attention_layernorm", C, 0 },
	};
	int rc = push_parts(out, layer, parts, sizeof(parts) / sizeof(parts[0]));

	return rc < 0 ? rc : push_feed_forward(out, c, layer);
}

int model_layout(const struct model_conf *c, struct tensors *out)
{
	int rc;

	if ((rc = push(out, -1, "model.embed_tokens", c->vocab, c->d_model)) < 0)
		return rc;
	for (uint32_t l = 0; l < c->layers; l++)
		if ((rc = push_layer(out, c, (int)l)) < 0)
			return rc;
	if ((rc = push(out, -1, "model.norm", c->d_model, 0)) < 0)
		return rc;
	return c->tied ? 0 : push(out, -1, "lm_head", c->vocab, c->d_model);
}

/* What follows `before` and a number, or NULL. */
static const char *number_after(const char *text, const char *before, uint32_t *out)
{
	const size_t n = strlen(before);
	int digits = 0;

	if (strncmp(text, before, n) != 0)
		return NULL;
	*out = 0;
	for (text += n; *text >= '0' && *text <= '9' && digits < 9; digits++)
		*out = 10 * *out + (uint32_t)(*text++ - '0');
	return digits > 0 ? text : NULL;
}

bool model_expert(const char *tensor, uint32_t *layer, uint32_t *expert)
{
	const char *rest = number_after(tensor, "model.layers.", layer);

	rest = rest ? number_after(rest, ".block_sparse_moe.experts.", expert) : NULL;
	return rest && (strcmp(rest, ".w1.weight") == 0 || strcmp(rest, ".w2.weight") == 0 ||
			strcmp(rest, ".w3.weight") == 0);
}

void model_init_slice(const struct model_conf *c, const struct tensors *layout, uint64_t seed,
	uint32_t t, uint64_t first, float *out, uint64_t n)
{
	const struct tensor *tensor = &layout->v[t];
	const uint64_t stream = rng_stream(tensor->name);
	const bool matrix = tensor->rank >= 2;

	for (uint64_t i = 0; i < n; i++)
		out[i] = matrix ? (float)(rng_normal_at(seed, stream, first + i) * c->init_std) : 1;
}
