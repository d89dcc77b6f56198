#include "io/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITER_WAIT 5000 /* milliseconds a named FIFO is given to find a writer */
#define WRITER_POLL 20
#define STALE_RETRIES 3
#define COPY_BLOCK (256 * 1024)

/*
 * A closed descriptor is filled with /dev/null the wrong way round: what was not given cannot be
 * read or written with success, and no file opened later can land on its number.
 */
int fd_standard(void)
{
	static const int mode[] = { O_WRONLY, O_RDONLY, O_WRONLY };

	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode[fd]) != fd)
			return err_sys("/dev/null");
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_IGN); /* ulimit -f is an error of write(2) like a full disk */
	return 0;
}

void fd_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

const char *fd_name(const char *path)
{
	return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* Is there a writer at the other end of a FIFO that is open without blocking? tee(2) looks
 * without taking: EAGAIN is a writer who is silent, 0 is nobody. */
static bool fifo_has_writer(int fd, int scratch)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, WRITER_POLL) > 0)
		return true;
	return tee(fd, scratch, 1, SPLICE_F_NONBLOCK) != 0;
}

static int fifo_wait(int fd)
{
	int scratch[2], rc = 0, waited = 0;

	if (pipe2(scratch, O_CLOEXEC) < 0)
		return err_sys("pipe");
	while (!fifo_has_writer(fd, scratch[1])) {
		if (waited >= WRITER_WAIT) {
			rc = err_set(ERR_IO, "a FIFO that nobody writes to");
			break;
		}
		waited += WRITER_POLL;
	}
	close(scratch[0]);
	close(scratch[1]);
	return rc;
}

static int check_kind(int fd)
{
	struct stat st;
	int flags;

	if (fstat(fd, &st) < 0)
		return err_sys("stat");
	if (S_ISDIR(st.st_mode))
		return err_set(ERR_IO, "is a directory");
	if (S_ISSOCK(st.st_mode))
		return err_set(ERR_IO, "is a socket");
	flags = fcntl(fd, F_GETFL);
	if ((flags & O_ACCMODE) == O_WRONLY)
		return err_set(ERR_IO, "not open for reading");
	return S_ISFIFO(st.st_mode) && (flags & O_NONBLOCK) ? fifo_wait(fd) : 0;
}

static int open_retry(const char *path)
{
	int fd, tries = STALE_RETRIES;

	/* Without O_NONBLOCK a FIFO would hold us here; ESTALE is a file replaced on NFS. */
	do
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	while (fd < 0 && (errno == EINTR || (errno == ESTALE && tries-- > 0)));
	return fd;
}

int fd_named(const char *path)
{
	return *path ? 0 : err_set(ERR_USAGE, "the name of a file is empty");
}

/* Standard input within a file, as after `read` of a shell: *fd becomes a copy of the rest. */
static int copy_rest(int *fd)
{
	uint64_t size;
	int given = *fd, rc;

	if (!fd_regular(given, &size) || lseek(given, 0, SEEK_CUR) <= 0)
		return 0;
	rc = fd_spool(given, fd);
	if (rc == 0)
		close(given);
	return rc;
}

int fd_open_in(const char *path, int *fd)
{
	bool standard = strcmp(path, "-") == 0;
	int f, rc;

	if ((rc = fd_named(path)) < 0)
		return rc;
	f = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open_retry(path);
	if (f < 0)
		return err_sys("%s", fd_name(path));
	rc = check_kind(f);
	if (rc == 0 && !standard && fcntl(f, F_SETFL, fcntl(f, F_GETFL) & ~O_NONBLOCK) < 0)
		rc = err_sys("fcntl");
	if (rc == 0 && standard)
		rc = copy_rest(&f);
	if (rc < 0) {
		close(f);
		return err_at(rc, "%s", fd_name(path));
	}
	*fd = f;
	return 0;
}

/* After a failed read or write: true to try again. Somebody may have left a shared descriptor
 * non-blocking; then wait for it here. */
static bool try_again(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return poll(&p, 1, -1) > 0 || errno == EINTR;
	return errno == EINTR;
}

static size_t portion(size_t n)
{
	return n < (size_t)1 << 30 ? n : (size_t)1 << 30;
}

ssize_t fd_read(int fd, void *to, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = read(fd, (char *)to + done, portion(n - done));

		if (got == 0)
			break;
		if (got > 0)
			done += (size_t)got;
		else if (!try_again(fd, POLLIN))
			return err_sys("read");
	}
	return (ssize_t)done;
}

ssize_t fd_read_at(int fd, void *to, size_t n, uint64_t offset)
{
	size_t done = 0;

	if (offset > (uint64_t)INT64_MAX - n)
		return err_set(ERR_DATA, "an offset beyond any file");
	while (done < n) {
		ssize_t got =
			pread(fd, (char *)to + done, portion(n - done), (off_t)(offset + done));

		if (got == 0)
			break;
		if (got > 0)
			done += (size_t)got;
		else if (!try_again(fd, POLLIN))
			return err_sys("read");
	}
	return (ssize_t)done;
}

int fd_write(int fd, const void *from, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t put = write(fd, (const char *)from + done, portion(n - done));

		if (put >= 0)
			done += (size_t)put;
		else if (!try_again(fd, POLLOUT))
			return err_sys("write");
	}
	return 0;
}

int fd_write_at(int fd, const void *from, size_t n, uint64_t offset)
{
	size_t done = 0;

	while (done < n) {
		ssize_t put = pwrite(fd, (const char *)from + done, portion(n - done), (off_t)(offset + done));

		if (put >= 0)
			done += (size_t)put;
		else if (!try_again(fd, POLLOUT))
			return err_sys("write");
	}
	return 0;
}

int fd_write_output(const void *from, size_t n)
{
	int rc = fd_write(STDOUT_FILENO, from, n);

	return rc < 0 ? err_at(rc, "standard output") : 0;
}

int fd_slurp(int fd, size_t limit, struct buf *out)
{
	size_t start = out->len;

	for (;;) {
		size_t have = out->len - start, want = have < 4096 ? 4096 : have;
		ssize_t got;
		int rc;

		if (want > limit - have)
			want = limit - have + 1; /* one more tells a file that is too long */
		rc = buf_reserve(out, want);
		if (rc < 0)
			return rc;
		got = fd_read(fd, out->data + out->len, want);
		if (got < 0)
			return (int)got;
		out->len += (size_t)got;
		out->data[out->len] = '\0';
		if (out->len - start > limit)
			return err_set(ERR_DATA, "longer than %zu bytes", limit);
		if ((size_t)got < want)
			return 0;
	}
}

int fd_slurp_path(const char *path, size_t limit, struct buf *out)
{
	int fd, rc = fd_open_in(path, &fd);

	if (rc < 0)
		return rc;
	rc = fd_slurp(fd, limit, out);
	close(fd);
	return rc < 0 ? err_at(rc, "%s", fd_name(path)) : 0;
}

bool fd_regular(int fd, uint64_t *size)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	*size = (uint64_t)st.st_size;
	return true;
}

int fd_temporary(int *fd)
{
	const char *dir = getenv("TMPDIR");
	char name[PATH_MAX];
	int f;

	if (!dir || !*dir)
		dir = "/tmp";
	f = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
	if (f < 0) {
		snprintf(name, sizeof name, "%s/.dl-spool-XXXXXX.tmp", dir);
		f = mkostemps(name, 4, O_CLOEXEC);
		if (f >= 0)
			unlink(name);
	}
	if (f < 0)
		return err_sys("temporary file in '%s'", dir);
	*fd = f;
	return 0;
}

int fd_copy(int from, int to)
{
	char *block = malloc(COPY_BLOCK);
	ssize_t got;
	int rc = block ? 0 : err_nomem();

	while (rc == 0 && (got = fd_read(from, block, COPY_BLOCK)) != 0)
		rc = got < 0 ? (int)got : fd_write(to, block, (size_t)got);
	free(block);
	return rc;
}

int fd_spool(int fd, int *spooled)
{
	int f = -1, rc = fd_temporary(&f);

	if (rc == 0 && (rc = fd_copy(fd, f)) < 0)
		rc = err_at(rc, "temporary file");
	if (rc == 0 && lseek(f, 0, SEEK_SET) < 0)
		rc = err_sys("temporary file");
	if (rc < 0) {
		if (f >= 0)
			close(f);
		return rc;
	}
	*spooled = f;
	return 0;
}

int fd_random(int fd, int *random)
{
	uint64_t size;

	/* Some files, as in /proc, only claim to be empty. */
	if (!fd_regular(fd, &size) || size == 0)
		return fd_spool(fd, random);
	*random = fd;
	return 0;
}

int fd_open_random(const char *path, int *fd)
{
	int given, rc = fd_open_in(path, &given);

	*fd = -1;
	if (rc < 0)
		return rc;
	rc = fd_random(given, fd);
	if (*fd != given)
		close(given);
	return rc < 0 ? err_at(rc, "%s", fd_name(path)) : 0;
}

bool fd_same(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

int fd_output_fits(const char *what, const int *inputs, size_t n)
{
	uint64_t size;

	/* It was closed when the program started; see fd_standard. */
	if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return err_set(ERR_IO, "standard output: not open for writing");
	if (isatty(STDOUT_FILENO) == 1)
		return err_set(ERR_USAGE, "%s would go to a terminal: redirect standard output",
			       what);
	if (!fd_regular(STDOUT_FILENO, &size))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (inputs[i] >= 0 && fd_same(inputs[i], STDOUT_FILENO))
			return err_set(ERR_USAGE, "%s would overwrite one of the inputs", what);
	return 0;
}

int fd_close_output(void)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return err_sys("standard output");
	if (close(STDOUT_FILENO) < 0 && errno != EINTR)
		return err_sys("standard output");
	return 0;
}
