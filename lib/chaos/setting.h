/*
 * setting - parameters of a simulation by their names, from text.
 */
#ifndef SETTING_H
#define SETTING_H

#include "base/err.h"
#include "chaos/sim_conf.h"

enum setting {
	SETTING_SLICE, SETTING_MTBI, SETTING_SCALE_DOWN, SETTING_SCALE_UP, SETTING_REPAIR, SETTING_RESTART,
	SETTING_STEP, SETTING_SPREAD, SETTING_UNEVEN, SETTING_INTERVAL, SETTING_FRAGMENTS, SETTING_TAU,
	SETTING_QUORUM, SETTING_GAMMA, SETTING_INVITE, SETTING_ADOPT, SETTING_LEASE, SETTING_BEAT, SETTING_PARAMS,
	SETTING_DELTA_BITS, SETTING_FRAGMENT_BITS, SETTING_BANDWIDTH, SETTING_LATENCY, SETTING_MERGE, SETTING_LOOK,
	SETTING_TOKENS, SETTING_BUDGET, SETTING_JOIN, SETTING_FOR, SETTINGS
};
const char *setting_name(enum setting k); /* "scale-down" */
/* ERR_USAGE for text that is none; what makes no sense is told by sim_conf_check. */
int setting_apply(struct sim_conf *c, enum setting k, const char *text) ERR_MUST;

/* A number not below 0, with k, M, G or T behind it for thousands, and so on. ERR_USAGE. */
int setting_number(const char *text, double *out) ERR_MUST;
/* "'TEXT' is no WHAT", ERR_USAGE. */
int setting_not_so(const char *what, const char *text);
/* "1,1,0.8": allocated, the caller frees it; how many, or ERR_USAGE. */
int setting_speeds(const char *text, double **out) ERR_MUST;

#endif
