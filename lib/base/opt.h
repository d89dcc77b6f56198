/*
 * opt - a table of options: parsing, usage, -h, --version, in one place.
 *
 *     static const struct opt table[] = {
 *         { 'n', "steps", OPT_U64, &o.steps, "STEPS", "inner steps to run", .min = 1, .max = 1e9 },
 *         { 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say more on standard error" },
 *         OPT_END };
 *     static const struct opt_prog prog = { "dl-learn", "one sentence", synopsis, table };
 *     int rc = opt_parse(&prog, argc, argv, &operands);
 *
 * Short options cluster and take their value attached or next; long ones take
 * --name=value or the next word, unambiguous prefixes allowed; `--` ends options.
 * -h/--help and --version are handled for every program. A value out of range, an
 * unknown option (nearest one named) or a single-valued option given twice is ERR_USAGE.
 */
#ifndef OPT_H
#define OPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define OPT_VERSION "0.1" /* of all programs */

enum opt_type {
	OPT_FLAG,    /* bool */
	OPT_U64,     /* uint64_t within [min, max] */
	OPT_COUNT,   /* the same, num_count: 300k, 1.2M */
	OPT_F64,     /* double within [min, max] */
	OPT_SECONDS, /* double, num_seconds */
	OPT_TEXT     /* const char *, points into argv */
};
struct opt {
	int letter;       /* 0: long only */
	const char *name; /* 0: short only */
	enum opt_type type;
	void *dest;
	const char *arg, *help;
	double min, max;  /* both 0: unchecked */
	bool *given;      /* if not NULL: set when the option occurs */
};
#define OPT_END { 0, 0, OPT_FLAG, 0, 0, 0, 0, 0, 0 }

struct opt_prog {
	const char *name, *summary;
	const char *const *synopsis; /* NULL-terminated lines, each beginning with the name */
	const struct opt *table;
};

/* 0: go on, operands in *words (count *n), pointing into argv, in order.
 * 1: help or version was printed on stdout: leave with status 0.
 * ERR_USAGE: the sentence says why. */
int opt_parse(const struct opt_prog *prog, int argc, char **argv, char ***words, int *n) ERR_MUST;

#endif
