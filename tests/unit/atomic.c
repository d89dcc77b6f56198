#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/atomic.h"
#include "io/fd.h"
#include "io/lock.h"
#include "unit.h"

static int publish(const char *path, const char *text, int keep)
{
	struct atomic a;
	int rc = atomic_open(&a, path, 0666);

	if (rc == 0)
		rc = fd_write(a.fd, text, strlen(text));
	if (rc == 0)
		rc = keep ? atomic_commit_keep(&a) : atomic_commit(&a);
	atomic_abort(&a);
	return rc;
}

static void holds(const char *path, const char *want)
{
	struct buf b = BUF_INIT;
	int fd = -1;

	CHECK(fd_open_in(path, &fd) == 0 && fd_slurp(fd, 100, &b) == 0);
	CHECK_STR(b.data, want);
	close(fd);
	buf_release(&b);
}

/* Removes what the directory holds; true when it was just these names. */
static int emptied(const char *const *names)
{
	for (; *names; names++)
		if (unlink(*names) < 0)
			return 0;
	return mkdir("probe", 0700) == 0 && rmdir("probe") == 0 && rmdir("../t") == 0 &&
	       mkdir("../t", 0700) == 0 && chdir("../t") == 0;
}
#define EMPTIED(...) emptied((const char *const[]){ __VA_ARGS__, NULL })

static void test_commit(void)
{
	struct stat st;

	umask(027);
	CHECK(publish("f", "one", 0) == 0);
	holds("f", "one");
	CHECK(stat("f", &st) == 0 && (st.st_mode & 0777) == 0640);
	umask(022);
	CHECK(publish("./f", "two", 0) == 0);
	holds("f", "two");
	CHECK(EMPTIED("f"));
}

static void test_abort(void)
{
	struct atomic a = ATOMIC_INIT;

	atomic_abort(&a);
	CHECK(publish("f", "one", 0) == 0 && atomic_open(&a, "f", 0666) == 0);
	CHECK(fd_write(a.fd, "half", 4) == 0);
	holds("f", "one");
	atomic_abort(&a);
	atomic_abort(&a);
	holds("f", "one");
	CHECK(EMPTIED("f"));
}

static void test_keep_previous(void)
{
	CHECK(publish("f", "one", 1) == 0);
	holds("f", "one");
	CHECK(access("f.prev", F_OK) < 0);
	CHECK(publish("f", "two", 1) == 0);
	holds("f", "two");
	holds("f.prev", "one");
	CHECK(publish("f", "three", 1) == 0);
	holds("f.prev", "two");
	/* Killed after the link and before the rename: both names are one file. */
	CHECK(unlink("f.prev") == 0 && link("f", "f.prev") == 0);
	CHECK(publish("f", "four", 1) == 0);
	holds("f", "four");
	holds("f.prev", "three");
	CHECK(EMPTIED("f", "f.prev"));
}

static void test_links(void)
{
	struct stat st;

	CHECK(mkdir("d", 0700) == 0 && symlink("d/f", "link") == 0);
	CHECK(publish("link", "one", 0) == 0);
	CHECK(lstat("link", &st) == 0 && S_ISLNK(st.st_mode));
	holds("d/f", "one");
	CHECK(publish("link", "two", 0) == 0);
	holds("d/f", "two");
	CHECK(symlink("link", "chain") == 0 && publish("chain", "three", 0) == 0);
	CHECK(lstat("chain", &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(lstat("link", &st) == 0 && S_ISLNK(st.st_mode));
	holds("d/f", "three");
	CHECK(unlink("d/f") == 0 && rmdir("d") == 0);
	CHECK(EMPTIED("link", "chain"));
}

static void test_same(void)
{
	CHECK(mkdir("d", 0700) == 0 && symlink("d/f", "link") == 0);
	CHECK(atomic_same("f", "./f") && atomic_same("link", "d/../d/f") && !atomic_same("f", "d/f"));
	CHECK(!atomic_same("absent/f", "absent/f")); /* nothing can be made there */
	CHECK(publish("f", "one", 0) == 0 && link("f", "d/f") == 0);
	CHECK(atomic_same("f", "link") && !atomic_same("f", "g"));
	CHECK(!atomic_same("/dev/null", "/dev/null")); /* holds nothing */
	CHECK(unlink("d/f") == 0 && rmdir("d") == 0);
	CHECK(EMPTIED("f", "link"));
}

static void refused(const char *path, const char *why)
{
	struct atomic a;

	CHECK(atomic_open(&a, path, 0666) == ERR_IO && a.fd == -1);
	CHECK_STR(err_text(), why);
	atomic_abort(&a);
}

static void test_refused_targets(void)
{
	struct atomic a;

	CHECK(mkfifo("fifo", 0600) == 0);
	refused("/dev/null", "/dev/null: not a regular file");
	refused("fifo", "fifo: not a regular file");
	refused(".", ".: not a regular file");
	refused("d/", "d/: not the name of a file");
	CHECK(atomic_open(&a, "", 0666) == ERR_USAGE);
	CHECK_STR(err_text(), "the name of a file is empty");
	atomic_abort(&a);
	refused("absent/f", "absent/f: No such file or directory");
	CHECK(symlink("round", "round") == 0);
	refused("round", "round: Too many levels of symbolic links");
	CHECK(EMPTIED("fifo", "round"));
}

static void test_long_names(void)
{
	char name[256];

	memset(name, 'n', 255);
	name[255] = '\0';
	CHECK(publish(name, "long", 0) == 0);
	CHECK(EMPTIED(name));
}

/* A limit on the size of files stands for a full disk: the old file stays, nothing else does. */
static void test_no_space(void)
{
	int status = -1;
	pid_t child;

	CHECK(publish("f", "old", 0) == 0);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		struct rlimit limit = { 4, 4 };

		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(publish("f", "new and longer", 0) == ERR_IO &&
		      strcmp(err_text(), "write: File too large") == 0 ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	holds("f", "old");
	CHECK(EMPTIED("f"));
}

static void test_lock(void)
{
	struct lock a, b;
	char want[64];

	CHECK(lock_take(&a, "state") == 0);
	if (!a.held)
		return;
	snprintf(want, sizeof want, "state.lock: in use by process %ld", (long)getpid());
	CHECK(lock_take(&b, "state") == ERR_BUSY && b.fd == -1);
	CHECK_STR(err_text(), want);
	lock_release(&b);
	lock_release(&a);
	lock_release(&a);
	CHECK(lock_take(&b, "state") == 0 && b.held);
	lock_release(&b);
	CHECK(lock_take(&a, "absent/state") == ERR_IO);
	CHECK_STR(err_text(), "absent/state.lock: No such file or directory");
	CHECK(EMPTIED("state.lock"));
}

/* What a process has open is no file to be replaced, by whatever name. */
static void test_open_files(void)
{
	static const char *const name[] = { "/dev/stdout", "/dev/stdin", "/dev/fd/1", "/proc/self/fd/0", "way" };
	struct atomic a;
	struct lock l;

	CHECK(symlink("/dev/stdout", "way") == 0);
	for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
		CHECK(atomic_open(&a, name[i], 0666) == ERR_USAGE && a.fd == -1);
		CHECK(strncmp(err_text(), name[i], strlen(name[i])) == 0 && strstr(err_text(), "- is standard output"));
	}
	CHECK(lock_take(&l, "/dev/stdout") == ERR_USAGE && l.fd == -1);
	CHECK(EMPTIED("way"));
}

static int lock_over(const char *content, size_t n)
{
	struct lock l;
	int rc = atomic_put("state.lock", 0666, content, n, atomic_commit);

	if (rc == 0)
		rc = lock_take(&l, "state");
	lock_release(&l);
	return rc;
}

static void test_lock_spares_others(void)
{
	struct lock l;
	struct stat st;

	CHECK(lock_over("", 0) == 0 && lock_over("4711\n", 5) == 0 && lock_over("4711", 4) == 0);
	CHECK(lock_over("\0\0\0\0\0", 5) == 0); /* after a power failure */
	CHECK(lock_over("precious\n", 9) == ERR_DATA);
	CHECK_STR(err_text(), "state.lock: is no lock file, but has the name that the lock of state is to have: "
		"move it away");
	holds("state.lock", "precious\n");
	CHECK(lock_over("4711\n\0\0", 7) == 0 && lock_over("4711\0", 5) == 0);
	CHECK(lock_over("12 eggs\n", 8) == ERR_DATA && lock_over("12\n13\n", 6) == ERR_DATA);
	CHECK(lock_over("\n", 1) == ERR_DATA && lock_over("12\0eggs", 7) == ERR_DATA);
	CHECK(lock_over("monkeys 12\n", 11) == ERR_DATA && lock_over("\0precious", 9) == ERR_DATA);
	CHECK(lock_over("1234567890123456789012345678901234567890\n", 41) == ERR_DATA);
	CHECK(stat("state.lock", &st) == 0 && st.st_size == 41);
	CHECK(EMPTIED("state.lock"));
	CHECK(mkfifo("state.lock", 0600) == 0 && lock_take(&l, "state") == ERR_DATA && l.fd == -1);
	CHECK(EMPTIED("state.lock"));
}

static void test_lock_of_links(void)
{
	struct lock a, b;

	CHECK(mkdir("far", 0700) == 0 && symlink("far/state", "link") == 0 && symlink("link", "linked") == 0);
	CHECK(lock_take(&a, "linked") == 0 && a.held);
	CHECK(lock_take(&b, "far/state") == ERR_BUSY);
	lock_release(&a);
	CHECK(unlink("link") == 0 && unlink("linked") == 0 && unlink("far/state.lock") == 0 &&
	      rmdir("far") == 0);
	CHECK(lock_take(&a, "/dev/null") == ERR_IO && lock_take(&b, ".") == ERR_IO);
	CHECK_STR(err_text(), ".: not a regular file");
	CHECK(access("/dev/null.lock", F_OK) < 0 && access("..lock", F_OK) < 0);
}

/* The kernel gives the lock back, whatever becomes of the process. */
static void test_lock_of_the_dead(void)
{
	struct lock l;
	int p[2];
	char c;
	pid_t child;

	CHECK(pipe(p) == 0);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (lock_take(&l, "state") < 0 || write(p[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	CHECK(read(p[0], &c, 1) == 1);
	CHECK(lock_take(&l, "state") == ERR_BUSY || l.held == false);
	lock_release(&l);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	CHECK(lock_take(&l, "state") == 0);
	lock_release(&l);
	close(p[0]);
	close(p[1]);
	CHECK(EMPTIED("state.lock"));
}

/* From now on this process is refused system calls by a filter. */
static int refuse(struct sock_filter *rules, size_t n)
{
	struct sock_fprog program = { (unsigned short)n, rules };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -1 :
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Low half of the third argument; this test runs where that comes first. */
#define LOAD(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define SKIP_UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)

static int no_nameless_files(void)
{
	struct sock_filter rules[] = {
		LOAD(nr), SKIP_UNLESS(SYS_openat, 4), LOAD(args[2]),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_TMPFILE), SKIP_UNLESS(O_TMPFILE, 1),
		ANSWER(SECCOMP_RET_ERRNO | EOPNOTSUPP), ANSWER(SECCOMP_RET_ALLOW),
	};

	return refuse(rules, sizeof rules / sizeof rules[0]);
}

static int no_links(void)
{
	struct sock_filter rules[] = { LOAD(nr), SKIP_UNLESS(SYS_linkat, 1),
		ANSWER(SECCOMP_RET_ERRNO | EPERM), ANSWER(SECCOMP_RET_ALLOW) };

	return refuse(rules, sizeof rules / sizeof rules[0]);
}

/* The names of temporary files in the working directory. */
static int temporaries(void)
{
	struct dirent **entry;
	int n = scandir(".", &entry, NULL, NULL), found = 0;

	for (int i = 0; i < n; i++) {
		found += strstr(entry[i]->d_name, ".tmp") != NULL;
		free(entry[i]);
	}
	free(entry);
	return found;
}

/* On poorer file systems: a temporary name from the beginning, or a copy at the end. */
static void test_poor_file_systems(int (*poor)(void), int named)
{
	int status = -1;
	pid_t child;

	umask(027);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		struct atomic a;

		if (poor() < 0)
			_exit(0); /* no filters here */
		if (atomic_open(&a, "f", 0666) < 0 || temporaries() != named)
			_exit(1);
		atomic_abort(&a);
		_exit(publish("f", "one", 0) < 0 || publish("f", "two", 1) < 0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	umask(022);
	if (access("f", F_OK) == 0) {
		struct stat st;

		holds("f", "two");
		holds("f.prev", "one");
		CHECK(stat("f", &st) == 0 && (st.st_mode & 0777) == 0640);
		CHECK(EMPTIED("f", "f.prev"));
	}
}

int main(void)
{
	char dir[] = "/tmp/unit-atomic-XXXXXX";

	if (!mkdtemp(dir) || chdir(dir) < 0 || mkdir("t", 0700) < 0 || chdir("t") < 0)
		return 2;
	test_commit();
	test_abort();
	test_keep_previous();
	test_links();
	test_same();
	test_refused_targets();
	test_long_names();
	test_no_space();
	test_poor_file_systems(no_nameless_files, 1);
	test_poor_file_systems(no_links, 0);
	test_open_files();
	test_lock();
	test_lock_spares_others();
	test_lock_of_links();
	test_lock_of_the_dead();
	CHECK(chdir("..") == 0 && rmdir("t") == 0 && rmdir(dir) == 0);
	return unit_done("atomic");
}
