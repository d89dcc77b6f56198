#include "chaos/sim_job.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "chaos/like.h"
#include "chaos/sweep.h"
#include "form/trust.h"
#include "io/output.h"
#include "round/audit.h"
#include "round/rundir.h"

/* Standard output has the trace, and nothing else. */
static bool only_trace(const struct sim_options *o)
{
	return o->trace && strcmp(o->trace, "-") == 0;
}

/* The tape of a run that has been entered. */
static int read_tape(const struct sim_options *o, struct like *l, const struct trust *trust)
{
	struct manifest m = { 0 };
	struct tape_reader *tape = NULL;
	struct audit audit = { 0 };
	int rc = manifest_load(&m, trust);

	if (rc == 0)
		rc = audit_open(&audit, &m, trust);
	if (rc == 0)
		rc = audit_tape(&audit, &tape);
	if (rc == 0)
		rc = like_read(l, &m, tape);
	tape_read_close(tape);
	audit_close(&audit);
	manifest_release(&m);
	return rc < 0 ? err_at(rc, "%s", o->like) : 0;
}

static int fit(const struct sim_options *o, struct like *l, struct buf *text)
{
	int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = home < 0 ? err_sys("the current directory") : 0;
	struct trust trust = { 0 };

	if (rc == 0)
		rc = trust_reader(&trust, o->key, o->trust); /* relative paths are as given */
	if (rc == 0)
		rc = rundir_enter(o->like);
	if (rc == 0)
		rc = read_tape(o, l, &trust);
	if (rc == 0 && o->verbose && !o->json && !o->tsv && !only_trace(o))
		rc = like_text(l, text);
	if (rc == 0 && o->without)
		rc = err_at(like_without(l, o->without), "option --without");
	if (home >= 0 && fchdir(home) < 0 && rc == 0)
		rc = err_sys("the directory where it began");
	if (home >= 0)
		close(home);
	trust_release(&trust);
	return rc;
}

static int apply_settings(const struct sim_options *o, struct sim_conf *c)
{
	c->seed = o->seed;
	c->rigid = o->rigid;
	c->fresh |= o->fresh;
	c->forget = o->forget;
	for (unsigned k = 0; k < SETTINGS; k++)
		if (o->setting[k] && setting_apply(c, (enum setting)k, o->setting[k]) < 0)
			return err_at(ERR_USAGE, "option --%s", setting_name((enum setting)k));
	return 0;
}

static int take_list(double *out, size_t *n, const char *name, const char *text, double usual, double most)
{
	int count = text ? sweep_numbers(out, text, most) : 1;

	if (count < 0)
		return err_at(count, "option --%s", name);
	if (!text)
		out[0] = usual;
	*n = (size_t)count;
	return 0;
}

static int take_lists(const struct sim_options *o, struct sweep *s, const struct sim_conf *c)
{
	int rc = sweep_modes(s, o->mode);

	if (rc < 0)
		return err_at(rc, "option --mode");
	rc = take_list(s->chips, &s->chip_counts, "chips", o->chips, c->chips, 1e9);
	if (rc == 0)
		rc = take_list(s->learners, &s->learner_counts, "learners", o->learners, c->learners, SIM_LEARNERS);
	s->seeds = (unsigned)o->seeds;
	s->alike = o->like;
	return rc;
}

/* The one simulation again, written down. */
static int write_trace(const struct sim_options *o, const struct sim_conf *c)
{
	struct output out = OUTPUT_INIT;
	struct trace_writer *w = NULL;
	struct sim_result r;
	struct trace_head h;
	int rc = output_open(&out, o->trace, "a trace", NULL, 0);

	sim_conf_head(c, &h);
	if (rc < 0)
		return rc;
	rc = trace_create(&w, out.fd, &h);
	if (rc == 0)
		rc = sim_run(c, w, &r);
	if (rc == 0)
		rc = trace_finish(w);
	trace_discard(w);
	if (rc < 0)
		err_at(rc, "%s", output_name(o->trace));
	else if (!only_trace(o)) /* the program itself closes standard output */
		rc = output_commit(&out);
	output_abort(&out);
	return rc;
}

static int simulate(const struct sim_options *o, struct sweep *s, const struct sim_conf *c, struct buf *text)
{
	struct pool *pool = NULL;
	int rc = pool_open(&pool, (int)o->threads);

	if (rc == 0)
		rc = sweep_run(s, c, pool);
	if (rc == 0 && o->trace && s->cells * s->seeds > 1)
		rc = err_set(ERR_USAGE, "--trace is for one simulation, not for %zu", s->cells * s->seeds);
	if (rc == 0 && o->trace)
		rc = write_trace(o, &s->cell[0].conf);
	if (rc == 0 && !only_trace(o))
		rc = sweep_print(s, o->json ? SWEEP_JSON : o->tsv ? SWEEP_TSV : SWEEP_TEXT, text);
	pool_close(pool);
	return rc;
}

static int take_speeds(const struct sim_options *o, struct sim_conf *c, double **speeds)
{
	int n = o->speeds ? setting_speeds(o->speeds, speeds) : 0;

	if (n < 0)
		return err_at(n, "option --speeds");
	if (o->speeds) {
		c->speed = *speeds;
		c->speeds = (unsigned)n;
	}
	return 0;
}

static int check(const struct sim_options *o)
{
	int rc;

	if (o->json && o->tsv)
		return err_set(ERR_USAGE, "--json or --tsv");
	if (o->like && o->chips)
		return err_set(ERR_USAGE, "the chips of a run are its learners: --learners, not --chips, with --like");
	if (!o->like && (o->without || o->key || o->trust))
		return err_set(ERR_USAGE, "--without, --key and --trust go with --like");
	if (only_trace(o) && (o->json || o->tsv))
		return err_set(ERR_USAGE, "--trace -: standard output has the trace, so there is no table for --%s",
			o->json ? "json" : "tsv");
	if (o->trace && o->like && (rc = rundir_apart(o->like, o->trace)) < 0)
		return rc;
	return key_apart(o->key, o->trace);
}

int sim_job(const struct sim_options *o, struct buf *text)
{
	struct sweep s = { .seeds = 1 };
	struct like like = { .learners = 0 };
	double *speeds = NULL;
	struct sim_conf c;
	int rc = check(o);

	sim_conf_defaults(&c);
	if (rc == 0 && o->like && (rc = fit(o, &like, text)) == 0) {
		c = like.conf;
		s.measured = &like.measured;
		s.measured_learners = like.learners;
	}
	if (rc == 0)
		rc = apply_settings(o, &c);
	if (rc == 0)
		rc = take_lists(o, &s, &c);
	if (rc == 0)
		rc = take_speeds(o, &c, &speeds);
	if (rc == 0)
		rc = simulate(o, &s, &c, text);
	sweep_release(&s);
	like_release(&like);
	free(speeds);
	return rc;
}
