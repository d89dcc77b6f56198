/* meter - what a run that is being broken is worth, by the beats and heads that it reads; time is the test's own. */
#include "chaos/meter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "form/card.h"
#include "io/fd.h"
#include "round/beat.h"
#include "round/rundir.h"
#include "unit.h"

static struct sig_secret key;
static struct meter_learner learner[2];
static struct meter m;

static void begin(unsigned quorum)
{
	meter_release(&m);
	memset(learner, 0, sizeof learner);
	m = (struct meter){ .learner = learner, .learners = 2, .quorum = quorum, .fragments = 1 };
	for (int i = 0; i < 2; i++) {
		snprintf(learner[i].beat, sizeof learner[i].beat, "beat%d", i);
		learner[i].up = true;
		unlink(learner[i].beat);
	}
	unlink(RUNDIR_HEAD);
}

static void put(const char *path, struct header *h)
{
	struct buf bytes = BUF_INIT;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(card_seal(&bytes, h, &key, NULL) == 0 && fd_write(fd, bytes.data, bytes.len) == 0);
	buf_release(&bytes);
	header_release(h);
	close(fd);
}

static void put_head(uint64_t step, enum phase phase)
{
	struct header h = { .keys = { 0 } };
	struct head head;

	CHECK(head_init(&head, 1) == 0);
	memset(head.run, 'a', 32);
	memset(head.nonce, 'b', 16);
	head.epoch = head.counter = head.serial = 1;
	head.step = step;
	head.phase = phase;
	CHECK(head_write(&head, &h) == 0);
	head_release(&head);
	put(RUNDIR_HEAD, &h);
}

/* A step takes half a second. */
static void put_beat(int i, uint64_t incarnation, uint64_t steps, enum beat_state state)
{
	struct header h = { .keys = { 0 } };
	struct beat b;

	CHECK(beat_init(&b, 1) == 0);
	memset(b.run, 'a', 32);
	memset(b.nonce, 'b', 16);
	snprintf(b.learner, sizeof b.learner, "learner-%d", i);
	b.incarnation = incarnation;
	b.counter = b.serial = 1;
	b.steps = steps;
	b.state = state;
	b.step_seconds = 0.5;
	CHECK(beat_write(&b, &h) == 0);
	beat_release(&b);
	put(learner[i].beat, &h);
}

/* Time passes, and what there is is looked at. */
static void at(double now)
{
	meter_pass(&m, now);
	CHECK(meter_look(&m) == 0);
}

static void time_without_a_quorum_is_downtime(void)
{
	begin(2);
	learner[0].trains = learner[1].trains = true;
	meter_pass(&m, 10);
	learner[0].paused = learner[0].stopped = true;
	meter_pass(&m, 13);
	learner[0].paused = learner[0].stopped = false;
	learner[1].cut = true; /* it trains on, but nobody hears of it */
	meter_pass(&m, 17);
	meter_pass(&m, 16); /* never back */
	CHECK(m.seconds == 17 && m.below == 7);
	CHECK(learner[0].trained == 14 && learner[1].trained == 17);
	m.quorum = 1;
	learner[1].up = false;
	meter_pass(&m, 20);
	CHECK(m.below == 7 && learner[1].trained == 17 && learner[0].trained == 17);
	m.headed = true;
	m.phase = PHASE_CLOSING;
	meter_pass(&m, 30); /* the run is over */
	CHECK(meter_over(&m) && m.seconds == 20 && learner[0].trained == 17);
}

/* From the first step of a process on: what it has done since is told by the time of a step. */
static void a_learner_trains_from_its_first_step(void)
{
	begin(1);
	put_head(0, PHASE_RUNNING);
	at(1); /* no beats yet: that is no error */
	put_beat(0, 1, 100, BEAT_RUNNING); /* of lives before */
	at(2);
	CHECK(!learner[0].trains);
	put_beat(0, 1, 104, BEAT_RUNNING);
	at(5);
	CHECK(learner[0].trains && learner[0].startings == 1 && learner[0].step_seconds == 0.5);
	CHECK_NEAR(learner[0].trained, 2, 1e-9);
	CHECK_NEAR(learner[0].starting, 3, 1e-9);
	CHECK_NEAR(m.below, 5, 1e-9);
	at(7);
	CHECK_NEAR(learner[0].trained, 4, 1e-9);
	put_beat(0, 1, 110, BEAT_IDLE);
	at(8);
	CHECK(!learner[0].trains);
}

static void another_process_begins_anew(void)
{
	begin(1);
	put_beat(0, 1, 0, BEAT_RUNNING);
	at(0);
	put_beat(0, 1, 2, BEAT_RUNNING);
	at(1);
	CHECK(learner[0].trains);
	meter_ended(&learner[0]);
	learner[0].started = 4;
	at(5); /* the beat of the one that has ended says nothing of the next */
	CHECK(!learner[0].trains);
	put_beat(0, 2, 2, BEAT_RUNNING);
	at(6);
	put_beat(0, 2, 99, BEAT_RUNNING); /* so many steps can't be of this life: it began at 4 */
	at(7);
	CHECK(learner[0].trains && learner[0].startings == 2);
	CHECK_NEAR(learner[0].starting, 0, 1e-9);
	CHECK_NEAR(learner[0].trained, 1 + 3, 1e-9);
}

/* Gaps of half a second, and one of ten: what is longer than four times the usual one, and than a second. */
static void a_step_that_does_not_come_is_a_stall(void)
{
	double now = 1;
	uint64_t step = 0;

	begin(1);
	learner[0].trains = true;
	put_head(step, PHASE_RUNNING);
	at(now);
	for (int i = 0; i < 9; i++) {
		put_head(++step, PHASE_RUNNING);
		at(now += 0.5);
	}
	CHECK(m.step == 9 && m.stall == 0.5);
	at(now + 4);
	learner[0].paused = true; /* nobody is able: that is no fault of the syncer's */
	at(now + 7);
	learner[0].paused = false;
	put_head(++step, PHASE_RUNNING);
	at(now + 10);
	CHECK_NEAR(m.stall, 10, 1e-9);
	CHECK_NEAR(m.stall_at, now, 1e-9);
	put_head(++step, PHASE_DONE);
	at(now + 11);
	CHECK(meter_over(&m) && meter_end(&m) == 0);
	CHECK_NEAR(m.still, 7 - 2, 1e-9);
	CHECK_NEAR(m.below, 3, 1e-9);
}

static void a_run_that_is_not_over_stands_still_until_its_end(void)
{
	begin(1);
	learner[0].trains = true;
	put_head(1, PHASE_RUNNING);
	at(2);
	at(12);
	CHECK(!meter_over(&m) && meter_end(&m) == 0);
	CHECK_NEAR(m.stall, 10, 1e-9);
}

static void what_is_no_card_is_passed_over(void)
{
	int fd;

	begin(1);
	fd = open(RUNDIR_HEAD, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd_write(fd, "no head", 7) == 0);
	close(fd);
	CHECK(symlink(RUNDIR_HEAD, "beat0") == 0);
	at(1);
	CHECK(!m.headed && !learner[0].trains && !meter_over(&m));
	CHECK(meter_end(&m) == 0);
}

int main(void)
{
	char dir[] = "/tmp/unit-meter-XXXXXX";
	const uint8_t seed[SIG_SEED] = { 7 };

	CHECK(sig_init() == 0 && sig_from_seed(&key, seed) == 0);
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	time_without_a_quorum_is_downtime();
	a_learner_trains_from_its_first_step();
	another_process_begins_anew();
	a_step_that_does_not_come_is_a_stall();
	a_run_that_is_not_over_stands_still_until_its_end();
	what_is_no_card_is_passed_over();
	begin(1);
	meter_release(&m);
	CHECK(chdir("/") == 0 && rmdir(dir) == 0);
	return unit_done("meter");
}
