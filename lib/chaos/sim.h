/*
 * sim - discrete-event simulation of a run: chips fail, learners train, stop and answer, and the syncer does
 * what round/policy.h decides, unchanged.
 *
 * Cost grows with inner steps, failures, answers and merges, not with chips. Same conf, same result, bit by
 * bit; nothing is global, so any number may run at once.
 *
 * Goodput. A chip is productive while it takes part in an inner step that is finished; one that is cut off by a
 * failure is lost. Goodput is productive chip time over allotted chip time, which runs as long as a learner is
 * there, whatever its chips do. Uptime is the share of time in which at least K learners train.
 */
#ifndef SIM_H
#define SIM_H

#include "base/err.h"
#include "chaos/sim_conf.h"
#include "chaos/trace.h"

struct sim_result {         /* NaN: does not apply to the mode */
	double seconds;             /* simulated */
	double goodput, uptime;
	double trained, merged;     /* tokens; merged: mean over fragments */
	double steps;               /* inner steps of all learners */
	double failures, stops;     /* slices that failed; stops of a learner */
	double merges, answers;     /* answers: a merge, on average */
	double late;                /* answers that no merge has */
	double staleness;           /* inner steps from the snapshot of an answer to what came of it */
	double interval;            /* achieved H; 0: no fragment was merged twice */
	double link, syncer;        /* bytes per second, both ways: of a learner, on average; of the syncer */
	double stall;               /* longest time without a merge while K learners were alive */
	double budget_at;           /* when the budget was reached; NaN: it was not, or there is none */
};
/* trace: NULL, or where all that happens goes; its head is sim_conf_head's. */
int sim_run(const struct sim_conf *c, struct trace_writer *trace, struct sim_result *out) ERR_MUST;

#endif
