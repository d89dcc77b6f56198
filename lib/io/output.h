/*
 * output - where a program's one result goes: a file that appears whole or not at all, or standard
 * output.
 *
 *     output_apart   for each input by its name: it is not what is to be written
 *     output_open    path NULL or "-": standard output, checked by fd_output_fits against the inputs
 *     write to .fd
 *     output_commit  publishes the file, or closes standard output and reports what it held back
 *     output_abort   leaves no file behind; harmless after commit
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stddef.h>

#include "base/err.h"
#include "io/atomic.h"

struct output {
	int fd;
	struct atomic file;
};
#define OUTPUT_INIT { -1, ATOMIC_INIT }

/* ERR_USAGE when `path` and `other` are the same file, under whatever names: "the output" would replace what `other`
 * `is`, "an input". path NULL or "-" is standard output; other "-" is standard input, and NULL nothing. */
int output_apart(const char *path, const char *what, const char *other, const char *is) ERR_MUST;
/* The same of the output and some inputs. */
int output_apart_all(const char *path, char *const *inputs, size_t n) ERR_MUST;
/* The same of a state (NULL: none) and the files that lie beside it and are its own: STATE.lock and STATE.prev. */
int output_apart_state(const char *path, const char *what, const char *state) ERR_MUST;
/* `what` names the data for messages: "a checkpoint". */
int output_open(struct output *o, const char *path, const char *what, const int *inputs, size_t n)
	ERR_MUST;
int output_commit(struct output *o) ERR_MUST;
void output_abort(struct output *o);
/* "standard output" or the path as given. */
const char *output_name(const char *path);

#endif
