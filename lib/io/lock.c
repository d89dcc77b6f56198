#include "io/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "io/atomic.h"
#include "io/fd.h"

#define HOLDER 31 /* most bytes of a lock file */

static bool no_locks_here(int e)
{
	return e == ENOLCK || e == ENOSYS || e == ENOTSUP || e == EINVAL;
}

/* Who wrote the lock file last: the holder, unless it is just now doing so. */
static int busy(int fd, const char *path)
{
	const char *end = access(path, F_OK) == 0 ? "" : ".lock"; /* a file that can be looked at */
	char holder[HOLDER + 1] = "";

	if (pread(fd, holder, sizeof holder - 1, 0) < 0)
		holder[0] = '\0';
	holder[strspn(holder, "0123456789")] = '\0';
	if (!holder[0])
		return err_set(ERR_BUSY, "%s%s: in use by another process", path, end);
	return err_set(ERR_BUSY, "%s%s: in use by process %s", path, end, holder);
}

/* Empty, or a number alone, as sign leaves it: only then is it ours to write to. A crash of the machine may have left
 * zeros. */
static bool is_lock_file(int fd)
{
	char text[HOLDER + 2] = "";
	ssize_t got = fd_read_at(fd, text, HOLDER + 1, 0);
	size_t at = strspn(text, "0123456789");
	uint64_t size;

	if (!fd_regular(fd, &size) || got < 0 || got > HOLDER)
		return false;
	if (at > 0 && text[at] == '\n')
		at++;
	while (at < (size_t)got && text[at] == '\0')
		at++;
	return at == (size_t)got;
}

/* For the message of others only: that it cannot be written does no harm. */
static void sign(int fd)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());

	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) < 0)
		return;
}

int lock_take(struct lock *l, const char *path)
{
	char *target, *name;
	int rc = atomic_target(path, &target);

	*l = (struct lock)LOCK_INIT;
	if (rc < 0)
		return rc;
	if (asprintf(&name, "%s.lock", target) < 0)
		name = NULL;
	free(target);
	if (!name)
		return err_nomem();
	l->fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
	if (l->fd < 0)
		rc = err_sys("%s", name);
	else if (!is_lock_file(l->fd))
		rc = err_set(ERR_DATA, "%s: is no lock file, but has the name that the lock of %s is to have: move "
			"it away", name, path);
	free(name);
	if (rc < 0) {
		lock_release(l);
		return rc;
	}
	if (flock(l->fd, LOCK_EX | LOCK_NB) == 0) {
		l->held = true;
		sign(l->fd);
		return 0;
	}
	if (no_locks_here(errno))
		return 0;
	rc = errno == EWOULDBLOCK ? busy(l->fd, path) : err_sys("%s", path);
	lock_release(l);
	return rc;
}

void lock_release(struct lock *l)
{
	if (l->fd >= 0)
		close(l->fd);
	*l = (struct lock)LOCK_INIT;
}
