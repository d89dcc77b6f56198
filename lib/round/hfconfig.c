#include "round/hfconfig.h"

#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "form/jsondoc.h"

/* ---- reading: what it is ---- */

static const struct architecture {
	const char *class, *type;
	bool experts;
} architectures[] = {
	{ "LlamaForCausalLM", "llama", false },
	{ "MixtralForCausalLM", "mixtral", true },
};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A key that is null is as good as absent. */
static const struct jsondoc *find(const struct jsondoc *doc, const char *key)
{
	const struct jsondoc *v = jsondoc_get(doc, key);

	return jsondoc_is_null(v) ? NULL : v;
}

static int refuse(const char *key, const struct jsondoc *value, const char *why)
{
	char shown[200];

	jsondoc_show(shown, sizeof shown, value);
	return err_set(ERR_DATA, "%s %s: %s", key, shown, why);
}

static int find_architecture(const struct architecture **out, const struct jsondoc *doc)
{
	const struct jsondoc *classes = find(doc, "architectures"), *type = find(doc, "model_type");
	const char *class = jsondoc_text(jsondoc_at(classes, 0)), *name = jsondoc_text(type);
	const char *only = "only LlamaForCausalLM and MixtralForCausalLM can be expressed";

	if (!classes && !type)
		return err_set(ERR_DATA, "neither architectures nor model_type: not the config.json of a model");
	for (size_t i = 0; i < COUNT(architectures); i++) {
		const struct architecture *a = &architectures[i];

		if ((!classes || (class && strcmp(class, a->class) == 0)) &&
			(!type || (name && strcmp(name, a->type) == 0))) {
			*out = a;
			return 0;
		}
	}
	return classes ? refuse("architectures", classes, only) : refuse("model_type", type, only);
}

/* ---- reading: what it must not be ---- */

typedef int checker(const struct jsondoc *doc, const char *key, const struct jsondoc *value);

static int must_be_false(const struct jsondoc *doc, const char *key, const struct jsondoc *value)
{
	bool on = true;

	(void)doc;
	if (jsondoc_bool(value, &on) && !on)
		return 0;
	return refuse(key, value, "the model has no biases, nor norms of queries and keys");
}

static int must_be_absent(const struct jsondoc *doc, const char *key, const struct jsondoc *value)
{
	(void)doc;
	return refuse(key, value, "weights that are quantised, or code of the model's own, cannot be taken over");
}

static int must_be_silu(const struct jsondoc *doc, const char *key, const struct jsondoc *value)
{
	const char *text = jsondoc_text(value);

	(void)doc;
	return text && strcmp(text, "silu") == 0 ? 0 : refuse(key, value, "the activation must be silu");
}

static int must_be_one(const struct jsondoc *doc, const char *key, const struct jsondoc *value)
{
	double x = 0;

	(void)doc;
	return jsondoc_f64(value, &x) && x == 1 ? 0 : refuse(key, value, "rotary embeddings must turn all of a head");
}

/* Newer files have more than the scale in it: how much of a head is turned, and kinds of layers apart. */
static int take_rotary(void *doc, const char *key, const struct jsondoc *value)
{
	if (jsondoc_is_object(value))
		return refuse(key, value, "every layer must have the same rotary embedding");
	if (strcmp(key, "partial_rotary_factor") == 0 && !jsondoc_is_null(value))
		return must_be_one(doc, key, value);
	return 0;
}

/* {"rope_type": "default"} scales nothing; older files say "type". */
static int must_not_scale(const struct jsondoc *doc, const char *key, const struct jsondoc *value)
{
	const struct jsondoc *type = find(value, "rope_type") ? find(value, "rope_type") : find(value, "type");
	const char *text = jsondoc_text(type);
	const bool plain = text ? strcmp(text, "default") == 0 : !type && strcmp(key, "rope_parameters") == 0;
	int rc;

	(void)doc;
	if (!jsondoc_is_object(value) || !plain)
		return refuse(key, value, "rotary embeddings that are scaled cannot be expressed");
	rc = jsondoc_each(value, take_rotary, NULL);
	return rc < 0 ? err_at(rc, "%s", key) : 0;
}

static int must_not_slide(const struct jsondoc *doc, const char *key, const struct jsondoc *value)
{
	uint64_t window, context;
	bool used = true;

	if (jsondoc_bool(find(doc, "use_sliding_window"), &used) && !used)
		return 0;
	if (jsondoc_u64(value, &window) && jsondoc_u64(find(doc, "max_position_embeddings"), &context) &&
		window >= context)
		return 0;
	return refuse(key, value, "attention with a sliding window shorter than the context cannot be expressed");
}

static int must_be_full(const struct jsondoc *doc, const char *key, const struct jsondoc *value)
{
	(void)doc;
	for (size_t i = 0; i < jsondoc_size(value); i++) {
		const char *text = jsondoc_text(jsondoc_at(value, i));

		if (!text || strcmp(text, "full_attention") != 0)
			return refuse(key, value, "every layer must attend to all tokens");
	}
	return 0;
}

static const struct {
	const char *key;
	checker *check;
} limits[] = {
	{ "hidden_act", must_be_silu },
	{ "rope_scaling", must_not_scale },
	{ "rope_parameters", must_not_scale },
	{ "partial_rotary_factor", must_be_one },
	{ "sliding_window", must_not_slide },
	{ "layer_types", must_be_full },
	{ "attention_bias", must_be_false },
	{ "mlp_bias", must_be_false },
	{ "use_qk_norm", must_be_false },
	{ "quantization_config", must_be_absent },
	{ "auto_map", must_be_absent },
};

static int check_limits(const struct jsondoc *doc)
{
	int rc = 0;

	for (size_t i = 0; i < COUNT(limits) && rc == 0; i++) {
		const struct jsondoc *value = find(doc, limits[i].key);

		if (value)
			rc = limits[i].check(doc, limits[i].key, value);
	}
	return rc;
}

/* ---- reading: how large it is ---- */

/* One key of theirs into one of ours. absent: its value when it is not there, NULL: it must be. */
struct pair {
	const char *theirs, *ours, *absent;
	bool real; /* written with a point */
};
static const struct pair common[] = {
	{ "vocab_size", "vocab", NULL },
	{ "hidden_size", "d_model", NULL },
	{ "num_hidden_layers", "layers", NULL },
	{ "num_attention_heads", "heads", NULL },
	{ "intermediate_size", "ff", NULL },
	{ "max_position_embeddings", "context", NULL },
	{ "head_dim", "head_dim", "" },
	{ "initializer_range", "init_std", "0.02", true },
	{ "tie_word_embeddings", "tied", "no" },
};
static const struct pair dense[] = {
	{ "num_key_value_heads", "kv_heads", "" },
	{ "rms_norm_eps", "norm_eps", "1e-6", true },
	{ "rope_theta", "rope_theta", "10000", true },
};
static const struct pair sparse[] = {
	{ "num_key_value_heads", "kv_heads", "8" },
	{ "rms_norm_eps", "norm_eps", "1e-5", true },
	{ "rope_theta", "rope_theta", "1000000", true },
	{ "num_local_experts", "experts", "8" },
	{ "num_experts_per_tok", "experts_per_token", "2" },
	{ "router_aux_loss_coef", "router_aux_loss_coef", "0.001", true },
};

static int take_value(struct conf *to, const struct pair *p, const struct jsondoc *value)
{
	uint64_t whole;
	double real;
	bool flag;

	if (jsondoc_u64(value, &whole))
		return conf_set_u64(to, p->ours, whole);
	if (jsondoc_f64(value, &real))
		return conf_set_f64(to, p->ours, real);
	if (jsondoc_bool(value, &flag))
		return conf_set(to, p->ours, flag ? "yes" : "no");
	return refuse(p->theirs, value, "a number, true or false was expected");
}

/* Newer files keep it with the kind of rotary embedding. */
static const struct jsondoc *find_value(const struct jsondoc *doc, const char *key)
{
	const struct jsondoc *inner = find(find(doc, "rope_parameters"), key);

	return strcmp(key, "rope_theta") == 0 && inner ? inner : find(doc, key);
}

static int take_values(struct conf *to, const struct pair *p, size_t n, const struct jsondoc *doc)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct jsondoc *value = find_value(doc, p[i].theirs);

		if (value)
			rc = take_value(to, &p[i], value);
		else if (!p[i].absent)
			rc = err_set(ERR_DATA, "key '%s' is missing", p[i].theirs);
		else if (*p[i].absent)
			rc = conf_set(to, p[i].ours, p[i].absent);
	}
	return rc;
}

/* Ranges and contradictions are model_conf's to find. */
static int take_sizes(struct model_conf *c, const struct architecture *a, const struct jsondoc *doc)
{
	struct conf conf = { 0 };
	int rc = take_values(&conf, common, COUNT(common), doc);

	if (rc == 0)
		rc = a->experts ? take_values(&conf, sparse, COUNT(sparse), doc)
				: take_values(&conf, dense, COUNT(dense), doc);
	if (rc == 0 && (rc = model_conf_read(c, &conf)) < 0)
		rc = err_at(rc, "in the words of dl-model(5)");
	conf_release(&conf);
	if (rc == 0 && a->experts && c->experts == 0)
		rc = err_set(ERR_DATA, "num_local_experts 0: a Mixtral has experts");
	return rc;
}

int hfconfig_read(struct model_conf *c, const char *text, size_t n)
{
	const struct architecture *a = NULL;
	struct jsondoc *doc = NULL;
	int rc = jsondoc_parse(&doc, text, n);

	if (rc == 0 && !jsondoc_is_object(doc))
		rc = err_set(ERR_DATA, "not an object");
	if (rc == 0)
		rc = find_architecture(&a, doc);
	if (rc == 0)
		rc = check_limits(doc);
	if (rc == 0)
		rc = take_sizes(c, a, doc);
	jsondoc_free(doc);
	return rc;
}

/* ---- writing ---- */

static int put(struct buf *out, const char *key, const char *value)
{
	return buf_fmt(out, ",\n  \"%s\": %s", key, value);
}

static int put_pair(struct buf *out, const struct pair *p, const struct conf *from)
{
	const char *value = conf_get(from, p->ours);
	char text[64];

	if (!value)
		return err_set(ERR_DATA, "the configuration has no key '%s'", p->ours);
	if (strcmp(p->ours, "tied") == 0)
		value = strcmp(value, "yes") == 0 ? "true" : "false";
	snprintf(text, sizeof text, "%s%s", value, p->real && !strpbrk(value, ".e") ? ".0" : "");
	return put(out, p->theirs, text);
}

static int put_pairs(struct buf *out, const struct pair *p, size_t n, const struct conf *from)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = put_pair(out, &p[i], from);
	return rc;
}

static int put_sizes(struct buf *out, const struct model_conf *c)
{
	struct conf conf = { 0 };
	int rc = model_conf_write(c, &conf);

	if (rc == 0)
		rc = put_pairs(out, common, COUNT(common), &conf);
	if (rc == 0)
		rc = c->experts ? put_pairs(out, sparse, COUNT(sparse), &conf)
				: put_pairs(out, dense, COUNT(dense), &conf);
	conf_release(&conf);
	return rc;
}

/* What no model needs, but programs that write with it do. */
static int put_special(struct buf *out, const struct jsondoc *like)
{
	static const char *const keys[] = { "bos_token_id", "eos_token_id", "pad_token_id" };
	char value[256];
	int rc = 0;

	for (size_t i = 0; i < COUNT(keys) && rc == 0; i++) {
		const struct jsondoc *v = jsondoc_get(like, keys[i]);

		jsondoc_show(value, sizeof value, v);
		rc = put(out, keys[i], v && strlen(value) < sizeof value - 1 ? value : "null");
	}
	return rc;
}

static int put_fixed(struct buf *out, bool experts, const char *dtype)
{
	int rc = put(out, "hidden_act", "\"silu\"");

	if (rc == 0)
		rc = put(out, "attention_dropout", "0.0");
	if (rc == 0 && experts)
		rc = put(out, "sliding_window", "null");
	if (rc == 0 && !experts)
		rc = put(out, "attention_bias", "false");
	if (rc == 0 && !experts)
		rc = put(out, "mlp_bias", "false");
	if (rc == 0)
		rc = put(out, "rope_scaling", "null");
	if (rc == 0)
		rc = put(out, "use_cache", "true");
	return rc == 0 ? buf_fmt(out, ",\n  \"torch_dtype\": \"%s\"\n}\n", dtype) : rc;
}

int hfconfig_write(const struct model_conf *c, const char *dtype, const char *like, size_t like_n,
	struct buf *out)
{
	const struct architecture *a = &architectures[c->experts > 0];
	struct jsondoc *doc = NULL;
	int rc = like ? jsondoc_parse(&doc, like, like_n) : 0;

	if (rc == 0)
		rc = buf_fmt(out, "{\n  \"architectures\": [\n    \"%s\"\n  ],\n  \"model_type\": \"%s\"", a->class,
			a->type);
	if (rc == 0)
		rc = put_sizes(out, c);
	if (rc == 0)
		rc = put_special(out, doc);
	if (rc == 0)
		rc = put_fixed(out, c->experts > 0, dtype);
	jsondoc_free(doc);
	return rc;
}
