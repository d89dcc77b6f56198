/*
 * atomic - a file appears under its name whole or not at all.
 *
 *     atomic_open  creates a file in the same directory (mode & ~umask)
 *     write to .fd
 *     atomic_commit  fsync, rename, fsync of the directory
 *     atomic_abort   removes the file; harmless after commit
 *
 * The file has no name until it is whole, so that a program that is killed leaves nothing behind;
 * where the file system has no such files, it has a temporary one from the beginning.
 *
 * Symbolic links as target are followed to their end: links stay, and what they lead to is replaced.
 * fsync that answers EINVAL, EPERM, ENOTSUP or EACCES is taken as done. Temporary names start with '.'
 * and end with ".tmp".
 */
#ifndef ATOMIC_H
#define ATOMIC_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct atomic {
	int fd; /* -1: closed */
	char *path, *temp; /* temp NULL: still without a name */
	int dir; /* that paths begin from */
};
#define ATOMIC_INIT { -1, 0, 0, AT_FDCWD }

/* Where a file of this name would be written: the path itself, or what the symbolic links at its end
 * lead to; ERR_IO when it cannot be a regular file, ERR_USAGE when it is what some process has open, as
 * /dev/stdout is. The caller frees it. */
int atomic_target(const char *path, char **out) ERR_MUST;
/* Do both paths lead to one regular file, there or still to be made? */
bool atomic_same(const char *a, const char *b);
int atomic_open(struct atomic *a, const char *path, mode_t mode) ERR_MUST;
/* In an open directory, which is closed with the file, also when this fails. The file's name is the last
 * part of path; the rest of it is for messages. What has the name is replaced whatever it is, but for a
 * directory: no link is followed. */
int atomic_open_in(struct atomic *a, int dir, const char *path, mode_t mode) ERR_MUST;
int atomic_commit(struct atomic *a) ERR_MUST;
/* As commit, but nothing is made durable: after a crash of the machine the file may be gone or empty. */
int atomic_commit_fast(struct atomic *a) ERR_MUST;
/* As commit, but the file that was there stays as PATH.prev (hard link, or rename where links
 * fail). */
int atomic_commit_keep(struct atomic *a) ERR_MUST;
/* As commit, but a file that is there stays as it is: then 1, and the temporary one is gone. */
int atomic_commit_new(struct atomic *a) ERR_MUST;
void atomic_abort(struct atomic *a);
/* A whole file from memory, published by one of the commits above; returns what that returns. */
int atomic_put(const char *path, mode_t mode, const void *bytes, size_t n,
	       int (*commit)(struct atomic *a)) ERR_MUST;

#endif
