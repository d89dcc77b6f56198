/*
 * hfimport - a directory as Hugging Face lays it out into a sealed checkpoint: dl-import -f hf.
 *
 * The model is what config.json says (hfconfig), the weights are those of the directory (hfset), F32 and
 * F16 encoded as f32, BF16 as bf16: no value changes. The run id comes from model, training, seed,
 * label, and a digest of the first values of each tensor, so that the descendants of different
 * models do not mix.
 */
#ifndef HFIMPORT_H
#define HFIMPORT_H

#include "round/import.h"

int hfimport(const struct import *x) ERR_MUST;

#endif
