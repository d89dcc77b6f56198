#include "chaos/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/num.h"

#define WEIGHT_MOST 1000000

static const char *const kind_names[FAULT_KINDS + 1] = { "kill", "pause", "slow", "full", "clock", "cut", "delay",
	"reorder", "truncate", "flip", "duplicate", "replay", NULL };
static const char *const class_names[FAULT_CLASSES + 1] = { "answer", "beat", "state", "head", "fragment", NULL };

const char *fault_kind_name(enum fault_kind k)
{
	return kind_names[k];
}

const char *fault_class_name(enum fault_class c)
{
	return class_names[c];
}

static int parse_name(const char *text, const char *what, const char *const *names)
{
	const char *near;

	for (int i = 0; names[i]; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	near = conf_nearest(text, names);
	return err_set(ERR_USAGE, "'%.40s' is no %s%s%s%s", text, what, near ? "; did you mean '" : "",
		       near ? near : "", near ? "'?" : "");
}

int fault_kind_parse(const char *text, enum fault_kind *out)
{
	int k = parse_name(text, "kind of fault", kind_names);

	if (k >= 0)
		*out = (enum fault_kind)k;
	return k < 0 ? k : 0;
}

int fault_class_parse(const char *text, enum fault_class *out)
{
	int k = parse_name(text, "class of files", class_names);

	if (k >= 0)
		*out = (enum fault_class)k;
	return k < 0 ? k : 0;
}

bool fault_of_copy(enum fault_kind k)
{
	return k >= FAULT_CUT;
}

bool fault_of_file(enum fault_kind k)
{
	return k >= FAULT_TRUNCATE;
}

/* "flip:2", or the name alone. */
static int parse_weight(char *text, uint64_t weight[FAULT_KINDS])
{
	char *colon = strchr(text, ':');
	enum fault_kind k;
	uint64_t n = 1;
	int rc;

	if (colon)
		*colon++ = '\0';
	rc = fault_kind_parse(text, &k);
	if (rc < 0)
		return rc;
	if (colon && (num_u64(colon, &n) < 0 || n == 0 || n > WEIGHT_MOST))
		return err_set(ERR_USAGE, "%s: '%.40s' is no weight: give 1 to %d", text, colon, WEIGHT_MOST);
	if (weight[k])
		return err_set(ERR_USAGE, "'%s' given twice", text);
	weight[k] = n;
	return 0;
}

int fault_weights_parse(const char *text, uint64_t weight[FAULT_KINDS])
{
	char *copy = strdup(text), *at = copy, *one;
	int rc = copy ? 0 : err_nomem();

	for (int k = 0; k < FAULT_KINDS; k++)
		weight[k] = strcmp(text, "all") == 0;
	if (weight[0] == 0)
		while (rc == 0 && (one = strsep(&at, ",")))
			rc = parse_weight(one, weight);
	free(copy);
	return rc;
}

/* ---- drawing ---- */

static bool can_hit(const struct fault_conf *c, enum fault_kind k, unsigned i)
{
	return !(c->spared && c->spared[i]) && (!fault_of_copy(k) || (c->copied && c->copied[i]));
}

static unsigned hittable(const struct fault_conf *c, enum fault_kind k)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->processes; i++)
		n += can_hit(c, k, i);
	return n;
}

static int check_time(const char *what, double seconds)
{
	if (seconds > 0 && seconds <= FAULT_TIME)
		return 0;
	return err_set(ERR_USAGE, "%s is %g s: give more than nothing, and no more than a year", what, seconds);
}

/* Without an end, a plan of shorter gaps would have more faults due in any time than can be done in it. */
static int check_gap(double mtbf)
{
	if (mtbf >= FAULT_GAP)
		return 0;
	return err_set(ERR_USAGE, "the mean time between faults is %g s: give %g s or more, as times of faults are in "
		"whole milliseconds", mtbf, FAULT_GAP);
}

int fault_plan_begin(struct fault_plan *p, const struct fault_conf *c)
{
	uint64_t sum = 0;
	int rc;

	*p = (struct fault_plan){ .conf = c, .at = c->from };
	rng_init(&p->rng, c->seed, rng_stream("fault"));
	if ((rc = check_time("the mean time between faults", c->mtbf)) < 0 ||
	    (rc = check_gap(c->mtbf)) < 0 ||
	    (rc = check_time("the mean time of a repair", c->repair)) < 0 ||
	    (rc = check_time("the mean length of a fault", c->lasts)) < 0 ||
	    (rc = check_time("the most that a clock is off", c->clock)) < 0)
		return rc;
	if (!(c->slow >= 0 && c->slow < 1) || !(c->from >= 0 && c->from <= FAULT_TIME))
		return err_set(ERR_USAGE, "a share is from 0 to below 1, and a time not negative");
	for (int k = 0; k < FAULT_KINDS; k++) {
		sum += c->weight[k];
		if (c->weight[k] && !hittable(c, (enum fault_kind)k))
			return err_set(ERR_USAGE, "fault '%s' hits nobody: %s", kind_names[k],
				!fault_of_copy((enum fault_kind)k) ? "no process may be hit" :
				"no process that may be hit is a learner (dl-learn -r RUN -i NAME)");
	}
	return sum ? 0 : err_set(ERR_USAGE, "no kind of fault is wanted");
}

static double whole_ms(double seconds)
{
	return nearbyint(seconds * 1000) / 1000;
}

static enum fault_kind draw_kind(struct rng *r, const uint64_t *weight)
{
	uint64_t sum = 0, at;
	int k = 0;

	for (int i = 0; i < FAULT_KINDS; i++)
		sum += weight[i];
	for (at = rng_below(r, sum); at >= weight[k]; k++)
		at -= weight[k];
	return (enum fault_kind)k;
}

static unsigned draw_process(struct rng *r, const struct fault_conf *c, enum fault_kind k)
{
	uint64_t at = rng_below(r, hittable(c, k));
	unsigned i = 0;

	while (!can_hit(c, k, i) || at-- > 0)
		i++;
	return i;
}

/* u is uniform in [0, 1). */
static double value_of(const struct fault_conf *c, const struct fault *f, double u)
{
	switch (f->kind) {
	case FAULT_SLOW:
		return c->slow > 0 ? c->slow : whole_ms(0.1 + 0.8 * u);
	case FAULT_CLOCK:
		return whole_ms(c->clock * (2 * u - 1));
	case FAULT_DELAY:
		return whole_ms(f->lasts * (0.1 + 0.8 * u));
	case FAULT_TRUNCATE: case FAULT_FLIP:
		return whole_ms(0.999 * u);
	default:
		return 0;
	}
}

void fault_plan_next(struct fault_plan *p, struct fault *out)
{
	const struct fault_conf *c = p->conf;
	struct fault f = { 0 };

	p->at += -c->mtbf * log1p(-rng_unit(&p->rng));
	f.at = whole_ms(p->at);
	f.kind = draw_kind(&p->rng, c->weight);
	f.who = draw_process(&p->rng, c, f.kind);
	f.lasts = whole_ms((f.kind == FAULT_KILL ? c->repair : c->lasts) * (0.5 + rng_unit(&p->rng)));
	f.value = value_of(c, &f, rng_unit(&p->rng));
	f.file = (enum fault_class)rng_below(&p->rng, FAULT_CLASSES);
	*out = f;
}
