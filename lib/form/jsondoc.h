/*
 * jsondoc - JSON that others wrote, read strictly. The only file that includes jansson.h.
 *
 * A struct jsondoc is a value of a document: object, array, text, number, true, false or null. The
 * whole belongs to the one that jsondoc_parse gave, which jsondoc_free frees; the others live as
 * long. Refused, with line and column: anything but one value of JSON (RFC 8259) in UTF-8, an object
 * with one key twice, nesting deeper than 2048, NUL in a text, whole numbers beyond 64 bits.
 *
 * Memory is up to 40 times the text: callers limit the text. Strings of messages are escaped.
 */
#ifndef JSONDOC_H
#define JSONDOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct jsondoc;

/* ERR_DATA unless all of text is one object or array. */
int jsondoc_parse(struct jsondoc **out, const char *text, size_t n) ERR_MUST;
void jsondoc_free(struct jsondoc *doc);

/*
 * The members of one large object in turn, memory for one at a time: take gets key and value, both
 * valid during the call. A value, or a key, of more than `limit` bytes is refused. That a key comes
 * twice is for `take` to find: it is not looked for here. Blanks may follow the object, nothing else.
 * Places in errors are bytes from the beginning of the text.
 */
typedef int jsondoc_taker(void *ctx, const char *key, const struct jsondoc *value);
int jsondoc_members(const char *text, size_t n, size_t limit, jsondoc_taker *take, void *ctx) ERR_MUST;

bool jsondoc_is_object(const struct jsondoc *v);
bool jsondoc_is_array(const struct jsondoc *v);
bool jsondoc_is_null(const struct jsondoc *v);
/* The member of an object; NULL when there is none, or v is no object. */
const struct jsondoc *jsondoc_get(const struct jsondoc *v, const char *key);
/* Calls take for each member of an object, in order, until it returns an error. */
int jsondoc_each(const struct jsondoc *v, jsondoc_taker *take, void *ctx) ERR_MUST;
/* Of an array, or of an object: members. Else 0. */
size_t jsondoc_size(const struct jsondoc *v);
/* The element of an array; NULL beyond its end, or when v is no array. */
const struct jsondoc *jsondoc_at(const struct jsondoc *v, size_t i);

/* True, and *out, when v is of the type. Whole numbers are real ones, too; -1 is no u64, nor is 1.0. */
bool jsondoc_u64(const struct jsondoc *v, uint64_t *out);
bool jsondoc_f64(const struct jsondoc *v, double *out);
bool jsondoc_bool(const struct jsondoc *v, bool *out);
/* NULL when v is no text. UTF-8. */
const char *jsondoc_text(const struct jsondoc *v);

/* For messages: v as JSON on one line, printable, shortened to fit. */
void jsondoc_show(char *out, size_t cap, const struct jsondoc *v);

#endif
