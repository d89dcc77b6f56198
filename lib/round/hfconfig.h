/*
 * hfconfig - the config.json of Hugging Face's transformers, for Llama and Mixtral, to a model_conf
 * and back.
 *
 *     vocab_size vocab                   num_key_value_heads kv_heads    rope_theta rope_theta
 *     hidden_size d_model                head_dim head_dim               rms_norm_eps norm_eps
 *     num_hidden_layers layers           intermediate_size ff            initializer_range init_std
 *     num_attention_heads heads          max_position_embeddings context tie_word_embeddings tied
 *     num_local_experts experts          num_experts_per_tok experts_per_token
 *     router_aux_loss_coef router_aux_loss_coef
 *
 * Keys that are absent or null have the defaults of transformers. What the model cannot express and
 * would change its output is refused by name: other architectures, rotary embeddings that are scaled or
 * partial, a sliding window shorter than the context, biases, other activations, quantised weights, code
 * of the model's own. Dropout and other matters of training are passed over.
 */
#ifndef HFCONFIG_H
#define HFCONFIG_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "math/model_conf.h"

#define HFCONFIG_BYTES ((size_t)1 << 20) /* largest text */

/* ERR_DATA names key and value. */
int hfconfig_read(struct model_conf *c, const char *text, size_t n) ERR_MUST;
/*
 * dtype: "float32", "bfloat16" or "float16". like: the config.json that came with the tokenizer (like_n
 * bytes), whose ids of special tokens are taken over; NULL: none, and they are null.
 */
int hfconfig_write(const struct model_conf *c, const char *dtype, const char *like, size_t like_n,
	struct buf *out) ERR_MUST;

#endif
