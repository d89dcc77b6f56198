#include "io/wake.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t requested;

static void request(int signal_number)
{
	requested = signal_number;
}

int wake_catch(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	/* Reset by the first one, so that a second one kills whoever does not poll. */
	struct sigaction action = { .sa_handler = request, .sa_flags = SA_RESETHAND };
	struct sigaction old;

	sigemptyset(&action.sa_mask);
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
