/*
 * dl-sync - the syncer of a run directory: calls, quorum, merge, publish
 */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/say.h"
#include "io/dir.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"
#include "round/assemble.h"
#include "round/replay.h"
#include "round/rundir.h"
#include "round/syncer.h"

#define HEAP (64 << 20)
#define THREADS 4 /* more only on request: each takes memory */

static struct {
	bool once, take_over, replay, json, quiet, verbose;
	const char *run, *checkpoint, *key, *trust;
	double deadline, lasting;
	uint64_t threads;
} o;

static const struct opt table[] = {
	{ 'r', "run", OPT_TEXT, &o.run, "RUN", "the run directory" },
	{ 0, "once", OPT_FLAG, &o.once, NULL, "do what is due, and leave: status 4 when nothing is" },
	{ 0, "deadline", OPT_SECONDS, &o.deadline, "TIME", "give up, status 4, when nothing is merged for TIME" },
	{ 0, "for", OPT_SECONDS, &o.lasting, "TIME", "leave after TIME" },
	{ 0, "take-over", OPT_FLAG, &o.take_over, NULL, "take the place of a syncer that lives, or may" },
	{ 0, "checkpoint", OPT_TEXT, &o.checkpoint, "FILE", "only write a checkpoint of where the run is" },
	{ 0, "replay", OPT_FLAG, &o.replay, NULL, "only make every version anew, and compare" },
	{ 0, "json", OPT_FLAG, &o.json, NULL, "what --replay found as one JSON object" },
	{ 'j', "threads", OPT_U64, &o.threads, "N", "threads of a merge; the result is the same for any number",
	  1, 1024 },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "secret key to sign with" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say what happens, a line each round" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-sync -r RUN [--once] [--deadline TIME] [--for TIME] [--take-over] [-j N]",
	"dl-sync -r RUN --checkpoint FILE",
	"dl-sync -r RUN --replay [--json] [-j N]",
	NULL
};
static const struct opt_prog prog = {
	"dl-sync", "Calls for the work of learners, merges it and publishes what comes of it.", synopsis, table
};
static struct say say;

struct sync {
	struct key key;
	struct trust trust;
	struct pool *pool;
	struct manifest manifest;
	char *checkpoint; /* path from anywhere */
	struct output out;
};

static int check_options(int n)
{
	int modes = o.replay + (o.checkpoint != NULL);

	if (n > 0)
		return err_set(ERR_USAGE, "no operands are wanted, see -h");
	if (!o.run)
		return err_set(ERR_USAGE, "which run? give it with -r");
	if (modes > 1 || (modes && (o.once || o.take_over || o.deadline > 0 || o.lasting > 0)))
		return err_set(ERR_USAGE, "--replay and --checkpoint stand alone");
	if (o.json && !o.replay)
		return err_set(ERR_USAGE, "--json goes with --replay");
	if (o.once && (o.deadline > 0 || o.lasting > 0))
		return err_set(ERR_USAGE, "--once does not wait, so --deadline and --for mean nothing");
	if (!o.threads)
		o.threads = (uint64_t)(pool_cpus() < THREADS ? pool_cpus() : THREADS);
	return key_apart(o.key, o.checkpoint);
}

static int run_rounds(struct sync *y)
{
	struct syncer_conf conf = { .manifest = &y->manifest, .user = &y->trust, .key = &y->key,
		.pool = y->pool, .say = &say, .clock = clock_monotonic(), .once = o.once,
		.take_over = o.take_over, .deadline = o.deadline, .lasting = o.lasting };
	struct syncer *s = NULL;
	int rc;

	signal(SIGPIPE, SIG_IGN); /* a reader of our words who goes away does not end the run */
	rc = syncer_open(&s, &conf);
	if (rc == 0)
		rc = syncer_run(s);
	syncer_close(s);
	return rc;
}

/* A checkpoint takes no name where the run's programs keep what they read again. */
static int spare_run(const char *path)
{
	static const char *const own[] = { "global", "syncer", "learner" };
	char *target;
	int rc = 0;

	if (atomic_target(path, &target) < 0)
		return 0; /* output_open says why */
	strrchr(target, '/')[1] = '\0'; /* from anywhere, so there is one */
	for (size_t i = 0; rc == 0 && i < sizeof own / sizeof *own; i++)
		if (dir_holds(own[i], target))
			rc = err_set(ERR_USAGE, "%s: is in %s/ of the run, where only its own files go: give another "
				"place", o.checkpoint, own[i]);
	free(target);
	return rc;
}

static int write_checkpoint(struct sync *y)
{
	const char *name = output_name(o.checkpoint);
	digest id;
	int rc = output_apart(y->checkpoint, "the output", RUNDIR_MANIFEST, "an input");

	if (rc == 0)
		rc = output_apart(y->checkpoint, "the output", RUNDIR_HEAD, "an input");
	if (rc == 0 && strcmp(y->checkpoint, "-") != 0)
		rc = spare_run(y->checkpoint);
	if (rc == 0)
		rc = output_open(&y->out, y->checkpoint, "a checkpoint", NULL, 0);
	if (rc == 0)
		rc = assemble_run(y->out.fd, name, &y->manifest, &y->trust, &y->key, &id);
	return rc < 0 ? rc : output_commit(&y->out);
}

static int replay(struct sync *y)
{
	struct replay_conf conf = { .manifest = &y->manifest, .user = &y->trust, .pool = y->pool,
		.newest = true };
	struct replay_report report;
	struct buf text = BUF_INIT;
	struct err_note note;
	int rc = replay_run(&conf, &report, &say), told;

	err_save(&note, rc);
	told = replay_format(&report, o.json, &text);
	if (told == 0 && !o.quiet)
		told = fd_write_output(text.data, text.len);
	if (told == 0)
		told = fd_close_output();
	buf_release(&text);
	return rc < 0 ? err_restore(&note) : told;
}

static int open_keys(struct sync *y)
{
	int rc;

	if (o.replay)
		return trust_reader(&y->trust, o.key, o.trust);
	rc = trust_signer(&y->key, o.key, o.trust, &say);
	return rc < 0 ? rc : trust_load(&y->trust, o.trust, &y->key);
}

static int run(struct sync *y)
{
	int rc;

	if ((rc = open_keys(y)) < 0 || (rc = pool_open(&y->pool, (int)o.threads)) < 0 || (rc = wake_catch()) < 0 ||
		(o.checkpoint && (rc = rundir_absolute(o.checkpoint, &y->checkpoint)) < 0) ||
		(rc = rundir_enter(o.run)) < 0 || (rc = manifest_load(&y->manifest, &y->trust)) < 0)
		return rc;
	fd_raise_limit(); /* every delta holds a descriptor while it is merged, and every fragment one */
	if (o.replay)
		return replay(y);
	return o.checkpoint ? write_checkpoint(y) : run_rounds(y);
}

static void release(struct sync *y)
{
	output_abort(&y->out);
	manifest_release(&y->manifest);
	free(y->checkpoint);
	pool_close(y->pool);
	trust_release(&y->trust);
	key_wipe(&y->key);
}

/* Every merge takes the same memory, and gives it back: to get new pages each time would cost as much as
 * merging small fragments. */
static void keep_heap(void)
{
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, HEAP);
	mallopt(M_TRIM_THRESHOLD, 2 * HEAP);
#endif
}

int main(int argc, char **argv)
{
	struct sync y = { .out = OUTPUT_INIT };
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	keep_heap();
	if (rc == 0 && (rc = check_options(n)) == 0)
		rc = run(&y);
	release(&y);
	if (o.once && o.quiet && (rc == ERR_AGAIN || rc == ERR_BUSY))
		return err_status(rc); /* for cron, which mails what is said */
	return rc < 0 ? say_error(&say, rc) : 0;
}
