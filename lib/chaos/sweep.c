#include "chaos/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/setting.h"

/* ---- lists ---- */

/* The next of some words with commas between: false at the end, or when it is empty or too long. */
static bool next_word(const char **text, char *word, size_t cap)
{
	size_t n = strcspn(*text, ",");

	if (n == 0 || n >= cap)
		return false;
	memcpy(word, *text, n);
	word[n] = '\0';
	*text += n;
	if (**text == ',' && (*text)[1])
		++*text;
	return true;
}

int sweep_modes(struct sweep *s, const char *text)
{
	char word[32];

	for (s->modes = 0; *text;) {
		if (s->modes == 4 || !next_word(&text, word, sizeof word))
			return setting_not_so("list of modes", text);
		if (trace_mode_parse(word, &s->mode[s->modes++]) < 0)
			return ERR_USAGE;
	}
	return s->modes ? 0 : setting_not_so("list of modes", "");
}

/* Numbers from the last two on, each by their ratio, up to but without `last`. */
static int fill(double *out, int n, double last)
{
	double ratio = n >= 2 ? out[n - 1] / out[n - 2] : 0;

	if (!(ratio > 1) || !(last > out[n - 1]))
		return err_set(ERR_USAGE, "'...' stands between numbers that rise: a,b,...,z");
	while (n < SWEEP_VALUES && out[n - 1] * ratio < last * (1 - 1e-9)) {
		out[n] = out[n - 1] * ratio;
		n++;
	}
	return n;
}

int sweep_numbers(double *out, const char *text, double most)
{
	char word[64];
	bool dots = false;
	double x;
	int n = 0;

	while (*text) {
		if (!next_word(&text, word, sizeof word))
			return setting_not_so("list of numbers", text);
		if (strcmp(word, "...") == 0 && !dots) {
			dots = true;
			continue;
		}
		if (setting_number(word, &x) < 0)
			return ERR_USAGE;
		if (!(x > 0))
			return setting_not_so("number above 0", word);
		if (x > most)
			return err_set(ERR_USAGE, "%s is more than %g", word, most);
		if (dots && (n = fill(out, n, x)) < 0)
			return n;
		dots = false;
		if (n >= SWEEP_VALUES)
			return err_set(ERR_USAGE, "more than %d numbers", SWEEP_VALUES);
		out[n++] = x;
	}
	return dots || !n ? setting_not_so("list of numbers", text) : n;
}

/* ---- running ---- */

static int describe(int rc, const struct sim_conf *c)
{
	return err_at(rc, "%s, %.0f chips, %u learners", trace_mode_name(c->mode), c->chips, c->learners);
}

static int add_cell(struct sweep *s, const struct sim_conf *base, enum trace_mode mode, double chips,
	double learners)
{
	struct sweep_cell *cell = &s->cell[s->cells];
	struct sim_conf *c = &cell->conf;
	int rc;

	*c = *base;
	c->mode = mode;
	c->chips = chips;
	c->learners = (unsigned)learners;
	if (learners != floor(learners))
		return err_set(ERR_USAGE, "%g learners: there are no parts of one", learners);
	if (s->alike) {
		c->chips = base->chips / base->learners * c->learners;
		c->tokens = (uint64_t)((double)base->tokens / base->learners * c->learners);
	}
	if (mode == TRACE_LOCKSTEP || mode == TRACE_ELASTIC) {
		c->learners = c->quorum = 1;
		c->invite = 0;
	}
	if ((rc = sim_conf_check(c)) < 0)
		return describe(rc, c);
	if (!(cell->result = calloc(s->seeds, sizeof *cell->result)))
		return err_nomem();
	s->cells++;
	return 0;
}

static int add_cells(struct sweep *s, const struct sim_conf *base, enum trace_mode mode)
{
	bool one = mode == TRACE_LOCKSTEP || mode == TRACE_ELASTIC;
	int rc = 0;

	for (size_t k = 0; rc == 0 && k < s->chip_counts; k++)
		for (size_t m = 0; rc == 0 && m < (one ? 1 : s->learner_counts); m++)
			rc = add_cell(s, base, mode, s->chips[k], s->learners[m]);
	return rc;
}

static int job(void *ctx, int i, int thread)
{
	struct sweep *s = ctx;
	struct sweep_cell *cell = &s->cell[(unsigned)i / s->seeds];
	struct sim_conf c = cell->conf;
	unsigned k = (unsigned)i % s->seeds;
	int rc;

	(void)thread;
	c.seed += k;
	rc = sim_run(&c, NULL, &cell->result[k]);
	return rc < 0 ? describe(rc, &c) : 0;
}

int sweep_run(struct sweep *s, const struct sim_conf *base, struct pool *pool)
{
	int rc = 0;

	if (s->alike)
		s->chip_counts = 1; /* whatever it is */
	s->cell = calloc(s->modes * s->chip_counts * s->learner_counts, sizeof *s->cell);
	if (!s->cell)
		return err_nomem();
	for (size_t k = 0; rc == 0 && k < s->modes; k++)
		rc = add_cells(s, base, s->mode[k]);
	return rc < 0 ? rc : pool_run(pool, job, s, (int)(s->cells * s->seeds));
}

void sweep_release(struct sweep *s)
{
	for (size_t i = 0; i < s->cells; i++)
		free(s->cell[i].result);
	free(s->cell);
	s->cell = NULL;
	s->cells = 0;
}
