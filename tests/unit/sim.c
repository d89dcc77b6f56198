/* Simulation against formulas, and what it writes down against the rules of a trace. */
#include <stdlib.h>

#include "base/rng.h"
#include "chaos/agenda.h"
#include "chaos/sim.h"
#include "chaos/slices.h"
#include "chaos/sweep.h"
#include "drawn_sim.h"

static struct sim_conf conf(enum trace_mode mode, double chips, unsigned learners, double length)
{
	struct sim_conf c;

	sim_conf_defaults(&c);
	c.mode = mode;
	c.chips = chips;
	c.learners = learners;
	c.length = length;
	return c;
}

static struct sim_result run(const struct sim_conf *c)
{
	struct sim_result r = { 0 };

	CHECK(sim_run(c, NULL, &r) == 0);
	return r;
}

/* ---- the parts ---- */

static void the_earliest_acts_first(void)
{
	struct agenda a;
	struct rng r;
	double last = -1;

	rng_init(&r, 1, 2);
	CHECK(agenda_init(&a, 57) == 0);
	for (unsigned i = 0; i < 1000; i++)
		agenda_set(&a, (unsigned)rng_below(&r, 57), (double)rng_below(&r, 40));
	for (unsigned i = 0; i < 57; i++) {
		unsigned first = agenda_first(&a);

		CHECK(a.time[first] >= last);
		for (unsigned k = 0; k < 57; k++)
			CHECK(a.time[k] > a.time[first] || (a.time[k] == a.time[first] && k >= first) ||
				a.time[k] == HUGE_VAL);
		last = a.time[first];
		agenda_set(&a, first, HUGE_VAL);
		if (last == HUGE_VAL)
			break;
	}
	agenda_release(&a);
}

/* 200,000 draws: the mean has a standard error of 0.0022, the mean of squares one of 0.01. */
static void von_neumann_draws_exponentials(void)
{
	const int n = 200000;
	double sum = 0, squares = 0, beyond = 0;
	struct rng r;

	rng_init(&r, 7, 7);
	for (int i = 0; i < n; i++) {
		double x = slices_exponential(&r);

		sum += x;
		squares += x * x;
		beyond += x > 2.5;
	}
	CHECK_NEAR(sum / n, 1, 0.01);
	CHECK_NEAR(squares / n, 2, 0.025);
	CHECK_NEAR(beyond / n, exp(-2.5), 0.003);
}

/* Machine repair: each slice is out for a share rate x repair / (1 + rate x repair) of the time. */
static void as_many_slices_live_as_should(void)
{
	struct slices_conf c = { .chips = 1e5, .slice = 100, .mtbi = 1e6, .low = 500, .high = 1500 };
	struct slices s;
	double now = 0, area = 0, failures = 0;

	CHECK(slices_open(&s, &c, 3, 0, 0) == 0);
	CHECK(s.total == 1000 && s.part < 1000); /* out as on average from the beginning: 91, +- 9 */
	CHECK_NEAR(s.part, 1000 / 1.1, 0.05);
	while (now < 2e5) {
		double next = slices_next(&s);

		area += s.live * (next - now);
		now = next;
		failures += slices_happen(&s);
	}
	CHECK_NEAR(area / now, 1000 / 1.1, 0.01);
	CHECK_NEAR(failures / now, 1e-4 * 1000 / 1.1, 0.03);
	slices_release(&s);
}

/* ---- goodput ---- */

/*
 * Renewal: failures come after an exponential time, mean 1 / rate, and cost a restart that absorbs others.
 * Of the time before, whole steps count, on average step / (exp(rate step) - 1). A week has 6,000 failures: the
 * standard error is 1 / sqrt(6000), 1.3 %, of the time between them.
 */
static void lockstep_is_a_renewal_process(void)
{
	for (int k = 0; k < 3; k++) {
		struct sim_conf c = conf(TRACE_LOCKSTEP, 3e5 * (1 << k), 1, 7 * 86400);
		double rate = c.chips / c.mtbi, step = k == 1 ? 10 : 1;
		struct sim_result r;

		c.step = step;
		c.spread = 0;
		r = run(&c);
		CHECK_NEAR(r.goodput, rate * step / (exp(rate * step) - 1) / (1 + rate * c.restart), 0.02);
		CHECK_NEAR(r.uptime, 1 / (1 + rate * c.restart), 0.02);
		CHECK(isnan(r.answers) && r.merges == 0);
	}
}

/*
 * Failures and returns come at the same rate, together 2 f with f that of all slices that live, a share q of
 * them; each that finds the learner training stops it, and half a step is lost to a failure. So of 1 / (2 f) +
 * stop seconds it trains all but the stop, and half of the stops cost half a step. Returns are not quite
 * without memory, and take up at the end of a step: within 2 %.
 */
static void elastic_is_one_too(void)
{
	for (int k = 0; k < 3; k++) {
		struct sim_conf c = conf(TRACE_ELASTIC, 3e5 * (1 << k), 1, 7 * 86400);
		double mean = (c.repair_low + c.repair_high) / 2, live = 1 / (1 + c.slice / c.mtbi * mean);
		double up = 1 / (2 * live * c.chips / c.mtbi);
		struct sim_result r = run(&c);

		CHECK_NEAR(r.uptime, (up + 0.25) / (up + 0.25 + c.scale_up), 0.02);
		CHECK_NEAR(r.goodput, live * up / (up + 0.25 + c.scale_up), 0.02);
	}
}

/* M learners have the goodput of one with M times fewer chips, and are all stopped as independent ones are. */
static void learners_are_independent(void)
{
	struct sim_conf c = conf(TRACE_DECOUPLED, 1.2e6, 4, 4 * 86400);
	struct sim_conf one = conf(TRACE_ELASTIC, 1.2e6 / 4, 1, 16 * 86400);
	struct sim_result r = run(&c), alone = run(&one);

	CHECK_NEAR(r.goodput, alone.goodput, 0.01);
	CHECK_NEAR(1 - r.uptime, pow(1 - alone.uptime, 4), 0.001);
	c.quorum = 4;
	r = run(&c);
	CHECK_NEAR(r.uptime, pow(alone.uptime, 4), 0.02);
	CHECK_NEAR(r.goodput, alone.goodput, 0.01); /* who waits is the syncer, not the learners */
}

/* Published: 27, 18, 58, 70, 88 %, and uptime of 100 % from 4 learners on. */
static void published_goodput_comes_out(void)
{
	static const struct { enum trace_mode mode; double chips; unsigned learners; double goodput; } cell[] = {
		{ TRACE_LOCKSTEP, 1.2e6, 1, 0.27 }, { TRACE_LOCKSTEP, 2.4e6, 1, 0.18 },
		{ TRACE_ELASTIC, 1.2e6, 1, 0.58 }, { TRACE_DECOUPLED, 1.2e6, 2, 0.70 },
		{ TRACE_DECOUPLED, 1.2e6, 8, 0.88 },
	};
	struct sim_conf c = conf(TRACE_DECOUPLED, 2.4e6, 4, 2 * 86400);

	for (size_t i = 0; i < sizeof cell / sizeof cell[0]; i++) {
		struct sim_conf k = conf(cell[i].mode, cell[i].chips, cell[i].learners, 86400);

		CHECK_NEAR(run(&k).goodput, cell[i].goodput, 0.04);
	}
	CHECK(run(&c).uptime >= 0.995);
}

/* ---- rounds ---- */

static void without_failures_all_is_merged_at_its_pace(void)
{
	struct sim_conf c = conf(TRACE_DECOUPLED, 8, 8, 20000);
	struct sim_result r;

	c.mtbi = HUGE_VAL;
	r = run(&c);
	CHECK_NEAR(r.goodput, 1, 0.001);
	CHECK_NEAR(r.uptime, 1, 1e-9);
	CHECK_NEAR(r.interval, 24, 0.02);
	CHECK_NEAR(r.answers, 8, 0.01);
	CHECK_NEAR(r.merges, 20000, 0.01);
	CHECK(r.merged > 0.99 * r.trained && r.merged <= r.trained);
	CHECK_NEAR(r.link, r.merges * c.params / 24 * 20 / 8 / r.seconds, 0.01);
	CHECK_NEAR(r.syncer, 8 * r.link, 1e-6);
	c.mode = TRACE_DILOCO; /* the exchange: 1e9 x 20 bits at 1e10 bit/s, and 0.09 s; 24 of the slowest of 8 */
	r = run(&c);
	CHECK_NEAR(r.goodput, 24 / (24.15 + 2.09), 0.005);
	CHECK_NEAR(r.answers, 8, 0);
	CHECK_NEAR(r.merged, r.trained, 0.01);
}

static void adaptive_grace_waits_for_the_slow(void)
{
	struct sim_conf c = conf(TRACE_DECOUPLED, 8, 8, 20000);
	struct sim_result grace, all, none;

	c.mtbi = HUGE_VAL;
	c.uneven = 0.2;
	grace = run(&c);
	c.grace = 0;
	none = run(&c);
	c.quorum = 8;
	all = run(&c);
	CHECK(grace.goodput >= 0.98 * none.goodput && grace.answers >= 0.95 * all.answers);
	CHECK(none.answers < 0.5 * all.answers);
}

static void a_slow_wire_costs_pace_and_not_goodput(void)
{
	struct sim_conf c = conf(TRACE_DECOUPLED, 4, 4, 20000);
	struct sim_result r;

	c.mtbi = HUGE_VAL;
	c.bandwidth = 1e8; /* 16 bits of 1e9 parameters are 160 s; H is 24 */
	r = run(&c);
	CHECK_NEAR(r.goodput, 1, 0.001);
	CHECK(r.interval > 24 && r.staleness > 5);
	CHECK(r.link <= 2 * 1e8 / 8); /* each way */
}

/* What a link has not moved yet does not count, also of the model that a learner begins with. */
static void no_link_moves_more_than_it_can(void)
{
	for (int k = 0; k < 6; k++) {
		struct sim_conf c = conf(k & 1 ? TRACE_DECOUPLED : TRACE_DILOCO, 4, 4, 3600);

		c.bandwidth = k < 2 ? 1 : k < 4 ? 1e6 : 1e8;
		c.forget = true;
		CHECK(run(&c).link <= 2 * c.bandwidth / 8);
	}
}

/* Three times as many learners more, for an eighth of the time: to the same tokens in less than 0.62 of it. */
static void scavenging_saves_time(void)
{
	struct sim_conf c = conf(TRACE_DECOUPLED, 4, 4, 1e6);
	double alone;

	c.mtbi = HUGE_VAL;
	c.budget = 20000 * (double)c.tokens;
	alone = run(&c).budget_at;
	CHECK_NEAR(alone, 20000, 0.01);
	CHECK(sim_conf_join(&c, "12@1000s-3700s") == 0);
	CHECK(run(&c).budget_at <= 0.62 * alone);
}

/* One learner that dies every three minutes, some times with an answer under way: the round is not waited for in vain. */
static void an_answer_that_is_lost_is_given_again(void)
{
	struct sim_conf c = conf(TRACE_DECOUPLED, 1, 1, 6 * 3600);
	struct sim_result r;

	c.slice = 1;
	c.mtbi = 180;
	c.repair_low = 5;
	c.repair_high = 25;
	r = run(&c);
	CHECK(r.late > 0 && r.stall < 60);
	CHECK_NEAR(r.merges, r.steps, 0.01); /* 24 of each fragment's, of which there are 24 */
}

/* ---- traces ---- */

static void odd_conf(struct sim_conf *c, int k)
{
	*c = conf((enum trace_mode)(k % 4), k & 16 ? 4 : 1.2e6, 4, 600);
	c->seed = (uint64_t)k;
	c->fragments = 5;
	c->interval = 10;
	c->forget = k & 4;
	c->fresh = true;
	c->uneven = k & 8 ? 0.5 : 0;
	c->quorum = k & 32 ? 2 : 1;
	c->invite = k & 64 ? 3 : 0;
	c->rebase = !(k & 128);
	c->rigid = k & 256;
	c->bandwidth = k & 512 ? 1e9 : HUGE_VAL;
	if (k & 16) { /* learners of one slice die of each failure */
		c->slice = 1;
		c->mtbi = 60;
		c->repair_low = 0;
		c->repair_high = 40;
	}
	if (c->mode >= TRACE_DILOCO)
		CHECK(sim_conf_join(c, "2@100s-300s,1@0,1@400s") == 0);
}

/* Its first bad line, or 0 and the number of steps. */
static int read_back(int fd, double *steps)
{
	struct trace_reader *r;
	struct trace_event e;
	int rc = trace_open(&r, fd);

	for (*steps = 0; rc == 0 && (rc = trace_next(r, &e)) > 0; rc = 0)
		*steps += e.kind == TRACE_STEP;
	trace_close(r);
	return rc;
}

static void what_is_written_can_have_happened(void)
{
	for (int k = 0; k < 1024; k += k & 3 ? 1 : 5) {
		struct sim_result r, again;
		struct sim_conf c;
		double steps;
		int fd;

		odd_conf(&c, k);
		fd = drawn_sim_trace(&c, &r);
		CHECK(read_back(fd, &steps) == 0);
		CHECK(steps == r.steps && steps > 0);
		again = run(&c); /* writing it down changes nothing */
		CHECK(memcmp(&r, &again, sizeof r) == 0);
		close(fd);
	}
}

/* Whatever is simulated. Some learners are dead when they come, some answers come when their round is over. */
static void whatever_is_drawn(void)
{
	for (uint64_t seed = 0; seed < 1000; seed++) {
		struct sim_result r;
		struct sim_conf c;
		double steps;
		int fd;

		drawn_sim(&c, seed);
		CHECK(sim_conf_check(&c) == 0);
		fd = drawn_sim_trace(&c, &r);
		if (read_back(fd, &steps) < 0) {
			CHECK_STR(err_text(), "");
			fprintf(stderr, "with seed %d\n", (int)seed);
		}
		CHECK(steps == r.steps);
		close(fd);
	}
}

/* ---- sweeps ---- */

static void lists_are_read(void)
{
	double v[SWEEP_VALUES];

	CHECK(sweep_numbers(v, "150k,300k,...,2.4M", 1e9) == 5);
	CHECK(v[0] == 150e3 && v[1] == 300e3 && v[2] == 600e3 && v[3] == 1.2e6 && v[4] == 2.4e6);
	CHECK(sweep_numbers(v, "1,2,4,8,16", 100) == 5 && v[4] == 16);
	CHECK(sweep_numbers(v, "", 1) == ERR_USAGE && sweep_numbers(v, "1,", 1) == ERR_USAGE);
	CHECK(sweep_numbers(v, ",1", 1) == ERR_USAGE && sweep_numbers(v, "1,...,4", 9) == ERR_USAGE);
	CHECK(sweep_numbers(v, "1,2,...", 9) == ERR_USAGE && sweep_numbers(v, "2,1,...,4", 9) == ERR_USAGE);
	CHECK(sweep_numbers(v, "0", 9) == ERR_USAGE && sweep_numbers(v, "-1", 9) == ERR_USAGE);
	CHECK(sweep_numbers(v, "11", 10) == ERR_USAGE && sweep_numbers(v, "1x", 10) == ERR_USAGE);
	CHECK(sweep_numbers(v, "1,1.001,...,9", 10) == ERR_USAGE);
}

static void threads(struct buf *out, int n, enum sweep_form form)
{
	struct sweep s = { .seeds = 3, .chips = { 3e5, 6e5 }, .chip_counts = 2, .learners = { 1, 4 },
		.learner_counts = 2 };
	struct sim_conf c = conf(TRACE_DECOUPLED, 1, 1, 2000);
	struct pool *pool;

	CHECK(sweep_modes(&s, "lockstep,decoupled") == 0);
	CHECK(pool_open(&pool, n) == 0);
	CHECK(sweep_run(&s, &c, pool) == 0);
	CHECK(s.cells == 6);
	CHECK(sweep_print(&s, form, out) == 0);
	pool_close(pool);
	sweep_release(&s);
}

static void the_number_of_threads_changes_nothing(void)
{
	for (enum sweep_form form = SWEEP_TEXT; form <= SWEEP_JSON; form++) {
		struct buf one = BUF_INIT, many = BUF_INIT;

		threads(&one, 1, form);
		threads(&many, 3, form);
		CHECK_STR(many.data, one.data);
		buf_release(&one);
		buf_release(&many);
	}
}

int main(void)
{
	the_earliest_acts_first();
	von_neumann_draws_exponentials();
	as_many_slices_live_as_should();
	lockstep_is_a_renewal_process();
	elastic_is_one_too();
	learners_are_independent();
	published_goodput_comes_out();
	without_failures_all_is_merged_at_its_pace();
	adaptive_grace_waits_for_the_slow();
	a_slow_wire_costs_pace_and_not_goodput();
	no_link_moves_more_than_it_can();
	scavenging_saves_time();
	what_is_written_can_have_happened();
	an_answer_that_is_lost_is_given_again();
	whatever_is_drawn();
	lists_are_read();
	the_number_of_threads_changes_nothing();
	return unit_done("sim");
}
