/* A run that was simulated is written down as a tape; what is fitted to that is what was simulated. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chaos/like.h"
#include "io/fd.h"
#include "unit.h"

#define RUN "00112233445566778899aabbccddeeff"
#define LEARNERS 4

static char home[] = "/tmp/unit-like.XXXXXX";

/* ---- a trace as a tape ---- */

struct scribe {
	struct tape *tape;
	unsigned incarnation[LEARNERS];
	double trained[LEARNERS];
	uint64_t epoch;
	double stop;   /* at this time the whole run is stopped, all at once, and goes on later; 0: never */
	double origin; /* of the epoch's clock */
};

static void put_learner(struct scribe *s, const char *key, unsigned i)
{
	char name[32];

	snprintf(name, sizeof name, "learner-%u", i);
	tape_put(s->tape, key, name);
}

static void put_fragment(struct scribe *s, unsigned f)
{
	char name[32];

	snprintf(name, sizeof name, "f%03u", f);
	tape_put(s->tape, "fragment", name);
}

static void put_answers(struct scribe *s, const struct trace_event *e)
{
	struct buf text = BUF_INIT;

	for (size_t k = 0; k < e->n; k++) {
		struct tape_answer a = { .share = 1, .norm = 1 };

		snprintf(a.learner, sizeof a.learner, "learner-%u", e->who[k]);
		CHECK(tape_answer_add(&text, &a) == 0);
	}
	tape_put(s->tape, "answers", text.data);
	buf_release(&text);
}

static void put_round(struct scribe *s, const struct trace_event *e, const char *kind)
{
	tape_begin(s->tape, e->at - s->origin, kind);
	tape_put_u64(s->tape, "round", e->round);
	put_fragment(s, e->fragment);
}

static void write_line(struct scribe *s, const struct trace_event *e)
{
	switch (e->kind) {
	case TRACE_JOIN:
	case TRACE_BACK:
		tape_begin(s->tape, e->at - s->origin, e->kind == TRACE_JOIN ? "join" : "back");
		put_learner(s, "learner", e->learner);
		tape_put_u64(s->tape, "incarnation", ++s->incarnation[e->learner]);
		break;
	case TRACE_STEP:
		s->trained[e->learner] += 100;
		return;
	case TRACE_CALL:
		put_round(s, e, "call");
		break;
	case TRACE_ANSWER:
		put_round(s, e, "answer");
		put_learner(s, "learner", e->learner);
		tape_put_u64(s->tape, "incarnation", s->incarnation[e->learner]);
		tape_put_u64(s->tape, "steps", e->steps);
		tape_put_u64(s->tape, "tokens", 100 * e->steps);
		tape_put_f64(s->tape, "trained", s->trained[e->learner]);
		break;
	case TRACE_MERGE:
		put_round(s, e, "merge");
		tape_put_f64(s->tape, "xi_sync", 0.25);
		put_answers(s, e);
		break;
	default:
		return;
	}
	CHECK(tape_end(s->tape, false) == 0);
}

static void begin_epoch(struct scribe *s, const digest *last, uint64_t after)
{
	CHECK(tape_open(&s->tape, RUN, ++s->epoch, after, last) == 0);
	tape_begin(s->tape, 0, "epoch");
	tape_put_u64(s->tape, "epoch", s->epoch);
	tape_put_u64(s->tape, "after", after);
	tape_put_id(s->tape, "hash", last);
	CHECK(tape_end(s->tape, false) == 0);
}

/* Killed and begun again: the first syncer is gone before anybody is missed. */
static void stop_and_go_on(struct scribe *s)
{
	uint64_t after = tape_lines(s->tape);
	digest last;

	tape_last(s->tape, &last);
	tape_close(s->tape);
	begin_epoch(s, &last, after);
	s->origin = s->stop;
	s->stop = 0;
	for (unsigned i = 0; i < LEARNERS; i++) {
		if (i % 2) { /* this one could still say that it left */
			tape_begin(s->tape, 0, "gone");
			put_learner(s, "learner", i);
			CHECK(tape_end(s->tape, false) == 0);
		}
		tape_begin(s->tape, 1, "back");
		put_learner(s, "learner", i);
		tape_put_u64(s->tape, "incarnation", ++s->incarnation[i]);
		CHECK(tape_end(s->tape, false) == 0);
	}
}

static void write_tape(struct scribe *s, const struct sim_conf *c, struct sim_result *r)
{
	struct trace_writer *w = NULL;
	struct trace_reader *t;
	struct trace_event e;
	struct trace_head h;
	digest start;
	int fd;

	sim_conf_head(c, &h);
	CHECK(fd_temporary(&fd) == 0 && trace_create(&w, fd, &h) == 0);
	CHECK(sim_run(c, w, r) == 0 && trace_finish(w) == 0);
	trace_discard(w);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	tape_start(&start, RUN);
	begin_epoch(s, &start, 0);
	CHECK(trace_open(&t, fd) == 0);
	while (trace_next(t, &e) > 0) {
		if (s->stop > 0 && e.at > s->stop)
			stop_and_go_on(s);
		write_line(s, &e);
	}
	trace_close(t);
	tape_close(s->tape);
	close(fd);
}

/* ---- one test ---- */

struct fit {
	struct manifest m;
	struct sim_conf c;
	struct scribe s;
	struct sim_result r; /* of c */
	struct like l;       /* what the tape of that is like */
};

static void begin(struct fit *f)
{
	struct sim_conf *c = &f->c;

	*f = (struct fit){ .s.tape = NULL };
	manifest_defaults(&f->m);
	f->m.fragments = 6;
	sim_conf_defaults(c);
	c->chips = c->learners = LEARNERS;
	c->slice = 1;
	c->fragments = 6;
	c->fresh = true;
	c->scale_up = 0;
	c->step = 0.5;
	c->spread = 0.05;
	c->length = 4000;
	c->tokens = 100 * LEARNERS;
	c->params = 1000;
	CHECK(chdir(home) == 0);
}

static int fit(struct fit *f)
{
	struct tape_reader *t;
	int rc;

	CHECK(tape_read_open(&t, RUN, f->s.epoch) == 0);
	rc = like_read(&f->l, &f->m, t);
	tape_read_close(t);
	return rc;
}

static int simulate_and_fit(struct fit *f)
{
	write_tape(&f->s, &f->c, &f->r);
	return fit(f);
}

static void end(struct fit *f)
{
	char path[32];

	like_release(&f->l);
	for (uint64_t epoch = f->s.epoch; epoch; epoch--) {
		snprintf(path, sizeof path, "syncer/tape.%u", (unsigned)epoch);
		CHECK(unlink(path) == 0);
	}
	CHECK(rmdir("syncer") == 0);
}

/* ---- tests ---- */

static void speeds_failures_and_rounds_come_back(void)
{
	static const double speed[] = { 1, 0.8, 1, 0.5 };
	struct fit f;
	struct buf text = BUF_INIT;

	begin(&f);
	f.c.speed = speed;
	f.c.speeds = LEARNERS;
	f.c.mtbi = 200;
	f.c.repair_low = 2;
	f.c.repair_high = 6;
	CHECK(simulate_and_fit(&f) == 0);
	CHECK(f.l.learners == LEARNERS && f.l.conf.learners == LEARNERS && f.l.conf.chips == LEARNERS && !f.l.conf.joins);
	CHECK_NEAR(f.l.conf.step, 0.5, 0.02);
	for (unsigned i = 0; i < LEARNERS; i++)
		CHECK_NEAR(f.l.speed[i], speed[i], 0.03);
	CHECK_NEAR(f.l.measured.failures, f.r.failures, 0.02);
	CHECK(f.l.conf.mtbi > 150 && f.l.conf.mtbi < 270); /* of 80 failures: 11 % is one standard error */
	CHECK_NEAR((f.l.conf.repair_low + f.l.conf.repair_high) / 2, 4, 0.25);
	CHECK_NEAR(f.l.measured.merges, f.r.merges, 0);
	CHECK_NEAR(f.l.measured.answers, f.r.answers, 1e-9);
	CHECK_NEAR(f.l.measured.merged, f.r.merged, 0.001);
	CHECK_NEAR(f.l.measured.goodput, f.r.goodput, 0.02);
	CHECK_NEAR(f.l.measured.uptime, f.r.uptime, 0.01);
	CHECK_NEAR(f.l.conf.merge, 0.25, 1e-6);
	CHECK(f.l.conf.tokens == 100 * LEARNERS && f.l.conf.interval == f.m.interval && f.l.conf.quorum == 1);
	CHECK(like_text(&f.l, &text) == 0 && strstr(text.data, "learner-3"));
	CHECK(like_without(&f.l, "learner-3") == 0);
	CHECK(f.l.conf.learners == 3 && f.l.conf.chips == 3 && f.l.conf.tokens == 300 && f.l.conf.speeds == 3);
	CHECK(like_without(&f.l, "learner-3") == ERR_USAGE);
	CHECK(like_without(&f.l, "learner-0,learner-1,learner-2") == ERR_USAGE);
	buf_release(&text);
	end(&f);
}

/* Two of them do twice the steps: three quarters of theirs are in the middle, and not two thirds. */
static void the_median_of_an_even_number_is_of_steps(void)
{
	static const double speed[] = { 1, 1, 0.5, 0.5 };
	struct fit f;

	begin(&f);
	f.c.speed = speed;
	f.c.speeds = LEARNERS;
	f.c.mtbi = HUGE_VAL;
	CHECK(simulate_and_fit(&f) == 0);
	CHECK_NEAR(f.l.measured.interval, f.r.interval, 0.02);
	end(&f);
}

static void who_came_late_joins(void)
{
	struct fit f;

	begin(&f);
	f.c.learners = 3;
	f.c.chips = 3;
	f.c.mtbi = HUGE_VAL;
	CHECK(sim_conf_join(&f.c, "1@2000") == 0);
	CHECK(simulate_and_fit(&f) == 0);
	CHECK(f.l.conf.learners == 3 && f.l.conf.joins == 1 && f.l.conf.mtbi == HUGE_VAL);
	CHECK_NEAR(f.l.conf.join[0].from, 2000, 0.001);
	CHECK(f.l.measured.failures == 0);
	CHECK_NEAR(f.l.measured.goodput, 1, 0.02);
	end(&f);
}

static void a_stop_of_the_run_is_no_failure_of_its_learners(void)
{
	struct fit f;

	begin(&f);
	f.s.stop = 2000;
	f.c.mtbi = HUGE_VAL;
	CHECK(simulate_and_fit(&f) == 0 && f.s.epoch == 2);
	CHECK(f.l.conf.learners == LEARNERS && !f.l.conf.joins);
	CHECK(f.l.measured.failures == 0 && f.l.conf.mtbi == HUGE_VAL);
	for (unsigned i = 0; i < LEARNERS; i++)
		CHECK(f.l.learner[i].failures == 0 && f.l.learner[i].away == 0);
	CHECK_NEAR(f.l.conf.step, 0.5, 0.02);
	CHECK_NEAR(f.l.measured.goodput, 1, 0.02);
	CHECK_NEAR(f.l.measured.interval, f.r.interval, 0.02);
	end(&f);
}

static void a_tape_that_tells_too_little_is_refused(void)
{
	struct fit f;

	begin(&f);
	f.c.length = 0.4; /* no step is done */
	CHECK(simulate_and_fit(&f) == ERR_DATA);
	CHECK_SAYS("nothing to fit");
	end(&f);
}

static void put_answer(struct scribe *s, double at, unsigned learner, unsigned fragment, uint64_t steps)
{
	const struct trace_event e = { .kind = TRACE_ANSWER, .at = at, .learner = learner, .fragment = fragment,
		.round = fragment + 1, .steps = steps };

	write_line(s, &e);
}

/* Its learners reached the target before anybody called. */
static void a_run_that_was_over_before_its_first_call_is_refused_with_the_remedy(void)
{
	struct fit f;
	digest start;

	begin(&f);
	tape_start(&start, RUN);
	begin_epoch(&f.s, &start, 0);
	write_line(&f.s, &(struct trace_event){ .kind = TRACE_JOIN, .at = 1.5 });
	tape_begin(f.s.tape, 1.5, "finish");
	CHECK(tape_end(f.s.tape, false) == 0);
	for (unsigned p = 0; p < 2; p++) {
		write_line(&f.s, &(struct trace_event){ .kind = TRACE_CALL, .at = 1.5, .round = p + 1, .fragment = p });
		put_answer(&f.s, 1.75, 0, p, 30);
	}
	tape_close(f.s.tape);
	CHECK(fit(&f) == ERR_DATA);
	CHECK_SAYS("no learner has answered before the run came to its end: there is nothing to fit; take a run with "
		"more steps");
	end(&f);
}

int main(void)
{
	CHECK(mkdtemp(home) != NULL);
	speeds_failures_and_rounds_come_back();
	the_median_of_an_even_number_is_of_steps();
	who_came_late_joins();
	a_stop_of_the_run_is_no_failure_of_its_learners();
	a_tape_that_tells_too_little_is_refused();
	a_run_that_was_over_before_its_first_call_is_refused_with_the_remedy();
	CHECK(chdir("/") == 0 && rmdir(home) == 0);
	return unit_done("like");
}
