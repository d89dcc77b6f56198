/*
 * dl-run - a whole run on one machine: data, learners, syncer, result
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/opt.h"
#include "base/say.h"
#include "base/words.h"
#include "form/trust.h"
#include "io/crew.h"
#include "io/dir.h"
#include "io/fd.h"
#include "io/lock.h"
#include "io/newdir.h"
#include "io/tool.h"
#include "io/wake.h"
#include "round/asked.h"
#include "round/dataset.h"
#include "round/elsewhere.h"
#include "round/hire.h"
#include "round/rundir.h"
#include "round/view.h"
#include "round/warn.h"

#define LEARNERS_MAX 1000
#define LOOK_EVERY 1.0     /* seconds */
#define HEAD_PATIENCE 3.0 /* seconds that learners wait for the syncer's first head */
#define HEAD_EVERY 0.1
#define ONE_REQUEST 0.5    /* seconds: signals that come together are one */
#define BLIND_MOST 60      /* looks that may fail in a row */
#define OUTPUT_LIMIT ((size_t)1 << 16)

/* Options that are dl-init's: they make a run, and are held against one that is there. */
enum { SEED, LABEL, FRAGMENTS, INTERVAL, QUORUM, TAU, INVITE, GAMMA, RULE, EXPERTS, OUTER_LR, MOMENTUM, OUTLIER,
	ADOPT, DELTA, STEPS, TOKENS, EVERY, KEEP, LEASE, GIVEN };
static const struct asked given[GIVEN] = {
	[SEED] = { "--seed", "seed", "0" },
	[LABEL] = { "--label", "label", "" },
	[FRAGMENTS] = { "-P", "fragments" },
	[INTERVAL] = { "-H", "interval", .count = true },
	[QUORUM] = { "-K", "quorum" },
	[TAU] = { "--tau", "overlap" },
	[INVITE] = { "--invite", "invite" },
	[GAMMA] = { "--gamma", "grace" },
	[RULE] = { "--rule", "rule" },
	[EXPERTS] = { "--expert-weights", "expert_weights", "tokens" },
	[OUTER_LR] = { "--outer-lr", "outer_lr" },
	[MOMENTUM] = { "--momentum", "momentum" },
	[OUTLIER] = { "--outlier", "outlier" },
	[ADOPT] = { "--adopt", "adopt" },
	[DELTA] = { "--delta", "delta" },
	[STEPS] = { "--target-steps", "target_steps", .count = true },
	[TOKENS] = { "--target-tokens", "target_tokens", .count = true },
	[EVERY] = { "--checkpoint-every", "checkpoint_every", .count = true },
	[KEEP] = { "--keep", "keep" },
	[LEASE] = { "--lease", "lease", .time = true },
};

static struct {
	const char *run, *corpus, *conf, *key, *trust, *value[GIVEN];
	uint64_t learners, threads, batch, context;
	bool print, quiet, verbose;
} o;

#define PASSED(letter, name, which, arg, help) { letter, name, OPT_TEXT, &o.value[which], arg, help }
static const struct opt table[] = {
	{ 'm', "learners", OPT_U64, &o.learners, "M", "learners on this machine", 1, LEARNERS_MAX },
	{ 0, "corpus", OPT_TEXT, &o.corpus, "FILE", "train on this text or shard (the King James Bible)" },
	{ 'j', "threads", OPT_U64, &o.threads, "N", "threads of each learner (processors / M)", 1, 1024 },
	{ 0, "batch", OPT_U64, &o.batch, "N", "samples a step of each learner (the run's)", 1, 1 << 20 },
	{ 0, "context", OPT_U64, &o.context, "N", "tokens a sample (the run's)", 1, 1 << 24 },
	{ 'c', "conf", OPT_TEXT, &o.conf, "CONF", "new run: configuration, as for dl-init (tiny)" },
	PASSED(0, "seed", SEED, "N", "new run: seed of the initial values and of lots"),
	PASSED(0, "label", LABEL, "NAME", "new run: tells it from others of its kind"),
	PASSED('P', "fragments", FRAGMENTS, "N", "new run: pieces that are merged one by one"),
	PASSED('H', "interval", INTERVAL, "N", "new run: inner steps between merges of a fragment"),
	PASSED('K', "quorum", QUORUM, "N", "new run: answers a merge needs at least"),
	PASSED(0, "tau", TAU, "N", "new run: inner steps from call to merge"),
	PASSED(0, "invite", INVITE, "N", "new run: learners called for a round"),
	PASSED(0, "gamma", GAMMA, "X", "new run: part of the slack that late answers get"),
	PASSED(0, "rule", RULE, "RULE", "new run: rda or direct"),
	PASSED(0, "expert-weights", EXPERTS, "WEIGHTS", "new run: of answers for experts, tokens or routed"),
	PASSED(0, "outer-lr", OUTER_LR, "X", "new run: outer learning rate"),
	PASSED(0, "momentum", MOMENTUM, "X", "new run: outer momentum"),
	PASSED(0, "outlier", OUTLIER, "X", "new run: refuse answers with X times the median norm"),
	PASSED(0, "adopt", ADOPT, "RULE", "new run: overwrite, rebase or mix:A"),
	PASSED(0, "delta", DELTA, "ENC", "new run: encoding of answers"),
	PASSED(0, "target-steps", STEPS, "N", "new run: global steps to its end (decay_steps)"),
	PASSED(0, "target-tokens", TOKENS, "N", "new run: tokens of all learners to its end"),
	PASSED(0, "checkpoint-every", EVERY, "N", "new run: global steps between checkpoints"),
	PASSED(0, "keep", KEEP, "N", "new run: old versions of a fragment that stay"),
	PASSED(0, "lease", LEASE, "TIME", "new run: silence after which one counts as lost"),
	{ 0, "print", OPT_FLAG, &o.print, NULL, "prepare the run, print the commands, and leave" },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "secret key to sign with" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say more" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-run -m M [--corpus FILE] [-j N] [-c CONF] [--seed N] [-P N] [-H N] [-K N] [--tau N] "
		"[--target-steps N | --target-tokens N] ... RUN",
	"dl-run -m M RUN",
	"dl-run -m M --print ... RUN",
	NULL
};
static const struct opt_prog prog = {
	"dl-run", "Trains a model with M learners and a syncer on this machine, to its end.", synopsis, table
};
static struct say say;

struct work {
	struct key key;
	struct trust trust;
	struct newdir fresh; /* a new run, until it is there */
	struct lock lock;
	struct view *view;
	char *learn, *sync;          /* executables */
	char *root;                  /* the run directory from anywhere, when commands are printed; else NULL */
	char *corpus, *key_path, *trust_path; /* as seen from anywhere; NULL: not given */
	struct conf conf;            /* the whole configuration that was asked for; empty when none was */
	struct hire hire;
	struct crew crew;
	struct elsewhere elsewhere;
	struct proc_watch watch;
	bool full;                   /* the run's file system, at the last look */
	unsigned blind;              /* looks in a row that failed */
	int signal;                  /* that asked to stop */
	double asked;                /* when */
};

static int check_words(char **words, int n)
{
	if (n != 1)
		return err_set(ERR_USAGE, n ? "one run at a time, not '%s' too" : "which run? give a directory",
			       n ? words[1] : "");
	o.run = words[0];
	if (fd_named(o.run) < 0)
		return ERR_USAGE;
	if (!o.learners)
		return err_set(ERR_USAGE, "how many learners? give -m M");
	if (o.conf && strcmp(o.conf, "-") == 0)
		return err_set(ERR_USAGE, "option -c: the configuration is read more than once: give a file");
	if (o.value[STEPS] && o.value[TOKENS])
		return err_set(ERR_USAGE, "the run ends at --target-steps or at --target-tokens: one of them");
	return 0;
}

/* ---- a new run ---- */

/* The whole configuration, as dl-init prints it. */
static int print_conf(struct conf *conf)
{
	struct tool_command w = { .n = 0 };
	struct buf text = BUF_INIT;
	int rc;

	tool_add(&w, "dl-init");
	tool_add(&w, "--print");
	tool_add_pair(&w, "-c", o.conf);
	rc = tool_read(&text, w.v, OUTPUT_LIMIT);
	if (rc == 0)
		rc = conf_parse(conf, text.data, text.len);
	buf_release(&text);
	return rc;
}

/* Where nothing else is said, a run ends where its learning rate does. */
static int default_end(const struct conf *conf)
{
	const char *steps = conf_get(conf, "decay_steps"), *tokens = conf_get(conf, "decay_tokens");

	if (tokens && strcmp(tokens, "0") != 0) {
		o.value[TOKENS] = tokens;
		return 0;
	}
	if (!steps || strcmp(steps, "0") == 0)
		return err_set(ERR_USAGE, "a constant rate has no end (decay_steps 0): give --target-steps"
			       " or --target-tokens");
	o.value[STEPS] = steps;
	return 0;
}

static int call_init(const struct work *w)
{
	struct tool_command v = { .n = 0 };

	tool_add(&v, "dl-init");
	tool_add_pair(&v, "-r", w->fresh.temp);
	tool_add_pair(&v, "-c", o.conf);
	for (int i = 0; i < GIVEN; i++)
		tool_add_pair(&v, given[i].option, o.value[i]);
	tool_add_pair(&v, "-k", o.key);
	tool_add_pair(&v, "--trust", o.trust);
	return tool_run(v.v, -1, -1);
}

static bool has(const char *run, const char *name)
{
	char *path;
	bool there;

	if (asprintf(&path, "%s/%s", run, name) < 0)
		return false;
	there = access(path, F_OK) == 0;
	free(path);
	return there;
}

static bool is_there(const char *run)
{
	return has(run, RUNDIR_MANIFEST);
}

static int outrun(const char *run, int rc)
{
	return is_there(run) ? err_set(ERR_BUSY, "%s: another dl-run is at work", o.run) : rc;
}

/* What is no run may not be one any more. */
static int check_place(void)
{
	struct stat st;

	if (stat(o.run, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(ERR_USAGE, "%s: is no directory: give that of a run (text goes with --corpus)", o.run);
	if (!has(o.run, "global") && !has(o.run, RUNDIR_HEAD))
		return 0;
	return outrun(o.run, err_set(ERR_DATA, "%s: its manifest is not there: bring it back from any copy of the run,"
		" that of another machine or a backup, or begin a new run from its last checkpoint:"
		" dl-init -r NEW %s/ckpt/STEP.ckpt", o.run, o.run));
}

/* Messages are of the name that the run is to have. */
static int name_run(const struct work *w, int rc)
{
	const char *temp = strstr(err_text(), w->fresh.temp);
	char before[ERR_TEXT], after[ERR_TEXT];

	if (rc == 0 || !temp)
		return rc;
	snprintf(before, sizeof before, "%.*s", (int)(temp - err_text()), err_text());
	snprintf(after, sizeof after, "%s", temp + strlen(w->fresh.temp));
	return err_set(rc, "%s%s%s", before, o.run, after);
}

/* Under a temporary name, until it has its data, too: a run that could not be made leaves nothing behind. */
static int make_run(struct work *w)
{
	int rc = check_place();

	if (rc == 0)
		rc = dataset_check(o.corpus);
	if (rc == 0 && !o.value[STEPS] && !o.value[TOKENS])
		rc = default_end(&w->conf);
	if (rc == 0)
		rc = wake_catch();
	if (rc == 0 && (rc = newdir_open(&w->fresh, o.run)) < 0)
		rc = outrun(o.run, rc);
	return rc < 0 ? rc : name_run(w, call_init(w));
}

static int show_run(struct work *w)
{
	int rc;

	if (w->fresh.made && wake_requested())
		return err_set(ERR_IO, "interrupted");
	rc = w->fresh.made ? newdir_commit(&w->fresh) : 0;
	return rc < 0 ? outrun(w->fresh.path, rc) : 0;
}

/* ---- children ---- */

/* Member 0 is the syncer. */
static int hire(struct work *w)
{
	int rc;

	crew_init(&w->crew, clock_monotonic(), &say);
	rc = hire_all(&w->hire, &w->crew);
	if (rc == 0)
		rc = elsewhere_init(&w->elsewhere, w->crew.n);
	/* A head to begin with spares them steps that no round asks for. */
	for (size_t i = 1; rc == 0 && i < w->crew.n && !w->view->head.fragment; i++)
		crew_hold(&w->crew, &w->crew.v[i], HEAD_PATIENCE);
	return rc;
}

/* ---- watching ---- */

static double training_loss(const struct view *v)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < v->learners; i++)
		if (v->learner[i].life == VIEW_ALIVE && v->learner[i].beat.loss > 0) {
			sum += v->learner[i].beat.loss;
			n++;
		}
	return n ? sum / (double)n : 0;
}

static void tell_progress(const struct work *w)
{
	const struct view *v = w->view;
	char target[32] = "", loss[32] = "";

	if (w->signal) {
		say_progress(&say, "stopping: %zu still have to save", crew_running(&w->crew));
		return;
	}
	if (v->manifest.target_steps)
		snprintf(target, sizeof target, "/%" PRIu64, v->manifest.target_steps);
	if (training_loss(v) > 0)
		snprintf(loss, sizeof loss, ", training loss %.3f", training_loss(v));
	say_progress(&say, "step %" PRIu64 "%s, %.0f tokens/s%s, %zu of %" PRIu64 " learners alive", v->head.step,
		     target, v->tokens_per_s, loss, view_alive(v), o.learners);
}

static void tell_room(struct work *w)
{
	bool was = w->full;

	w->full = warn_room(w->view, was, o.run, &say);
	if (was && !w->full)
		crew_forgive(&w->crew);
}

static int code_of(const struct crew_member *m)
{
	int status = proc_exit_status(&m->proc);

	return m->state != CREW_FAILED ? ERR_DATA : status == 3 ? ERR_AUTH : ERR_USAGE;
}

/* Deaths for want of room tell nothing of those that die. */
static bool is_lost(const struct work *w, const struct crew_member *m)
{
	return w->full ? m->state == CREW_FAILED : crew_hopeless(m);
}

/* The syncer can't be done without, learners only all of them. */
static int check_hope(const struct work *w)
{
	const struct crew *c = &w->crew;
	size_t lost = 0, away = 0;

	if (is_lost(w, &c->v[0]))
		return err_set(code_of(&c->v[0]), "%s: no syncer: see %s/%s", o.run, o.run, c->v[0].log);
	for (size_t i = 1; i < c->n; i++) {
		lost += is_lost(w, &c->v[i]);
		away += elsewhere_for(&w->elsewhere, c, i) > CREW_PATIENCE; /* those of a former dl-run left */
	}
	if (away && lost + away + 1 == c->n)
		return err_set(ERR_BUSY, "%s: its learners are at work elsewhere, and none is left to this dl-run",
			       o.run);
	if (lost + 1 == c->n)
		return err_set(code_of(&c->v[1]), "%s: no learner: see %s/%s", o.run, o.run, c->v[1].log);
	return 0;
}

/* One that left before the end, whoever sent it away, is wanted back. */
static void call_back(struct work *w)
{
	for (size_t i = 0; i < w->crew.n && !view_over(w->view); i++)
		crew_again(&w->crew, &w->crew.v[i]);
}

static void heed(struct work *w, int s)
{
	if (s != SIGINT && s != SIGTERM && s != SIGHUP)
		return;
	if (!w->signal) {
		w->signal = s;
		w->asked = clock_seconds();
		crew_ask(&w->crew);
	} else if (clock_seconds() - w->asked > ONE_REQUEST) {
		crew_kill(&w->crew);
	}
}

static int look(struct work *w)
{
	int rc = view_read(w->view);

	if (rc < 0 && rundir_there() < 0)
		return err_at(ERR_DATA, "%s", o.run);
	if (rc < 0 && rc != ERR_NOMEM && ++w->blind < BLIND_MOST) {
		say_note(&say, "%s", err_text()); /* the run goes on whether we see it or not */
		return 0;
	}
	w->blind = 0;
	if (rc == 0)
		tell_room(w);
	if (rc == 0 && !w->signal) {
		if (w->view->head.fragment)
			crew_hurry(&w->crew);
		call_back(w);
		elsewhere_look(&w->elsewhere, &w->crew, 1, w->view, &say);
		rc = check_hope(w);
	}
	if (rc == 0 && say_due(&say))
		tell_progress(w);
	return rc;
}

/* Once the syncer is done, learners leave by themselves, or are told to. */
static void hurry(struct work *w, double *over)
{
	if (!view_over(w->view))
		return;
	if (*over < 0)
		*over = clock_seconds();
	if (clock_seconds() - *over > CREW_PATIENCE && !w->crew.stopping)
		crew_ask(&w->crew);
	if (clock_seconds() - *over > 2 * CREW_PATIENCE)
		crew_kill(&w->crew);
}

static bool finished(const struct work *w)
{
	return crew_running(&w->crew) == 0 && (w->signal || w->crew.stopping || view_over(w->view));
}

static int attend(struct work *w)
{
	double next = 0, over = -1;
	int rc = crew_start(&w->crew);

	while (rc == 0 && !finished(w)) {
		heed(w, proc_watch_wait(&w->watch, crew_due(&w->crew, fmax(0, next - clock_seconds()))));
		rc = crew_tend(&w->crew);
		if (rc == 0 && clock_seconds() >= next) {
			rc = look(w);
			next = clock_seconds() + (w->view->head.fragment ? LOOK_EVERY : HEAD_EVERY);
		}
		if (w->signal && clock_seconds() - w->asked > CREW_PATIENCE)
			crew_kill(&w->crew);
		hurry(w, &over);
	}
	say_progress_end(&say);
	return rc;
}

/* ---- the end ---- */

/* The lines of dl-eval for the last checkpoint, under its path. */
static int report(const struct work *w)
{
	char ckpt[RUNDIR_PATH], valid[DATASET_PATH], shown[512];
	struct tool_command v = { .n = 0 };
	struct buf text = BUF_INIT;
	int rc;

	if (access(rundir_ckpt(ckpt, w->view->head.step), F_OK) < 0)
		return err_set(ERR_IO, "%s/%s: not there: dl-sync -r %s makes it again", o.run, ckpt, o.run);
	tool_add(&v, "dl-eval");
	tool_add_pair(&v, "-d", dataset_valid(valid, (unsigned)o.learners));
	tool_add_count(&v, "-B", o.batch);
	tool_add_count(&v, "-T", o.context);
	tool_add_pair(&v, "-k", w->key_path);
	tool_add_pair(&v, "--trust", w->trust_path);
	tool_add(&v, ckpt);
	rc = tool_read(&text, v.v, OUTPUT_LIMIT);
	if (rc == 0) {
		say_escape(shown, sizeof shown, o.run);
		printf("checkpoint     %s%s%s\n%s", shown, o.run[strlen(o.run) - 1] == '/' ? "" : "/", ckpt, text.data);
	}
	buf_release(&text);
	return rc;
}

static int find_program(char **out, const char *name)
{
	char *found;
	int rc = proc_find(&found, name);

	if (rc < 0)
		return rc;
	rc = rundir_absolute(found, out);
	free(found);
	return rc;
}

/* Places that the user, or the environment, names from here: those who work in the run directory see others. */
static int make_absolute(struct work *w)
{
	static const char *const variables[] = { "DL_KEY", "DL_TRUST", "HOME", "TMPDIR" };
	int rc = o.print ? rundir_absolute(o.run, &w->root) : 0;

	if (rc == 0 && o.corpus)
		rc = rundir_absolute(o.corpus, &w->corpus);
	if (rc == 0 && o.key)
		rc = rundir_absolute(o.key, &w->key_path);
	if (rc == 0 && o.trust)
		rc = rundir_absolute(o.trust, &w->trust_path);
	for (size_t i = 0; rc == 0 && i < sizeof variables / sizeof *variables; i++)
		rc = rundir_absolute_variable(variables[i]);
	return rc;
}

static int prepare(struct work *w)
{
	int rc = make_absolute(w);

	if (rc == 0)
		rc = find_program(&w->learn, "dl-learn");
	if (rc == 0)
		rc = find_program(&w->sync, "dl-sync");
	w->hire = (struct hire){ w->learn, w->sync, w->root, w->key_path, w->trust_path,
				 o.learners, o.threads, o.batch, o.context, NULL };
	if (rc == 0 && o.print)
		rc = hire_printable(&w->hire);
	if (rc == 0)
		rc = trust_signer(&w->key, o.key, o.trust, &say);
	return rc < 0 ? rc : trust_load(&w->trust, o.trust, &w->key);
}

static int make_log(void)
{
	if (access(HIRE_LOG, F_OK) == 0 && !dir_is(HIRE_LOG))
		return err_set(ERR_DATA, "%s/" HIRE_LOG ": is no directory, and what learners and syncer say belongs in"
			" one: give it another name", o.run);
	return dir_make(HIRE_LOG, 0777) < 0 ? err_at(ERR_IO, "%s", o.run) : 0;
}

/* Into the run directory, made when it is not there. */
static int enter(struct work *w)
{
	bool old = is_there(o.run);
	int rc = 0;

	if (!old || o.conf) /* now, while a relative path of -c still means the same */
		rc = print_conf(&w->conf);
	if (rc == 0 && !old)
		rc = make_run(w);
	if (rc == 0)
		rc = rundir_enter(old ? o.run : w->fresh.temp);
	if (rc == 0)
		rc = make_log();
	if (rc == 0 && (rc = lock_take(&w->lock, HIRE_LOG "/dl-run")) < 0)
		rc = err_at(rc, rc == ERR_BUSY ? "%s: another dl-run is at work" : "%s", o.run);
	if (rc == 0)
		rc = view_open(&w->view, &w->trust, clock_monotonic());
	if (rc == 0 && old)
		rc = asked_options(given, o.value, GIVEN, &w->view->manifest);
	if (rc == 0 && old && o.conf)
		rc = asked_conf(&w->conf, o.conf, &w->view->manifest);
	return rc;
}

static int check_context(const struct work *w)
{
	const uint32_t most = w->view->manifest.model.context;

	return o.context <= most ? 0 : err_set(ERR_USAGE, "option --context: %" PRIu64 " is more than the model's %"
		PRIu32, o.context, most);
}

static int make_data(const struct work *w)
{
	const struct view *v = w->view;
	const struct model_conf *model = &v->manifest.model;
	const struct dataset d = { w->corpus, model, (unsigned)o.learners, o.context ? o.context : model->context,
				   view_begun(v), w->key_path, &w->trust, &say };

	return dataset_make(&d);
}

static int run(struct work *w)
{
	int rc;

	if (!o.print)
		signal(SIGPIPE, SIG_IGN); /* a reader of our words who goes away does not end the run */
	rc = prepare(w);
	if (rc == 0)
		rc = enter(w);
	if (rc == 0)
		rc = check_context(w);
	if (rc == 0)
		rc = view_read(w->view);
	if (rc == 0)
		rc = make_data(w);
	if (rc == 0)
		rc = show_run(w);
	if (rc == 0 && !view_over(w->view))
		warn_quorum(&w->view->manifest, o.learners, o.run, &say);
	if (rc == 0 && (o.print || !view_over(w->view)))
		rc = hire(w);
	if (rc == 0 && o.print)
		return (rc = hire_print(&w->crew, stdout)) < 0 ? rc : fd_close_output();
	if (rc == 0 && !view_over(w->view)) {
		rc = proc_watch_begin(&w->watch);
		if (rc == 0) {
			struct err_note note;

			err_save(&note, attend(w));
			crew_dismiss(&w->crew, &w->watch); /* after an error, too, they are given the time to save */
			crew_kill(&w->crew);
			proc_watch_end(&w->watch);
			rc = err_restore(&note);
			if (rc == 0 && !w->signal)
				warn_pace(w->view, o.run, &say);
		}
	}
	if (rc == 0 && !w->signal) {
		signal(SIGPIPE, SIG_DFL); /* one of the result is no loss but his */
		rc = report(w);
	}
	return rc < 0 || w->signal ? rc : fd_close_output();
}

static void release(struct work *w)
{
	crew_release(&w->crew);
	hire_release(&w->hire);
	elsewhere_release(&w->elsewhere);
	view_close(w->view);
	lock_release(&w->lock);
	newdir_abort(&w->fresh);
	trust_release(&w->trust);
	key_wipe(&w->key);
	conf_release(&w->conf);
	free(w->learn);
	free(w->sync);
	free(w->root);
	free(w->corpus);
	free(w->key_path);
	free(w->trust_path);
}

/* What goes on with the run: without options that count for this start only, few words do. */
static void tell_stop(void)
{
	bool other = o.threads || o.batch || o.context || o.key || o.trust;
	struct buf name = BUF_INIT;

	if (other || words_quote(&name, o.run) < 0)
		say_warn(&say, "stopped: the same command goes on");
	else
		say_warn(&say, "stopped: dl-run -m %" PRIu64 " %s goes on", o.learners, name.data);
	buf_release(&name);
}

int main(int argc, char **argv)
{
	struct work w = { .lock = LOCK_INIT };
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0)
		rc = check_words(words, n);
	if (rc == 0)
		rc = run(&w);
	if (rc == 0 && w.signal)
		tell_stop();
	release(&w);
	if (rc == 0)
		wake_die_by(w.signal); /* all is saved */
	return rc < 0 ? wake_leave(say_error(&say, rc)) : 0;
}
