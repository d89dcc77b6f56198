#include "round/beat.h"

#include <stdlib.h>

#include "unit.h"

static void fill(struct beat *b)
{
	CHECK(beat_init(b, 2) == 0);
	memset(b->run, 'a', 32);
	memset(b->nonce, '0', 16);
	snprintf(b->learner, sizeof b->learner, "anna");
	b->incarnation = 2;
	b->counter = 40;
	b->epoch = 1;
	b->serial = 3;
	b->state = BEAT_IDLE;
	b->step = 100;
	b->steps = 120;
	b->trained = 1000;
	b->step_seconds = 0.125;
	b->tokens_per_s = 8000;
	b->loss = 2.5;
	b->fragment[0] = (struct beat_fragment){ 3, 10, 100, 7, 800, 100 };
	b->fragment[1] = (struct beat_fragment){ 0, 100, 1000, 0, 0, 0 };
}

static void what_is_written_is_read(void)
{
	struct header text = { 0 }, twice = { 0 };
	struct buf one = BUF_INIT, two = BUF_INIT;
	struct beat b, again;

	fill(&b);
	CHECK(beat_write(&b, &text) == 0 && beat_read(&again, &text, 2) == 0);
	CHECK_STR(again.learner, "anna");
	CHECK(again.incarnation == 2 && again.counter == 40 && again.state == BEAT_IDLE);
	CHECK(again.fragment[0].version == 3 && again.fragment[0].answered == 800);
	CHECK(again.loss == 2.5 && again.step_seconds == 0.125);
	CHECK(beat_write(&again, &twice) == 0);
	CHECK(conf_format(&text.keys, &one) == 0 && conf_format(&twice.keys, &two) == 0);
	CHECK_STR(one.data, two.data);
	beat_release(&again);
	beat_release(&b);
	header_release(&text);
	header_release(&twice);
	buf_release(&one);
	buf_release(&two);
}

/* A diverged loss must not silence a learner. */
static void what_is_not_finite_is_written_as_nothing(void)
{
	struct header text = { 0 };
	struct beat b, again;

	fill(&b);
	b.loss = (double)NAN;
	b.tokens_per_s = HUGE_VAL;
	CHECK(beat_write(&b, &text) == 0 && beat_read(&again, &text, 2) == 0);
	CHECK(again.loss == 0 && again.tokens_per_s == 0);
	beat_release(&again);
	beat_release(&b);
	header_release(&text);
}

static void refused(const char *key, const char *value, const char *why)
{
	struct header text = { 0 };
	struct beat b, again;

	fill(&b);
	CHECK(beat_write(&b, &text) == 0);
	if (value)
		CHECK(conf_set(&text.keys, key, value) == 0);
	else
		conf_unset(&text.keys, key);
	CHECK(beat_read(&again, &text, 2) == ERR_DATA);
	CHECK_SAYS(why);
	CHECK(again.fragment == NULL);
	beat_release(&b);
	header_release(&text);
}

static void hostile_values(void)
{
	refused("kind", "head", "not a beat");
	refused("kind", NULL, "not a beat");
	refused("run", NULL, "run");
	refused("run", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "run");
	refused("learner", "../a", "learner");
	refused("learner", "a b", "learner");
	refused("learner", NULL, "learner");
	refused("incarnation", "0", "incarnation");
	refused("counter", "18446744073709551615", "counter");
	refused("nonce", "1", "nonce");
	refused("state", "asleep", "state");
	refused("state", NULL, "state");
	refused("trained", "1001", "trained");
	refused("step_seconds", "-1", "step_seconds");
	refused("loss", "nan", "loss");
	refused("f000", "3 10 100 7 800", "f000");
	refused("f000", "3 10 100 7 800 100 0", "f000");
	refused("f000", "3 10 100 7 800 99", "are not the 1000 trained");
	refused("f000", "3 10 9007199254740000 7 9007199254740000 9007199254740000", "f000");
	refused("f000", "3 10 100 7 800 18446744073709551615", "f000");
	refused("f001", NULL, "f001");
	refused("f002", "0 0 0 0 0 1000", "more than 2");
}

int main(void)
{
	what_is_written_is_read();
	what_is_not_finite_is_written_as_nothing();
	hostile_values();
	return unit_done("beat");
}
