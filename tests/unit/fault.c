/* fault, fault_file - plans drawn from a seed, and as text */
#include "chaos/fault_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static const char *const names[] = { "syncer", "learner-0", "learner-1" };
static const struct fault_names all = { names, 3 };
static const bool copied[] = { false, true, true };

static struct fault_conf conf(const char *kinds)
{
	struct fault_conf c = { .seed = 7, .mtbf = 10, .repair = 4, .lasts = 2, .clock = 3600, .processes = 3,
				.copied = copied };

	CHECK(fault_weights_parse(kinds, c.weight) == 0);
	return c;
}

static void the_same_seed_gives_the_same_plan(void)
{
	struct fault_conf c = conf("all"), other = c;
	struct buf a = BUF_INIT, b = BUF_INIT, d = BUF_INIT;

	other.seed = 8;
	CHECK(fault_file_plan(&a, NULL, 0, &c, 3000, &all) == 0);
	CHECK(fault_file_plan(&b, NULL, 0, &c, 3000, &all) == 0);
	CHECK(fault_file_plan(&d, NULL, 0, &other, 3000, &all) == 0);
	CHECK_STR(a.data, b.data);
	CHECK(strcmp(a.data, d.data) != 0);
	CHECK(strncmp(a.data, "at\tfault\tprocess\tlasts\tvalue\tfile\twhat\n", 39) == 0);
	buf_release(&a);
	buf_release(&b);
	buf_release(&d);
}

/* Exponential gaps: mean and standard deviation are mtbf. Repairs are uniform. */
static void gaps_and_lengths_are_as_asked(void)
{
	struct fault_conf c = conf("kill,pause:3");
	double before, sum = 0, squares = 0, low = 1e9, high = 0;
	size_t kills = 0, n = 20000;
	struct fault_plan p;
	struct fault f;

	c.from = 100;
	CHECK(fault_plan_begin(&p, &c) == 0);
	before = c.from;
	for (size_t i = 0; i < n; i++) {
		double mean;

		fault_plan_next(&p, &f);
		mean = f.kind == FAULT_KILL ? c.repair : c.lasts;
		sum += f.at - before;
		squares += (f.at - before) * (f.at - before);
		before = f.at;
		kills += f.kind == FAULT_KILL;
		CHECK(f.who < 3 && (f.kind == FAULT_KILL || f.kind == FAULT_PAUSE));
		low = fmin(low, f.lasts / mean);
		high = fmax(high, f.lasts / mean);
	}
	sum /= (double)n;
	CHECK_NEAR(sum, 10, 0.3);
	CHECK_NEAR(sqrt(squares / (double)n - sum * sum), 10, 0.4);
	CHECK_NEAR((double)kills / (double)n, 0.25, 0.02);
	CHECK(low >= 0.499 && low < 0.51 && high > 1.49 && high <= 1.501);
}

static void each_hits_whom_it_can(void)
{
	static const bool spared[] = { false, true, false };
	struct fault_conf c = conf("all");
	bool hit[FAULT_KINDS][3] = { { false } };
	struct fault_plan p;
	struct fault f;

	c.spared = spared;
	CHECK(fault_plan_begin(&p, &c) == 0);
	for (int i = 0; i < 5000; i++) {
		fault_plan_next(&p, &f);
		hit[f.kind][f.who] = true;
		CHECK(f.file < FAULT_CLASSES);
		CHECK(f.kind != FAULT_SLOW || (f.value >= 0.1 && f.value <= 0.9));
		CHECK(f.kind != FAULT_CLOCK || fabs(f.value) <= 3600);
		CHECK((f.kind != FAULT_FLIP && f.kind != FAULT_TRUNCATE) || (f.value >= 0 && f.value < 1));
	}
	for (int k = 0; k < FAULT_KINDS; k++)
		CHECK(hit[k][0] == !fault_of_copy((enum fault_kind)k) && !hit[k][1] && hit[k][2]);
}

static int begin(struct fault_conf *c)
{
	struct fault_plan p;

	return fault_plan_begin(&p, c);
}

static void what_can_not_be_is_refused(void)
{
	static const bool nobody[] = { true, true, true };
	struct fault_conf c = conf("kill");
	uint64_t weight[FAULT_KINDS];

	c.mtbf = 0;
	CHECK(begin(&c) == ERR_USAGE);
	CHECK_STR(err_text(), "the mean time between faults is 0 s: give more than nothing, and no more than a year");
	c.mtbf = 2e-8;
	CHECK(begin(&c) == ERR_USAGE);
	CHECK_STR(err_text(), "the mean time between faults is 2e-08 s: give 0.001 s or more, as times of faults are "
		"in whole milliseconds");
	c = conf("kill");
	c.repair = -1;
	CHECK(begin(&c) == ERR_USAGE);
	c = conf("kill");
	c.lasts = NAN;
	CHECK(begin(&c) == ERR_USAGE);
	c = conf("kill");
	c.slow = 1;
	CHECK(begin(&c) == ERR_USAGE);
	c = conf("kill");
	c.spared = nobody;
	CHECK(begin(&c) == ERR_USAGE);
	CHECK_STR(err_text(), "fault 'kill' hits nobody: no process may be hit");
	c = conf("pause,cut");
	c.copied = NULL;
	CHECK(begin(&c) == ERR_USAGE);
	CHECK_STR(err_text(), "fault 'cut' hits nobody: no process that may be hit is a learner"
		  " (dl-learn -r RUN -i NAME)");
	CHECK(fault_weights_parse("kil", weight) == ERR_USAGE);
	CHECK_STR(err_text(), "'kil' is no kind of fault; did you mean 'kill'?");
	CHECK(fault_weights_parse("kill:0", weight) == ERR_USAGE);
	CHECK(fault_weights_parse("kill:-1", weight) == ERR_USAGE);
	CHECK(fault_weights_parse("kill:99999999999", weight) == ERR_USAGE);
	CHECK(fault_weights_parse("kill,pause,kill", weight) == ERR_USAGE);
	CHECK_STR(err_text(), "'kill' given twice");
	CHECK(fault_weights_parse("", weight) == ERR_USAGE);
	CHECK(fault_weights_parse("kill,", weight) == ERR_USAGE);
}

/* ---- as text ---- */

static void a_plan_comes_back_from_its_text(void)
{
	struct fault_conf c = conf("all");
	struct buf a = BUF_INIT, b = BUF_INIT;
	struct fault *v;
	size_t n;

	CHECK(fault_file_plan(&a, NULL, 0, &c, 5000, &all) == 0);
	CHECK(fault_file_parse(&v, &n, a.data, a.len, &all) == 0 && n > 300);
	CHECK(fault_file_plan(&b, v, n, NULL, 0, &all) == 0);
	CHECK_STR(a.data, b.data);
	free(v);
	buf_release(&a);
	buf_release(&b);
}

static const char *parse(const char *text)
{
	static char out[512];
	struct fault *v = NULL;
	size_t n;

	out[0] = '\0';
	if (fault_file_parse(&v, &n, text, strlen(text), &all) < 0) {
		CHECK(!v && n == 0);
		return err_text();
	}
	for (size_t i = 0; i < n; i++)
		snprintf(out + strlen(out), sizeof out - strlen(out), "%g %s %u, ", v[i].at, fault_kind_name(v[i].kind),
			 v[i].who);
	free(v);
	return out;
}

#define HEAD "at\tfault\tprocess\tlasts\tvalue\tfile\twhat\n"

static void a_table_written_by_hand_is_a_plan(void)
{
	struct fault *v;
	size_t n;

	CHECK_STR(parse(HEAD), "");
	CHECK(fault_file_parse(&v, &n, HEAD, strlen(HEAD), &all) == 0 && v && n == 0);
	free(v);
	CHECK_STR(parse("# words\n\nat\tfault\tprocess\tlasts\tvalue\tfile\n2\tkill\tsyncer\t1\t-\t-\n"
			"1\tcut\tlearner-1\t1\t-\t-\tand\ttabs\n# x\n2\tflip\tlearner-0\t1\t0.5\thead"),
		  "1 cut 2, 2 kill 0, 2 flip 1, ");
	CHECK_STR(parse("at\tfault\tprocess\tlasts\tvalue\tfile\twhat\r\n1\tclock\tsyncer\t0\t-3600\t-\t\r\n"), "1 clock 0, ");
}

static void broken_tables_are_told_by_line(void)
{
	CHECK_STR(parse(""), "no line names the columns: this is no plan");
	CHECK_STR(parse("# only\n"), "no line names the columns: this is no plan");
	CHECK_STR(parse("at\tfault\n"), "line 1: 2 columns, not the 6 from 'at' to 'file', tabs between");
	CHECK_STR(parse("at\twhat\tprocess\tlasts\tvalue\tfile\n"), "line 1: column 2 is 'what', not 'fault'");
	CHECK_STR(parse(HEAD "1 kill syncer 1 - -\n"), "line 2: 1 columns, not the 6 from 'at' to 'file', tabs between");
	CHECK_STR(parse(HEAD "-1\tkill\tsyncer\t1\t-\t-\n"), "line 2: at is '-1': give a number from 0 to 3.1536e+07");
	CHECK_STR(parse(HEAD "nan\tkill\tsyncer\t1\t-\t-\n"), "line 2: at is 'nan': give a number from 0 to 3.1536e+07");
	CHECK_STR(parse(HEAD "1\tkill\tsyncer\t1e300\t-\t-\n"), "line 2: lasts is '1e300': give a number from 0 to 3.1536e+07");
	CHECK_STR(parse(HEAD "1\tpuase\tsyncer\t1\t-\t-\n"), "line 2: 'puase' is no kind of fault; did you mean 'pause'?");
	CHECK_STR(parse(HEAD "1\tkill\tlearner-9\t1\t-\t-\n"), "line 2: there is no process 'learner-9'; did you mean 'learner-0'?");
	CHECK_STR(parse(HEAD "1\tkill\tsyncer\t1\t3\t-\n"), "line 2: a fault 'kill' has no value: give -");
	CHECK_STR(parse(HEAD "1\tkill\tsyncer\t1\t-\thead\n"), "line 2: a fault 'kill' hits no file: give -");
	CHECK_STR(parse(HEAD "1\tslow\tsyncer\t1\t-\t-\n"), "line 2: value is '-': give a number from 0 to 1");
	CHECK_STR(parse(HEAD "1\tflip\tlearner-0\t1\t1.5\thead\n"), "line 2: value is '1.5': give a number from 0 to 1");
	CHECK_STR(parse(HEAD "1\tflip\tlearner-0\t1\t0.5\tfoot\n"), "line 2: 'foot' is no class of files");
}

int main(void)
{
	the_same_seed_gives_the_same_plan();
	gaps_and_lengths_are_as_asked();
	each_hits_whom_it_can();
	what_can_not_be_is_refused();
	a_plan_comes_back_from_its_text();
	a_table_written_by_hand_is_a_plan();
	broken_tables_are_told_by_line();
	return unit_done("fault");
}
