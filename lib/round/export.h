/*
 * export - a sealed file on its way into a format of others: what dl-export hands to each of them.
 *
 * A format is one function with the signature of export_writer, in a module of its own; it plugs into
 * dl-export by its line in format.c. It opens the output itself (io/output for one file, io/newdir
 * for a directory) and publishes it only when all of the input has been verified, that is, after
 * frame_next has returned 0.
 */
#ifndef EXPORT_H
#define EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"
#include "base/say.h"
#include "form/frame.h"

struct export {
	/* The header is verified (frame_header), nothing else is read: frame_next streams tensor by
	 * tensor in the order of the table, also from a pipe; frame_seekable is for regular files.
	 * Formats that need a model begin with checkpoint_open. */
	struct frame_reader *from;
	int fd;                /* it reads from this: for output_open, not to be written over */
	const char *out;       /* option -o, a path or "-"; another file than the input */
	const char *dtype;     /* option --dtype, NULL: what holds the values without loss */
	const char *tokenizer; /* option --tokenizer, a path, or NULL */
	bool no_bos;           /* option --no-bos: texts do not begin with the tokenizer's begin piece */
	uint64_t shard_bytes;  /* option --shard-size: most data in one file */
	bool check;            /* option --check: load what was written and compare, before it is published */
	struct pool *pool;
	struct say *say;
};
typedef int export_writer(const struct export *x);

#endif
