/*
 * ids - token ids from text: whole numbers between blanks and line ends, as SentencePiece's
 * `spm_encode --output_format=id` prints them, a sentence a line; read in pieces of any size.
 *
 *     struct ids p = { .vocab = 8192, .ends = false };
 *     ids_parse(&p, out, &count, text, n);    for each piece; out has room for n + 1 ids
 *     ids_end(&p, out, &count);               out has room for 2
 *
 * And from binary: ids_unpack.
 */
#ifndef IDS_H
#define IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define IDS_WORD 24 /* no id is that long */

struct ids {
	uint32_t vocab; /* ids are below it */
	bool ends;      /* every line that has ids ends with `end` */
	uint32_t end;
	uint64_t line;  /* ended so far */
	bool in_line;   /* the present line has ids */
	size_t length;  /* of the word under way */
	char word[IDS_WORD];
};

/* 0, or ERR_DATA: "line 7: id 9000 is not below the vocabulary of 8192". */
int ids_parse(struct ids *p, uint32_t *out, size_t *count, const char *text, size_t n) ERR_MUST;
int ids_end(struct ids *p, uint32_t *out, size_t *count) ERR_MUST;

/* n little-endian ids of `size` bytes (1, 2 or 4), the first of them token number `first`. 0, or
 * ERR_DATA: "token 7: id 9000 is not below the vocabulary of 8192". */
int ids_unpack(uint32_t *out, const uint8_t *from, size_t size, size_t n, uint32_t vocab,
	uint64_t first) ERR_MUST;

#endif
