#include "chaos/inject_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chaos/inject_report.h"
#include "form/trust.h"
#include "round/rundir.h"

struct job {
	struct inject_options *o;
	struct inject_list list;
	struct trust trust;
	struct manifest manifest;
	struct inject_conf conf;
	struct fault *plan;
	bool spared[INJECT_PROCESSES], copied[INJECT_PROCESSES];
	const char *name[INJECT_PROCESSES];
	char *here, *out;
};

static int find_processes(struct job *w, char **words, size_t n)
{
	if ((n > 0) == (w->o->list != NULL))
		return err_set(ERR_USAGE, n ? "a command or --list, not both" :
			       "what to run? give -- COMMAND, or --list FILE");
	return n > 0 ? inject_list_command(&w->list, words, n) : inject_list_read(&w->list, w->o->list);
}

static int read_plan(struct job *w)
{
	const struct fault_names names = { w->name, (unsigned)w->list.n };
	int rc = fault_file_read(&w->plan, &w->conf.plans, w->o->plan, &names);

	w->conf.plan = w->plan;
	for (size_t i = 0; rc == 0 && i < w->conf.plans; i++)
		if (fault_of_copy(w->plan[i].kind) && !w->copied[w->plan[i].who])
			rc = err_set(ERR_USAGE, "%s: '%s' hits '%s', which is no learner (dl-learn -r RUN -i NAME)",
				w->o->plan, fault_kind_name(w->plan[i].kind), w->name[w->plan[i].who]);
	return rc;
}

#define FAULTS_MOST 1e6 /* of a drawn plan, about: each is a line of a table */

static int check_length(const struct inject_options *o)
{
	if (o->most / o->faults.mtbf <= FAULTS_MOST)
		return 0;
	return err_set(ERR_USAGE, "a plan of about %.3g faults, more than %.3g: give a shorter --for, or a "
		"longer --mtbf", o->most / o->faults.mtbf, FAULTS_MOST);
}

static int draw_plan(struct job *w)
{
	struct fault_plan trial;
	int rc = fault_plan_begin(&trial, &w->o->faults);

	return rc < 0 ? rc : check_length(w->o);
}

static int prepare_plan(struct job *w)
{
	int rc = inject_list_choose(&w->list, w->o->on, w->spared);

	for (size_t i = 0; i < w->list.n; i++) {
		w->name[i] = w->list.v[i].name;
		w->copied[i] = w->list.v[i].learner;
	}
	w->o->faults.processes = (unsigned)w->list.n;
	w->o->faults.spared = w->spared;
	w->o->faults.copied = w->copied;
	if (rc < 0)
		return err_at(rc, "option --on");
	if ((rc = fault_weights_parse(w->o->kinds, w->o->faults.weight)) < 0)
		err_at(rc, "option --faults");
	if (rc == 0)
		rc = w->o->plan ? read_plan(w) : draw_plan(w);
	return rc;
}

static int print_plan(const struct job *w, struct buf *text)
{
	const struct fault_names names = { w->name, (unsigned)w->list.n };

	if (!w->plan && !(w->o->most > 0))
		return err_set(ERR_USAGE, "a plan has no end: give --for");
	return fault_file_plan(text, w->plan, w->conf.plans, &w->o->faults, w->o->most, &names);
}

static int enter_run(struct job *w)
{
	int rc = trust_reader(&w->trust, w->o->key, w->o->trust);

	if (rc == 0)
		rc = rundir_enter(w->list.run);
	if (rc == 0)
		rc = manifest_load(&w->manifest, &w->trust);
	w->conf.manifest = &w->manifest;
	return rc;
}

static int make_out(struct job *w)
{
	int rc = w->list.run ? rundir_apart(w->list.run, w->o->out) : 0;

	if (rc == 0)
		rc = rundir_absolute(w->o->out, &w->out);
	if (rc == 0 && mkdir(w->out, 0777) < 0)
		rc = errno != EEXIST ? err_sys("%s", w->o->out) :
			err_set(ERR_USAGE, "%s: is there already: give another --out, or remove it", w->o->out);
	return rc;
}

static int report(const struct job *w, const struct inject_result *result, struct buf *text)
{
	struct inject_report r;
	int rc = inject_report_make(&r, &w->conf, result, &w->trust), broken;

	if (rc == 0)
		rc = inject_report_format(&r, w->o->json, text);
	broken = inject_report_broken(&r);
	if (rc == 0 && broken)
		rc = err_set(ERR_DATA, "%d %s not hold: see the report, and %s", broken, broken > 1 ? "invariants do" :
			     "invariant does", w->o->out);
	return rc;
}

static bool began(const struct job *w, const struct inject_result *result)
{
	bool any = false;

	for (size_t i = 0; result->process && i < w->list.n; i++)
		any = any || result->process[i].starts;
	return any;
}

/* Where nothing has begun there is nothing to tell: the same command can be given again. */
static void remove_out(const struct job *w)
{
	char *path;

	if (asprintf(&path, "%s/" INJECT_TABLE, w->out) >= 0) {
		unlink(path);
		free(path);
	}
	if (asprintf(&path, "%s/" INJECT_LOGS, w->out) >= 0) {
		rmdir(path);
		free(path);
	}
	rmdir(w->out);
}

/* In the directory that was made for it. */
static int run_in(struct job *w, struct inject_result *result)
{
	int rc = rundir_absolute(".", &w->here);

	if (rc == 0 && w->list.run)
		rc = enter_run(w);
	w->conf.list = &w->list;
	w->conf.faults = &w->o->faults;
	w->conf.most = w->o->most;
	w->conf.out = w->out;
	w->conf.dir = w->here;
	w->conf.say = w->o->say;
	if (rc == 0)
		rc = inject_run(&w->conf, result);
	if (rc < 0 && !began(w, result))
		remove_out(w);
	return rc;
}

static int run(struct job *w, struct buf *text, int *asked)
{
	struct inject_result result = { .process = NULL };
	int rc = make_out(w);

	if (rc == 0)
		rc = run_in(w, &result);
	if (rc == 0)
		rc = report(w, &result, text);
	*asked = result.signal;
	inject_result_release(&result);
	return rc;
}

static void release(struct job *w)
{
	inject_list_release(&w->list);
	trust_release(&w->trust);
	manifest_release(&w->manifest);
	free(w->plan);
	free(w->here);
	free(w->out);
	free(w);
}

int inject_job(struct inject_options *o, char **words, size_t n, struct buf *text, int *asked)
{
	struct job *w = calloc(1, sizeof *w);
	int rc;

	*asked = 0;
	if (!w)
		return err_nomem();
	w->o = o;
	rc = find_processes(w, words, n);
	if (rc == 0)
		rc = prepare_plan(w);
	if (rc == 0)
		rc = o->print ? print_plan(w, text) : run(w, text, asked);
	o->faults.spared = o->faults.copied = NULL;
	release(w);
	return rc;
}
