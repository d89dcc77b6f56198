/*
 * json - values of JSON appended to a buf. Commas, colons and brackets are the caller's.
 *
 * Text that is not UTF-8 is taken as Latin-1, byte by byte, so that the output is valid whatever
 * the input. JSON knows no infinities and no NaN: they become null.
 */
#ifndef JSON_H
#define JSON_H

#include "base/buf.h"
#include "base/err.h"

int json_text(struct buf *out, const char *s) ERR_MUST;  /* with its quotes */
/* A number where the text is one by the syntax of JSON, as it stands; else as json_text. */
int json_value(struct buf *out, const char *s) ERR_MUST;
int json_f64(struct buf *out, double x) ERR_MUST;        /* reads back as the same double */

#endif
