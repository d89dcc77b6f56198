/*
 * wake - requests to stop, seen by polling between steps.
 *
 * wake_catch makes SIGINT, SIGTERM and SIGHUP set a flag (a second one of the same kills as
 * usual). The flag is the one variable of the library that lives outside a struct: a signal
 * handler has nowhere else to look.
 */
#ifndef WAKE_H
#define WAKE_H

#include "base/err.h"

int wake_catch(void) ERR_MUST;
int wake_requested(void); /* the signal's number, or 0 */

#endif
