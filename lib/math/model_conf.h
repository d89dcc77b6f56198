/*
 * model_conf - what a model is: its configuration, presets, table of tensors and initial values.
 *
 * Keys: vocab, d_model, layers, heads, kv_heads, head_dim, ff, context, tied, rope_theta, norm_eps,
 * init_std, experts.
 */
#ifndef MODEL_CONF_H
#define MODEL_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/tensor.h"

#define MODEL_CONTEXT 256 /* when the configuration is silent */
#define MODEL_CONTEXT_MAX (1 << 20)

struct model_conf {
	uint32_t vocab, d_model, layers, heads, kv_heads, head_dim, ff;
	uint32_t context; /* longest sequence it is meant for */
	bool tied;
	double rope_theta, norm_eps, init_std;
	uint32_t experts; /* 0: dense. Others are refused until mixture of experts is there. */
};

/* NULL-terminated names of the configuration keys. */
extern const char *const model_keys[];
/* "tiny", "small" or "medium" as lines of configuration, model and training keys; else NULL. */
const char *model_preset(const char *name);
/*
 * Reads and checks. d_model, layers and heads must be there; the others have defaults: vocab 256,
 * kv_heads = heads, head_dim = d_model / heads, ff = 8/3 d_model rounded up to a multiple of 64,
 * context 256, tied yes, rope_theta 10000, norm_eps 1e-5, init_std 0.02, experts 0. ERR_DATA names
 * key and contradiction.
 */
int model_conf_read(struct model_conf *c, const struct conf *from) ERR_MUST;
/* Every key, resolved. */
int model_conf_write(const struct model_conf *c, struct conf *to) ERR_MUST;

/*
 * The table of tensors, in order, encoding f32, names of Hugging Face's Llama:
 *
 *     model.embed_tokens.weight               (V, C)
 *     model.layers.N.
 *         input_layernorm.weight              (C)
 *         self_attn.{q,k,v}_proj.weight       (H*D, C) (K*D, C) (K*D, C)
 *         self_attn.o_proj.weight             (C, H*D)
 *         post_attention_layernorm.weight     (C)
 *         mlp.{gate,up}_proj.weight           (F, C) (F, C)
 *         mlp.down_proj.weight                (C, F)
 *     model.norm.weight                       (C)
 *     lm_head.weight                          (V, C), when not tied
 */
int model_layout(const struct model_conf *c, struct tensors *out) ERR_MUST;
/*
 * n initial values of tensor number t from element `first`: norms 1, matrices normal(0, init_std).
 * A pure function of (seed, name, element): any slices in any order give the same bits, on any
 * machine.
 */
void model_init_slice(const struct model_conf *c, const struct tensors *layout, uint64_t seed,
	uint32_t t, uint64_t first, float *out, uint64_t n);

#endif
