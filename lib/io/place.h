/*
 * place - files under the current directory that strangers may write to.
 *
 * A path is relative, DIR/DIR/NAME, and no part of it is followed when it is a symbolic link; what is
 * not a regular file is never waited for. A file that is replaced or removed while it is opened, as on
 * NFS (ESTALE), is tried again a few times.
 */
#ifndef PLACE_H
#define PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/atomic.h"

/* 1 and a descriptor, 0 when nothing has that name, else an error that names the path: ERR_DATA for what
 * is no regular file, or is reached through a link. */
int place_open(const char *path, int *fd) ERR_MUST;
/* 1 and the whole file appended to out, 0 when nothing has that name. ERR_DATA above `limit` bytes. */
int place_read(const char *path, size_t limit, struct buf *out) ERR_MUST;
/* Makes the directories of path up to its last '/': none of them may be a link. */
int place_make(const char *path) ERR_MUST;
/* atomic_open for such a path: write to .fd, then one of the commits. Its directories must be there; a
 * link of its name is replaced, not followed. */
int place_create(struct atomic *a, const char *path) ERR_MUST;
/*
 * Publishes bytes under the name, replacing the file that is there; readers see the old one or the new
 * one. fast: not made durable, which is enough for what is soon replaced again and missed by nobody.
 */
int place_put(const char *path, const void *bytes, size_t n, bool fast) ERR_MUST;
/* 1 when it is gone, 0 when it was not there. */
int place_remove(const char *path) ERR_MUST;
/* The entries of a directory, sorted, those beginning with '.' left out, at most `limit` (then *more is
 * set). The caller frees each and the array. A missing directory is empty. */
int place_list(char ***names, size_t *n, const char *path, size_t limit, bool *more) ERR_MUST;
/* The same of those entries only for which keep(ctx, name): strangers' junk cannot crowd them out. */
int place_list_if(char ***names, size_t *n, const char *path, size_t limit, bool *more,
	bool (*keep)(void *ctx, const char *name), void *ctx) ERR_MUST;
/* And of those only that may be directories. */
int place_list_dirs(char ***names, size_t *n, const char *path, size_t limit, bool *more,
	bool (*keep)(void *ctx, const char *name), void *ctx) ERR_MUST;
void place_list_free(char **names, size_t n);
/* Bytes that whoever runs this may still write to the file system of the current directory; UINT64_MAX when
 * it does not tell. */
uint64_t place_room(void);

#endif
