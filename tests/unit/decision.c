#include "round/decision.h"

#include <string.h>

#include "unit.h"

#define HEX16 "0123456789abcdef"
#define ID HEX16 HEX16 HEX16 HEX16

/* A line `merge`, of which key has another value. */
static int parse(struct decision *d, const char *key, const char *value)
{
	struct tape_line l = { .kind = "merge", .fields = 11, .field = { { "round", "7" }, { "fragment", "f003" },
		{ "version", "2" }, { "base", ID }, { "merge", ID }, { "rule", "rda" }, { "outer_lr", "0.7" },
		{ "momentum", "0.5" }, { "step", "40" }, { "tokens", "900" },
		{ "answers", "ann:" ID ":0.25:1.5,bob:" ID ":0.75:2" } } };

	for (size_t i = 0; i < l.fields; i++)
		if (strcmp(l.field[i].key, key) == 0)
			l.field[i].value = value;
	if (strcmp(key, "prior") == 0 || strcmp(key, "expert_weights") == 0)
		l.field[l.fields++] = (struct tape_field){ key, value };
	return decision_parse(d, &l);
}

static void test_all_of_it(void)
{
	struct decision d;

	CHECK(parse(&d, "", "") == 0);
	CHECK(d.round == 7 && d.fragment == 3 && d.version == 2 && d.step == 40 && d.tokens == 900 && !d.fresh);
	CHECK(d.rule == MERGE_RDA && d.base.b[0] == 0x01);
	CHECK_NEAR(d.outer.eta, 0.7, 1e-15);
	CHECK_NEAR(d.outer.mu, 0.5, 1e-15);
	CHECK_STR(d.merge, ID);
	CHECK(d.answers == 2);
	CHECK_STR(d.answer[1].learner, "bob");
	CHECK_NEAR(d.answer[1].share, 0.75, 1e-15);
	decision_release(&d);
	CHECK(d.experts == MERGE_BY_TOKENS);
	CHECK(parse(&d, "prior", "none") == 0 && d.fresh);
	decision_release(&d);
	CHECK(parse(&d, "expert_weights", "routed") == 0 && d.experts == MERGE_BY_ROUTED);
	decision_release(&d);
}

static void test_what_no_syncer_writes(void)
{
	static const char *const bad[][2] = { { "version", "0" }, { "fragment", "3" }, { "base", "12" },
		{ "merge", "12" }, { "rule", "mean" }, { "expert_weights", "none" }, { "answers", "" }, { "answers", "ann" },
		{ "answers", "ann:" ID ":0.25" }, { "answers", "../x:" ID ":0.25:1" } };

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct decision d;

		CHECK(parse(&d, bad[i][0], bad[i][1]) == ERR_DATA);
		CHECK(!d.answer && !d.answers);
	}
}

int main(void)
{
	test_all_of_it();
	test_what_no_syncer_writes();
	return unit_done("decision");
}
