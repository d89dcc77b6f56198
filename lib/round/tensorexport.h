/*
 * tensorexport - any sealed file as one safetensors file: dl-export -f safetensors.
 *
 * All tensors in the order of the table, streamed; the header's keys travel in the metadata, each with
 * "dl." before it, so that tensorimport makes the same checkpoint again. Floats that have a remainder
 * (f32r) become their sum, rounded.
 */
#ifndef TENSOREXPORT_H
#define TENSOREXPORT_H

#include "round/export.h"

/* ERR_USAGE for options that mean nothing here. */
int tensorexport(const struct export *x) ERR_MUST;

#endif
