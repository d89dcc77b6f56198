/*
 * rundir - what is where in a run directory. dl-run-dir(5) says who writes each path and why each
 * reader is safe.
 *
 *     manifest                        sealed by the owner
 *     head                            sealed by the syncer
 *     global/fPPP/V.frag              sealed by the syncer (version 0: by the owner), immutable
 *     learner/NAME/beat               sealed by the learner
 *     learner/NAME/state              sealed by the learner
 *     learner/NAME/fPPP.R.delta       the answer to round R, immutable
 *     syncer/epoch.E                  sealed by the syncer, immutable: who took epoch E
 *     syncer/tape.E                   appended to by the syncer of epoch E
 *     syncer/outer/fPPP/V.outer       sealed by the syncer: momentum that goes with version V
 *     ckpt/STEP.ckpt                  sealed by the syncer, immutable
 *
 * Programs enter the directory, once, and use relative paths from then on: so it may be renamed while
 * they run.
 */
#ifndef RUNDIR_H
#define RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "form/key.h"

#define RUNDIR_PATH (KEY_NAME + 64)
#define RUNDIR_MANIFEST "manifest"
#define RUNDIR_HEAD "head"

/* Makes RUN the current directory of the process. ERR_DATA when it has no manifest. */
int rundir_enter(const char *run) ERR_MUST;
/* After an error: is it because RUN, the current directory, was removed? ERR_DATA when it was: nothing comes
 * back then. */
int rundir_there(void) ERR_MUST;
/* Before something that is no file of the run's is written to `output` (NULL and "-": standard output; or a directory
 * to be made): ERR_USAGE when it would be one of RUN's own files, or where only these go, whatever links lead there. */
int rundir_apart(const char *run, const char *output) ERR_MUST;
/* The same path seen from anywhere: for files of the user's that are opened after rundir_enter. The
 * caller frees it; "-" stays as it is. */
int rundir_absolute(const char *path, char **out) ERR_MUST;

/* The same of an environment variable that is a path, for children who start in RUN. */
int rundir_absolute_variable(const char *name) ERR_MUST;

/* Each writes at most RUNDIR_PATH bytes and returns `to`. */
char *rundir_fragment(char *to, unsigned fragment, uint64_t version);
char *rundir_outer(char *to, unsigned fragment, uint64_t version);
char *rundir_beat(char *to, const char *learner);
char *rundir_state(char *to, const char *learner);
char *rundir_delta(char *to, const char *learner, unsigned fragment, uint64_t round);
char *rundir_epoch(char *to, uint64_t epoch);
char *rundir_ckpt(char *to, uint64_t step);

/* "f007" of a fragment number, as in paths and headers; to has room for 5 bytes. */
char *rundir_fragment_name(char *to, unsigned fragment);
int rundir_fragment_parse(const char *text, unsigned *fragment) ERR_MUST;
/* Is this the name of a delta, "f007.42.delta" and nothing else? */
bool rundir_delta_parse(const char *name, unsigned *fragment, uint64_t *round);

#endif
