/*
 * newdir - a directory appears under its name whole or not at all.
 *
 *     newdir_open    makes a directory under a temporary name beside the one it will have
 *     make what belongs in it, in .temp
 *     newdir_commit  gives it its name
 *     newdir_abort   removes it and all that is in it; harmless after commit
 *
 * The name must not be there yet, or be that of an empty directory, which is replaced and whose
 * permissions the new one gets; both calls return ERR_IO otherwise. What is in it is for its maker to
 * fsync. Paths are absolute: the current directory may change meanwhile. Temporary names start with '.'
 * and end with ".tmp".
 */
#ifndef NEWDIR_H
#define NEWDIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct newdir {
	char *path, *temp;
	const char *name; /* as the caller gave it, for messages: the caller's */
	mode_t mode; /* of the empty directory that is there; 0: there is none */
	bool made;   /* temp is there */
};

/* On failure there is nothing to abort, and no harm in it. */
int newdir_open(struct newdir *d, const char *path) ERR_MUST;
int newdir_commit(struct newdir *d) ERR_MUST;
void newdir_abort(struct newdir *d);

#endif
