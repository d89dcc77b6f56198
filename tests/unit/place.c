#include "io/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/fd.h"
#include "unit.h"

static void holds(const char *path, const char *want)
{
	struct buf b = BUF_INIT;

	CHECK(place_read(path, 100, &b) == 1);
	CHECK_STR(b.data, want);
	buf_release(&b);
}

static void files(void)
{
	struct buf b = BUF_INIT;
	int fd;

	CHECK(place_open("a/b/file", &fd) == 0 && place_read("file", 10, &b) == 0);
	CHECK(place_remove("a/b/file") == 0);
	CHECK(place_put("a/b/file", "x", 1, false) == ERR_IO);
	CHECK_SAYS("a/b/file: No such");
	CHECK(place_make("a/b/file") == 0 && place_make("a/b/file") == 0);
	CHECK(place_put("a/b/file", "one", 3, false) == 0);
	holds("a/b/file", "one");
	CHECK(place_put("a/b/file", "two", 3, true) == 0);
	holds("a/b/file", "two");
	CHECK(place_put("file", "", 0, true) == 0);
	CHECK(place_read("file", 10, &b) == 1 && b.len == 0);
	CHECK(place_read("a/b/file", 2, &b) == ERR_DATA);
	CHECK_SAYS("a/b/file: longer");
	CHECK(place_open("a/b/file", &fd) == 1);
	CHECK(place_remove("a/b/file") == 1 && place_remove("a/b/file") == 0);
	buf_clear(&b);
	CHECK(fd_slurp(fd, 10, &b) == 0); /* a reader that has it open keeps it */
	CHECK_STR(b.data, "two");
	close(fd);
	CHECK(place_remove("file") == 1 && rmdir("a/b") == 0 && rmdir("a") == 0);
	buf_release(&b);
}

static void paths_that_lead_out(void)
{
	static const char *const bad[] = { "", "/etc/passwd", "../x", "a/../x", "./x", "a//x", "a/", ".",
		"..", "a/..", "a/." };
	struct buf b = BUF_INIT;
	char longest[300];
	int fd;

	CHECK(mkdir("a", 0700) == 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK(place_open(bad[i], &fd) == ERR_DATA);
		CHECK(place_put(bad[i], "x", 1, true) == ERR_DATA);
		CHECK(place_remove(bad[i]) == ERR_DATA);
	}
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	CHECK(place_read(longest, 1, &b) == ERR_DATA);
	CHECK(rmdir("a") == 0);
}

static void links_are_not_followed(void)
{
	char **names;
	size_t n;
	bool more;
	struct buf b = BUF_INIT;
	struct stat st;
	int fd;

	CHECK(mkdir("real", 0700) == 0 && place_put("real/f", "secret", 6, false) == 0);
	CHECK(symlink("real", "dir") == 0 && symlink("real/f", "file") == 0 &&
		symlink("nowhere", "hanging") == 0);
	CHECK(place_open("dir/f", &fd) == ERR_DATA);
	CHECK_SAYS("dir/f: leads through a symbolic link");
	CHECK(place_open("file", &fd) == ERR_DATA);
	CHECK_SAYS("file: a symbolic link");
	CHECK(place_read("hanging", 10, &b) == ERR_DATA);
	CHECK(place_put("dir/g", "x", 1, true) == ERR_DATA && place_make("dir/sub/g") == ERR_DATA);
	CHECK(place_remove("dir/f") == ERR_DATA);
	CHECK(place_list(&names, &n, "dir", 10, &more) == ERR_DATA);
	CHECK(place_put("file", "mine", 4, false) == 0); /* in place of the link */
	holds("file", "mine");
	holds("real/f", "secret");
	CHECK(place_put("hanging", "mine", 4, false) == 0 && lstat("nowhere", &st) < 0);
	CHECK(place_remove("file") == 1 && place_remove("hanging") == 1 && place_remove("dir") == 1);
	CHECK(place_open("real/f/g", &fd) == ERR_DATA);
	CHECK(place_remove("real/f") == 1 && rmdir("real") == 0);
}

/* None of them is waited for. */
static void what_is_no_file(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int s = socket(AF_UNIX, SOCK_STREAM, 0), fd;

	CHECK(mkfifo("fifo", 0600) == 0 && mkdir("dir", 0700) == 0);
	CHECK(bind(s, (struct sockaddr *)&name, sizeof name) == 0);
	CHECK(place_open("fifo", &fd) == ERR_DATA);
	CHECK_SAYS("fifo: not a regular file");
	CHECK(place_open("socket", &fd) == ERR_DATA && place_open("dir", &fd) == ERR_DATA);
	CHECK(place_open("fifo/x", &fd) == ERR_DATA);
	CHECK(place_put("dir", "x", 1, true) == ERR_IO && place_remove("dir") == ERR_IO);
	CHECK(place_put("fifo", "x", 1, true) == 0);
	holds("fifo", "x");
	close(s);
	CHECK(unlink("fifo") == 0 && unlink("socket") == 0 && rmdir("dir") == 0);
}

static bool even(void *ctx, const char *name)
{
	++*(int *)ctx;
	return (name[strlen(name) - 1] - '0') % 2 == 0;
}

static void lists(void)
{
	char **names, path[32];
	size_t n = 5;
	bool more = true;
	int asked = 0;

	CHECK(place_list(&names, &n, "none", 10, &more) == 0 && n == 0 && !more && !names);
	CHECK(mkdir("l", 0700) == 0);
	CHECK(place_list(&names, &n, "l", 10, &more) == 0 && n == 0 && !more);
	for (int i = 9; i >= 0; i--) {
		snprintf(path, sizeof path, "l/n%d", i);
		CHECK(place_put(path, "", 0, true) == 0);
	}
	CHECK(place_put("l/.hidden", "", 0, true) == 0);
	CHECK(place_list(&names, &n, "l", 10, &more) == 0 && n == 10 && !more);
	CHECK_STR(names[0], "n0");
	CHECK_STR(names[9], "n9");
	place_list_free(names, n);
	CHECK(place_list(&names, &n, "l", 9, &more) == 0 && n == 9 && more);
	place_list_free(names, n);
	CHECK(place_list_if(&names, &n, "l", 5, &more, even, &asked) == 0 && n == 5 && !more);
	CHECK_STR(names[4], "n8");
	CHECK(asked == 10);
	place_list_free(names, n);
	CHECK(mkdir("l/d2", 0700) == 0);
	CHECK(place_list_dirs(&names, &n, "l", 10, &more, even, &asked) == 0 && n >= 1);
	CHECK_STR(names[0], "d2");
	CHECK(rmdir("l/d2") == 0);
	place_list_free(names, n);
	CHECK(place_list(&names, &n, "l/n0", 9, &more) == ERR_DATA);
	for (int i = 0; i < 10; i++) {
		snprintf(path, sizeof path, "l/n%d", i);
		CHECK(place_remove(path) == 1);
	}
	CHECK(place_remove("l/.hidden") == 1 && rmdir("l") == 0);
}

/* Published once, and never over what is there. */
static void created_files(void)
{
	struct atomic a;

	CHECK(mkdir("g", 0700) == 0 && place_create(&a, "g/1.frag") == 0);
	CHECK(rename("g", "h") == 0); /* it stays with its directory */
	CHECK(fd_write(a.fd, "one", 3) == 0 && atomic_commit_new(&a) == 0);
	holds("h/1.frag", "one");
	CHECK(place_create(&a, "h/1.frag") == 0 && fd_write(a.fd, "two", 3) == 0);
	CHECK(atomic_commit_new(&a) == 1);
	holds("h/1.frag", "one");
	CHECK(place_create(&a, "h/2.frag") == 0);
	atomic_abort(&a);
	CHECK(symlink("../outside", "h/3.frag") == 0 && place_create(&a, "h/3.frag") == 0);
	CHECK(atomic_commit_new(&a) == 1 && access("outside", F_OK) < 0);
	CHECK(unlink("h/1.frag") == 0 && unlink("h/3.frag") == 0 && rmdir("h") == 0);
}

int main(void)
{
	char dir[] = "/tmp/dl-place-XXXXXX";

	if (!mkdtemp(dir) || chdir(dir) < 0)
		return 1;
	files();
	paths_that_lead_out();
	links_are_not_followed();
	what_is_no_file();
	lists();
	created_files();
	CHECK(chdir("/") == 0 && rmdir(dir) == 0); /* nothing is left behind */
	return unit_done("place");
}
