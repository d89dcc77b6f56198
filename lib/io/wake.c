#include "io/wake.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

#define ONE_REQUEST 1 /* seconds */

static volatile sig_atomic_t requested;
static struct timespec asked; /* written before `requested` is set, by handlers that block each other */

void wake_die_by(int signal_number)
{
	if (signal_number) {
		signal(signal_number, SIG_DFL);
		raise(signal_number);
	}
}

/* timeout(1), service managers and forwarding shells send the same signal to the process and to its
 * group: what comes at once is one request. Later ones kill whoever does not poll. */
static void request(int signal_number)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (requested && now.tv_sec - asked.tv_sec > ONE_REQUEST) {
		wake_die_by(signal_number); /* when it is no longer blocked, on return */
	} else if (!requested) {
		asked = now;
		requested = signal_number;
	}
}

int wake_catch(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = request };
	struct sigaction old;

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
		sigaddset(&action.sa_mask, signals[i]);
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		if (sigaction(signals[i], NULL, &old) < 0)
			return err_sys("sigaction");
		if (old.sa_handler == SIG_IGN) /* nohup, or a background job of a script */
			continue;
		if (sigaction(signals[i], &action, NULL) < 0)
			return err_sys("sigaction");
	}
	return 0;
}

int wake_requested(void)
{
	return requested;
}

int wake_leave(int status)
{
	wake_die_by(requested);
	return status;
}
