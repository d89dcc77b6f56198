/*
 * hire - the syncer and the learners of a run on one machine: the commands they are, as a crew, and printed.
 *
 *     hire_all        member 0 is the syncer, then come learner-0, learner-1, ...
 *     hire_print
 *     hire_release    after crew_release
 *
 * The run directory has been entered: paths are relative to it, or absolute.
 */
#ifndef HIRE_H
#define HIRE_H

#include <stdint.h>
#include <stdio.h>

#include "io/crew.h"

#define HIRE_LOG "log" /* directory of what they say */

struct hire {
	const char *learn, *sync;   /* executables */
	const char *root;           /* the run directory as they are to call it; NULL: where they are started */
	const char *key, *trust;    /* NULL: theirs */
	uint64_t learners, threads; /* 0 threads: the processors are shared out */
	uint64_t batch, context;    /* 0: the run's */
	struct hire_post *post;     /* of all of them, the last first */
};

int hire_all(struct hire *h, struct crew *c) ERR_MUST;
/* A command on each line, its name first: what dl-chaos(1) takes. */
int hire_print(const struct crew *c, FILE *to) ERR_MUST;
/* ERR_USAGE for a name within which a line ends: what reads those commands knows no way to write it. */
int hire_printable(const struct hire *h) ERR_MUST;
void hire_release(struct hire *h);

#endif
