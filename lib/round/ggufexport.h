/*
 * ggufexport - a checkpoint as a file that llama.cpp loads: dl-export -f gguf.
 *
 * Architecture "llama", also with experts, as llama.cpp has it: names of tensors are its own; the rows of
 * each head of q and k, which here are turned half against half (j, j + D/2), stand in neighbouring
 * pairs (2j, 2j + 1); the experts of a layer are one tensor (E, F, C). Vectors and the routers are f32;
 * with q8_0, matrices whose rows are no multiple of 32 are f16.
 *
 * Text: the vocabulary of --tokenizer, a model of SentencePiece. Without it, a model of at most 256 ids
 * that names no vocabulary is one of bytes, and any other takes ids.
 *
 * The checkpoint is read once, as it streams by; what it holds is written where it belongs. Memory is
 * for some rows, the longest at least, and the vocabulary.
 */
#ifndef GGUFEXPORT_H
#define GGUFEXPORT_H

#include "round/export.h"

/*
 * ERR_DATA: no checkpoint, a vocabulary that is not the model's or is larger than it, values that are
 * not finite (tensor, how many, the first) or too large for the type. What the file can't do is said as
 * a warning. ERR_USAGE for options that mean nothing here.
 */
int ggufexport(const struct export *x) ERR_MUST;

#endif
