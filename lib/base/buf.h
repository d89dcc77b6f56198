/*
 * buf - a growable run of bytes, always followed by a NUL that is not counted.
 *
 * BUF_INIT or zeroed memory is an empty buf that owns nothing. buf_release frees
 * and makes it empty again. Every append returns 0 or ERR_NOMEM.
 */
#ifndef BUF_H
#define BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/err.h"

struct buf {
	char *data;
	size_t len, cap;
};
#define BUF_INIT { 0, 0, 0 }

void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* length 0, memory kept */
int buf_reserve(struct buf *b, size_t more) ERR_MUST; /* room for `more` bytes after len */
int buf_add(struct buf *b, const void *bytes, size_t n) ERR_MUST;
int buf_str(struct buf *b, const char *s) ERR_MUST;
int buf_fmt(struct buf *b, const char *fmt, ...) ERR_MUST ERR_PRINTF(2, 3);
int buf_vfmt(struct buf *b, const char *fmt, va_list ap) ERR_MUST ERR_PRINTF(2, 0);

#endif
