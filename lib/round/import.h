/*
 * import - tensors of others on their way into a sealed file: what dl-import hands to each format, and
 * what all of them do alike.
 *
 * A format is one function with the signature of import_reader, in a module of its own; it plugs into
 * dl-import by its line in format.c. It makes a header and an import_source, and leaves the rest to
 * import_seal.
 */
#ifndef IMPORT_H
#define IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"
#include "base/say.h"
#include "form/header.h"
#include "form/key.h"
#include "math/train_conf.h"

struct import {
	const char *in;   /* the operand: a path, or "-" */
	const char *out;  /* option -o, NULL or "-": standard output */
	const char *conf; /* option -c: a file of training keys, NULL: none */
	const char *label; /* option --label, NULL: none */
	uint64_t seed;     /* option --seed */
	bool check;        /* option --check: run the model from both sides before publishing */
	const struct key *key;
	struct pool *pool;
	struct say *say;
};
typedef int import_reader(const struct import *x);

/* Where the values of a header's tensors come from; errors of its functions are complete. */
struct import_source {
	const struct header *header;
	void *ctx;
	/* n values of tensor t from `first`; tensors in order, each from its beginning */
	int (*floats)(void *ctx, size_t t, uint64_t first, float *out, size_t n);
	int (*integers)(void *ctx, size_t t, uint64_t first, void *out, size_t n); /* NULL: there are none */
	int (*end)(void *ctx); /* after the last one; may be NULL */
	/* The sealed file is whole, fd at its end and open for reading, too; may be NULL. */
	int (*check)(void *ctx, int fd);
	bool finite; /* values that are not are an error */
	int (*where)(void *ctx, int code, size_t t); /* puts the place of tensor t before an error */
	const int *inputs; /* (n) descriptors that must not be written over */
	size_t n;
};
int import_seal(const struct import *x, const struct import_source *source) ERR_MUST;

#endif
