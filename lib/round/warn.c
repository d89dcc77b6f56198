#include "round/warn.h"

#include <inttypes.h>
#include <math.h>

#define SHOWN 256
#define FEW 2 /* intervals: no pace can be told of a shorter run */
#define FAR 2 /* times the interval asked for */

void warn_quorum(const struct manifest *m, uint64_t learners, const char *run, struct say *say)
{
	char shown[SHOWN];

	say_escape(shown, sizeof shown, run);
	if (m->quorum > learners)
		say_warn(say, "%s: a merge needs the answers of %u learners (-K), and %" PRIu64 " start here (-m): "
			"nothing is merged until more join; give -m %u, or make a run with -K %" PRIu64, shown,
			m->quorum, learners, m->quorum, learners);
}

bool warn_room(const struct view *v, bool was_full, const char *run, struct say *say)
{
	const double left = (double)v->room / (1 << 20);
	const bool full = view_full(v);
	char shown[SHOWN];

	say_escape(shown, sizeof shown, run);
	if (full && !was_full)
		say_warn(say, "%s: the file system has %.3g MiB left: the run waits for room", shown, left);
	if (was_full && !full)
		say_note(say, "%s: there is room again, %.3g MiB: the run goes on", shown, left);
	return full;
}

void warn_pace(const struct view *v, const char *run, struct say *say)
{
	const double interval = (double)v->manifest.interval, steps = (double)v->head.step;
	const double mean = steps * v->manifest.fragments / fmax(1, (double)v->merges);
	const double achieved = v->achieved > 0 ? v->achieved : mean;
	char shown[SHOWN];

	if (steps < FEW * interval || achieved <= FAR * interval)
		return;
	say_escape(shown, sizeof shown, run);
	say_warn(say, "%s: a fragment was merged every %.0f steps, not every %.0f (-H), as rounds took too many:"
		" a larger --tau, fewer fragments (-P), slower steps (--batch) or a larger -H help",
		shown, achieved, interval);
}
