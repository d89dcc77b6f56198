/* wake - requests to stop. */
#include "io/wake.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"

static void pause_for(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	while (nanosleep(&t, &t) < 0)
		;
}

/* In a child: the signals `first` and then `second`, so many seconds apart; how the child ended. */
static int ends(int first, int second, double apart)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		if (wake_catch() < 0 || wake_requested() != 0)
			_exit(1);
		raise(first);
		pause_for(apart);
		raise(second);
		_exit(wake_requested() == first ? 0 : 2);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	return status;
}

static void what_comes_at_once_is_one_request(void)
{
	int status = ends(SIGTERM, SIGTERM, 0);

	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	status = ends(SIGTERM, SIGHUP, 0.05);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void what_comes_later_kills(void)
{
	int status = ends(SIGTERM, SIGINT, 2.1);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

static void what_was_ignored_stays_ignored(void)
{
	int status;

	signal(SIGHUP, SIG_IGN);
	status = ends(SIGTERM, SIGHUP, 2.1);
	signal(SIGHUP, SIG_DFL);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	signal(SIGINT, SIG_DFL); /* make -j and shells may have it ignored */
	what_comes_at_once_is_one_request();
	what_comes_later_kills();
	what_was_ignored_stays_ignored();
	return unit_done("wake");
}
