#include "chaos/inject.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chaos/mirror.h"
#include "chaos/victim.h"
#include "io/crew.h"
#include "io/dir.h"
#include "io/fd.h"

#define LOOK_EVERY 0.25    /* seconds */
#define CARRY_EVERY 0.1
#define REST 0.5           /* between two turns of the loop, at most */
#define HEAD_PATIENCE 3.0  /* that learners wait for the syncer's first head */
#define STRIKES_MOST 100   /* in one turn: between them it looks at the time and at who asks it to stop */
#define CLOCK_WORDS 6      /* before the command of one whose clock is set */
#define NEVER 1e300

struct body { /* of a process */
	struct inject_process *process;
	struct victim victim;
	struct mirror *mirror;          /* NULL: it works in the run itself */
	struct meter_learner *learner;  /* NULL: it is none */
	const char **words;             /* of its command */
	char *log, *clock_file;
	unsigned starts;                /* that have been noticed */
	bool up;
};
struct inject {
	const struct inject_conf *c;
	struct inject_result *out;
	struct clock clock;
	struct crew crew;
	struct proc_watch watch;
	struct body *body;             /* (processes) */
	const char **name;             /* (processes) */
	struct fault_plan drawn;
	struct fault next;             /* the next fault */
	bool more;                     /* there is one */
	size_t planned;                /* of c->plan that are behind */
	double begin, now, look, carry; /* by the clock; seconds since; when next */
	double over, asked;            /* when; negative: not yet */
	bool healed;
	int table;                     /* descriptor of faults.tsv */
	char *table_path;
};

static double seconds(struct inject *j)
{
	return j->now = clock_now(&j->clock) - j->begin;
}

bool inject_plans(const struct inject_conf *c, bool (*of)(enum fault_kind k))
{
	bool any = false;

	for (int k = 0; !c->plan && k < FAULT_KINDS; k++)
		any = any || (c->faults->weight[k] && of((enum fault_kind)k));
	for (size_t i = 0; c->plan && i < c->plans; i++)
		any = any || of(c->plan[i].kind);
	return any;
}

static bool of_clock(enum fault_kind k)
{
	return k == FAULT_CLOCK;
}

static struct body *bodies_end(const struct inject *j)
{
	return j->body + j->c->list->n;
}

/* ---- the table of faults ---- */

static int put(struct inject *j, const char *text, size_t n)
{
	int rc = fd_write(j->table, text, n);

	return rc < 0 ? err_at(rc, "%s", j->table_path) : 0;
}

static int tell(struct inject *j, const struct fault *f, const char *what, bool did)
{
	const struct fault_names names = { j->name, (unsigned)j->c->list->n };
	struct buf line = BUF_INIT;
	int rc = fault_file_line(&line, f, &names, what);

	if (did)
		j->out->hit[f->kind]++;
	else
		j->out->absorbed++;
	if (rc == 0)
		rc = put(j, line.data, line.len);
	if (rc == 0)
		say_note(j->c->say, "%s %s for %.3g s%s%s", fault_kind_name(f->kind), j->name[f->who], f->lasts,
			 *what ? ": " : "", what);
	buf_release(&line);
	return rc;
}

/* What is no fault is told between the lines. */
static int remark(struct inject *j, const char *name, const char *what)
{
	char text[256];
	int n = snprintf(text, sizeof text, "# %.3f %s %s\n", j->now, name, what);

	return put(j, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static int open_table(struct inject *j)
{
	struct buf text = BUF_INIT;
	int rc = asprintf(&j->table_path, "%s/" INJECT_TABLE, j->c->out) < 0 ? err_nomem() : 0;

	if (rc < 0) {
		j->table_path = NULL;
		return rc;
	}
	j->table = open(j->table_path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
	if (j->table < 0)
		rc = err_sys("%s", j->table_path);
	if (rc == 0)
		rc = buf_str(&text, "# dl-chaos inject\n");
	if (rc == 0)
		rc = fault_file_head(&text);
	if (rc == 0)
		rc = put(j, text.data, text.len);
	buf_release(&text);
	return rc;
}

/* ---- beginning ---- */

static int find_library(char **out)
{
	static const char *const where[] = { "/usr/lib/*/faketime/libfaketimeMT.so.1",
		"/usr/lib*/faketime/libfaketimeMT.so.1", "/usr/local/lib*/faketime/libfaketimeMT.so.1" };
	glob_t found;

	for (size_t i = 0; i < sizeof where / sizeof *where; i++)
		if (glob(where[i], 0, NULL, &found) == 0) {
			*out = strdup(found.gl_pathv[0]);
			globfree(&found);
			return *out ? 0 : err_nomem();
		}
	return err_set(ERR_USAGE, "fault 'clock' needs libfaketime, which is not there: install faketime,"
		       " or leave it out");
}

/* Words that belong before the command: only the wall clock is set, and by the file. */
static int add_clock(struct body *b, const char *out, size_t *n)
{
	char *library, *text[2];
	int rc = find_library(&library);

	if (rc < 0)
		return rc;
	if (asprintf(&b->clock_file, "%s/clock/%s", out, b->process->name) < 0 ||
	    asprintf(&text[0], "LD_PRELOAD=%s", library) < 0 ||
	    asprintf(&text[1], "FAKETIME_TIMESTAMP_FILE=%s", b->clock_file) < 0)
		rc = err_nomem();
	free(library);
	if (rc < 0)
		return rc;
	b->words[(*n)++] = "env";
	b->words[(*n)++] = text[0];
	b->words[(*n)++] = text[1];
	b->words[(*n)++] = "FAKETIME_CACHE_DURATION=1";
	b->words[(*n)++] = "FAKETIME_DONT_FAKE_MONOTONIC=1";
	b->words[(*n)++] = b->process->path;
	return 0;
}

/* The command as it is started, and where it is. */
static int add_words(struct inject *j, struct body *b, bool clocks)
{
	const struct words *w = &b->process->words;
	size_t n = 0;
	int rc = 0;

	b->words = calloc(w->n + CLOCK_WORDS + 1, sizeof *b->words);
	if (!b->words || asprintf(&b->log, "%s/" INJECT_LOGS "/%s.log", j->c->out, b->process->name) < 0)
		return err_nomem();
	if (clocks)
		rc = add_clock(b, j->c->out, &n);
	else
		b->words[n++] = w->v[0];
	for (size_t i = 1; i < w->n; i++)
		b->words[n++] = w->v[i];
	return rc < 0 ? rc : crew_add(&j->crew, b->process->name, clocks ? "/usr/bin/env" : b->process->path, b->words,
				      b->log);
}

static int add_mirror(struct inject *j, struct body *b)
{
	struct mirror_conf m = { .run = j->c->list->run, .learner = b->process->learner };
	char *copy = NULL, *spool = NULL;
	int rc = 0;

	if (asprintf(&copy, "%s/copy/%s", j->c->out, b->process->name) < 0 ||
	    asprintf(&spool, "%s/spool/%s", j->c->out, b->process->name) < 0)
		return err_nomem();
	m.copy = copy;
	m.spool = spool;
	rc = mirror_open(&b->mirror, &m);
	if (rc == 0)
		rc = inject_list_move(b->process, copy);
	free(copy);
	free(spool);
	return rc;
}

static int add_learner(struct inject *j, struct body *b)
{
	struct meter_learner *l = &j->out->learner[j->out->meter.learners++];
	int n = snprintf(l->beat, sizeof l->beat, "%s%s%s/learner/%s/beat", b->mirror ? j->c->out : j->c->list->run,
			 b->mirror ? "/copy/" : "", b->mirror ? b->process->name : "", b->process->learner);

	b->learner = l;
	return n > 0 && (size_t)n < sizeof l->beat ? 0 : err_set(ERR_USAGE, "the path of the run is too long");
}

static int add_body(struct inject *j, size_t i, bool copies, bool clocks)
{
	struct body *b = &j->body[i];
	int rc = 0;

	b->process = &j->c->list->v[i];
	j->name[i] = b->process->name;
	if (copies && b->process->learner)
		rc = add_mirror(j, b);
	if (rc == 0 && j->c->manifest && b->process->learner)
		rc = add_learner(j, b);
	if (rc == 0)
		rc = add_words(j, b, clocks);
	b->victim = (struct victim){ .crew = &j->crew, .member = i, .clock_file = b->clock_file };
	return rc;
}

static void next_fault(struct inject *j)
{
	const struct inject_conf *c = j->c;

	if (!c->plan)
		fault_plan_next(&j->drawn, &j->next);
	else if (j->planned < c->plans)
		j->next = c->plan[j->planned++];
	else
		j->more = false;
}

static int make_folders(const struct inject_conf *c)
{
	static const char *const below[] = { INJECT_LOGS, "clock" };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < 2; i++) {
		char *path;

		if (asprintf(&path, "%s/%s", c->out, below[i]) < 0)
			return err_nomem();
		if (i == 0 || inject_plans(c, of_clock))
			rc = dir_make(path, 0777);
		free(path);
	}
	return rc;
}

static int prepare(struct inject *j)
{
	const struct inject_conf *c = j->c;
	bool copies = c->manifest && inject_plans(c, fault_of_copy), clocks = inject_plans(c, of_clock);
	size_t n = c->list->n;
	int rc = make_folders(c);

	if (rc == 0)
		rc = open_table(j);
	if (rc == 0 && !c->plan)
		rc = fault_plan_begin(&j->drawn, c->faults);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_body(j, i, copies, clocks);
	j->more = true;
	if (rc == 0)
		next_fault(j);
	if (rc == 0 && c->manifest)
		rc = meter_look(&j->out->meter);
	for (size_t i = 0; rc == 0 && i < n && c->manifest && !j->out->meter.headed; i++)
		if (j->body[i].learner) /* a head to begin with spares them steps that no round asks for */
			crew_hold(&j->crew, &j->crew.v[i], HEAD_PATIENCE);
	return rc;
}

/* ---- what happens ---- */

static int strike(struct inject *j)
{
	struct body *b = &j->body[j->next.who];
	const char *what;
	int rc;

	if (!fault_of_copy(j->next.kind)) {
		what = victim_break(&b->victim, &j->next, j->now);
		rc = tell(j, &j->next, what ? what : "", !what);
	} else if (!b->mirror) {
		rc = tell(j, &j->next, "absorbed: it works in no copy", false);
	} else {
		rc = mirror_break(b->mirror, &j->next);
		if (rc == 0 && !fault_of_file(j->next.kind)) /* the others once they have hit */
			rc = tell(j, &j->next, "", true);
	}
	if (rc < 0)
		return rc;
	next_fault(j);
	return 0;
}

/* What is due; what is left after a burst is due in the next turn. */
static int strike_due(struct inject *j)
{
	int rc = 0;

	for (int n = 0; rc == 0 && n < STRIKES_MOST && j->more && !j->healed && j->next.at <= j->now; n++)
		rc = strike(j);
	return rc;
}

/* A new process, or an end. */
static int notice(struct inject *j, struct body *b)
{
	const struct crew_member *m = victim_member(&b->victim);
	struct inject_process_result *r = &j->out->process[b - j->body];
	char how[64];
	bool up = m->state == CREW_RUNNING;
	int rc = 0;

	if (b->up && (!up || m->starts != b->starts)) {
		if (b->learner)
			meter_ended(b->learner);
		proc_how(how, &m->proc);
		if (b->victim.kills == r->kills && proc_exit_status(&m->proc) != 0 && !j->crew.stopping) {
			r->deaths++;
			rc = remark(j, b->process->name, how);
		}
		r->kills = b->victim.kills;
	}
	if (up && m->starts != b->starts && b->learner)
		b->learner->started = j->now;
	if (up && m->starts != b->starts && b->starts && rc == 0)
		rc = remark(j, b->process->name, "starts again");
	b->starts = r->starts = m->starts;
	b->up = up;
	if (b->learner)
		b->learner->up = up;
	return rc;
}

/* As meter and results have it until now. */
static void pass(struct inject *j, double before)
{
	for (struct body *b = j->body; b < bodies_end(j); b++) {
		if (b->up && !b->victim.stopped)
			j->out->process[b - j->body].ran += j->now - before;
		if (!b->learner)
			continue;
		b->learner->stopped = b->victim.stopped;
		b->learner->paused = j->now < b->victim.pause;
		b->learner->cut = b->mirror && mirror_is_cut(b->mirror, j->now);
	}
	meter_pass(&j->out->meter, j->now);
}

/* Carrying may fail as a network does: it is tried again. */
static int carry(struct inject *j)
{
	struct fault f;
	char what[256];
	int rc = 0;

	if (j->now < j->carry)
		return 0;
	j->carry = j->now + CARRY_EVERY;
	for (struct body *b = j->body; rc == 0 && b < bodies_end(j); b++) {
		if (!b->mirror)
			continue;
		if ((rc = mirror_tend(b->mirror, j->now)) < 0 && rc != ERR_NOMEM) {
			say_note(j->c->say, "%s: %s", b->process->name, err_text());
			rc = 0;
		}
		while (rc == 0 && mirror_told(b->mirror, &f, what) == 1)
			rc = tell(j, &f, what, strncmp(what, "absorbed", 8) != 0);
	}
	return rc;
}

static int heal(struct inject *j)
{
	int rc = 0;

	j->healed = true;
	j->carry = 0;
	for (struct body *b = j->body; rc == 0 && b < bodies_end(j); b++) {
		victim_heal(&b->victim, j->now);
		if (b->mirror)
			rc = mirror_heal(b->mirror, j->now);
	}
	return rc < 0 ? rc : carry(j);
}

/* Can it still come to its end? */
static bool in_vain(struct inject *j)
{
	size_t lost = 0; /* learners */

	for (struct body *b = j->body; b < bodies_end(j); b++) {
		const struct crew_member *m = victim_member(&b->victim);
		bool wanted = !j->c->manifest || b->process->syncer;

		lost += b->learner && crew_hopeless(m);
		if (crew_hopeless(m) && (wanted || lost == j->out->meter.learners)) {
			char how[64];

			snprintf(j->out->why, sizeof j->out->why, "%s: %s: see %s", m->name, proc_how(how, &m->proc),
				 m->log);
			return true;
		}
	}
	return false;
}

/* One of a run that left before the end, whoever sent it away, is wanted back. */
static int look(struct inject *j)
{
	int rc;

	j->look = j->now + LOOK_EVERY;
	rc = meter_look(&j->out->meter);
	if (j->out->meter.headed)
		crew_hurry(&j->crew);
	for (struct body *b = j->body; rc == 0 && !j->crew.stopping && b < bodies_end(j); b++)
		if ((b->process->learner || b->process->syncer) && j->out->meter.phase != PHASE_DONE)
			crew_again(&j->crew, &j->crew.v[b->victim.member]);
	return rc;
}

static int ask(struct inject *j, enum inject_end end)
{
	int rc = j->healed ? 0 : heal(j);

	if (j->asked < 0) {
		j->out->end = end;
		j->asked = j->now;
	}
	crew_ask(&j->crew);
	return rc;
}

static int heed(struct inject *j, int s)
{
	if (s != SIGINT && s != SIGTERM && s != SIGHUP)
		return 0;
	if (j->out->signal && j->now - j->asked > REST) {
		crew_kill(&j->crew);
		return 0;
	}
	if (!j->out->signal)
		j->out->signal = s;
	return ask(j, INJECT_SIGNAL);
}

/* The time that those who are to leave have is not endless. */
static int hurry(struct inject *j)
{
	bool over = j->c->manifest && j->out->meter.headed && j->out->meter.phase == PHASE_DONE;
	int rc = 0;

	if (over && j->over < 0) {
		j->over = j->now;
		rc = heal(j);
	}
	if (over && j->asked < 0 && j->now - j->over > CREW_PATIENCE)
		rc = ask(j, INJECT_DONE);
	if (j->asked >= 0 && j->now - j->asked > CREW_PATIENCE)
		crew_kill(&j->crew);
	if (rc == 0 && j->asked < 0 && j->c->most > 0 && j->now >= j->c->most)
		rc = ask(j, INJECT_TIME);
	if (rc == 0 && j->asked < 0 && j->over < 0 && in_vain(j))
		rc = ask(j, INJECT_HOPELESS);
	return rc;
}

static bool finished(const struct inject *j)
{
	size_t done = 0;

	if (crew_running(&j->crew))
		return false;
	for (size_t i = 0; i < j->crew.n; i++)
		done += j->crew.v[i].state == CREW_DONE;
	return j->asked >= 0 || j->over >= 0 || (!j->c->manifest && done == j->crew.n);
}

static double due(struct inject *j, double victims)
{
	double t = crew_due(&j->crew, REST), next = victims;

	if (j->more && !j->healed && j->next.at < next)
		next = j->next.at;
	if (j->c->manifest && j->look < next)
		next = j->look;
	for (struct body *b = j->body; b < bodies_end(j); b++)
		if (b->mirror && j->carry < next)
			next = j->carry;
	return next - j->now < t ? next - j->now : t;
}

/* One turn: *victims is when the first of them wants to be seen to again. */
static int turn(struct inject *j, double *victims)
{
	double before = j->now;
	int rc;

	seconds(j);
	pass(j, before);
	rc = crew_tend(&j->crew);
	for (struct body *b = j->body; rc == 0 && b < bodies_end(j); b++)
		rc = notice(j, b);
	if (rc == 0)
		rc = strike_due(j);
	*victims = NEVER;
	for (struct body *b = j->body; !j->crew.stopping && b < bodies_end(j); b++) {
		double d = victim_tend(&b->victim, j->now);

		*victims = d < *victims ? d : *victims;
	}
	if (rc == 0)
		rc = carry(j);
	if (rc == 0 && j->c->manifest && j->now >= j->look)
		rc = look(j);
	return rc < 0 ? rc : hurry(j);
}

static void tell_progress(struct inject *j)
{
	uint64_t hits = 0;

	for (int k = 0; k < FAULT_KINDS; k++)
		hits += j->out->hit[k];
	say_progress(j->c->say, "%.0f s, %llu faults, %zu of %zu processes up, step %llu", j->now,
		     (unsigned long long)hits, crew_running(&j->crew), j->crew.n,
		     (unsigned long long)j->out->meter.step);
}

static int attend(struct inject *j)
{
	double victims = NEVER;
	int rc;

	j->begin = clock_now(&j->clock);
	seconds(j);
	rc = crew_start(&j->crew);
	for (struct body *b = j->body; rc == 0 && b < bodies_end(j); b++)
		rc = notice(j, b);
	while (rc == 0 && !finished(j)) {
		int s = proc_watch_wait(&j->watch, due(j, victims));

		rc = heed(j, s);
		if (rc == 0)
			rc = turn(j, &victims);
		if (say_due(j->c->say))
			tell_progress(j);
	}
	say_progress_end(j->c->say);
	return rc;
}

/* ---- the end ---- */

static void sum_up(struct inject *j)
{
	for (struct body *b = j->body; b < bodies_end(j); b++) {
		const struct crew_member *m = victim_member(&b->victim);
		struct inject_process_result *r = &j->out->process[b - j->body];

		if (m->state != CREW_DONE || proc_exit_status(&m->proc) != 0)
			proc_how(r->how, &m->proc);
	}
	j->out->seconds = j->now;
}

/* What was of use only meanwhile. */
static void clear_folders(const struct inject_conf *c)
{
	static const char *const below[] = { "copy", "spool", "clock" };
	char *path;

	for (size_t i = 0; i < sizeof below / sizeof *below; i++)
		if (asprintf(&path, "%s/%s", c->out, below[i]) >= 0) {
			rmdir(path);
			free(path);
		}
}

static void release(struct inject *j)
{
	for (struct body *b = j->body; j->body && b < bodies_end(j); b++) {
		mirror_close(b->mirror);
		if (b->clock_file)
			unlink(b->clock_file);
		for (size_t i = 1; b->clock_file && i < 3; i++)
			free((char *)(uintptr_t)b->words[i]);
		free(b->words);
		free(b->log);
		free(b->clock_file);
	}
	clear_folders(j->c);
	free(j->body);
	free(j->name);
	if (j->table >= 0)
		close(j->table);
	free(j->table_path);
}

/* After an error children are given the time to save. */
static void dismiss(struct inject *j)
{
	if (crew_running(&j->crew) && heal(j) < 0)
		say_note(j->c->say, "%s", err_text()); /* no reason to give them less time */
	crew_dismiss(&j->crew, &j->watch);
}

static int allocate(struct inject *j)
{
	size_t n = j->c->list->n;

	j->body = calloc(n, sizeof *j->body);
	j->name = calloc(n, sizeof *j->name);
	j->out->process = calloc(n, sizeof *j->out->process);
	j->out->learner = calloc(n, sizeof *j->out->learner);
	if (!j->body || !j->name || !j->out->process || !j->out->learner)
		return err_nomem();
	j->out->meter = (struct meter){ .learner = j->out->learner };
	if (j->c->manifest) {
		j->out->meter.quorum = j->c->manifest->quorum;
		j->out->meter.fragments = j->c->manifest->fragments;
	}
	return 0;
}

int inject_run(const struct inject_conf *c, struct inject_result *out)
{
	struct inject j = { .c = c, .out = out, .clock = clock_monotonic(), .over = -1, .asked = -1, .table = -1 };
	struct err_note note;
	int rc;

	*out = (struct inject_result){ .end = INJECT_DONE };
	crew_init(&j.crew, j.clock, c->say);
	j.crew.tied = SIGKILL;
	j.crew.dir = c->dir;
	rc = allocate(&j);
	if (rc == 0)
		rc = prepare(&j);
	if (rc == 0)
		rc = proc_watch_begin(&j.watch);
	if (rc == 0) {
		signal(SIGXFSZ, SIG_IGN); /* also in children: a write to a full disk fails, and does not kill */
		err_save(&note, attend(&j));
		dismiss(&j);
		sum_up(&j);
		proc_watch_end(&j.watch);
		rc = err_restore(&note);
	}
	if (rc == 0)
		rc = heal(&j);
	if (rc == 0 && c->manifest)
		rc = meter_end(&out->meter);
	crew_release(&j.crew);
	release(&j);
	return rc;
}

void inject_result_release(struct inject_result *r)
{
	meter_release(&r->meter);
	free(r->process);
	free(r->learner);
	*r = (struct inject_result){ .process = NULL };
}
