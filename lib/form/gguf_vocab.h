/*
 * gguf_vocab - the keys of a gguf file that tell llama.cpp how text becomes token ids.
 *
 * Bytes are a vocabulary of SentencePiece that has nothing but byte pieces; the blank stands as U+2581,
 * as there, so that U+2581 itself is read as a blank, and NUL is named as the end of a text. Pieces of
 * SentencePiece are passed on with their scores and types: bpe as "llama", unigram as "t5" with its rules
 * of normalisation, which llama.cpp does not apply to bpe; ids beyond them are unused pieces "[PAD7]".
 */
#ifndef GGUF_VOCAB_H
#define GGUF_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

#include "form/gguf.h"
#include "form/vocab.h"

/* Ids are bytes: n <= 256 of them. */
int gguf_vocab_bytes(struct gguf_writer *w, uint32_t n) ERR_MUST;
/* Of kind unigram or bpe; n >= v->n ids in all. bos: texts begin with its begin piece, if it has one. */
int gguf_vocab_pieces(struct gguf_writer *w, const struct vocab *v, uint32_t n, bool bos) ERR_MUST;
/* Nothing is known of n ids: each stands for itself, 7 as the text "[7]", read and written; of any other
 * text every character becomes id 0. (The tokenizer "no_vocab" ends llama.cpp where a program gives it
 * text.) */
int gguf_vocab_ids(struct gguf_writer *w, uint32_t n) ERR_MUST;

#endif
