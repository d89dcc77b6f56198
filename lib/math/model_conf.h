/*
 * model_conf - what a model is: its configuration, presets, table of tensors and initial values.
 *
 * Keys: vocab, d_model, layers, heads, kv_heads, head_dim, ff, context, tied, rope_theta, norm_eps,
 * init_std, experts; with experts also experts_per_token, router_aux_loss_coef; vocabulary, where it is
 * known which one the ids are of.
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
	uint32_t experts; /* of a layer, each of width ff; 0: dense */
	uint32_t experts_per_token;  /* 0 when dense */
	double router_aux_loss_coef; /* what the load-balancing loss counts; 0 when dense */
	char vocabulary[65]; /* digest of what the ids stand for (form/vocab.h), 64 hex digits; "": unknown */
};

/* NULL-terminated names of the configuration keys. */
extern const char *const model_keys[];
/* "tiny", "small", "medium" or "moe" as lines of configuration, model and training keys; else NULL. */
const char *model_preset(const char *name);
/*
 * Reads and checks. d_model, layers and heads must be there; the others have defaults: vocab 256,
 * kv_heads = heads, head_dim = d_model / heads, ff = 8/3 d_model rounded up to a multiple of 64,
 * context 256, tied yes, rope_theta 10000, norm_eps 1e-5, init_std 0.02, experts 0,
 * experts_per_token 2 (1 of 1), router_aux_loss_coef 0.01. Without experts the last two are checked
 * and mean nothing. ERR_DATA names key and contradiction.
 */
int model_conf_read(struct model_conf *c, const struct conf *from) ERR_MUST;
/* Every key, resolved; those that mean nothing left out. */
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
 *       with experts, instead of mlp, as in its Mixtral:
 *         block_sparse_moe.gate.weight        (E, C)
 *         block_sparse_moe.experts.E.{w1,w3,w2}.weight (F, C) (F, C) (C, F): gate, up, down
 *     model.norm.weight                       (C)
 *     lm_head.weight                          (V, C), when not tied
 */
int model_layout(const struct model_conf *c, struct tensors *out) ERR_MUST;
/* Is a tensor of this name one of an expert's, and of which? */
bool model_expert(const char *tensor, uint32_t *layer, uint32_t *expert);
/*
 * n initial values of tensor number t from element `first`: norms 1, matrices normal(0, init_std).
 * A pure function of (seed, name, element): any slices in any order give the same bits, on any
 * machine.
 */
void model_init_slice(const struct model_conf *c, const struct tensors *layout, uint64_t seed,
	uint32_t t, uint64_t first, float *out, uint64_t n);

#endif
