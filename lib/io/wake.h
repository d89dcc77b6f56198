/*
 * wake - requests to stop, seen by polling between steps.
 *
 * wake_catch makes SIGINT, SIGTERM and SIGHUP set a flag. One that comes seconds later kills as
 * usual; one that comes at once is taken as part of the same request. The flag and its time are
 * the only variables of the library that live outside a struct: a signal handler has nowhere else
 * to look.
 */
#ifndef WAKE_H
#define WAKE_H

#include "base/err.h"

int wake_catch(void) ERR_MUST;
int wake_requested(void); /* the signal's number, or 0 */
/* Dies by this signal: who started the process shall know why it left. 0: comes back. */
void wake_die_by(int signal_number);
/* The status back; but when a signal asked to stop, the process dies by it. */
int wake_leave(int status);

#endif
