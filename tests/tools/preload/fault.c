/*
 * fault - a shared object that dl-break puts under a program: calls on files fail, do half their work, or are
 * the last thing it does; its clock of the day is wrong. All of it is told by the environment:
 *
 *     FAULT_CALLS  write,fsync,...   which calls, see names below
 *     FAULT_HOW    ENOSPC|EIO|...    they fail so; "done:EIO": do their work and fail all the same, as where the
 *                                    answer of a file server is lost; "short": half of it; "kill": SIGKILL before;
 *                                    "term": SIGTERM before, and all is well with the call
 *     FAULT_AT     N                 only the N-th of them, of all threads together, from 1
 *     FAULT_WHILE  PATH              all of them, as long as there is such a file
 *     FAULT_UNDER  TEXT              only those whose path has it in it
 *     FAULT_HIT    PATH              a file that gets a line for each: what was hit
 *     FAULT_CLOCK  SECONDS           added to the time of the day; or a PATH, from '/' on: what is in there now
 *
 * Descriptors that are no regular files or directories are let alone: pipes, terminals, sockets.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum call { OPEN, READ, WRITE, CLOSE, FSYNC, FTRUNCATE, RENAME, LINK, UNLINK, MKDIR, READDIR, STAT, LOCK, CALLS };
static const char *const names[CALLS] = { "open", "read", "write", "close", "fsync", "ftruncate", "rename", "link",
	"unlink", "mkdir", "readdir", "stat", "flock" };
static const struct { const char *name; int number; } errors[] = {
	{ "ENOSPC", ENOSPC }, { "EDQUOT", EDQUOT }, { "EIO", EIO }, { "EINTR", EINTR }, { "ESTALE", ESTALE },
	{ "EXDEV", EXDEV }, { "EACCES", EACCES }, { "EROFS", EROFS }, { "EPERM", EPERM }, { "ENOENT", ENOENT },
	{ "EEXIST", EEXIST }, { "EINVAL", EINVAL }, { "EOPNOTSUPP", EOPNOTSUPP }, { "ENOLCK", ENOLCK },
	{ "EMFILE", EMFILE }, { "ENOMEM", ENOMEM },
};

static struct {
	bool on[CALLS], kill, term, half, late;
	int error;
	long at;
	double clock;
	const char *clock_file;
	const char *until, *under, *hit;
} plan;
static atomic_long count;

static void say_hit(enum call c, const char *path)
{
	char line[4200];
	int n = snprintf(line, sizeof(line), "%s %s\n", names[c], path), fd;

	if (!plan.hit || n < 0)
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, plan.hit, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	syscall(SYS_write, fd, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
	syscall(SYS_close, fd);
}

static bool due(void)
{
	if (plan.at > 0)
		return atomic_fetch_add(&count, 1) + 1 == plan.at;
	return plan.until && syscall(SYS_faccessat, AT_FDCWD, plan.until, F_OK) == 0;
}

/* Is it this call's turn? Does not come back when it is to die of it. */
static bool hit(enum call c, const char *path)
{
	if (!plan.on[c] || (plan.under && !strstr(path, plan.under)) || !due())
		return false;
	say_hit(c, path);
	if (plan.kill)
		syscall(SYS_kill, getpid(), SIGKILL);
	if (plan.term)
		raise(SIGTERM); /* of this thread: it is there before the call goes on */
	return !plan.term;
}
static bool hit_fd(enum call c, int fd)
{
	struct stat st;
	char link[64], path[4096] = "";
	ssize_t n;

	if (!plan.on[c] || fd < 3 || syscall(SYS_fstat, fd, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof(path) - 1);
	if (n > 0)
		path[n] = 0;
	return hit(c, path);
}

/* The same for a name below an open directory, as the kernel would find it. */
static bool hit_at(enum call c, int dir, const char *name)
{
	char link[64], path[4096] = "";
	ssize_t n;

	if (!plan.on[c])
		return false;
	if (name[0] == '/')
		return hit(c, name);
	if (dir == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/self/cwd");
	else
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof(path) / 2);
	snprintf(path + (n > 0 ? n : 0), sizeof(path) / 2, "/%s", name);
	return hit(c, path);
}

static int fail(void)
{
	errno = plan.error;
	return -1;
}
/* A call that is hit: not done and failed, or done and failed all the same. */
#define BREAK(is_hit, real)                    \
	do {                                   \
		if (!(is_hit) || plan.half)    \
			return (real);         \
		if (plan.late && (real) != -1) \
			return fail();         \
		return fail();                 \
	} while (0)
#define REAL(type, name, ...) \
	type (*real)(__VA_ARGS__) = (type(*)(__VA_ARGS__))(uintptr_t)dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list args)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}
#define OPEN_CALL(name)                                                 \
	int name(const char *path, int flags, ...)                      \
	{                                                               \
		REAL(int, name, const char *, int, mode_t);             \
		va_list args;                                           \
		mode_t mode;                                            \
		va_start(args, flags);                                  \
		mode = mode_of(flags, args);                            \
		va_end(args);                                           \
		if (hit_at(OPEN, AT_FDCWD, path) && !plan.half)         \
			return fail();                                  \
		return real(path, flags, mode);                         \
	}
#define OPENAT_CALL(name)                                               \
	int name(int dir, const char *path, int flags, ...)             \
	{                                                               \
		REAL(int, name, int, const char *, int, mode_t);        \
		va_list args;                                           \
		mode_t mode;                                            \
		va_start(args, flags);                                  \
		mode = mode_of(flags, args);                            \
		va_end(args);                                           \
		if (hit_at(OPEN, dir, path) && !plan.half)              \
			return fail();                                  \
		return real(dir, path, flags, mode);                    \
	}
OPEN_CALL(open)
OPEN_CALL(open64)
OPENAT_CALL(openat)
OPENAT_CALL(openat64)

static size_t half(size_t n)
{
	return plan.half && n > 1 ? n / 2 : n;
}
ssize_t read(int fd, void *to, size_t n)
{
	REAL(ssize_t, read, int, void *, size_t);
	bool is = hit_fd(READ, fd);
	return is && !plan.half ? fail() : real(fd, to, is ? half(n) : n);
}
ssize_t pread(int fd, void *to, size_t n, off_t at)
{
	REAL(ssize_t, pread, int, void *, size_t, off_t);
	bool is = hit_fd(READ, fd);
	return is && !plan.half ? fail() : real(fd, to, is ? half(n) : n, at);
}
ssize_t pread64(int fd, void *to, size_t n, off64_t at)
{
	REAL(ssize_t, pread64, int, void *, size_t, off64_t);
	bool is = hit_fd(READ, fd);
	return is && !plan.half ? fail() : real(fd, to, is ? half(n) : n, at);
}
ssize_t write(int fd, const void *from, size_t n)
{
	REAL(ssize_t, write, int, const void *, size_t);
	bool is = hit_fd(WRITE, fd);
	if (is && plan.late && real(fd, from, half(n)) < 0)
		return -1;
	return is && !plan.half ? fail() : real(fd, from, is ? half(n) : n);
}
ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
	REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
	bool is = hit_fd(WRITE, fd);
	return is && !plan.half ? fail() : real(fd, from, is ? half(n) : n, at);
}
ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at)
{
	REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
	bool is = hit_fd(WRITE, fd);
	return is && !plan.half ? fail() : real(fd, from, is ? half(n) : n, at);
}
/* A descriptor is gone however close ends. */
int close(int fd)
{
	REAL(int, close, int);
	bool is = hit_fd(CLOSE, fd) && !plan.half;
	int rc = real(fd);
	return is ? fail() : rc;
}
int fsync(int fd)
{
	REAL(int, fsync, int);
	BREAK(hit_fd(FSYNC, fd), real(fd));
}
int fdatasync(int fd)
{
	REAL(int, fdatasync, int);
	BREAK(hit_fd(FSYNC, fd), real(fd));
}
int ftruncate(int fd, off_t n)
{
	REAL(int, ftruncate, int, off_t);
	BREAK(hit_fd(FTRUNCATE, fd), real(fd, n));
}
int ftruncate64(int fd, off64_t n)
{
	REAL(int, ftruncate64, int, off64_t);
	BREAK(hit_fd(FTRUNCATE, fd), real(fd, n));
}
int rename(const char *from, const char *to)
{
	REAL(int, rename, const char *, const char *);
	BREAK(hit_at(RENAME, AT_FDCWD, to), real(from, to));
}
int renameat(int a, const char *from, int b, const char *to)
{
	REAL(int, renameat, int, const char *, int, const char *);
	BREAK(hit_at(RENAME, b, to), real(a, from, b, to));
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	REAL(int, renameat2, int, const char *, int, const char *, unsigned);
	BREAK(hit_at(RENAME, b, to), real(a, from, b, to, flags));
}
int link(const char *from, const char *to)
{
	REAL(int, link, const char *, const char *);
	BREAK(hit_at(LINK, AT_FDCWD, to), real(from, to));
}
int linkat(int a, const char *from, int b, const char *to, int flags)
{
	REAL(int, linkat, int, const char *, int, const char *, int);
	BREAK(hit_at(LINK, b, to), real(a, from, b, to, flags));
}
int unlink(const char *path)
{
	REAL(int, unlink, const char *);
	BREAK(hit_at(UNLINK, AT_FDCWD, path), real(path));
}
int unlinkat(int dir, const char *path, int flags)
{
	REAL(int, unlinkat, int, const char *, int);
	BREAK(hit_at(UNLINK, dir, path), real(dir, path, flags));
}
int mkdir(const char *path, mode_t mode)
{
	REAL(int, mkdir, const char *, mode_t);
	BREAK(hit_at(MKDIR, AT_FDCWD, path), real(path, mode));
}
int mkdirat(int dir, const char *path, mode_t mode)
{
	REAL(int, mkdirat, int, const char *, mode_t);
	BREAK(hit_at(MKDIR, dir, path), real(dir, path, mode));
}
DIR *opendir(const char *path)
{
	REAL(DIR *, opendir, const char *);
	if (hit_at(READDIR, AT_FDCWD, path) && !plan.half)
		return fail(), NULL;
	return real(path);
}
DIR *fdopendir(int fd)
{
	REAL(DIR *, fdopendir, int);
	if (hit_fd(READDIR, fd) && !plan.half)
		return fail(), NULL;
	return real(fd);
}
int fstat(int fd, struct stat *st)
{
	REAL(int, fstat, int, struct stat *);
	BREAK(hit_fd(STAT, fd), real(fd, st));
}
int fstat64(int fd, struct stat64 *st)
{
	REAL(int, fstat64, int, struct stat64 *);
	BREAK(hit_fd(STAT, fd), real(fd, st));
}
int flock(int fd, int how)
{
	REAL(int, flock, int, int);
	BREAK(hit_fd(LOCK, fd), real(fd, how));
}

/* How wrong the clock is just now. */
static time_t wrong_by(void)
{
	char text[32] = "";
	int fd;

	if (!plan.clock_file)
		return (time_t)plan.clock;
	fd = (int)syscall(SYS_openat, AT_FDCWD, plan.clock_file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (syscall(SYS_read, fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	syscall(SYS_close, fd);
	return (time_t)atof(text);
}
int clock_gettime(clockid_t id, struct timespec *t)
{
	REAL(int, clock_gettime, clockid_t, struct timespec *);
	int rc = real(id, t);
	if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += wrong_by();
	return rc;
}
int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	REAL(int, gettimeofday, struct timeval *restrict, void *restrict);
	int rc = real(t, zone);
	if (rc == 0)
		t->tv_sec += wrong_by();
	return rc;
}
time_t time(time_t *t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}

static void read_calls(const char *list)
{
	for (size_t c = 0; list && c < CALLS; c++) {
		const char *at = strstr(list, names[c]);
		char end = at ? at[strlen(names[c])] : 1;

		plan.on[c] = strcmp(list, "all") == 0 || ((end == 0 || end == ',') && (at == list || at[-1] == ','));
	}
}
__attribute__((constructor)) static void begin(void)
{
	const char *how = getenv("FAULT_HOW"), *at = getenv("FAULT_AT"), *clock = getenv("FAULT_CLOCK");

	plan.until = getenv("FAULT_WHILE");
	plan.under = getenv("FAULT_UNDER");
	plan.hit = getenv("FAULT_HIT");
	plan.at = at ? atol(at) : 0;
	plan.clock = clock ? atof(clock) : 0;
	plan.clock_file = clock && *clock == '/' ? clock : NULL;
	if (!how)
		return;
	plan.kill = strcmp(how, "kill") == 0;
	plan.term = strcmp(how, "term") == 0;
	plan.half = strcmp(how, "short") == 0;
	plan.late = strncmp(how, "done:", 5) == 0;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (strcmp(how + (plan.late ? 5 : 0), errors[i].name) == 0)
			plan.error = errors[i].number;
	if (plan.kill || plan.term || plan.half || plan.error)
		read_calls(getenv("FAULT_CALLS"));
}
