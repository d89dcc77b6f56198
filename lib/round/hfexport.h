/*
 * hfexport - a checkpoint as a directory that Hugging Face's transformers loads: dl-export -f hf.
 *
 *     config.json                       (hfconfig)
 *     model.safetensors                 or model-00001-of-00003.safetensors ..., each with at most
 *                                       shard_bytes of data or one tensor, and their index
 *     tokenizer.json ...                copied from where option --tokenizer says
 *
 * The directory appears when it is whole (io/newdir). A tied head is stored once, as the embedding.
 */
#ifndef HFEXPORT_H
#define HFEXPORT_H

#include "round/export.h"

int hfexport(const struct export *x) ERR_MUST;

#endif
