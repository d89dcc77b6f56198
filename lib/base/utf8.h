/*
 * utf8 - characters in UTF-8, as they may come from anywhere.
 */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Length of the sequence at s, which ends with a NUL at the latest, and its code point; 0 when it is none: overlong
 * forms, surrogates and what is beyond U+10FFFF are none. */
size_t utf8_decode(const char *s, uint32_t *point);
/* Appends a text of which only what XML 1.0 takes for characters is left: for each other byte or character U+FFFD. */
int utf8_clean(struct buf *out, const char *text) ERR_MUST;

#endif
