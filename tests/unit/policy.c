#include "policy_sim.h"
#include "round/pace.h"

/* ---- a table of events and what is decided ---- */

/*
 * Lines of a case, times first:
 *     T beat L STEPS SINCE [idle|gone]   SINCE (of all fragments; "old") since its base; a step takes 1 s
 *     T answer R L = 0|1
 *     T refused R L = 0|1
 *     T called R | merged R SECONDS | abandoned R | finish | resume R F [L,L..] | history F AGO | quorum K
 *     T next = call R F all|L,L.. [again] | merge R F | abandon R F | done | wait T|- | wait ?
 */
struct script {
	const char *name;
	struct policy_conf c;
	const char *lines;
};

static void say_step(char out[256], const struct policy_step *s)
{
	static const char *const acts[] = { "wait", "call", "merge", "abandon", "done" };
	int n;

	if (s->act == POLICY_WAIT && isinf(s->until))
		snprintf(out, 256, "wait -");
	else if (s->act == POLICY_WAIT)
		snprintf(out, 256, "wait %.6g", s->until);
	else if (s->act == POLICY_DONE)
		snprintf(out, 256, "done");
	else
		snprintf(out, 256, "%s %llu %u", acts[s->act], (unsigned long long)s->round, s->fragment);
	if (s->act != POLICY_CALL)
		return;
	n = (int)strlen(out);
	if (!s->invited)
		n += snprintf(out + n, 256 - (size_t)n, " all");
	for (size_t i = 0; s->invited && i < s->n; i++)
		n += snprintf(out + n, 256 - (size_t)n, "%s%u", i ? "," : " ", s->invited[i]);
	if (s->again)
		snprintf(out + n, 256 - (size_t)n, " again");
}

static int play_beat(struct policy *p, double t, const char *args)
{
	uint64_t since[SIM_FRAGMENTS];
	unsigned learner;
	unsigned long steps;
	char base[16], state[16] = "";
	struct policy_beat b;

	if (sscanf(args, "%u %lu %15s %15s", &learner, &steps, base, state) < 3)
		return -99;
	for (unsigned f = 0; f < SIM_FRAGMENTS; f++)
		since[f] = strcmp(base, "old") == 0 ? POLICY_OLD_BASE : strtoul(base, NULL, 10);
	b = (struct policy_beat){ .learner = learner, .steps = steps, .step_seconds = 1, .since = since,
		.idle = strcmp(state, "idle") == 0, .gone = strcmp(state, "gone") == 0 };
	return policy_beat(p, t, &b);
}

static int play_resume(struct policy *p, double t, const char *args)
{
	unsigned list[8], fragment;
	unsigned long round;
	size_t n = 0;
	int used = 0;

	if (sscanf(args, "%lu %u%n", &round, &fragment, &used) < 2)
		return -99;
	for (args += used; n < 8 && sscanf(args, "%*[ ,]%u%n", &list[n], &used) == 1; n++)
		args += used;
	return policy_resume(p, t, round, fragment, n ? list : NULL, n);
}

/* What became of a line, for "= ..."; empty for events without an outcome. */
static void play(char have[256], struct policy *p, const struct policy_conf *conf, double t, const char *verb,
	const char *args)
{
	struct policy_conf c = *conf;
	struct policy_step s;
	unsigned long r = 0;
	double x = 0;
	unsigned l = 0;
	int rc = 0;

	have[0] = '\0';
	(void)!sscanf(args, "%lu %u", &r, &l);
	(void)!sscanf(args, "%*u %lf", &x);
	if (strcmp(verb, "next") == 0) {
		policy_next(p, t, &s);
		say_step(have, &s);
	} else if (strcmp(verb, "beat") == 0) {
		rc = play_beat(p, t, args);
	} else if (strcmp(verb, "answer") == 0) {
		snprintf(have, 256, "%d", policy_answer(p, t, r, l));
	} else if (strcmp(verb, "refused") == 0) {
		snprintf(have, 256, "%d", policy_refused(p, t, r, l));
	} else if (strcmp(verb, "called") == 0) {
		rc = policy_called(p, t, r);
	} else if (strcmp(verb, "merged") == 0) {
		policy_merged(p, t, r, x);
	} else if (strcmp(verb, "abandoned") == 0) {
		policy_abandoned(p, t, r);
	} else if (strcmp(verb, "finish") == 0) {
		policy_finish(p, t);
	} else if (strcmp(verb, "resume") == 0) {
		rc = play_resume(p, t, args);
	} else if (strcmp(verb, "history") == 0) {
		policy_history(p, (unsigned)r, x);
	} else if (strcmp(verb, "quorum") == 0) {
		c.quorum = (unsigned)r;
		policy_reconf(p, &c);
	} else {
		rc = -99;
	}
	if (rc != 0)
		snprintf(have, 256, "error %d", rc);
}

static void run_script(const struct script *t)
{
	char line[256], verb[16], have[256];
	struct policy *p;
	int used;
	double at;

	CHECK(policy_open(&p, &t->c, 1, 0) == 0);
	for (const char *s = t->lines; *s; s += strcspn(s, "\n"), s += *s == '\n') {
		char *want;

		snprintf(line, sizeof line, "%.*s", (int)strcspn(s, "\n"), s);
		if ((want = strstr(line, " = "))) {
			*want = '\0';
			want += 3;
		}
		if (sscanf(line, "%lf %15s%n", &at, verb, &used) < 2) {
			CHECK(!"a line of a script");
			break;
		}
		play(have, p, &t->c, at, verb, line + used);
		unit_checks++;
		if (strcmp(have, want ? want : "") != 0 &&
			!(want && strcmp(want, "wait ?") == 0 && strncmp(have, "wait", 4) == 0)) {
			unit_failures++;
			fprintf(stderr, "%s: '%s': have '%s', want '%s'\n", t->name, line, have,
				want ? want : "");
		}
	}
	policy_close(p);
}

#define CONF(P_, H_, TAU_, K_) \
	.fragments = (P_), .interval = (H_), .overlap = (TAU_), .quorum = (K_), .grace = 1, .lease = 10, .seed = 1

static const struct script scripts[] = {
	{ "nobody is called before anybody is alive", { CONF(1, 4, 1, 1) },
		"0 next = wait -\n"
		"1000 next = wait -\n" },
	{ "a call comes a lag of tau before the mark", { CONF(1, 4, 1, 1) },
		"0 beat 0 0 0\n"
		"0 next = wait 3\n"
		"3 beat 0 3 3\n"
		"3 next = call 1 0 all\n"
		"3 next = call 1 0 all\n"
		"3 called 1\n"
		"3 next = wait ?\n" },
	{ "without steps of the median nobody is called", { CONF(1, 4, 1, 1) },
		"0 beat 0 5 0\n"
		"1 beat 0 5 0\n" /* one more step may be under way, not four */
		"5 beat 0 5 0\n"
		"5 next = wait ?\n"
		"9 beat 0 5 0\n"
		"9 next = wait ?\n" },
	{ "calls come on time between beats that are far apart", { CONF(1, 20, 1, 1) },
		"0 beat 0 0 0\n0 next = wait ?\n6 beat 0 6 6\n6 next = wait ?\n12 beat 0 12 12\n12 next = wait ?\n"
		"18 beat 0 18 18\n18.9 next = wait 19\n19 next = call 1 0 all\n" },
	{ "but not further than to the next beat", { CONF(1, 20, 1, 1) },
		"0 beat 0 0 0\n0 next = wait ?\n6 beat 0 6 6\n6 next = wait ?\n12 beat 0 12 12\n"
		"19 next = wait ?\n20 next = wait ?\n21 beat 0 18 18\n21 next = wait ?\n22 next = call 1 0 all\n" },
	{ "a fragment with a history comes back to its mark", { CONF(2, 8, 1, 1) },
		"0 history 0 5\n0 beat 0 0 0\n0 next = wait 2\n2 beat 0 2 2\n2 next = call 1 0 all\n2 called 1\n"
		"3 beat 0 3 3\n3 answer 1 0 = 1\n3 next = merge 1 0\n3 merged 1 0\n3 next = wait 7\n" /* f1: 8 - 1 */
		"7 beat 0 7 7\n7 next = call 2 1 all\n7 called 2\n8 beat 0 8 8\n8 answer 2 0 = 1\n"
		"8 next = merge 2 1\n8 merged 2 0\n8 next = wait ?\n10 next = wait 11\n" }, /* f0 at 12, not 11 */
	{ "idle ones are not extrapolated", { CONF(1, 4, 1, 1) },
		"0 beat 0 0 0\n"
		"1 beat 0 1 1 idle\n"
		"4 beat 0 1 1 idle\n"
		"9 beat 0 1 1 idle\n"
		"9 next = wait ?\n" },
	{ "grace after quorum, then what is there; late ones count for nothing", { CONF(1, 4, 2, 1) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 next = wait ?\n"
		"2 beat 0 2 2\n2 beat 1 2 2\n"
		"2 next = call 1 0 all\n2 called 1\n"
		"2.5 answer 1 0 = 1\n2.5 answer 1 0 = 0\n"
		"2.5 next = wait 4\n" /* 2.5 + 2 - 0.5 */
		"3.9 next = wait 4\n"
		"4 next = merge 1 0\n"
		"4 next = wait ?\n"
		"4.1 answer 1 1 = 0\n"
		"4.2 merged 1 0.2\n4.2 answer 1 1 = 0\n" },
	{ "all have answered: no grace", { CONF(1, 4, 2, 1) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 next = wait ?\n2 beat 0 2 2\n2 beat 1 2 2\n"
		"2 next = call 1 0 all\n2 called 1\n"
		"2.5 answer 1 0 = 1\n2.6 answer 1 1 = 1\n2.6 next = merge 1 0\n" },
	{ "the dead are not waited for once their lease has ended, those that left at once", { CONF(1, 4, 2, 2) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 beat 2 0 0\n0 next = wait ?\n2 beat 0 2 2\n2 beat 1 2 2\n"
		"2 next = call 1 0 all\n2 called 1\n"
		"2.5 answer 1 0 = 1\n2.5 next = wait ?\n"
		"9.9 beat 0 9 9\n9.9 next = wait ?\n"
		"9.9 answer 1 2 = 1\n9.9 next = merge 1 0\n" },
	{ "one that left is not waited for", { CONF(1, 4, 2, 1) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 next = wait ?\n2 beat 0 2 2\n2 beat 1 2 2\n"
		"2 next = call 1 0 all\n2 called 1\n"
		"2.5 answer 1 0 = 1\n2.5 next = wait 4\n"
		"2.6 beat 1 2 2 gone\n2.6 next = merge 1 0\n" },
	{ "idle ones with nothing to say are not waited for", { CONF(1, 4, 2, 1) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 next = wait ?\n2 beat 0 2 2\n2 beat 1 2 2\n"
		"2 next = call 1 0 all\n2 called 1\n2.5 answer 1 0 = 1\n2.5 next = wait 4\n"
		"2.6 beat 1 2 0 idle\n2.6 next = merge 1 0\n" },
	{ "K > M waits and calls nobody; a joiner makes it K", { CONF(1, 4, 1, 2) },
		"0 beat 0 0 0\n0 next = wait ?\n5 beat 0 5 5\n9 beat 0 9 9\n9 next = wait ?\n"
		"12 beat 0 12 12\n12 next = wait ?\n"
		"13 beat 1 0 0\n13 next = call 1 0 all\n13 called 1\n"
		"14 answer 1 0 = 1\n14 next = wait ?\n20 answer 1 1 = 1\n20 next = merge 1 0\n" },
	{ "a round whose learners die stays open, and is merged when one has come", { CONF(1, 4, 1, 2) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 next = wait ?\n4 beat 0 4 4\n4 beat 1 4 4\n4 next = call 1 0 all\n4 called 1\n"
		"5 answer 1 0 = 1\n14 next = wait -\n100 next = wait -\n"
		"101 beat 2 0 0\n101 next = wait ?\n102 answer 1 2 = 1\n102 next = merge 1 0\n" },
	{ "tau rounds at once, one for a fragment", { CONF(4, 4, 2, 1) },
		"0 beat 0 0 0\n"
		"0 next = call 1 0 all\n0 called 1\n0 next = call 2 1 all\n0 called 2\n0 next = wait ?\n"
		"3 beat 0 3 3\n3 next = wait ?\n"
		"4 answer 2 0 = 1\n4 next = merge 2 1\n4.1 merged 2 0.1\n"
		"4.1 next = call 3 2 all\n4.1 called 3\n4.1 next = wait ?\n" },
	{ "once: all that are due, no grace", { CONF(3, 4, 1, 1), .once = true },
		"0 history 0 9\n0 history 1 9\n0 history 2 0\n"
		"0 next = call 1 0 all\n0 called 1\n0 next = call 2 1 all\n0 called 2\n"
		"0 next = wait -\n"
		"0 answer 1 7 = 1\n0 next = merge 1 0\n0 merged 1 0\n0 next = wait -\n" },
	{ "a refused answer takes the quorum away", { CONF(1, 4, 1, 2) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 beat 2 0 0\n0 next = wait ?\n4 beat 0 4 4\n4 beat 1 4 4\n4 beat 2 4 4\n"
		"4 next = call 1 0 all\n4 called 1\n"
		"4 answer 1 0 = 1\n4 answer 1 1 = 1\n6 next = merge 1 0\n"
		"6 refused 1 0 = 0\n6 answer 1 0 = 0\n6 next = wait ?\n"
		"7 answer 1 2 = 1\n7 next = merge 1 0\n7 merged 1 0\n" },
	{ "the merge goes on without a refused answer that is not needed", { CONF(1, 4, 1, 1) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 next = wait ?\n4 beat 0 4 4\n4 beat 1 4 4\n4 next = call 1 0 all\n4 called 1\n"
		"4 answer 1 0 = 1\n4 answer 1 1 = 1\n4 next = merge 1 0\n4 refused 1 0 = 1\n4 merged 1 0\n" },
	{ "a round that nobody can answer any more is abandoned, and called again H later", { CONF(1, 4, 1, 2) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 next = wait ?\n4 beat 0 4 4\n4 beat 1 4 4\n4 next = call 1 0 all\n4 called 1\n"
		"4 answer 1 0 = 1\n4 answer 1 1 = 1\n4 next = merge 1 0\n4 refused 1 1 = 0\n"
		"4 next = abandon 1 0\n4 next = abandon 1 0\n4 abandoned 1\n4 next = wait ?\n"
		"7 beat 0 7 7\n7 beat 1 7 7\n7 next = call 2 0 all\n" },
	{ "refused on arrival: not waited for", { CONF(1, 4, 2, 1) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 next = wait ?\n2 beat 0 2 2\n2 beat 1 2 2\n2 next = call 1 0 all\n2 called 1\n"
		"2.5 answer 1 0 = 1\n2.6 refused 1 1 = 1\n2.6 next = merge 1 0\n" },
	{ "a quorum that is made smaller is there", { CONF(1, 4, 1, 3) },
		"0 beat 0 0 0\n0 beat 1 0 0\n0 beat 2 0 0\n0 next = wait ?\n4 beat 0 4 4\n4 beat 1 4 4\n4 beat 2 4 4\n"
		"4 next = call 1 0 all\n4 called 1\n4 answer 1 0 = 1\n5 answer 1 2 = 1\n5 next = wait ?\n"
		"6 quorum 2\n6 next = merge 1 0\n" },
	{ "open rounds of another syncer go on", { CONF(2, 4, 2, 1) },
		"0 resume 7 1\n0 resume 7 0 = error -3\n0 resume 8 1 = error -3\n0 history 0 1\n"
		"0 beat 0 50 3\n0 answer 7 0 = 1\n0 next = merge 7 1\n0.5 merged 7 0.5\n"
		"1 beat 0 51 4\n1 next = call 8 0 all\n" },
	{ "and keep to who was invited", { CONF(1, 4, 1, 1), .invite = 2 },
		"0 resume 3 0 1,2\n0 beat 0 9 9\n0 beat 1 9 9\n0 answer 3 0 = 0\n0 answer 3 1 = 1\n0 next = merge 3 0\n" },
	{ "what is unknown is harmless", { CONF(1, 4, 1, 1) },
		"0 answer 1 0 = 0\n0 refused 1 0 = 0\n0 merged 9 1\n0 abandoned 9\n0 history 7 1\n"
		"0 called 1 = error -3\n0 next = wait -\n" },
	/* the end */
	{ "each fragment with steps is merged once more", { CONF(2, 4, 2, 1) },
		"0 beat 0 3 3 idle\n0 beat 1 3 0 idle\n0 finish\n"
		"0 next = call 1 0 all\n0 called 1\n0 next = call 2 1 all\n0 called 2\n0 next = wait 10\n"
		"1 answer 1 0 = 1\n1 next = merge 1 0\n1 merged 1 0\n1 answer 2 0 = 1\n1 next = merge 2 1\n1 merged 2 0\n"
		"1 next = done\n1 next = done\n" },
	{ "those that still train are waited for", { CONF(1, 4, 2, 1) },
		"0 beat 0 3 0\n0 finish\n0 next = wait 10\n1 beat 0 4 1 idle\n1 next = call 1 0 all\n1 called 1\n"
		"1 answer 1 0 = 1\n1 next = merge 1 0\n1 merged 1 0\n1 next = done\n" },
	{ "no grace but patience at the end", { CONF(1, 4, 2, 1) },
		"0 beat 0 3 3 idle\n0 beat 1 3 3 idle\n0 finish\n0 next = call 1 0 all\n0 called 1\n"
		"0 answer 1 0 = 1\n5 beat 1 3 3 idle\n9 next = wait ?\n9 beat 0 3 0 idle\n"
		"10 next = merge 1 0\n10 merged 1 0\n10 next = done\n" },
	{ "fewer than K at the end, when their lease is over", { CONF(1, 4, 2, 2) },
		"0 beat 0 3 3 idle\n0 beat 1 3 3 gone\n0 finish\n0 next = call 1 0 all\n0 called 1\n"
		"0 answer 1 0 = 1\n0 next = wait 10\n9 beat 0 3 3 idle\n10 next = merge 1 0\n10 merged 1 0\n10 next = done\n" },
	{ "nobody alive at the end", { CONF(2, 4, 2, 1) },
		"0 finish\n0 next = wait 10\n10 next = done\n" },
	{ "all die while a last round is open", { CONF(1, 4, 2, 1) },
		"0 beat 0 3 3 idle\n1 finish\n1 next = call 1 0 all\n1 called 1\n1 next = wait 10\n"
		"10 next = wait 11\n11 next = abandon 1 0\n11 abandoned 1\n11 next = done\n" },
	{ "one that is alive and never answers holds up the end for a lease", { CONF(3, 4, 1, 1) },
		"0 beat 0 3 3 idle\n0 finish\n0 next = call 1 0 all\n0 called 1\n9 beat 0 3 3 idle\n"
		"10 next = abandon 1 0\n10 abandoned 1\n10 beat 0 3 3 idle\n10 next = done\n" },
	{ "work behind an open round's snapshot is called for once more", { CONF(1, 4, 2, 1) },
		"0 beat 0 0 0\n0 next = wait ?\n2 beat 0 2 2\n2 next = call 1 0 all\n2 called 1\n3 finish\n"
		"3 answer 1 0 = 1\n3 next = merge 1 0\n3 merged 1 0\n3 next = wait ?\n"
		"4 beat 0 4 old idle\n4 next = wait ?\n5 beat 0 4 1 idle\n5 next = call 2 0 all\n5 called 2\n"
		"5 answer 2 0 = 1\n5 next = merge 2 0\n5 merged 2 0\n5 next = done\n" },
	{ "once, at the end", { CONF(1, 4, 1, 1), .once = true },
		"0 finish\n0 beat 0 3 3 idle\n0 next = call 1 0 all\n0 called 1\n0 next = wait ?\n"
		"0 answer 1 0 = 1\n0 next = merge 1 0\n0 merged 1 0\n0 next = done\n" },
};

static void test_scripts(void)
{
	for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
		run_script(&scripts[i]);
}

/* ---- whole runs in virtual time ---- */

static void equal_learners(struct sim *s, unsigned m, double step, double upload)
{
	s->learners = m;
	for (unsigned i = 0; i < m; i++)
		s->l[i] = (struct sim_learner){ .step = step, .poll = 0.02 * step, .upload = upload * step,
			.beat = 0.5 };
	s->merge = 0.05 * step;
}

static struct sim new_sim(unsigned P, unsigned tau, double length)
{
	return (struct sim){ .c = { .fragments = P, .interval = 24, .overlap = tau, .quorum = 1, .grace = 1,
		.seed = 1, .lease = 30 }, .length = length };
}

static double interval_of(const struct sim *s)
{
	return s->intervals ? s->interval_sum / (double)s->intervals : 0;
}

static double answers_of(const struct sim *s)
{
	return s->merges ? (double)s->answers / (double)s->merges : 0;
}

/* Both what really was and what the policy says. */
static void check_pace(const struct sim *s, double want, double tolerance, const char *what)
{
	double real = interval_of(s);

	unit_checks++;
	if (fabs(real - want) <= tolerance * want && fabs(s->achieved - want) <= tolerance * want)
		return;
	unit_failures++;
	fprintf(stderr, "%s: P %u, tau %u: H is %.2f, says %.2f, want %.2f; %llu merges of %.2f answers\n", what,
		s->c.fragments, s->c.overlap, real, s->achieved, want, (unsigned long long)s->merges,
		answers_of(s));
}

static void one_pace(unsigned P, unsigned tau, double step, double upload, bool unequal, bool rebase)
{
	struct sim s = new_sim(P, tau, 24 * 16 * step);

	equal_learners(&s, 4, step, upload);
	for (unsigned i = 0; i < 4; i++) {
		s.l[i].step *= unequal ? 0.6 + 0.3 * i : 1;
		s.l[i].rebase = rebase;
	}
	sim_run(&s);
	check_pace(&s, 24, 0.05, unequal ? "unequal" : "equal");
	CHECK(s.most_open <= tau && s.merges > 10 * P);
	CHECK(s.longest_over <= tau * s.merge); /* no later than grace, but for other merges */
	if (tau >= 2 && !unequal)
		CHECK(answers_of(&s) >= 0.95 * 4);
}

static void test_pace(void)
{
	static const unsigned P[] = { 1, 4, 8, 24 }, tau[] = { 1, 2, 4 };
	static const double step[] = { 0.05, 0.3, 3 }; /* a beat is ten steps, two, a sixth of one */

	for (unsigned i = 0; i < 4 * 3 * 3 * 8; i++)
		one_pace(P[i % 4], tau[i / 4 % 3], step[i / 12 % 3], i / 36 & 1 ? 0.4 : 0.02, i / 36 & 2,
			i / 36 & 4);
}

/* Several calls a step, and a syncer that looks only now and then. */
static void test_pace_of_short_steps(void)
{
	for (unsigned H = 2; H <= 6; H += 2) {
		struct sim s = new_sim(8, 8, 200);

		equal_learners(&s, 4, 1, 0.02);
		s.c.interval = H;
		sim_run(&s);
		check_pace(&s, H, 0.1, "short interval");
	}
	for (int tau = 2; tau <= 4; tau++) {
		struct sim s = new_sim(8, (unsigned)tau, 40);

		equal_learners(&s, 4, 0.05, 0.02);
		s.loop = 0.1; /* two steps; with a call every three */
		sim_run(&s);
		check_pace(&s, 24, 0.1, "slow syncer");
	}
}

/* A round takes 8 steps here, so 24 fragments in two slots are 96 apart. */
static void test_pace_that_cannot_be(void)
{
	struct sim s = new_sim(24, 2, 2000);

	equal_learners(&s, 3, 1, 6.5);
	sim_run(&s);
	CHECK(interval_of(&s) > 80 && interval_of(&s) < 110);
	CHECK_NEAR(s.achieved, interval_of(&s), 0.05);
	CHECK(s.overlap > 1.8);
}

/* All stand still or are away for long: afterwards no bunch of calls stays together. */
static void test_spread_again(void)
{
	struct sim s = new_sim(8, 2, 1200);

	equal_learners(&s, 4, 1, 0.1);
	s.c.quorum = 4;
	for (int i = 0; i < 4; i++)
		s.l[i].until = i ? 0 : 300; /* one dies: its quorum is gone until a fifth joins */
	s.learners = 5;
	s.l[4] = s.l[1];
	s.l[4].from = 600;
	sim_run(&s);
	CHECK(s.stall < 120);
	CHECK(s.merges > 8 * (300 + 500) / 24);
	/* At the end the calls of all fragments are three steps apart again. */
	for (unsigned f = 0; f < 8; f++)
		for (unsigned g = 0; g < f; g++)
			CHECK(fabs(s.call[f].published - s.call[g].published) > 2);
}

static void test_slow_and_dead(void)
{
	struct sim s = new_sim(8, 2, 600);

	equal_learners(&s, 4, 1, 0.1);
	s.l[2].step = 3;
	s.l[3].until = 200;
	sim_run(&s);
	check_pace(&s, 24, 0.1, "slow and dead");
	CHECK(s.longest_hold <= 2 && s.longest_over <= 2 * s.merge);
	CHECK(s.stall < 2 * 24.0 / 8 + 2);
	CHECK(answers_of(&s) > 2);
	/* Only one of two is left. */
	s = new_sim(8, 2, 600);
	equal_learners(&s, 2, 1, 0.1);
	s.l[1].until = 300;
	s.l[0].beat = s.l[1].beat = 1;
	sim_run(&s);
	check_pace(&s, 24, 0.05, "one left");
	CHECK(s.stall < 2 * 24.0 / 8); /* its clock goes on after four beats */
}

static void test_all_of_them(void)
{
	struct sim s = new_sim(4, 2, 1000);

	equal_learners(&s, 4, 1, 0.1);
	s.c.quorum = 4;
	s.l[0].step = 3;
	sim_run(&s);
	CHECK(answers_of(&s) == 4); /* the slowest is waited for */
	check_pace(&s, 24, 0.1, "K = M");
	s = new_sim(4, 2, 1000);
	equal_learners(&s, 4, 1, 0.1);
	s.c.quorum = 5;
	sim_run(&s);
	CHECK(s.calls == 0 && s.merges == 0 && s.stall == 0);
}

static void test_invitations(void)
{
	struct sim s = new_sim(8, 2, 400), again = s, other = s;

	equal_learners(&s, 8, 1, 0.1);
	s.c.invite = 3;
	again = other = s;
	other.c.seed = 2;
	sim_run(&s);
	sim_run(&again);
	sim_run(&other);
	CHECK(s.hash == again.hash && s.merges == again.merges);
	CHECK(s.hash != other.hash);
	CHECK_NEAR(answers_of(&s), 3, 1e-9);
	for (unsigned f = 0; f < 8; f++)
		CHECK(__builtin_popcountl(s.call[f].invited) == 3);
	/* Half of them die, and K of those invited must answer. */
	s = new_sim(8, 2, 900);
	equal_learners(&s, 8, 1, 0.1);
	s.c.invite = 3;
	s.c.quorum = 3;
	for (int i = 0; i < 5; i++)
		s.l[i].until = 200;
	sim_run(&s);
	CHECK(answers_of(&s) == 3 && s.merges > 8 * 25 && s.stall < 30 + 24);
	for (unsigned f = 0; f < 8; f++)
		CHECK((s.call[f].invited & 0xe0) == 0xe0);
}

static void test_refusals(void)
{
	struct sim s = new_sim(4, 2, 2000);

	equal_learners(&s, 3, 1, 0.1);
	s.c.quorum = 3;
	s.refuse_every = 7;
	sim_run(&s);
	CHECK(s.abandoned > 20 && s.merges > 100 && answers_of(&s) == 3);
	s = new_sim(4, 2, 2000);
	equal_learners(&s, 3, 1, 0.1);
	s.refuse_every = 7;
	sim_run(&s);
	CHECK(s.abandoned == 0 && s.refused > 20);
	check_pace(&s, 24, 0.05, "refusals");
}

static void test_the_end(void)
{
	for (int rebase = 0; rebase < 2; rebase++)
		for (int dying = 0; dying < 3; dying++) {
			struct sim s = new_sim(8, 2, 1000);

			equal_learners(&s, 4, 1, 0.3);
			s.finish = 301.7;
			s.l[3].step = 3;
			for (int i = 0; i < 4; i++) {
				s.l[i].rebase = rebase;
				s.l[i].until = dying == 2 || (dying == 1 && i < 2) ? 302.5 + i : 0;
			}
			sim_run(&s);
			CHECK(s.done_at > 301 && s.done_at < 301.7 + (dying ? 4 * 31 : 20));
			CHECK(s.left == 0); /* nothing that was under way is forgotten */
		}
}

static void test_stall(void)
{
	struct sim s = new_sim(1, 1, 500);

	equal_learners(&s, 2, 1, 0.1);
	sim_run(&s);
	CHECK(s.stall > 23 && s.stall < 26); /* with one fragment, the interval */
	s = new_sim(1, 1, 500);
	equal_learners(&s, 2, 1, 400);
	sim_run(&s);
	CHECK(s.stall > 380);
}

/* The stall ends when K are no longer alive, whenever that is noticed. */
static void test_stall_of_the_dead(void)
{
	const struct policy_conf c = { CONF(1, 100, 1, 2) };
	const uint64_t since = 0;
	struct policy_step s;
	struct policy *p;

	CHECK(policy_open(&p, &c, 1, 0) == 0);
	for (unsigned i = 0; i < 3; i++) {
		struct policy_beat b = { .learner = i, .since = &since, .step_seconds = 1 };

		CHECK(policy_beat(p, i, &b) == 0);
	}
	policy_next(p, 1000, &s);
	CHECK(s.act == POLICY_WAIT);
	CHECK_NEAR(policy_longest_stall(p), 11 - 1, 1e-9); /* two from 1 until 11 */
	CHECK(policy_alive_count(p, 1000) == 0 && !policy_alive(p, 1000, 2));
	policy_close(p);
}

/* What an outage did to the averages does not take grace away for long. */
static void test_averages(void)
{
	const struct policy_conf c = { CONF(1, 4, 2, 2) };
	struct policy_times t;
	struct policy_step s;
	const uint64_t since = 1;
	struct policy *p;
	double now = 0, before = 0;

	CHECK(policy_open(&p, &c, 1, 0) == 0);
	for (int round = 1; round <= 12; round++) {
		double wait = round == 4 ? 5000 : round == 8 ? 20 : 0.5;

		do { /* both alive and training, until the call */
			now += 0.5;
			for (unsigned i = 0; i < 2; i++) {
				struct policy_beat b = { .learner = i, .steps = (uint64_t)now, .since = &since,
					.step_seconds = 1 };

				CHECK(policy_beat(p, now, &b) == 0);
			}
			policy_next(p, now, &s);
		} while (s.act == POLICY_WAIT);
		CHECK(s.act == POLICY_CALL && policy_called(p, now, s.round) == 0);
		CHECK(policy_answer(p, now, s.round, 0) == 1);
		for (double until = now + wait; now < until; now += 0.5) {
			struct policy_beat b = { .steps = (uint64_t)now, .since = &since, .step_seconds = 1 };

			CHECK(policy_beat(p, now, &b) == 0);
			b.learner = 1; /* in the eighth the other is away: that says nothing about quorums */
			if (round != 8 || now + 0.5 >= until)
				CHECK(policy_beat(p, now, &b) == 0);
		}
		CHECK(policy_answer(p, now, s.round, 1) == 1);
		policy_next(p, now, &s);
		CHECK(s.act == POLICY_MERGE);
		policy_times(p, &t);
		CHECK_NEAR(t.quorum, round < 4 ? 0.5 : t.quorum, 1e-9);
		CHECK(t.quorum <= 8 && t.quorum >= 0.5 && (round <= 4 || t.quorum <= before));
		before = t.quorum;
		policy_merged(p, now, s.round, 0.25);
	}
	policy_times(p, &t);
	CHECK(t.window > 0 && t.slack > 0);
	CHECK_NEAR(t.slack, 2 * t.step - t.quorum - t.sync, 1e-9);
	CHECK_NEAR(t.sync, 0.25, 1e-9);
	policy_close(p);
}

/* ---- the clock itself ---- */

static void beats(struct pace *p, double now, size_t learner, double rate, double step)
{
	pace_beat(p, now, learner, (uint64_t)(now * rate), step, true);
}

static void test_clock(void)
{
	struct pace p = { 0 };
	double was = 0;

	/* One beats in bursts, and is not taken for silent between them. */
	CHECK(pace_grow(&p, 2) == 0);
	for (int i = 0; i < 4000; i++) {
		double now = i * 0.05;

		if (i % 20 == 0)
			beats(&p, now, 0, 1, 1);
		if (i % 40 < 20)
			beats(&p, now, 1, 3, 1.0 / 3);
		pace_go(&p, now, 24);
		CHECK(p.steps >= was); /* never back */
		was = p.steps;
	}
	CHECK_NEAR(p.steps, 2 * 200, 0.02);
	pace_release(&p);
	/* Speeds change about: the clock follows those that are in the middle lately. */
	CHECK(pace_grow(&p, 3) == 0);
	was = 0;
	for (int i = 0; i < 3000; i++) {
		pace_beat(&p, i, 0, (uint64_t)i, 1, true);
		pace_beat(&p, i, 1, i < 1000 ? 2 * (uint64_t)i : 2000 + (uint64_t)(i - 1000) / 4,
			i < 1000 ? 0.5 : 4, true);
		pace_beat(&p, i, 2, i < 1000 ? 4 * (uint64_t)i : 4000 + 4 * (uint64_t)(i - 1000), 0.25, true);
		pace_go(&p, i, 24);
	}
	CHECK_NEAR(p.steps, 2 * 1000 + 2000, 0.03);
	pace_release(&p);
}

/* A step a second, but none from 100 s to 120 s and from 200 s to 220 s. */
static double with_outages(double now)
{
	return now - fmin(fmax(now - 100, 0), 20) - fmin(fmax(now - 200, 0), 20);
}

/* One that stops is not taken for one that beats seldom: the clock does not run ahead when it stops once more. One that
 * does beat seldom is believed to go on. */
static void test_clock_of_outages(void)
{
	struct pace p = { 0 };

	CHECK(pace_grow(&p, 1) == 0);
	for (double now = 0; now < 300; now += 0.5) {
		if (fmod(now, 1) == 0 && !(now > 100 && now < 120) && !(now > 200 && now < 220))
			pace_beat(&p, now, 0, (uint64_t)with_outages(now), 1, true);
		pace_go(&p, now, 24);
		CHECK(p.steps <= with_outages(now) + 3 && p.steps >= with_outages(now) - 3);
	}
	pace_release(&p);
	CHECK(pace_grow(&p, 1) == 0);
	for (double now = 0; now < 300; now += 0.5) {
		if (fmod(now, 20) == 0)
			pace_beat(&p, now, 0, (uint64_t)now, 1, true);
		pace_go(&p, now, 24);
		CHECK(now < 40 || (p.steps <= now + 3 && p.steps >= now - 25));
		CHECK(now < 60 || fmod(now, 20) != 19.5 || p.steps >= now - 3);
	}
	pace_release(&p);
}

static void test_median(void)
{
	double v[9], w[9];

	for (int code = 0; code < 4000; code++) {
		size_t n = 1 + (size_t)code % 9;

		for (size_t i = 0; i < n; i++)
			v[i] = w[i] = (code * 7919 + (int)(i * i) * 104729 + code / 9 * (int)i) % 11;
		qsort(w, n, sizeof *w, sim_by_value);
		CHECK(pace_median(v, n) == (w[(n - 1) / 2] + w[n / 2]) / 2);
		CHECK(pace_select(v, n, n - 1) == w[n - 1] && pace_select(v, n, 0) == w[0]);
	}
}

/* The worked example of dl-sync(1). */
static void test_example(void)
{
	static const struct {
		unsigned learners, quorum, overlap;
		double interval, answers, open;
	} cases[] = {
		{ 4, 1, 2, 24, 4, 1.1 }, /* 1.2 at most */
		{ 5, 1, 2, 24, 4.6, 1.6 },
		{ 5, 5, 2, 36, 5, 2 },
		{ 5, 5, 4, 24, 5, 1.9 },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sim s = new_sim(24, cases[i].overlap, 24 * 40);

		equal_learners(&s, cases[i].learners, 1, 0.1);
		s.c.quorum = cases[i].quorum;
		s.l[4].step = 3.01;
		s.merge = 0.1;
		sim_run(&s);
		check_pace(&s, cases[i].interval, 0.02, "example");
		CHECK(fabs(answers_of(&s) - cases[i].answers) < 0.1);
		CHECK_NEAR(s.overlap, cases[i].open, 0.1);
	}
}

/* ---- odd times, and order ---- */

static void test_odd_times(void)
{
	static const double at[] = { 0, 1e-300, 1e-9, 1e-9, 1, 0.5, 1e9, 1e17, 1e300, 1e308, NAN, 1e308 };
	const struct policy_conf c = { CONF(2, 4, 2, 1) };
	const uint64_t since[2] = { 1, 1 };
	struct policy_step s;
	struct policy *p;

	CHECK(policy_open(&p, &c, 1, 0) == 0);
	for (unsigned i = 0; i < sizeof at / sizeof at[0]; i++) {
		static const double took[] = { 1e-300, 0, 1e300, NAN, -1, INFINITY };
		struct policy_beat b = { .steps = i % 3 ? UINT64_MAX - i : i, .step_seconds = took[i % 6],
			.since = since };
		int rounds = 0;

		CHECK(policy_beat(p, at[i], &b) == 0);
		while (policy_next(p, at[i], &s), s.act != POLICY_WAIT && rounds++ < 20) {
			if (s.act == POLICY_CALL)
				CHECK(policy_called(p, at[i], s.round) == 0);
			if (s.act == POLICY_CALL)
				CHECK(policy_answer(p, at[i], s.round, 0) == 1);
			if (s.act == POLICY_MERGE)
				policy_merged(p, at[i], s.round, took[i % 6]);
		}
		CHECK(s.act == POLICY_WAIT && rounds < 20);
		CHECK(s.until > at[i] || isnan(at[i]) || i == 5);
		CHECK(isfinite(policy_steps_since(p, 0)) && isfinite(policy_achieved_interval(p)));
	}
	policy_close(p);
}

static void test_bad_conf(void)
{
	const struct policy_conf good = { CONF(2, 4, 2, 1) };
	struct policy_conf c;
	struct policy *p;

	c = good, c.quorum = 0;
	CHECK(policy_open(&p, &c, 1, 0) == ERR_USAGE && !p);
	c = good, c.fragments = 0;
	CHECK(policy_open(&p, &c, 1, 0) == ERR_USAGE);
	c = good, c.overlap = 0;
	CHECK(policy_open(&p, &c, 1, 0) == ERR_USAGE);
	c = good, c.grace = NAN;
	CHECK(policy_open(&p, &c, 1, 0) == ERR_USAGE);
	CHECK(policy_open(&p, &good, 0, 0) == ERR_USAGE);
	CHECK(policy_open(&p, &good, 1, 0) == 0);
	c.interval = 0;
	policy_reconf(p, &c); /* left out */
	policy_close(p);
}

/* Learners whose beats and answers come at the same time, told in another order. */
static void test_order(void)
{
	char have[2][4096] = { "", "" };

	for (int turn = 0; turn < 2; turn++) {
		const struct policy_conf c = { CONF(4, 8, 2, 2) };
		const uint64_t since[4] = { 1, 1, 1, 1 };
		struct policy_step s;
		struct policy *p;
		char *to = have[turn];

		CHECK(policy_open(&p, &c, 1, 0) == 0);
		for (double t = 0; t < 60; t++) {
			for (unsigned j = 0; j < 5; j++) {
				unsigned i = turn ? 4 - j : j;
				struct policy_beat b = { .learner = i, .steps = (uint64_t)(t / (1 + i % 3)),
					.step_seconds = 1 + i % 3, .since = since };

				CHECK(policy_beat(p, t, &b) == 0);
				for (size_t k = 0; k < policy_open_rounds(p); k++) {
					struct policy_round r;

					policy_round_at(p, turn ? policy_open_rounds(p) - 1 - k : k, &r);
					CHECK((uint64_t)t % (1 + i % 3) || policy_answer(p, t, r.round, i) >= 0);
				}
			}
			for (;;) {
				size_t n = strlen(to);

				policy_next(p, t, &s);
				say_step(to + n, &s);
				if (s.act == POLICY_WAIT)
					break;
				if (s.act == POLICY_CALL)
					CHECK(policy_called(p, t, s.round) == 0);
				else
					policy_merged(p, t, s.round, 0.1);
				if (n > 3500)
					to[0] = '\0';
			}
		}
		policy_close(p);
	}
	CHECK(have[0][0]);
	CHECK_STR(have[0], have[1]);
}

int main(void)
{
	test_scripts();
	test_pace();
	test_pace_of_short_steps();
	test_pace_that_cannot_be();
	test_spread_again();
	test_slow_and_dead();
	test_all_of_them();
	test_invitations();
	test_refusals();
	test_the_end();
	test_example();
	test_stall();
	test_stall_of_the_dead();
	test_averages();
	test_clock();
	test_clock_of_outages();
	test_median();
	test_odd_times();
	test_bad_conf();
	test_order();
	return unit_done("policy");
}
