#include "round/guard.h"

#include "unit.h"

static struct tensors layout;

static void tensor(struct tensors *ts, const char *name, uint64_t n)
{
	struct tensor t = { .dtype = DTYPE_F32, .enc = ENC_F32, .rank = 1, .dim = { n } };

	snprintf(t.name, sizeof t.name, "%s", name);
	CHECK(tensors_push(ts, &t) == 0);
}

static void hex(char *to, char digit, size_t n)
{
	memset(to, digit, n);
	to[n] = '\0';
}

static struct guard_round a_round(void)
{
	struct guard_round r = { .round = 5, .layout = &layout };

	hex(r.run, 'a', 32);
	hex(r.model, 'b', 64);
	hex(r.base, 'c', 64);
	return r;
}

static struct answer an_answer(const char *learner, uint64_t tokens, int id)
{
	struct answer a = { .name = learner, .norm = 1 };

	a.meta.kind = KIND_DELTA;
	hex(a.meta.run, 'a', 32);
	hex(a.meta.model, 'b', 64);
	hex(a.meta.base, 'c', 64);
	a.meta.round = 5;
	a.meta.steps = 10;
	a.meta.tokens = tokens;
	a.id.b[0] = (uint8_t)id;
	snprintf(a.meta.learner, sizeof a.meta.learner, "%s", learner);
	return a;
}

static void judge(struct answer *a)
{
	struct guard_round r = a_round();

	guard_header(a, &r, &layout, NULL);
}

static void a_good_answer_is_accepted(void)
{
	struct answer a = an_answer("a", 100, 1);

	judge(&a);
	CHECK(a.verdict == VERDICT_ACCEPTED && a.why[0] == '\0');
	CHECK_STR(verdict_name(a.verdict), "accepted");
	CHECK(verdict_code(a.verdict) == 0);
	CHECK_STR(verdict_name(guard_standing(&a)), "not-checked");
	a.measured = true;
	CHECK_STR(verdict_name(guard_standing(&a)), "accepted");
	guard_refuse(&a, VERDICT_OUTLIER, "too long");
	a.measured = false;
	CHECK(guard_standing(&a) == VERDICT_OUTLIER);
}

static void headers_that_do_not_fit(void)
{
	struct answer a = an_answer("a", 100, 1);

	a.meta.kind = KIND_CHECKPOINT;
	a.meta.run[0] = 'f';
	judge(&a);
	CHECK(a.verdict == VERDICT_NOT_DELTA); /* the first reason is the one told */
	CHECK_STR(a.why, "is a checkpoint, not a delta");
	a = an_answer("a", 100, 1);
	a.meta.run[0] = 'f';
	judge(&a);
	CHECK(a.verdict == VERDICT_OTHER_RUN);
	CHECK_STR(a.why, "of run faaaaaaaaaaaaaaa, not aaaaaaaaaaaaaaaa");
	a = an_answer("a", 100, 1);
	a.meta.model[63] = 'f';
	judge(&a);
	CHECK(a.verdict == VERDICT_OTHER_LAYOUT);
	a = an_answer("a", 100, 1);
	a.meta.base[0] = 'd';
	judge(&a);
	CHECK(a.verdict == VERDICT_OTHER_BASE);
	CHECK_STR(a.why, "made from dccccccccccccccc, not from cccccccccccccccc");
	a.meta.round = 3;
	a.verdict = VERDICT_ACCEPTED;
	judge(&a);
	CHECK_STR(a.why, "of round 3, this is round 5");
	a = an_answer("a", 100, 1);
	a.meta.steps = 0;
	judge(&a);
	CHECK(a.verdict == VERDICT_ZERO_STEPS);
	a = an_answer("a", 0, 1);
	judge(&a);
	CHECK(a.verdict == VERDICT_ZERO_STEPS);
	CHECK_STR(a.why, "10 steps on 0 tokens");
	a = an_answer("a", UINT64_MAX, 1);
	judge(&a);
	CHECK(a.verdict == VERDICT_OUTLIER);
}

/* A round of a fragment: base, round and version all count. */
static void answers_of_fragments(void)
{
	struct guard_round r = a_round();
	struct answer good = an_answer("a", 100, 1), a;

	memcpy(r.fragment, "f003", 5);
	r.version = 7;
	memcpy(good.meta.fragment, "f003", 5);
	good.meta.version = 7;
	a = good;
	guard_header(&a, &r, &layout, NULL);
	CHECK(a.verdict == VERDICT_ACCEPTED);
	a = good;
	a.meta.round = 6;
	guard_header(&a, &r, &layout, NULL);
	CHECK(a.verdict == VERDICT_OTHER_BASE);
	CHECK_STR(a.why, "of round 6, this is round 5");
	a = good;
	a.meta.version = 8;
	guard_header(&a, &r, &layout, NULL);
	CHECK(a.verdict == VERDICT_OTHER_BASE);
	a = good;
	a.meta.fragment[3] = '4';
	guard_header(&a, &r, &layout, NULL);
	CHECK(a.verdict == VERDICT_OTHER_LAYOUT);
	CHECK_STR(a.why, "of f004, not f003");
	judge(&good);
	CHECK(good.verdict == VERDICT_OTHER_LAYOUT);
	CHECK_STR(good.why, "of f003, not the whole model");
}

static void layouts_that_do_not_fit(void)
{
	struct guard_round r = a_round();
	struct tensors other = { 0 };
	struct answer a = an_answer("a", 100, 1);

	tensor(&other, "y", 3);
	tensor(&other, "x", 3);
	guard_header(&a, &r, &other, NULL);
	CHECK(a.verdict == VERDICT_OTHER_LAYOUT);
	CHECK_STR(a.why, "tensor 0 is 'y', not 'x'");
	tensors_release(&other);
}

static void a_name_has_one_owner(void)
{
	struct trust_entry entry = { .revoked = false };
	struct trust trust = { .v = &entry, .n = 1 };
	struct guard_round r = a_round();
	struct answer a = an_answer("bob", 100, 1);

	strcpy(entry.key.name, "bob");
	entry.key.pub.b[0] = 1;
	guard_header(&a, &r, &layout, &trust);
	CHECK(a.verdict == VERDICT_NOT_ITS_NAME);
	CHECK(strncmp(a.why, "says it is of 'bob', but is signed by ", 38) == 0);
	a = an_answer("bob", 100, 1);
	a.signer.b[0] = 1;
	guard_header(&a, &r, &layout, &trust);
	CHECK(a.verdict == VERDICT_ACCEPTED);
	a = an_answer("carol", 100, 1); /* a name that nobody here has */
	guard_header(&a, &r, &layout, &trust);
	CHECK(a.verdict == VERDICT_ACCEPTED);
}

/* Answers as `name`, signed by the key 2, where 1 is trusted, too. */
static enum verdict named(const char *name)
{
	struct trust_entry entry[2] = { { .revoked = false }, { .revoked = false } };
	struct trust trust = { .v = entry, .n = 2 };
	struct guard_round r = a_round();
	struct answer a = an_answer(name, 100, 1);

	strcpy(entry[0].key.name, "ann");
	strcpy(entry[1].key.name, "bob");
	entry[0].key.pub.b[0] = 1;
	entry[1].key.pub.b[0] = 2;
	a.signer.b[0] = 2;
	guard_header(&a, &r, &layout, &trust);
	return a.verdict;
}

static void default_names_are_not_taken_by_others(void)
{
	struct sig_public ann = { { 1 } }, bob = { { 2 } };
	char print[33], name[64];

	sig_fingerprint(print, &ann);
	snprintf(name, sizeof name, "%.8s-3", print);
	CHECK(named(name) == VERDICT_NOT_ITS_NAME);
	snprintf(name, sizeof name, "%.8s", print);
	CHECK(named(name) == VERDICT_ACCEPTED);
	snprintf(name, sizeof name, "%.7s-3", print);
	CHECK(named(name) == VERDICT_ACCEPTED);
	sig_fingerprint(print, &bob);
	snprintf(name, sizeof name, "%.8s-3", print);
	CHECK(named(name) == VERDICT_ACCEPTED);
	CHECK(named("bob") == VERDICT_ACCEPTED && named("ann") == VERDICT_NOT_ITS_NAME);
}

static void one_answer_a_learner(void)
{
	struct answer v[5];

	v[0] = an_answer("a", 100, 3);
	v[1] = an_answer("b", 100, 4);
	v[2] = an_answer("a", 200, 9);
	v[3] = an_answer("a", 200, 8);
	v[4] = an_answer("b", 100, 4);
	v[2].name = "long.delta";
	v[3].name = "long-too.delta";
	guard_duplicates(v, 5);
	CHECK(v[0].verdict == VERDICT_DUPLICATE && v[2].verdict == VERDICT_DUPLICATE);
	CHECK(v[3].verdict == VERDICT_ACCEPTED);
	CHECK_STR(v[0].why, "learner 'a' also sent long-too.delta");
	CHECK(v[1].verdict == VERDICT_ACCEPTED && v[4].verdict == VERDICT_DUPLICATE);
	CHECK_STR(v[4].why, "the same as b");
	/* Two keys, one name: two learners. A refused answer stands in nobody's way. */
	v[0] = an_answer("a", 100, 1);
	v[1] = an_answer("a", 100, 2);
	v[1].signer.b[0] = 7;
	v[2] = an_answer("c", 900, 3);
	v[2].verdict = VERDICT_NOT_FINITE;
	v[3] = an_answer("c", 100, 4);
	guard_duplicates(v, 4);
	CHECK(v[0].verdict == VERDICT_ACCEPTED && v[1].verdict == VERDICT_ACCEPTED);
	CHECK(v[3].verdict == VERDICT_ACCEPTED);
}

static void outliers(void)
{
	struct answer v[3];

	for (int i = 0; i < 3; i++)
		v[i] = an_answer("x", 100, i);
	v[1].norm = 1e4;
	CHECK(guard_outliers(v, 3, 0) == 0 && v[1].verdict == VERDICT_ACCEPTED);
	CHECK(guard_outliers(v, 3, 100) == 0 && v[1].verdict == VERDICT_OUTLIER);
	CHECK_STR(v[1].why, "norm 1e+04, where the median is 1");
	CHECK(v[0].verdict == VERDICT_ACCEPTED && v[2].verdict == VERDICT_ACCEPTED);
	/* Far more steps, and so farther away: not an outlier. */
	v[1] = an_answer("x", 100, 1);
	v[1].norm = 1000;
	v[1].meta.steps = 10000;
	CHECK(guard_outliers(v, 3, 100) == 0 && v[1].verdict == VERDICT_ACCEPTED);
	/* Beside one that did not move, nobody is far away. */
	v[0].norm = 0;
	CHECK(guard_outliers(v, 2, 100) == 0 && v[1].verdict == VERDICT_ACCEPTED);
	CHECK(guard_outliers(v, 0, 100) == 0);
}

int main(void)
{
	tensor(&layout, "x", 3);
	tensor(&layout, "y", 3);
	a_good_answer_is_accepted();
	headers_that_do_not_fit();
	answers_of_fragments();
	layouts_that_do_not_fit();
	a_name_has_one_owner();
	default_names_are_not_taken_by_others();
	one_answer_a_learner();
	outliers();
	tensors_release(&layout);
	return unit_done("guard");
}
