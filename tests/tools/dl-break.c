/*
 * dl-break CALLS HOW WHEN COMMAND... - runs it with calls on files that fail (tests/tools/preload/fault.c).
 *
 *     dl-break write,fsync ENOSPC 7 dl-sync --once -r RUN           the seventh of them fails
 *     dl-break all kill 100 dl-sync -r RUN                          SIGKILL instead of the hundredth call
 *     dl-break write ENOSPC while:PATH dl-sync -r RUN               all fail as long as there is a file PATH
 *     dl-break none - clock:7200 dl-learn -r RUN                    its time of the day is two hours ahead
 *     dl-break none - clock:/tmp/by dl-learn -r RUN                 as many seconds as the file says just now
 *
 * $FAULT_HIT names a file that gets a line for each call that was hit. Exits 2 where that can't be done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int put(const char *name, const char *value)
{
	return setenv(name, value, 1);
}

static int put_when(const char *when)
{
	if (strncmp(when, "while:", 6) == 0)
		return put("FAULT_WHILE", when + 6);
	if (strncmp(when, "clock:", 6) == 0)
		return put("FAULT_CLOCK", when + 6);
	return put("FAULT_AT", when);
}

/* The shared object lies beside this program. */
static int put_preload(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	char *slash;

	if (n <= 0)
		return -1;
	path[n] = 0;
	slash = strrchr(path, '/');
	if (!slash)
		return -1;
	memcpy(slash, "/fault.so", 10);
	return access(path, R_OK) == 0 ? put("LD_PRELOAD", path) : -1;
}

int main(int argc, char **argv)
{
	if (argc < 5 || put("FAULT_CALLS", argv[1]) < 0 || put("FAULT_HOW", argv[2]) < 0 || put_when(argv[3]) < 0 ||
	    put_preload() < 0) {
		fprintf(stderr, "dl-break: CALLS HOW WHEN COMMAND..., and fault.so beside it\n");
		return 2;
	}
	execvp(argv[4], argv + 4);
	perror(argv[4]);
	return 127;
}
