#include "form/gguf_vocab.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BLANK "\xe2\x96\x81" /* U+2581, which SentencePiece has for a blank */

/* A piece of the gguf file; text has room for 24 bytes where it is made up. */
struct shown { const char *text; size_t n; float score; enum piece_type type; };

static struct shown byte_piece(uint32_t id, char made[24])
{
	if (id == ' ')
		return (struct shown){ BLANK, 3, 0, PIECE_NORMAL };
	snprintf(made, 24, "<0x%02X>", id);
	return (struct shown){ made, 6, 0, PIECE_BYTE };
}

static struct shown piece_at(const struct vocab *v, uint32_t id, char made[24])
{
	if (!v)
		return byte_piece(id, made);
	if (id >= v->n) {
		snprintf(made, 24, "[PAD%" PRIu32 "]", id);
		return (struct shown){ made, strlen(made), -1000, PIECE_UNUSED };
	}
	return (struct shown){ v->bytes.data + v->v[id].at, v->v[id].n, v->v[id].score, v->v[id].type };
}

static int put_pieces(struct gguf_writer *w, const struct vocab *v, uint32_t n)
{
	char made[24];
	int rc = gguf_put_array(w, "tokenizer.ggml.tokens", GGUF_ITEM_TEXT, n);

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		struct shown p = piece_at(v, i, made);

		rc = gguf_item_text(w, p.text, p.n);
	}
	if (rc == 0)
		rc = gguf_put_array(w, "tokenizer.ggml.scores", GGUF_ITEM_F32, n);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = gguf_item_f32(w, piece_at(v, i, made).score);
	if (rc == 0)
		rc = gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_ITEM_I32, n);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = gguf_item_i32(w, (int32_t)piece_at(v, i, made).type);
	return rc;
}

static int put_id(struct gguf_writer *w, const char *what, int32_t id)
{
	char key[64];

	if (id < 0)
		return 0;
	snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", what);
	return gguf_put_u32(w, key, (uint32_t)id);
}

static int put_flags(struct gguf_writer *w, bool bos, bool prefix)
{
	int rc = gguf_put_bool(w, "tokenizer.ggml.add_bos_token", bos);

	if (rc == 0)
		rc = gguf_put_bool(w, "tokenizer.ggml.add_eos_token", false);
	return rc < 0 ? rc : gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", prefix);
}

static int put_tokenizer(struct gguf_writer *w, const char *model)
{
	int rc = gguf_put_text(w, "tokenizer.ggml.model", model);

	return rc < 0 ? rc : gguf_put_text(w, "tokenizer.ggml.pre", "default");
}

/* llama.cpp takes ids 0, 1 and 2 for special where it is told nothing: NUL is the byte that text can spare. */
int gguf_vocab_bytes(struct gguf_writer *w, uint32_t n)
{
	int rc = put_tokenizer(w, "llama");

	if (rc == 0)
		rc = put_pieces(w, NULL, n);
	if (rc == 0)
		rc = put_id(w, "bos", 0);
	if (rc == 0)
		rc = put_id(w, "eos", 0);
	if (rc == 0)
		rc = put_id(w, "unknown", 0);
	return rc < 0 ? rc : put_flags(w, false, false);
}

/* Normalisation, which only the tokenizer of unigram models is told of. */
static int put_normalizer(struct gguf_writer *w, const struct vocab *v)
{
	int rc = gguf_put_bool(w, "tokenizer.ggml.remove_extra_whitespaces", v->squeeze);

	if (rc == 0 && v->charsmap_n > 0) {
		rc = gguf_put_array(w, "tokenizer.ggml.precompiled_charsmap", GGUF_ITEM_U8, v->charsmap_n);
		if (rc == 0)
			rc = gguf_item_bytes(w, v->bytes.data + v->charsmap, v->charsmap_n);
	}
	return rc;
}

int gguf_vocab_pieces(struct gguf_writer *w, const struct vocab *v, uint32_t n, bool bos)
{
	int rc = put_tokenizer(w, v->kind == VOCAB_UNIGRAM ? "t5" : "llama");

	if (rc == 0)
		rc = put_pieces(w, v, n);
	if (rc == 0)
		rc = put_id(w, "bos", v->bos);
	if (rc == 0) /* else an ordinary piece would be taken for the end */
		rc = put_id(w, "eos", v->eos >= 0 ? v->eos : v->unk);
	if (rc == 0)
		rc = put_id(w, "unknown", v->unk);
	if (rc == 0)
		rc = put_id(w, "padding", v->pad);
	if (rc == 0)
		rc = put_flags(w, bos && v->bos >= 0, v->dummy_prefix);
	return rc == 0 && v->kind == VOCAB_UNIGRAM ? put_normalizer(w, v) : rc;
}

static int put_ids(struct gguf_writer *w, uint32_t n)
{
	char text[24];
	int rc = gguf_put_array(w, "tokenizer.ggml.tokens", GGUF_ITEM_TEXT, n);

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		snprintf(text, sizeof text, "[%" PRIu32 "]", i);
		rc = gguf_item_text(w, text, strlen(text));
	}
	if (rc == 0)
		rc = gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_ITEM_I32, n);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = gguf_item_i32(w, PIECE_USER);
	return rc;
}

int gguf_vocab_ids(struct gguf_writer *w, uint32_t n)
{
	int rc = put_tokenizer(w, "t5");

	if (rc == 0)
		rc = put_ids(w, n);
	if (rc == 0)
		rc = put_id(w, "eos", 0);
	if (rc == 0)
		rc = put_id(w, "unknown", 0);
	return rc < 0 ? rc : put_flags(w, false, false);
}
