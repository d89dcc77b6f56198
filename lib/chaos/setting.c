#include "chaos/setting.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/say.h"

enum type { TIME, NUMBER, COUNT, COUNT64, REPAIR, ADOPT, JOIN };
#define AT(name, type, field) { name, type, offsetof(struct sim_conf, field) }
static const struct row {
	const char *name;
	enum type type;
	size_t offset;
} rows[SETTINGS] = {
	[SETTING_SLICE] = AT("slice", NUMBER, slice),
	[SETTING_MTBI] = AT("mtbi", TIME, mtbi),
	[SETTING_SCALE_DOWN] = AT("scale-down", TIME, scale_down),
	[SETTING_SCALE_UP] = AT("scale-up", TIME, scale_up),
	[SETTING_REPAIR] = AT("repair", REPAIR, repair_low),
	[SETTING_RESTART] = AT("restart", TIME, restart),
	[SETTING_STEP] = AT("step", TIME, step),
	[SETTING_SPREAD] = AT("spread", NUMBER, spread),
	[SETTING_UNEVEN] = AT("uneven", NUMBER, uneven),
	[SETTING_INTERVAL] = AT("interval", COUNT64, interval),
	[SETTING_FRAGMENTS] = AT("fragments", COUNT, fragments),
	[SETTING_TAU] = AT("tau", COUNT, overlap),
	[SETTING_QUORUM] = AT("quorum", COUNT, quorum),
	[SETTING_GAMMA] = AT("gamma", NUMBER, grace),
	[SETTING_INVITE] = AT("invite", COUNT, invite),
	[SETTING_ADOPT] = AT("adopt", ADOPT, rebase),
	[SETTING_LEASE] = AT("lease", TIME, lease),
	[SETTING_BEAT] = AT("beat", TIME, beat),
	[SETTING_PARAMS] = AT("params", NUMBER, params),
	[SETTING_DELTA_BITS] = AT("delta-bits", NUMBER, delta_bits),
	[SETTING_FRAGMENT_BITS] = AT("fragment-bits", NUMBER, fragment_bits),
	[SETTING_BANDWIDTH] = AT("bandwidth", NUMBER, bandwidth),
	[SETTING_LATENCY] = AT("latency", TIME, latency),
	[SETTING_MERGE] = AT("merge", TIME, merge),
	[SETTING_LOOK] = AT("look", TIME, look),
	[SETTING_TOKENS] = AT("tokens", COUNT64, tokens),
	[SETTING_BUDGET] = AT("budget", NUMBER, budget),
	[SETTING_JOIN] = AT("join", JOIN, join),
	[SETTING_FOR] = AT("for", TIME, length),
};

const char *setting_name(enum setting k)
{
	return rows[k].name;
}

int setting_not_so(const char *what, const char *text)
{
	char shown[120];

	say_escape(shown, sizeof shown, text);
	return err_set(ERR_USAGE, "'%s' is no %s", shown, what);
}

int setting_number(const char *text, double *out)
{
	static const char suffix[] = "kMGT";
	char word[64];
	size_t n = strlen(text);
	const char *at = n ? strchr(suffix, text[n - 1]) : NULL;

	if (n >= sizeof word)
		return setting_not_so("number", text);
	snprintf(word, sizeof word, "%.*s", (int)(n - (at != NULL)), text);
	if (num_f64(word, out) < 0 || !(*out >= 0))
		return setting_not_so("number such as 0.5, 24 or 1.2M", text);
	for (; at && at >= suffix; at--)
		*out *= 1000;
	return 0;
}

/* As num_seconds, and "0"; "never" is HUGE_VAL. */
static int parse_time(const char *text, double *out)
{
	*out = strcmp(text, "never") == 0 ? HUGE_VAL : 0;
	if (*out > 0 || strcmp(text, "0") == 0 || num_seconds(text, out) == 0)
		return 0;
	return setting_not_so("time such as 90, 9.5s, 5m, 1h, 365d or never", text);
}

static int count(const char *text, double most, double *out)
{
	int rc = setting_number(text, out);

	if (rc == 0 && (*out != floor(*out) || *out > most))
		return setting_not_so("whole number, or too large a one", text);
	return rc;
}

/* "30m-90m", or one time. */
static int repair(struct sim_conf *c, const char *text)
{
	const char *dash = strchr(text, '-');
	char low[64];
	int rc;

	if (!dash || (size_t)(dash - text) >= sizeof low) {
		rc = parse_time(text, &c->repair_low);
		c->repair_high = c->repair_low;
		return rc;
	}
	snprintf(low, sizeof low, "%.*s", (int)(dash - text), text);
	rc = parse_time(low, &c->repair_low);
	return rc < 0 ? rc : parse_time(dash + 1, &c->repair_high);
}

static int adopt(struct sim_conf *c, const char *text)
{
	c->rebase = strcmp(text, "rebase") == 0;
	return c->rebase || strcmp(text, "overwrite") == 0 ? 0
		: setting_not_so("rule of adoption: those are overwrite and rebase", text);
}

int setting_apply(struct sim_conf *c, enum setting k, const char *text)
{
	char *at = (char *)c + rows[k].offset;
	double x = 0;
	int rc;

	switch (rows[k].type) {
	case TIME:
		return parse_time(text, (double *)at);
	case NUMBER:
		return setting_number(text, (double *)at);
	case COUNT:
		if ((rc = count(text, 1e9, &x)) == 0)
			*(unsigned *)at = (unsigned)x;
		return rc;
	case COUNT64:
		if ((rc = count(text, 1e15, &x)) == 0)
			*(uint64_t *)at = (uint64_t)x;
		return rc;
	case REPAIR:
		return repair(c, text);
	case ADOPT:
		return adopt(c, text);
	default:
		return sim_conf_join(c, text);
	}
}

int setting_speeds(const char *text, double **out)
{
	int n = 1, rc = 0;

	for (const char *p = text; *p; p++)
		n += *p == ',';
	if (n > SIM_LEARNERS)
		return err_set(ERR_USAGE, "more than %d speeds", SIM_LEARNERS);
	if (!(*out = calloc((size_t)n, sizeof **out)))
		return err_nomem();
	for (int i = 0; rc == 0 && i < n; i++) {
		char word[64];
		size_t m = strcspn(text, ",");

		snprintf(word, sizeof word, "%.*s", (int)(m < 63 ? m : 63), text);
		rc = setting_number(word, &(*out)[i]);
		text += m + (text[m] == ',');
	}
	return rc < 0 ? rc : n;
}
