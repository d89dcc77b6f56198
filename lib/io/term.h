/*
 * term - a terminal whose last lines are written again and again, and keys read one by one.
 *
 * Nothing is cleared but what was drawn before, no other screen is switched to and no cursor is hidden:
 * however the program ends, what was drawn last stays above the prompt.
 */
#ifndef TERM_H
#define TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/err.h"

struct term {
	int in, out;
	struct termios before;
	bool keys;  /* `in` is a terminal that was set up for single keys */
	int lines;  /* drawn, above the cursor */
};

/* Room on the terminal `fd`; 80 and 24 when it does not say. */
void term_size(int fd, int *columns, int *rows);
/* in need not be a terminal: then there are no keys. */
void term_begin(struct term *t, int in, int out);
/* Writes text, whole lines that fit the terminal, over what was drawn before. */
int term_draw(struct term *t, const char *text, size_t n) ERR_MUST;
/* Waits for a key, or so many seconds, or a signal: the key, 0 when there was none. */
int term_key(struct term *t, double seconds);
/* The terminal as it was before; harmless a second time. */
void term_end(struct term *t);

#endif
