/*
 * newrun - makes a run directory: manifest, version 0 of every fragment, and the directories that others
 * write to. dl-run-dir(5) has the picture.
 */
#ifndef NEWRUN_H
#define NEWRUN_H

#include "base/err.h"
#include "base/pool.h"
#include "form/frame.h"
#include "form/key.h"
#include "round/fragment.h"
#include "round/manifest.h"

struct newrun {
	struct manifest *manifest; /* all but meta.run and serial, which it gets */
	const struct fragments *fragments;
	const struct key *owner;
	struct frame_reader *from; /* of a checkpoint, seekable; NULL: the values of configuration and seed */
	struct pool *pool;
};
/*
 * Everything is made under a temporary name beside `run`, which then appears whole. ERR_IO when there is
 * something of the name already, unless it is an empty directory, or when a stop is requested (see
 * wake.h); nothing is left then. The current directory of the process is another one meanwhile: paths
 * that others use at the same time are absolute.
 */
int newrun_make(const struct newrun *n, const char *run) ERR_MUST;

#endif
