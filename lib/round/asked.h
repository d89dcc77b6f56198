/*
 * asked - options that make a run, held against a run that is there: the same command goes on with it, and
 * another one is told what differs.
 */
#ifndef ASKED_H
#define ASKED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/conf.h"
#include "round/manifest.h"

struct asked {
	const char *option; /* as it is typed */
	const char *key;    /* of the manifest's header */
	const char *none;   /* what it means that the header has no such key; NULL: it always has */
	bool time, count;   /* its value may have a unit, as num_seconds or num_count take it */
};
/* value: (n) as given, NULL where not. Numbers may be written in more than one way. ERR_USAGE names the
 * first that the manifest contradicts. */
int asked_options(const struct asked *v, const char *const *value, size_t n, const struct manifest *m) ERR_MUST;
/* The whole configuration of model and training, from -c `name`. */
int asked_conf(const struct conf *asked, const char *name, const struct manifest *m) ERR_MUST;

#endif
