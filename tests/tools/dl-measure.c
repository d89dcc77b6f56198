/*
 * dl-measure COMMAND... - runs it, prints wall seconds and largest resident memory in MiB on standard error, as
 * a last line "1.234 56", and leaves with its status.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

int main(int argc, char **argv)
{
	struct clock clock = clock_monotonic();
	double start = clock_now(&clock);
	struct rusage usage;
	int status;
	pid_t child = argc > 1 ? fork() : -1;

	if (child == 0) {
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) < 0)
		return 2;
	fprintf(stderr, "%.3f %ld\n", clock_now(&clock) - start, usage.ru_maxrss / 1024);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
