/* newdir: a directory appears whole, or leaves nothing. */
#include "unit.h"

#include "io/atomic.h"
#include "io/newdir.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char room[] = "/tmp/newdir-XXXXXX";

static bool is_there(const char *name)
{
	struct stat st;

	return lstat(name, &st) == 0;
}

static int fill(const struct newdir *d)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/inside", d->temp);
	return mkdir(path, 0777) < 0 ? err_sys("%s", path) : 0;
}

/* rmdir works only on what is empty: nothing else lies in the room. */
static void expect_empty(void)
{
	CHECK(rmdir(room) == 0 && mkdir(room, 0700) == 0 && chdir(room) == 0);
}

static void test_whole(void)
{
	struct newdir d;

	CHECK(newdir_open(&d, "new//") == 0 && !is_there("new") && is_there(d.temp) && d.temp[0] == '/');
	CHECK(fill(&d) == 0 && newdir_commit(&d) == 0);
	newdir_abort(&d);
	CHECK(is_there("new/inside"));
	CHECK(newdir_open(&d, "new") == ERR_IO);
	CHECK_SAYS("new: is there already");
	newdir_abort(&d);
	CHECK(rmdir("new/inside") == 0 && rmdir("new") == 0);
	expect_empty();
}

static void test_nothing(void)
{
	struct newdir d;

	CHECK(newdir_open(&d, "new") == 0 && fill(&d) == 0);
	newdir_abort(&d);
	CHECK(newdir_open(&d, "no/such") == ERR_IO);
	CHECK_SAYS("no/such");
	newdir_abort(&d);
	CHECK(newdir_open(&d, "") == ERR_USAGE);
	CHECK_SAYS("the name of a file is empty");
	newdir_abort(&d);
	expect_empty();
}

static void test_an_empty_one_is_replaced(void)
{
	struct newdir d;
	struct stat st;

	CHECK(mkdir("empty", 0750) == 0 && symlink("empty", "link") == 0);
	CHECK(newdir_open(&d, "link") == 0 && fill(&d) == 0 && newdir_commit(&d) == 0);
	newdir_abort(&d);
	CHECK(is_there("empty/inside") && stat("empty", &st) == 0 && (st.st_mode & 0777) == 0750);
	CHECK(lstat("link", &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(rmdir("empty/inside") == 0 && chdir("empty") == 0);
	CHECK(newdir_open(&d, ".") == ERR_IO);
	CHECK_SAYS("current directory");
	CHECK(chdir("..") == 0 && rmdir("empty") == 0);
	CHECK(newdir_open(&d, "link") == ERR_IO); /* to nowhere now */
	CHECK(unlink("link") == 0);
	expect_empty();
}

static void test_taken_meanwhile(void)
{
	struct newdir d;

	CHECK(newdir_open(&d, "new") == 0 && fill(&d) == 0);
	CHECK(atomic_put("new", 0666, "x", 1, atomic_commit) == 0);
	CHECK(newdir_commit(&d) == ERR_IO);
	CHECK_SAYS("new: is there already");
	newdir_abort(&d);
	CHECK(unlink("new") == 0);
	expect_empty();
}

int main(void)
{
	CHECK(mkdtemp(room) && chdir(room) == 0);
	test_whole();
	test_nothing();
	test_an_empty_one_is_replaced();
	test_taken_meanwhile();
	CHECK(chdir("/") == 0 && rmdir(room) == 0);
	return unit_done("newdir");
}
