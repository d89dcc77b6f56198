/*
 * tensorimport - a safetensors file into a sealed file: dl-import -f safetensors.
 *
 * What tensorexport made of a checkpoint becomes that checkpoint again, header and all: with the same
 * key the same bytes. It must be one: model and tensors are checked, and in what order the file has
 * its tensors is no matter, if it can be read in any order. Any other file becomes one of kind "tensors":
 * the tensors in the order of the data, and the lines of the metadata as keys that begin with
 * "metadata.".
 */
#ifndef TENSORIMPORT_H
#define TENSORIMPORT_H

#include "round/import.h"

int tensorimport(const struct import *x) ERR_MUST;

#endif
