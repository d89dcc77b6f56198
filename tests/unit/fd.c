#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/fd.h"
#include "unit.h"

static void put_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	CHECK(fd >= 0 && fd_write(fd, text, strlen(text)) == 0 && close(fd) == 0);
}

static void test_reading_files(void)
{
	struct buf b = BUF_INIT;
	char block[8];
	uint64_t size;
	int fd = -1;

	put_file("f", "0123456789");
	CHECK(fd_open_in("f", &fd) == 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(fd_regular(fd, &size) && size == 10);
	CHECK(fd_read(fd, block, 8) == 8 && memcmp(block, "01234567", 8) == 0);
	CHECK(fd_read(fd, block, 8) == 2 && fd_read(fd, block, 8) == 0);
	CHECK(fd_read_at(fd, block, 8, 5) == 5 && memcmp(block, "56789", 5) == 0);
	CHECK(fd_read_at(fd, block, 8, 10) == 0 && fd_read_at(fd, block, 8, 1 << 30) == 0);
	CHECK(fd_read_at(fd, block, 8, UINT64_MAX) == ERR_DATA);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && fd_slurp(fd, 10, &b) == 0);
	CHECK_STR(b.data, "0123456789");
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && fd_slurp(fd, 9, &b) == ERR_DATA);
	CHECK_STR(err_text(), "longer than 9 bytes");
	buf_clear(&b);
	CHECK(fd_slurp(fd, 0, &b) == 0 && b.len == 0);
	buf_release(&b);
	CHECK(close(fd) == 0);
	CHECK(fd_read(fd, block, 1) == ERR_IO);
	CHECK_STR(err_text(), "read: Bad file descriptor");
}

static void refused(const char *path, const char *why)
{
	int fd = -1;

	CHECK(fd_open_in(path, &fd) == ERR_IO && fd == -1);
	CHECK_STR(err_text(), why);
}

static void test_refused_inputs(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int s = socket(AF_UNIX, SOCK_STREAM, 0), fd = -1;

	CHECK(s >= 0 && bind(s, (struct sockaddr *)&address, sizeof address) == 0);
	refused("absent", "absent: No such file or directory");
	refused(".", ".: is a directory");
	CHECK(fd_open_in("", &fd) == ERR_USAGE && fd == -1);
	CHECK_STR(err_text(), "the name of a file is empty");
	refused("socket", "socket: No such device or address");
	close(s);
}

static void *write_late(void *name)
{
	int fd;

	usleep(100000);
	fd = open(name, O_WRONLY);
	usleep(100000);
	if (fd < 0 || fd_write(fd, "late", 4) < 0)
		return name;
	close(fd);
	return NULL;
}

static void test_fifos(void)
{
	struct clock clock = clock_monotonic();
	double start = clock_now(&clock);
	pthread_t writer;
	char name[] = "fifo", block[8];
	void *failed;
	int fd = -1;

	CHECK(mkfifo(name, 0600) == 0);
	refused(name, "fifo: a FIFO that nobody writes to");
	CHECK(clock_now(&clock) - start < 60);
	CHECK(pthread_create(&writer, NULL, write_late, name) == 0);
	CHECK(fd_open_in(name, &fd) == 0);
	CHECK(fd_read(fd, block, 8) == 4 && memcmp(block, "late", 4) == 0);
	pthread_join(writer, &failed);
	CHECK(failed == NULL);
	close(fd);
}

/* A pipe whose writer is there but slow is waited for, by whatever name it is opened. */
static void test_pipes(void)
{
	char name[32], block[16];
	int p[2], fd = -1, spooled = -1;
	uint64_t size;

	CHECK(pipe(p) == 0);
	snprintf(name, sizeof name, "/dev/fd/%d", p[0]);
	CHECK(fd_open_in(name, &fd) == 0);
	CHECK(fd_write(p[1], "0123456789", 10) == 0 && close(p[1]) == 0);
	CHECK(!fd_regular(fd, &size));
	CHECK(fd_read(fd, block, 2) == 2);
	CHECK(fd_spool(fd, &spooled) == 0 && fd_regular(spooled, &size) && size == 8);
	CHECK(fd_read(spooled, block, 16) == 8 && memcmp(block, "23456789", 8) == 0);
	close(spooled);
	close(fd);
	close(p[0]);
}

static void test_nonblocking_pipe(void)
{
	struct buf b = BUF_INIT;
	int p[2];
	pid_t child;

	CHECK(pipe2(p, O_NONBLOCK) == 0);
	child = fork();
	if (child == 0) {
		static char zeros[300000];

		close(p[0]);
		_exit(fd_write(p[1], zeros, sizeof zeros) == 0 ? 0 : 1);
	}
	close(p[1]);
	CHECK(fd_slurp(p[0], 300000, &b) == 0 && b.len == 300000);
	CHECK(waitpid(child, NULL, 0) == child);
	close(p[0]);
	buf_release(&b);
}

static void test_full_disk(void)
{
	int fd = open("/dev/full", O_WRONLY);

	CHECK(fd >= 0 && fd_write(fd, "x", 1) == ERR_IO);
	CHECK_STR(err_text(), "write: No space left on device");
	close(fd);
}

static void test_spool_nowhere(void)
{
	int fd = -1, spooled = -1;

	CHECK(fd_open_in("f", &fd) == 0 && setenv("TMPDIR", "/nowhere", 1) == 0);
	CHECK(fd_spool(fd, &spooled) == ERR_IO && spooled == -1);
	CHECK_STR(err_text(), "temporary file in '/nowhere': No such file or directory");
	CHECK(unsetenv("TMPDIR") == 0);
	close(fd);
}

/* Runs check in a child whose standard descriptors it may ruin: its checks are those of CHECK. */
static void in_child(void (*check)(void))
{
	pid_t child;
	int status = -1;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		unit_failures = 0;
		check();
		_exit(unit_failures > 0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void check_closed_descriptors(void)
{
	char c;
	int fd;

	close(0);
	close(1);
	CHECK(fd_standard() == 0);
	CHECK(fd_write(1, "x", 1) == ERR_IO);
	CHECK_STR(err_text(), "write: Bad file descriptor");
	CHECK(fd_read(0, &c, 1) == ERR_IO);
	CHECK(fd_open_in("-", &fd) == ERR_IO);
	CHECK_STR(err_text(), "standard input: not open for reading");
	CHECK(printf("lost") == 4 && fd_close_output() == ERR_IO);
	CHECK_STR(err_text(), "standard output: Bad file descriptor");
}

static void check_output(void)
{
	int in = -1, null = -1, fds[3];

	put_file("out", "");
	CHECK(link("out", "same") == 0 && symlink("same", "link") == 0);
	CHECK(fd_open_in("link", &in) == 0 && fd_open_in("/dev/null", &null) == 0);
	fds[0] = null;
	fds[1] = -1;
	fds[2] = in;
	CHECK(dup2(open("out", O_WRONLY | O_APPEND), 1) == 1);
	CHECK(fd_same(in, 1) && !fd_same(null, 1) && !fd_same(-1, 1));
	CHECK(fd_output_fits("a checkpoint", fds, 2) == 0);
	CHECK(fd_output_fits("a checkpoint", fds, 3) == ERR_USAGE);
	CHECK_STR(err_text(), "a checkpoint would overwrite one of the inputs");
	CHECK(fd_close_output() == 0);
	CHECK(dup2(open("/dev/null", O_WRONLY), 1) == 1);
	CHECK(fd_output_fits("a checkpoint", &null, 1) == 0);
	CHECK(dup2(open("/dev/full", O_WRONLY), 1) == 1);
	CHECK(printf("x") == 1 && fd_close_output() == ERR_IO);
	CHECK_STR(err_text(), "standard output: No space left on device");
}

static void check_standard_input(void)
{
	char c;
	int fd = -1;

	put_file("in", "x");
	CHECK(dup2(open("in", O_RDONLY), 0) == 0);
	CHECK(fd_open_in("-", &fd) == 0 && fd > 2 && fd_read(fd, &c, 1) == 1 && c == 'x');
	CHECK_STR(fd_name("-"), "standard input");
	CHECK_STR(fd_name("in"), "in");
	CHECK(dup2(open(".", O_RDONLY), 0) == 0 && fd_open_in("-", &fd) == ERR_IO);
	CHECK_STR(err_text(), "standard input: is a directory");
}

int main(void)
{
	char dir[] = "/tmp/unit-fd-XXXXXX";

	if (!mkdtemp(dir) || chdir(dir) < 0)
		return 2;
	test_reading_files();
	test_refused_inputs();
	test_fifos();
	test_pipes();
	test_nonblocking_pipe();
	test_full_disk();
	test_spool_nowhere();
	in_child(check_closed_descriptors);
	in_child(check_output);
	in_child(check_standard_input);
	for (const char *const *f = (const char *const[]){ "f", "socket", "fifo", "out", "same", "link",
							    "in", NULL };
	     *f; f++)
		unlink(*f);
	CHECK(rmdir(dir) == 0);
	return unit_done("fd");
}
