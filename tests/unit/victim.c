/* victim - faults of a real child: what it is told and until when. Time is the test's own. */
#include "chaos/victim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/fd.h"
#include "unit.h"

static double time_now;
static double read_time(void *ctx)
{
	(void)ctx;
	return time_now;
}
static const struct clock own_clock = { read_time, NULL };
static const char *const words[] = { "sleep", "1000", NULL };

static struct crew crew;
static struct victim v;
static char clock_file[] = "/tmp/unit-victim-XXXXXX";

static void begin(void)
{
	crew_init(&crew, own_clock, NULL);
	CHECK(crew_add(&crew, "sleep", "/bin/sleep", words, "/dev/null") == 0 && crew_start(&crew) == 0);
	v = (struct victim){ .crew = &crew, .clock_file = clock_file };
}

static void end(void)
{
	crew_release(&crew);
}

static const char *break_it(enum fault_kind kind, double now, double lasts, double value)
{
	const struct fault f = { .kind = kind, .lasts = lasts, .value = value };

	return victim_break(&v, &f, now);
}

/* Waits until the kernel says that it has stopped, or goes on. */
static bool has(int what)
{
	int status, options = what == SIGSTOP ? WUNTRACED : WCONTINUED;

	return waitpid(crew.v[0].proc.pid, &status, options) == crew.v[0].proc.pid &&
		(what == SIGSTOP ? WIFSTOPPED(status) : WIFCONTINUED(status));
}

static bool limited(void)
{
	struct rlimit l;

	CHECK(prlimit(crew.v[0].proc.pid, RLIMIT_FSIZE, NULL, &l) == 0);
	return l.rlim_cur == 0;
}

static void pauses_that_overlap_end_with_the_last(void)
{
	begin();
	CHECK(victim_tend(&v, 1) > 1e9 && !v.stopped);
	CHECK(break_it(FAULT_PAUSE, 1, 5, 0) == NULL);
	CHECK(victim_tend(&v, 1) == 6 && v.stopped && has(SIGSTOP));
	CHECK(break_it(FAULT_PAUSE, 2, 1, 0) == NULL); /* a shorter one within changes nothing */
	CHECK(victim_tend(&v, 3.5) == 6 && v.stopped);
	CHECK(break_it(FAULT_PAUSE, 5, 4, 0) == NULL);
	CHECK(victim_tend(&v, 7) == 9 && v.stopped);
	CHECK(victim_tend(&v, 9) > 1e9 && !v.stopped && has(SIGCONT));
	end();
}

/* Of each fifth of a second it runs a quarter, and is due again when that changes. */
static void a_slow_one_takes_turns(void)
{
	unsigned runs = 0, changes = 0;
	bool was = false;

	begin();
	CHECK(break_it(FAULT_SLOW, 0, 10, 0.25) == NULL);
	for (int ms = 0; ms < 10000; ms++) {
		double now = ms / 1000.0, due = victim_tend(&v, now);

		CHECK(due > now && due <= now + 0.2 + 0.002);
		runs += !v.stopped;
		changes += v.stopped != was;
		was = v.stopped;
	}
	CHECK_NEAR(runs / 10000.0, 0.25, 0.02);
	CHECK(changes >= 99 && changes <= 101);
	CHECK(victim_tend(&v, 10) > 1e9 && !v.stopped);
	end();
}

static void a_full_disk_is_a_limit_that_is_taken_back(void)
{
	begin();
	CHECK(!limited());
	CHECK(break_it(FAULT_FULL, 1, 2, 0) == NULL);
	CHECK(victim_tend(&v, 1) == 3 && limited());
	CHECK(victim_tend(&v, 3) > 1e9 && !limited());
	CHECK(break_it(FAULT_FULL, 4, 9, 0) == NULL && victim_tend(&v, 4) == 13 && limited());
	victim_heal(&v, 5);
	CHECK(!limited());
	end();
}

static void one_that_is_killed_is_down_for_the_repair(void)
{
	begin();
	CHECK(break_it(FAULT_PAUSE, 1, 50, 0) == NULL && victim_tend(&v, 1) == 51);
	time_now = 2;
	CHECK(break_it(FAULT_KILL, 2, 10, 0) == NULL && v.kills == 1);
	CHECK_STR(break_it(FAULT_PAUSE, 2, 1, 0), "absorbed: it was down");
	CHECK_STR(break_it(FAULT_KILL, 2, 1, 0), "absorbed: it was down");
	CHECK(victim_tend(&v, 2) > 1e9);
	CHECK(proc_join(&crew.v[0].proc) == 0 && crew_tend(&crew) == 0 && crew.v[0].state == CREW_PAUSED);
	time_now = 11.9;
	CHECK(crew_tend(&crew) == 0 && crew.v[0].state == CREW_PAUSED);
	time_now = 12.1;
	CHECK(crew_tend(&crew) == 0 && crew.v[0].state == CREW_RUNNING && crew.v[0].starts == 2);
	CHECK(victim_tend(&v, 12.1) > 1e9 && !v.stopped); /* its pause died with it */
	end();
	time_now = 0;
}

static void expect_clock(const char *want)
{
	struct buf text = BUF_INIT;

	CHECK(fd_slurp_path(clock_file, 100, &text) == 0);
	CHECK_STR(text.data, want);
	buf_release(&text);
}

static void a_clock_is_off_and_right_again(void)
{
	begin();
	CHECK(break_it(FAULT_CLOCK, 1, 5, -12.5) == NULL);
	expect_clock("-12.500\n");
	victim_tend(&v, 3);
	expect_clock("-12.500\n");
	victim_tend(&v, 6);
	expect_clock("+0.000\n");
	v.clock_file = NULL;
	CHECK_STR(break_it(FAULT_CLOCK, 7, 5, 1), "absorbed: its clock can't be set");
	end();
}

int main(void)
{
	int fd = mkstemp(clock_file);

	CHECK(fd >= 0);
	close(fd);
	pauses_that_overlap_end_with_the_last();
	a_slow_one_takes_turns();
	a_full_disk_is_a_limit_that_is_taken_back();
	one_that_is_killed_is_down_for_the_repair();
	a_clock_is_off_and_right_again();
	unlink(clock_file);
	return unit_done("victim");
}
