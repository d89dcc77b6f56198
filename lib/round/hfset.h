/*
 * hfset - the weights in a directory as Hugging Face lays it out: model.safetensors, or several files
 * listed by model.safetensors.index.json, behind the table of a model.
 *
 *     { "metadata": { ... }, "weight_map": { TENSOR: FILE, ... } }
 *
 * Files are of the directory itself: names with a slash are refused. Every tensor of the table must be
 * there once, in its shape, as F32, BF16 or F16; tensors that it does not have are refused by name, but
 * for what follows from the configuration: rotary_emb.inv_freq of a layer, and lm_head.weight where it
 * is tied to the embedding and is the same, value for value.
 *
 * Errors begin with the path of the file, ERR_DATA for what makes no sense.
 */
#ifndef HFSET_H
#define HFSET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/tensor.h"
#include "form/safetensors.h"

#define HFSET_INDEX "model.safetensors.index.json"
#define HFSET_SINGLE "model.safetensors"
#define HFSET_FILES 10000 /* most files of a set */

struct hfset_file {
	char *name, *path;
	int fd;
	struct safetensors st;
};
struct hfset_place {
	uint32_t file, tensor; /* in its table */
};
struct hfset {
	struct hfset_file *file;
	size_t n;
	struct hfset_place *place; /* of each tensor of the layout */
};

/* Finds each tensor of layout; `tied`: lm_head.weight is not in it. hfset_close also after a failure. */
int hfset_open(struct hfset *s, const char *dir, const struct tensors *layout, bool tied) ERR_MUST;
void hfset_close(struct hfset *s);
/* What tensor t is stored as. */
enum safetensors_type hfset_type(const struct hfset *s, size_t t);
const char *hfset_path(const struct hfset *s, size_t t);
/* n values of tensor t from `first`. */
int hfset_read(struct hfset *s, size_t t, uint64_t first, float *out, size_t n) ERR_MUST;

/* output_apart of the output and all files. */
int hfset_apart(const struct hfset *s, const char *output) ERR_MUST;

/* DIR/NAME, which the caller frees. */
int hfset_join(char **out, const char *dir, const char *name) ERR_MUST;
/* A small file of the directory as a whole; ERR_DATA above limit, naming it. */
int hfset_slurp(const char *dir, const char *name, size_t limit, struct buf *out) ERR_MUST;

#endif
