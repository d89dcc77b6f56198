/*
 * num - strict numbers from text: the whole string or nothing, whatever the locale.
 *
 * No leading or trailing space, no empty string, no `nan`, no `inf`, no overflow,
 * no `0.7abc`. Each returns 0, or ERR_DATA with a sentence that quotes the text and
 * says what was expected; callers that parse options turn it into ERR_USAGE.
 */
#ifndef NUM_H
#define NUM_H

#include <stdint.h>

#include "base/err.h"

int num_u64(const char *text, uint64_t *out) ERR_MUST;
/* The same, or with a unit: "300k", "1.2M", "2G" or "1T", in thousands. */
int num_count(const char *text, uint64_t *out) ERR_MUST;
int num_f64(const char *text, double *out) ERR_MUST; /* decimal, finite, C locale */
/* "90", "90s", "9m", "1.5h", "2d" -> seconds, > 0. */
int num_seconds(const char *text, double *out) ERR_MUST;
/* Shortest decimal that reads back as the same double (float); C locale. At least 32 bytes. */
void num_f64_text(char out[32], double x);
void num_f32_text(char out[32], float x);

#endif
