/*
 * trace_line - the words of a line of a trace: kinds, and the keys that each has; for trace and trace_read
 * only.
 */
#ifndef TRACE_LINE_H
#define TRACE_LINE_H

#include "chaos/trace.h"

#define TRACE_FORMAT 1

enum trace_key {
	TRACE_LEARNER, TRACE_FRAGMENT, TRACE_ROUND, TRACE_VERSION, TRACE_SHARE, TRACE_STEPS, TRACE_TOKENS,
	TRACE_SECONDS, TRACE_REASON, TRACE_STATE, TRACE_INVITED, TRACE_ANSWERS, TRACE_KEYS
};
extern const char *const trace_keys[TRACE_KEYS];

#define TRACE_BIT(k) (1u << (k))
struct trace_row {
	const char *name;
	unsigned has, may; /* keys that it needs; that may be left out */
};
extern const struct trace_row trace_rows[TRACE_KINDS];

/* "'TEXT' is no WHAT", ERR_DATA. */
int trace_not_so(const char *what, const char *text);
int trace_why_parse(const char *name, enum trace_why *w) ERR_MUST;

#endif
