/*
 * fd - whole reads and writes, and the one place where "-" means standard input or output.
 */
#ifndef FD_H
#define FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Makes sure descriptors 0, 1 and 2 are open (on /dev/null) and SIGPIPE is at its default. */
int fd_standard(void) ERR_MUST;

/* As many open files as the system allows: for programs with many inputs. */
void fd_raise_limit(void);

/* Is it a name at all? ERR_USAGE for an empty one: no message could tell which file is meant. */
int fd_named(const char *path) ERR_MUST;
/* Opens a file for reading. "-" is standard input, from where it is: when that is within a file,
 * what is left of it is copied, so that whoever reads at random finds its beginning at 0.
 * Directories and sockets are refused; a named FIFO that nobody writes to is given up after a few
 * seconds. O_CLOEXEC. Errors carry the path. */
int fd_open_in(const char *path, int *fd) ERR_MUST;
/* "standard input" for "-", else the path itself: for messages. */
const char *fd_name(const char *path);

/* Up to n bytes, fewer only at the end of file; returns the count. EINTR and short reads looped. */
ssize_t fd_read(int fd, void *to, size_t n) ERR_MUST;
ssize_t fd_read_at(int fd, void *to, size_t n, uint64_t offset) ERR_MUST;
/* All n bytes or an error. */
int fd_write(int fd, const void *from, size_t n) ERR_MUST;
int fd_write_at(int fd, const void *from, size_t n, uint64_t offset) ERR_MUST;
/* The same to descriptor 1; the error carries its name. */
int fd_write_output(const void *from, size_t n) ERR_MUST;

/* The whole of a small file, refused above `limit` bytes. */
int fd_slurp(int fd, size_t limit, struct buf *out) ERR_MUST;
/* The rest of what one descriptor reads, to another. */
int fd_copy(int from, int to) ERR_MUST;
/* The same by name; errors carry the path. */
int fd_slurp_path(const char *path, size_t limit, struct buf *out) ERR_MUST;
/* Seekable regular file? Its size, or an error. */
bool fd_regular(int fd, uint64_t *size);
/* A file without a name, in $TMPDIR or /tmp, open for reading and writing; the caller closes it. */
int fd_temporary(int *fd) ERR_MUST;
/* Copies the rest of a pipe into an unlinked temporary file ($TMPDIR or /tmp); returns a new
 * descriptor at offset 0, which the caller closes. */
int fd_spool(int fd, int *spooled) ERR_MUST;
/* For what is read in any order or again: the same descriptor where that can be done, else that of a copy as from
 * fd_spool. */
int fd_random(int fd, int *random) ERR_MUST;
/* fd_open_in, then fd_random; *fd is -1 after an error. */
int fd_open_random(const char *path, int *fd) ERR_MUST;
/* True when both are the same file. */
bool fd_same(int a, int b);
/* ERR_USAGE when descriptor 1 is a terminal (binary would go there) or is the same regular file
 * as one of the n inputs; ERR_IO when it was closed. `what` names the data. */
int fd_output_fits(const char *what, const int *inputs, size_t n) ERR_MUST;
/* Closes descriptor 1 and reports what the system held back (ENOSPC, EIO). */
int fd_close_output(void) ERR_MUST;

#endif
