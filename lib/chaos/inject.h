/*
 * inject - runs processes, breaks them by a plan, keeps them running, and measures.
 *
 * Each process is a child in a group of its own, whose output goes to a log. It is started again when it dies, as
 * dl-run(1) does it. Nothing that was not started here is ever sent a signal; should this process itself die, its
 * children are killed. Learners of a run work each in a copy of the run directory (mirror.h) when the plan has
 * faults of copies; else all work in the run itself.
 *
 * Written below `out`: faults.tsv (fault_file.h), a line for each fault as soon as it is known what it hit;
 * log/NAME.log; and, while it goes on, copy/ and spool/.
 *
 * It ends when all processes are done; a run when its head says so and everybody has left; or when it is asked to
 * (SIGINT, SIGTERM, SIGHUP), or `most` seconds have passed: then all are asked, and have half a minute.
 */
#ifndef INJECT_H
#define INJECT_H

#include "base/clock.h"
#include "base/say.h"
#include "chaos/fault_file.h"
#include "chaos/inject_list.h"
#include "chaos/meter.h"
#include "round/manifest.h"

#define INJECT_TABLE "faults.tsv"
#define INJECT_LOGS "log"

struct inject_conf {
	struct inject_list *list;        /* words are changed for copies */
	const struct fault_conf *faults; /* what the plan is drawn from; processes in the order of the list */
	const struct fault *plan;        /* (plans) in order of time, instead; NULL: drawn */
	size_t plans;
	double most;                     /* seconds; 0: until the end */
	const char *out;                 /* a directory, absolute, not there or empty */
	const struct manifest *manifest; /* of the list's run, which has been entered (rundir.h); NULL: no run */
	const char *dir;                 /* where processes are started: where the user is */
	struct say *say;
};
enum inject_end {
	INJECT_DONE,     /* all processes, or the run */
	INJECT_TIME,     /* it was time */
	INJECT_SIGNAL,   /* somebody asked */
	INJECT_HOPELESS  /* what is left can't do it */
};
struct inject_process_result {
	unsigned starts, kills, deaths; /* deaths: not by us, with a status other than 0 */
	double ran;                     /* seconds, not stopped */
	char how[64];                   /* it ended last; "" when it is done */
};
struct inject_result {
	enum inject_end end;
	int signal;                     /* of INJECT_SIGNAL */
	double seconds;                 /* from the first start to the end */
	uint64_t hit[FAULT_KINDS], absorbed; /* faults that did something, by kind, and that did not */
	struct inject_process_result *process; /* (of the list); the caller frees it */
	struct meter meter;             /* of a run; meter_release */
	struct meter_learner *learner;  /* (meter.learners); the caller frees it */
	char why[ERR_TEXT];             /* hopeless: what is wrong */
};
int inject_run(const struct inject_conf *c, struct inject_result *out) ERR_MUST;
void inject_result_release(struct inject_result *r);

/* Is there a fault of that kind in the plan? */
bool inject_plans(const struct inject_conf *c, bool (*of)(enum fault_kind k));

#endif
