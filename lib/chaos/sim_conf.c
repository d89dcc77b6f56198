#include "chaos/sim_conf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/say.h"

#define EVENTS 1e11
#define MOST 1e15 /* of counts: exact in a double, with room for sums */

void sim_conf_defaults(struct sim_conf *c)
{
	*c = (struct sim_conf){ .mode = TRACE_DECOUPLED, .chips = 1.2e6, .learners = 8, .seed = 1, .length = 86400,
		.mtbi = 365 * 86400.0, .slice = 256, .scale_down = 9.5, .scale_up = 9.5, .repair_low = 1800,
		.repair_high = 5400, .restart = 63, .step = 1, .spread = 0.02, .interval = 24, .fragments = 24,
		.overlap = 2, .quorum = 1, .grace = 1, .rebase = true, .lease = 30, .beat = 1, .params = 1e9,
		.delta_bits = 4, .fragment_bits = 16, .bandwidth = 1e10, .latency = 0.02, .merge = 0.05, .look = 0.05,
		.tokens = 8 << 20 };
}

/* ---- what can't be ---- */

static int not_within(const char *what, double low, double high)
{
	return err_set(ERR_USAGE, "%s must be %g to %g", what, low, high);
}

static int check_times(const struct sim_conf *c)
{
	const struct { const char *name; double value, low; } time[] = {
		{ "the length", c->length, 1e-6 }, { "the time between failures of a chip", c->mtbi, 1e-3 },
		{ "the time to scale down", c->scale_down, 0 }, { "the time to scale up", c->scale_up, 0 },
		{ "the time of a repair", c->repair_low, 0 }, { "the time of a restart", c->restart, 0 },
		{ "the time of a step", c->step, 1e-6 }, { "the latency", c->latency, 0 },
		{ "the time of a merge", c->merge, 0 }, { "the time between looks", c->look, 0 },
		{ "the lease", c->lease, 1e-3 },
		{ "the time between beats", c->beat, 0 },
	};

	for (size_t i = 0; i < sizeof time / sizeof time[0]; i++)
		if (!(time[i].value >= time[i].low) || (time[i].value > MOST && time[i].value != c->mtbi))
			return not_within(time[i].name, time[i].low, MOST);
	if (c->repair_high > MOST)
		return not_within("the time of a repair", 0, MOST);
	if (!(c->repair_high >= c->repair_low))
		return err_set(ERR_USAGE, "the longest repair is no shorter than the shortest one");
	return 0;
}

static int check_counts(const struct sim_conf *c)
{
	if (c->learners < 1 || c->learners > SIM_LEARNERS || sim_conf_learners(c) > SIM_LEARNERS)
		return not_within("the number of learners, with those that join,", 1, SIM_LEARNERS);
	if (!(c->chips >= 1) || c->chips > 1e9)
		return not_within("the number of chips", 1, 1e9);
	if (c->learners > c->chips)
		return err_set(ERR_USAGE, "%u learners need as many chips, there are %.0f", c->learners, c->chips);
	if (!(c->slice >= 1) || c->slice > 1e9)
		return not_within("the chips of a slice", 1, 1e9);
	if (c->quorum < 1 || c->quorum > c->learners)
		return err_set(ERR_USAGE, "the quorum is 1 to the number of learners, %u; not %u", c->learners,
			c->quorum);
	if (c->invite && c->invite < c->quorum)
		return err_set(ERR_USAGE, "no fewer are invited than the quorum of %u; not %u", c->quorum, c->invite);
	if (c->fragments < 1 || c->fragments > 4096)
		return not_within("the number of fragments", 1, 4096);
	if (c->interval < 1 || (double)c->interval > 1e9)
		return not_within("the interval H", 1, 1e9);
	if (c->overlap < 1 || c->overlap > 4096)
		return not_within("the overlap tau", 1, 4096);
	return c->tokens < 1 || (double)c->tokens > MOST ? not_within("the tokens of a step", 1, MOST) : 0;
}

static int check_rates(const struct sim_conf *c)
{
	if (!(c->spread >= 0) || c->spread > 1)
		return not_within("the spread of steps", 0, 1);
	if (!(c->uneven >= 0) || c->uneven > 0.99)
		return not_within("the share by which learners are slower", 0, 0.99);
	for (unsigned i = 0; i < c->speeds; i++)
		if (!(c->speed[i] >= 1e-3) || c->speed[i] > 1e3)
			return not_within("a speed", 1e-3, 1e3);
	if (!(c->grace >= 0) || c->grace > 1e6)
		return not_within("grace", 0, 1e6);
	if (!(c->params >= 1) || c->params > MOST)
		return not_within("the number of parameters", 1, MOST);
	if (!(c->delta_bits > 0) || !(c->fragment_bits > 0) || c->delta_bits > 64 || c->fragment_bits > 64)
		return not_within("the bits of a parameter", 0.01, 64);
	if (!(c->bandwidth >= 1))
		return err_set(ERR_USAGE, "the bandwidth must be 1 bit/s or more");
	return c->budget >= 0 && c->budget <= 1e18 ? 0 : not_within("the budget", 0, 1e18);
}

static int check_joins(const struct sim_conf *c)
{
	if (c->joins && (c->mode == TRACE_LOCKSTEP || c->mode == TRACE_ELASTIC))
		return err_set(ERR_USAGE, "learners join only where there are learners: diloco and decoupled");
	for (unsigned i = 0; i < c->joins; i++)
		if (c->join[i].n < 1 || !(c->join[i].from >= 0) || !(c->join[i].until > c->join[i].from))
			return err_set(ERR_USAGE, "learners that join leave later than they come");
	return 0;
}

/* Inner steps, failures and returns: what would take days, and where times are no longer told apart. */
static int check_events(const struct sim_conf *c)
{
	const double learners = sim_conf_learners(c), chips = c->chips / c->learners * learners;
	double fastest = 1;

	for (unsigned i = 0; i < c->speeds; i++)
		fastest = fmax(fastest, c->speed[i]);
	if (c->length * (learners * fastest / c->step + 2 * chips / c->mtbi) <= EVENTS)
		return 0;
	return err_set(ERR_USAGE, "that would be more than %g steps and failures: simulate a shorter time", EVENTS);
}

int sim_conf_check(const struct sim_conf *c)
{
	int rc = check_times(c);

	if (rc == 0)
		rc = check_counts(c);
	if (rc == 0)
		rc = check_rates(c);
	if (rc == 0)
		rc = check_joins(c);
	return rc < 0 ? rc : check_events(c);
}

/* ---- what follows ---- */

static bool one_learner(const struct sim_conf *c)
{
	return c->mode == TRACE_LOCKSTEP || c->mode == TRACE_ELASTIC;
}

unsigned sim_conf_learners(const struct sim_conf *c)
{
	unsigned n = one_learner(c) ? 1 : c->learners;

	for (unsigned i = 0; i < c->joins && n <= SIM_LEARNERS; i++)
		n += c->join[i].n;
	return n;
}

double sim_conf_speed(const struct sim_conf *c, unsigned learner)
{
	if (c->speeds)
		return c->speed[learner % c->speeds];
	return c->learners > 1 ? 1 - c->uneven * (learner % c->learners) / (c->learners - 1) : 1;
}

void sim_conf_head(const struct sim_conf *c, struct trace_head *h)
{
	bool rounds = c->mode == TRACE_DECOUPLED, one = one_learner(c);

	*h = (struct trace_head){ .mode = c->mode, .learners = sim_conf_learners(c),
		.fragments = rounds ? c->fragments : 1, .interval = one ? 1 : c->interval,
		.overlap = rounds ? c->overlap : 1, .quorum = rounds ? c->quorum : 1, .grace = rounds ? c->grace : 0,
		.step_tokens = one ? c->tokens : (uint64_t)fmax(1, (double)c->tokens / c->learners),
		.seed = c->seed, .params = (uint64_t)c->params, .chips = (uint64_t)c->chips };
	snprintf(h->adopt, sizeof h->adopt, "%s", rounds && c->rebase ? "rebase" : "overwrite");
}

/* ---- joins ---- */

static int bad_join(const char *text)
{
	char shown[120];

	say_escape(shown, sizeof shown, text);
	return err_set(ERR_USAGE, "'%s' is not like 2@6h-18h or 1@20h", shown);
}

/* "0" is a time here. */
static bool moment(const char *text, double *out)
{
	*out = 0;
	return strcmp(text, "0") == 0 || num_seconds(text, out) == 0;
}

static int add_join(struct sim_conf *c, char *word)
{
	char *at = strchr(word, '@'), *dash = at ? strchr(at, '-') : NULL;
	struct sim_join j = { .until = HUGE_VAL };
	uint64_t n = 0;

	if (!at)
		return bad_join(word);
	*at++ = '\0';
	if (dash)
		*dash++ = '\0';
	if (num_u64(word, &n) < 0 || n < 1 || n > SIM_LEARNERS)
		return bad_join(word);
	if (!moment(at, &j.from) || (dash && !moment(dash, &j.until)))
		return bad_join(at);
	if (c->joins == SIM_JOINS)
		return err_set(ERR_USAGE, "more than %d times to join", SIM_JOINS);
	j.n = (unsigned)n;
	c->join[c->joins++] = j;
	return 0;
}

int sim_conf_join(struct sim_conf *c, const char *text)
{
	char word[128];
	int rc = 0;

	do {
		size_t n = strcspn(text, ",");

		if (n == 0 || n >= sizeof word)
			return bad_join(text);
		memcpy(word, text, n);
		word[n] = '\0';
		rc = add_join(c, word);
		text += n + (text[n] == ',');
		if (rc == 0 && text[-1] == ',' && !*text)
			rc = bad_join("");
	} while (rc == 0 && *text);
	return rc;
}
