/*
 * fields - members of a struct as keys of a card: one table for writing and for reading.
 *
 * Every key of the table must be there, within its range; what is not finite is written as 0.
 */
#ifndef FIELDS_H
#define FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "form/meta.h"

enum field_type {
	FIELD_U64,
	FIELD_UNSIGNED,
	FIELD_F64,
	FIELD_HEX,   /* char[max + 1]: exactly max digits, lower case */
	FIELD_NAME   /* char[KEY_NAME + 1] */
};
struct field {
	const char *key;
	enum field_type type;
	size_t offset; /* in the struct */
	double min, max;
};

/* Counts of tokens, steps and rounds are below it: their sums never wrap and are exact in a double. */
#define FIELD_COUNT 9007199254740992.0 /* 2^53 */
#define FIELD_MOST (((uint64_t)1 << 53) - 1) /* sums that lies may drive so far stay there */

int fields_write(const void *from, const struct field *f, size_t n, struct conf *to) ERR_MUST;
/* ERR_DATA for the first number in the struct that is out of its range. */
int fields_check(const void *of, const struct field *f, size_t n) ERR_MUST;
int fields_read(void *to, const struct field *f, size_t n, const struct conf *from) ERR_MUST;

/* ERR_DATA unless the card says that it is of this kind. */
int fields_kind(const struct conf *from, enum kind kind) ERR_MUST;
/* Which of n words the value of this key is; or ERR_DATA, with all of them. */
int fields_word(const struct conf *from, const char *key, const char *const *words, size_t n) ERR_MUST;
/* The value of a key that is there, copied to `line`, which has room for `size` bytes. */
int fields_line(char *line, size_t size, const struct conf *from, const char *key) ERR_MUST;
/* Values of several words. fields_words: exactly n of them, cut apart in `line`, one blank between; or
 * ERR_DATA. fields_count: a whole number below FIELD_COUNT. */
int fields_words(char *line, char *word[], size_t n) ERR_MUST;
int fields_count(const char *word, uint64_t *out) ERR_MUST;
/* Cuts the next word off; NULL at the end. Two blanks have an empty word between them. */
char *fields_next(char **rest);

#endif
