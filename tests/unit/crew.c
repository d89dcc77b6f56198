/* crew - children that are kept running. Time is the test's own: pauses cost nothing. */
#include "io/crew.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

static double time_now;
static double read_time(void *ctx)
{
	(void)ctx;
	return time_now;
}
static const struct clock own_clock = { read_time, NULL };

static char log_path[] = "/tmp/crew-XXXXXX";

static void add(struct crew *c, const char *const *words)
{
	CHECK(crew_add(c, "member", "/bin/sh", words, log_path) == 0);
}

/* Waits until member i is no longer running, then lets the crew see to it. */
static void let_end(struct crew *c, size_t i)
{
	CHECK(proc_join(&c->v[i].proc) == 0);
	CHECK(crew_tend(c) == 0);
}

static void one_that_dies_is_started_again(void)
{
	const char *const words[] = { "sh", "-c", "echo words; kill -KILL $$", NULL };
	struct crew c;

	crew_init(&c, own_clock, NULL);
	add(&c, words);
	CHECK(crew_start(&c) == 0 && crew_running(&c) == 1);
	for (double pause = 1; pause < 60; pause = pause < 16 ? 2 * pause : pause == 16 ? 30 : 60) {
		let_end(&c, 0);
		CHECK(c.v[0].state == CREW_PAUSED && crew_running(&c) == 0);
		CHECK_NEAR(crew_due(&c, 1000), pause, 1e-9);
		time_now += pause - 0.01;
		CHECK(crew_tend(&c) == 0 && c.v[0].state == CREW_PAUSED);
		time_now += 0.02;
		CHECK(crew_due(&c, 1000) == 0);
		CHECK(crew_tend(&c) == 0 && c.v[0].state == CREW_RUNNING);
	}
	CHECK(c.v[0].starts == 7 && c.v[0].deaths == 6);
	time_now += 11; /* it ran well for a while */
	let_end(&c, 0);
	CHECK(c.v[0].deaths == 1);
	CHECK_NEAR(crew_due(&c, 1000), 1, 1e-9);
	crew_release(&c);
}

static void what_they_died_of_may_be_over(void)
{
	const char *const words[] = { "sh", "-c", "exit 1", NULL };
	struct crew c;

	crew_init(&c, own_clock, NULL);
	add(&c, words);
	CHECK(crew_start(&c) == 0);
	while (c.v[0].deaths < 6) {
		let_end(&c, 0);
		if (c.v[0].deaths < 6) {
			time_now += 30;
			CHECK(crew_tend(&c) == 0 && c.v[0].state == CREW_RUNNING);
			c.v[0].since = time_now; /* none runs for long */
		}
	}
	CHECK(crew_hopeless(&c.v[0]) && crew_due(&c, 1000) > 1);
	crew_forgive(&c);
	CHECK(!crew_hopeless(&c.v[0]) && crew_due(&c, 1000) == 0);
	CHECK(crew_tend(&c) == 0 && c.v[0].state == CREW_RUNNING);
	let_end(&c, 0);
	CHECK(c.v[0].deaths == 1);
	CHECK_NEAR(crew_due(&c, 1000), 1, 1e-9);
	crew_release(&c);
}

static void one_that_is_done_is_left_alone(void)
{
	const char *const words[] = { "sh", "-c", "exit 0", NULL };
	struct crew c;

	crew_init(&c, own_clock, NULL);
	add(&c, words);
	CHECK(crew_start(&c) == 0);
	let_end(&c, 0);
	CHECK(c.v[0].state == CREW_DONE && crew_due(&c, 7) == 7);
	time_now += 100;
	CHECK(crew_tend(&c) == 0 && c.v[0].state == CREW_DONE);
	crew_again(&c, &c.v[0]);
	CHECK(c.v[0].state == CREW_PAUSED);
	time_now += 2;
	CHECK(crew_tend(&c) == 0 && c.v[0].state == CREW_RUNNING);
	crew_release(&c);
}

static void one_beyond_help_is_not_started_again(void)
{
	const char *const usage[] = { "sh", "-c", "exit 2", NULL };
	const char *const stranger[] = { "sh", "-c", "exit 3", NULL };
	const char *const busy[] = { "sh", "-c", "exit 4", NULL };
	struct crew c;

	crew_init(&c, own_clock, NULL);
	add(&c, usage);
	add(&c, stranger);
	add(&c, busy);
	CHECK(crew_start(&c) == 0);
	for (size_t i = 0; i < 3; i++)
		let_end(&c, i);
	CHECK(c.v[0].state == CREW_FAILED && proc_exit_status(&c.v[0].proc) == 2);
	CHECK(c.v[1].state == CREW_FAILED && proc_exit_status(&c.v[1].proc) == 3);
	CHECK(c.v[2].state == CREW_PAUSED);
	crew_release(&c);
}

static void one_that_is_held_waits(void)
{
	const char *const words[] = { "sh", "-c", "exit 0", NULL };
	struct crew c;

	crew_init(&c, own_clock, NULL);
	for (int i = 0; i < 3; i++)
		add(&c, words);
	crew_hold(&c, &c.v[1], 5);
	crew_hold(&c, &c.v[2], 50);
	CHECK(crew_start(&c) == 0 && crew_running(&c) == 1);
	let_end(&c, 0);
	CHECK_NEAR(crew_due(&c, 1000), 5, 1e-9);
	time_now += 5.01;
	CHECK(crew_tend(&c) == 0 && c.v[1].state == CREW_RUNNING && c.v[2].state == CREW_PAUSED);
	crew_hurry(&c);
	CHECK(crew_due(&c, 1000) == 0);
	CHECK(crew_tend(&c) == 0 && c.v[2].state == CREW_RUNNING && c.v[0].state == CREW_DONE);
	crew_release(&c);
}

static void asked_to_stop_nobody_comes_back(void)
{
	const char *const polite[] = { "sh", "-c", "sleep 600", NULL };
	const char *const deaf[] = { "sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 600; done", NULL };
	struct crew c;

	CHECK(truncate(log_path, 0) == 0);
	crew_init(&c, own_clock, NULL);
	add(&c, polite);
	add(&c, deaf);
	CHECK(crew_start(&c) == 0);
	for (char text[5] = ""; strcmp(text, "deaf") != 0;) { /* it says when its trap is set */
		int fd = open(log_path, O_RDONLY);

		CHECK(fd >= 0 && read(fd, text, 4) >= 0);
		close(fd);
	}
	crew_ask(&c);
	let_end(&c, 0);
	CHECK(c.v[0].state == CREW_DONE && crew_running(&c) == 1);
	time_now += 1000;
	CHECK(crew_tend(&c) == 0 && crew_running(&c) == 1);
	crew_kill(&c);
	let_end(&c, 1);
	CHECK(crew_running(&c) == 0 && proc_exit_status(&c.v[1].proc) == 128 + SIGKILL);
	crew_release(&c);
}

static void one_that_is_broken_on_purpose_is_not_blamed(void)
{
	const char *const words[] = { "sh", "-c", "sleep 600", NULL };
	struct crew c;

	crew_init(&c, own_clock, NULL);
	add(&c, words);
	CHECK(crew_start(&c) == 0);
	for (int i = 0; i < 3; i++) {
		crew_break(&c, &c.v[0], 7);
		let_end(&c, 0);
		CHECK(c.v[0].state == CREW_PAUSED && c.v[0].deaths == 0 && c.v[0].pause == 1);
		CHECK_NEAR(crew_due(&c, 1000), 7, 1e-9);
		time_now += 7.01;
		CHECK(crew_tend(&c) == 0 && c.v[0].state == CREW_RUNNING);
	}
	crew_break(&c, &c.v[0], 7);
	crew_ask(&c);
	let_end(&c, 0);
	CHECK(c.v[0].state == CREW_DONE && c.v[0].starts == 4);
	crew_release(&c);
}

static void children_start_where_they_are_told_to(void)
{
	const char *const words[] = { "sh", "-c", "[ \"$PWD\" = /usr ]", NULL };
	struct crew c;

	crew_init(&c, own_clock, NULL);
	c.dir = "/usr";
	add(&c, words);
	CHECK(crew_start(&c) == 0);
	let_end(&c, 0);
	CHECK(c.v[0].state == CREW_DONE && proc_exit_status(&c.v[0].proc) == 0);
	c.dir = "/nowhere at all";
	crew_again(&c, &c.v[0]);
	c.v[0].state = CREW_PAUSED;
	CHECK(crew_start(&c) == 0); /* its pause is not over */
	time_now += 100;
	CHECK(crew_start(&c) == ERR_IO);
	crew_release(&c);
}

static void a_death_is_told_once_with_its_reason(void)
{
	const char *const words[] = { "sh", "-c", "echo first; echo; echo why it died >&2; exit 1", NULL };
	struct say say;
	struct crew c;
	char text[512] = "";
	int fd[2], kept = dup(STDERR_FILENO);

	CHECK(pipe2(fd, O_CLOEXEC | O_NONBLOCK) == 0);
	say_init(&say, "test", false, false);
	crew_init(&c, own_clock, &say);
	add(&c, words);
	CHECK(crew_start(&c) == 0);
	CHECK(dup2(fd[1], STDERR_FILENO) >= 0);
	let_end(&c, 0);
	time_now += 2;
	CHECK(crew_tend(&c) == 0);
	let_end(&c, 0);
	CHECK(dup2(kept, STDERR_FILENO) >= 0);
	CHECK(read(fd[0], text, sizeof text - 1) > 0);
	CHECK_STR(text, "test: member: exit status 1: why it died; starts again in 1 s\n");
	crew_release(&c);
	close(kept);
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	close(mkstemp(log_path));
	one_that_dies_is_started_again();
	what_they_died_of_may_be_over();
	one_that_is_done_is_left_alone();
	one_beyond_help_is_not_started_again();
	one_that_is_held_waits();
	asked_to_stop_nobody_comes_back();
	one_that_is_broken_on_purpose_is_not_blamed();
	children_start_where_they_are_told_to();
	a_death_is_told_once_with_its_reason();
	unlink(log_path);
	return unit_done("crew");
}
