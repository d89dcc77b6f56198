/*
 * sim_job - all of `dl-chaos sim`, from its options to its table: a tape to be like, simulations, a trace of one.
 */
#ifndef SIM_JOB_H
#define SIM_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "chaos/setting.h"

struct sim_options {
	const char *setting[SETTINGS]; /* as they were given; NULL: not */
	const char *mode, *chips, *learners, *speeds, *trace, *like, *without, *key, *trust;
	bool rigid, fresh, forget, json, tsv, verbose;
	uint64_t seed, seeds, threads;
};

/* What is to be printed is appended to `text`. */
int sim_job(const struct sim_options *o, struct buf *text) ERR_MUST;

#endif
