/*
 * conf - ordered `key value` lines, as in configurations and file headers.
 *
 * A line is KEY, blanks, VALUE up to the end of the line; `KEY = VALUE` is the same. '#' starts a
 * comment at the beginning of a line or after a blank. CRLF and a leading UTF-8 byte order mark are
 * taken as written by an editor; NUL and other control characters are not. Keys are
 * [a-z0-9_.-]{1,64}, at most 4096 of them; values begin with neither = nor #. A key given twice, or
 * without a value, is an error that names its line.
 *
 * A struct conf owns its strings. Zeroed memory is an empty conf.
 */
#ifndef CONF_H
#define CONF_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CONF_KEY 64 /* longest key */

struct conf_item {
	char *key, *value;
	int line; /* 0 when set by program */
};
struct conf {
	struct conf_item *v;
	size_t n, cap;
};

void conf_release(struct conf *c);
/* Appends the lines of text to c. Errors are ERR_DATA: "line 3: key 'lr' given twice". */
int conf_parse(struct conf *c, const char *text, size_t n) ERR_MUST;
/* The value of a key, or NULL. Valid until the conf changes. */
const char *conf_get(const struct conf *c, const char *key);
/* Sets or replaces. */
int conf_set(struct conf *c, const char *key, const char *value) ERR_MUST;
int conf_set_u64(struct conf *c, const char *key, uint64_t value) ERR_MUST;
int conf_set_f64(struct conf *c, const char *key, double value) ERR_MUST;
void conf_unset(struct conf *c, const char *key); /* harmless when it is not there */
/* Typed reads: 1 found, 0 absent (*out untouched), ERR_DATA bad or out of [min, max],
 * with a sentence that names line, key and range. */
int conf_u64(const struct conf *c, const char *key, uint64_t min, uint64_t max, uint64_t *out)
	ERR_MUST;
int conf_f64(const struct conf *c, const char *key, double min, double max, double *out) ERR_MUST;
int conf_bool(const struct conf *c, const char *key, int *out) ERR_MUST; /* yes no true false 1 0 */
/* ERR_DATA for the first key not in the NULL-terminated list, naming line and nearest known key. */
int conf_known(const struct conf *c, const char *const *known) ERR_MUST;
/* "key value\n" for each item, in order. */
int conf_format(const struct conf *c, struct buf *out) ERR_MUST;
/* The candidate that word was meant to be: but for a slip, the only one that has it within, the nearest
 * by edit distance; or NULL. */
const char *conf_nearest(const char *word, const char *const *candidates);

#endif
