/*
 * inject_job - all of `dl-chaos inject`, from its options to its report.
 */
#ifndef INJECT_JOB_H
#define INJECT_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/say.h"
#include "chaos/fault.h"

struct inject_options {
	const char *kinds;        /* of faults: fault_weights_parse */
	const char *on;           /* names, with commas between; NULL: all */
	const char *plan, *list;  /* files; NULL: a plan is drawn, a command is given */
	const char *out;          /* a directory, not there yet */
	const char *key, *trust;  /* as the user gave them, or NULL */
	struct fault_conf faults; /* times, seed; the rest is filled in here */
	double most;              /* seconds; 0: to the end */
	bool print, json;         /* print: only the plan */
	struct say *say;
};
/*
 * The plan or the report is appended to `text`. ERR_DATA when something does not hold that must: the report is
 * there then, too. *asked: the signal that ended it, or 0. This process is in the run directory afterwards.
 */
int inject_job(struct inject_options *o, char **words, size_t n, struct buf *text, int *asked) ERR_MUST;

#endif
