/* usage - disk space of a directory. */
#include "io/usage.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static void fill(const char *path, size_t n)
{
	char *block = calloc(1, n);
	int fd = open(path, O_WRONLY | O_CREAT, 0666);

	memset(block, 1, n);
	CHECK(fd >= 0 && write(fd, block, n) == (ssize_t)n && fsync(fd) == 0);
	close(fd);
	free(block);
}

int main(void)
{
	char dir[] = "/tmp/usage-XXXXXX";
	uint64_t bytes, before;
	bool more;

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	CHECK(usage_bytes(&before, &more, ".", 100) == 0 && !more);
	CHECK(mkdir("a", 0777) == 0 && mkdir("a/b", 0777) == 0);
	fill("a/b/x", 100000);
	fill("y", 50000);
	CHECK(symlink("/usr", "a/out") == 0 && mkfifo("a/pipe", 0666) == 0);
	CHECK(usage_bytes(&bytes, &more, ".", 100) == 0 && !more);
	CHECK(bytes >= 150000 && bytes < 300000);
	CHECK(usage_bytes(&bytes, &more, ".", 2) == 0 && more);
	CHECK(usage_bytes(&bytes, &more, "nowhere", 100) == ERR_IO);
	CHECK(unlink("a/b/x") == 0 && unlink("y") == 0 && unlink("a/out") == 0 && unlink("a/pipe") == 0);
	CHECK(rmdir("a/b") == 0 && rmdir("a") == 0 && chdir("/") == 0 && rmdir(dir) == 0);
	return unit_done("usage");
}
