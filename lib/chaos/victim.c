#include "chaos/victim.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define TURN 0.2     /* seconds of a slowed process's turns */
#define NEVER 1e300

static bool running(const struct victim *v)
{
	return victim_member(v)->state == CREW_RUNNING && victim_member(v)->proc.pid > 0 && !victim_member(v)->broken;
}

/* libfaketime reads it again within a second. */
static bool set_clock(const struct victim *v, double offset)
{
	char text[64];
	int n = snprintf(text, sizeof text, "%+.3f\n", offset);
	int fd = open(v->clock_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	bool done = fd >= 0 && write(fd, text, (size_t)n) == n;

	if (fd >= 0)
		close(fd);
	return done;
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

const char *victim_break(struct victim *v, const struct fault *f, double now)
{
	double end = now + f->lasts;

	if (f->kind == FAULT_CLOCK) {
		if (!v->clock_file || !set_clock(v, f->value))
			return "absorbed: its clock can't be set";
		v->clock = later(v->clock, end);
		return NULL;
	}
	if (!running(v))
		return "absorbed: it was down";
	switch (f->kind) {
	case FAULT_KILL:
		crew_break(v->crew, &v->crew->v[v->member], f->lasts);
		v->kills++;
		v->pause = 0;
		break;
	case FAULT_PAUSE:
		v->pause = later(v->pause, end);
		break;
	case FAULT_SLOW:
		v->slow = later(v->slow, end);
		v->share = f->value;
		break;
	default:
		v->full = later(v->full, end);
	}
	return NULL;
}

/* Does it run at this moment, and until when? */
static bool wants_stop(const struct victim *v, double now, double *due)
{
	double turn = fmod(now, TURN), on = TURN * v->share;

	*due = NEVER;
	if (now < v->pause) {
		*due = v->pause;
		return true;
	}
	if (now >= v->slow)
		return false;
	*due = now - turn + (turn < on ? on : TURN) + 1e-3;
	return turn >= on;
}

/* The limit of writes; 0 is all that a full disk has. */
static void fill(struct victim *v, bool full)
{
	pid_t pid = victim_member(v)->proc.pid;
	struct rlimit none;

	if (full && prlimit(pid, RLIMIT_FSIZE, NULL, &v->limit) < 0)
		return;
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = v->limit.rlim_max };
	if (prlimit(pid, RLIMIT_FSIZE, full ? &none : &v->limit, NULL) == 0)
		v->filled = full;
}

double victim_tend(struct victim *v, double now)
{
	double due;
	bool stop;

	if (v->starts != victim_member(v)->starts) { /* a new process knows nothing of the faults of the old one */
		v->starts = victim_member(v)->starts;
		v->stopped = v->filled = false;
	}
	if (v->clock > 0 && now >= v->clock && set_clock(v, 0))
		v->clock = 0;
	if (!running(v))
		return NEVER;
	stop = wants_stop(v, now, &due);
	if (stop != v->stopped)
		proc_signal(&victim_member(v)->proc, stop ? SIGSTOP : SIGCONT);
	v->stopped = stop;
	if ((now < v->full) != v->filled)
		fill(v, now < v->full);
	if (v->filled && v->full < due)
		due = v->full;
	return due;
}

void victim_heal(struct victim *v, double now)
{
	v->pause = v->slow = v->full = 0;
	if (v->clock > 0)
		v->clock = now;
	victim_tend(v, now);
}
