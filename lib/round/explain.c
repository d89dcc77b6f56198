#include "round/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "round/rundir.h"

#define NAMES_MOST 20 /* learners told of one by one for a round */

char *explain_seconds(char out[32], double s)
{
	if (s < 120)
		snprintf(out, 32, "%.0f s", s);
	else if (s < 7200)
		snprintf(out, 32, "%.0f min", s / 60);
	else
		snprintf(out, 32, "%.1f h", s / 3600);
	return out;
}

/* As one word for a shell. */
static int put_word(struct buf *out, const char *word)
{
	const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=@%+-";
	int rc;

	if (*word && word[strspn(word, plain)] == '\0')
		return buf_str(out, word);
	rc = buf_str(out, "'");
	for (; rc == 0 && *word; word++)
		rc = *word == '\'' ? buf_str(out, "'\\''") : buf_add(out, word, 1);
	return rc < 0 ? rc : buf_str(out, "'");
}

/* A command, on a line of its own. */
static int put_command(struct buf *out, const char *program, const char *run, const char *rest)
{
	int rc = buf_fmt(out, "    %s -r ", program);

	if (rc == 0)
		rc = put_word(out, run);
	return rc < 0 ? rc : buf_fmt(out, "%s\n", rest);
}

/* ---- one learner and one round ---- */

/* What an alive learner has still to do. */
static int put_alive(struct buf *out, const struct view_call *c, const struct view_learner *l)
{
	const struct beat_fragment *f = &l->beat.fragment[c->fragment];

	if (l->beat.state == BEAT_IDLE && f->steps == 0)
		return buf_str(out, "is idle and has no step to answer with");
	if (f->version < c->version)
		return buf_fmt(out, "is still at version %" PRIu64 " of it", f->version);
	if (f->steps == 0)
		return buf_str(out, "has done no step since it took that version");
	return buf_fmt(out, "has done %" PRIu64 " steps: its answer is under way", f->steps);
}

static int put_missing(struct buf *out, const struct view_call *c, const struct view_learner *l)
{
	double silent = l->lost > l->silent ? l->lost : l->silent;
	char time[32];

	if (l->trouble[0] && l->life != VIEW_ALIVE)
		return buf_fmt(out, "its beat does not count: %s", l->trouble);
	switch (l->life) {
	case VIEW_ALIVE:
		return put_alive(out, c, l);
	case VIEW_SILENT:
		return buf_fmt(out, "silent for %s%s", explain_seconds(time, silent),
			       l->lost >= 0 ? ", and lost for the syncer" : "");
	case VIEW_GONE:
		return buf_str(out, "has left");
	case VIEW_ABSENT:
		return buf_str(out, "has never been heard of");
	default:
		return buf_fmt(out, "has not moved in the %s that were looked at",
			       explain_seconds(time, l->silent));
	}
}

static int put_learner(struct buf *out, const struct view *v, const struct view_call *c, size_t i)
{
	const struct view_learner *l = &v->learner[i];
	int rc = buf_fmt(out, "  %-16s ", l->name);

	if (rc == 0)
		rc = c->answered[i] ? buf_str(out, "answered") : put_missing(out, c, l);
	return rc < 0 ? rc : buf_str(out, "\n");
}

static bool able(const struct view *v, const struct view_call *c, size_t i)
{
	return c->answered[i] || (c->invited[i] && v->learner[i].life == VIEW_ALIVE);
}

/* One that left or was never there matters only when there are too few without it. */
static bool worth_telling(const struct view *v, const struct view_call *c, size_t i, bool few)
{
	enum view_life life = v->learner[i].life;

	return c->invited[i] && (few || c->answered[i] || (life != VIEW_GONE && life != VIEW_ABSENT));
}

/* ---- one round ---- */

static int put_reason(struct buf *out, const struct view *v, const struct view_call *c, size_t possible)
{
	char base[RUNDIR_PATH], time[32];
	unsigned k = v->manifest.quorum;

	if (v->syncer != VIEW_ALIVE)
		return buf_str(out, "  no syncer is at work that would merge it\n");
	if (access(rundir_fragment(base, c->fragment, c->version), F_OK) < 0)
		return buf_fmt(out, "  %s is not there: bring it back\n", base);
	if (c->answers >= k && v->head.times.window > 0)
		return buf_fmt(out, "  it has its quorum, and is merged when the grace window of %.3g s is over or "
			       "all have answered\n", v->head.times.window);
	if (c->answers >= k)
		return buf_str(out, "  it has its quorum: the merge is under way\n");
	if (possible < k && v->head.phase == PHASE_CLOSING)
		return buf_fmt(out, "  it can't have its quorum, and needs none: the run is at its end, and what is "
			       "there is merged when it has waited for a lease, %s\n",
			       explain_seconds(time, v->manifest.lease));
	if (possible < k)
		return buf_fmt(out, "  it can't have its quorum: %zu of the %u learners it needs are alive\n",
			       possible, k);
	return buf_fmt(out, "  it waits for %zu more of those that are alive\n", k - c->answers);
}

static int put_call(struct buf *out, const struct view *v, const struct view_call *c, bool *few)
{
	size_t possible = 0, told = 0, most;
	char time[32] = "";
	int rc;

	for (size_t i = 0; i < v->learners; i++)
		possible += able(v, c, i);
	*few = possible < v->manifest.quorum;
	most = *few ? v->learners : NAMES_MOST;
	rc = buf_fmt(out, "round %" PRIu64 ": fragment f%03u from version %" PRIu64 ", %zu of %u answers%s%s\n",
		     c->round, c->fragment, c->version, c->answers, v->manifest.quorum,
		     c->open >= 0 ? ", called at least " : "",
		     c->open >= 0 ? explain_seconds(time, c->open) : "");
	if (rc == 0 && c->open >= 0) { /* behind the time */
		out->len--;
		rc = buf_str(out, " ago\n");
	}
	if (rc == 0)
		rc = put_reason(out, v, c, possible);
	for (size_t i = 0; rc == 0 && i < v->learners && told < most; i++)
		if (worth_telling(v, c, i, *few)) {
			rc = put_learner(out, v, c, i);
			told++;
		}
	return rc;
}

/* ---- the run ---- */

static int put_state(struct buf *out, const struct view *v)
{
	const struct head *h = &v->head;
	char time[32];
	int rc;

	if (!h->fragment && v->head_trouble.code < 0)
		return buf_str(out, "the head can't be read\n");
	if (v->headless)
		return buf_str(out, "the head is not there, though the tape tells that the run has begun: the next "
			"syncer makes it again\n");
	if (!h->fragment)
		return buf_str(out, "no syncer has begun this run yet\n");
	rc = buf_fmt(out, "%s at global step %" PRIu64, phase_name(h->phase), h->step);
	if (rc == 0 && v->manifest.target_steps)
		rc = buf_fmt(out, " of %" PRIu64, v->manifest.target_steps);
	if (rc == 0)
		rc = buf_fmt(out, ", %" PRIu64 " merges; %zu of %zu learners alive; ", v->merges, view_alive(v),
			     v->learners);
	if (rc < 0 || h->phase == PHASE_DONE)
		return rc < 0 ? rc : buf_str(out, "it is over\n");
	if (v->syncer == VIEW_ALIVE)
		return buf_fmt(out, "syncer alive, epoch %" PRIu64 "\n", h->epoch);
	return buf_fmt(out, "syncer of epoch %" PRIu64 " not moved for %s\n", h->epoch,
		       explain_seconds(time, v->syncer_silent));
}

/* Nobody is called while there are fewer than the quorum, but at the end of the run. */
static bool too_few(const struct view *v)
{
	return v->head.phase == PHASE_RUNNING && view_alive(v) < v->manifest.quorum;
}

static int put_no_calls(struct buf *out, const struct view *v)
{
	if (v->syncer != VIEW_ALIVE)
		return buf_str(out, "no round is open, and nobody is there to call for one\n");
	if (view_alive(v) == 0)
		return buf_str(out, "no round is open: no learner is alive to be called\n");
	if (too_few(v))
		return buf_fmt(out, "no round is open: a quorum needs %u learners, and %zu %s alive\n",
			       v->manifest.quorum, view_alive(v), view_alive(v) == 1 ? "is" : "are");
	return buf_fmt(out, "no round is open: a fragment is called for when the median learner has trained it for "
		       "%" PRIu64 " steps\n", v->manifest.interval);
}

/* At most *n of those that died, or of those that left or were never there; less by so many. */
static int put_start_known(struct buf *out, const struct view *v, const char *run, bool died, size_t *n)
{
	char rest[KEY_NAME + 32];
	int rc = 0;

	for (size_t i = 0; rc == 0 && *n && i < v->learners; i++) {
		enum view_life life = v->learner[i].life;

		if (life == VIEW_ALIVE || died != (life == VIEW_SILENT || life == VIEW_UNKNOWN))
			continue;
		snprintf(rest, sizeof rest, " -i %s -d SHARD", v->learner[i].name);
		rc = put_command(out, "dl-learn", run, rest);
		--*n;
	}
	return rc;
}

/* As many as the quorum lacks, those that are known by their names. */
static int put_start_learners(struct buf *out, const struct view *v, const char *run)
{
	char rest[96] = " -i NAME -d SHARD";
	size_t n = too_few(v) ? v->manifest.quorum - view_alive(v) : 1;
	int rc = put_start_known(out, v, run, true, &n);

	if (rc == 0)
		rc = put_start_known(out, v, run, false, &n);
	if (rc < 0 || n == 0)
		return rc;
	if (n > 1)
		snprintf(rest, sizeof rest, " -i NAME -d SHARD   # %zu of these, each with a NAME of its own", n);
	return put_command(out, "dl-learn", run, rest);
}

/* How many learners the last dl-run started; 0: it is none of its runs. */
static size_t of_dl_run(const struct view *v)
{
	size_t n = 0;
	unsigned number;

	if (access("log/dl-run.lock", F_OK) < 0)
		return 0;
	for (size_t i = 0; i < v->learners; i++)
		n += sscanf(v->learner[i].name, "learner-%u", &number) == 1;
	return n;
}

static int put_remedy(struct buf *out, const struct view *v, const char *run, bool few)
{
	bool no_syncer = v->syncer != VIEW_ALIVE;
	bool no_learner = (few && v->head.phase == PHASE_RUNNING) || view_alive(v) == 0;
	size_t n;
	int rc = 0;

	if (no_syncer || no_learner)
		rc = buf_str(out, "to go on:\n");
	if (rc == 0 && no_syncer && view_alive(v) == 0 && (n = of_dl_run(v))) {
		if (n < v->manifest.quorum) /* so many were too few */
			n = v->manifest.quorum;
		rc = buf_fmt(out, "    dl-run -m %zu ", n);
		if (rc == 0)
			rc = put_word(out, run);
		return rc < 0 ? rc : buf_str(out, "\n");
	}
	if (rc == 0 && no_syncer)
		rc = put_command(out, "dl-sync", run, "");
	if (rc == 0 && no_learner)
		rc = put_start_learners(out, v, run);
	if (rc == 0 && few && !no_syncer && v->head.phase == PHASE_RUNNING && v->manifest.target_steps)
		rc = buf_str(out, "or wait for the end of the run: when all that are there have trained up to the "
			"target, what is there is merged, quorum or not\n");
	return rc;
}

static bool is_called(const struct view *v, unsigned fragment)
{
	bool called = false;

	for (size_t i = 0; i < v->calls; i++)
		called = called || v->call[i].fragment == fragment;
	return called;
}

/* Newest versions that are not there, but for those that an open round is told to lack. */
static int put_lost_versions(struct buf *out, const struct view *v)
{
	char path[RUNDIR_PATH];
	int rc = 0;

	for (unsigned p = 0; rc == 0 && v->head.fragment && p < v->head.fragments; p++)
		if (access(rundir_fragment(path, p, v->head.fragment[p].version), F_OK) < 0 &&
		    !(is_called(v, p) && v->syncer == VIEW_ALIVE))
			rc = buf_fmt(out, "%s, the newest version of its fragment, is not there: the syncer makes it"
				" again from the answers to it, if they are; else bring it back\n", path);
	return rc;
}

static int put_room(struct buf *out, const struct view *v)
{
	if (!view_full(v))
		return 0;
	return buf_fmt(out, "the file system of the run has %.3g MiB left, too little for another version of a "
		"fragment: its programs wait for room\n", (double)v->room / (1 << 20));
}

int explain_run(struct buf *out, const struct view *v, const char *run)
{
	bool any_few = view_alive(v) > 0 && too_few(v);
	int rc = put_state(out, v);

	if (rc == 0)
		rc = put_lost_versions(out, v);
	if (rc < 0 || view_over(v))
		return rc;
	rc = put_room(out, v);
	if (rc < 0)
		return rc;
	if (v->calls == 0 && !v->headless) /* it had them */
		rc = put_no_calls(out, v);
	for (size_t i = 0; rc == 0 && i < v->calls; i++) {
		bool few;

		rc = put_call(out, v, &v->call[i], &few);
		any_few = any_few || few;
	}
	if (rc == 0 && v->trouble)
		rc = buf_fmt(out, "%" PRIu64 " file%s could not be read: %s\n", v->trouble,
			     v->trouble == 1 ? "" : "s", v->trouble_why);
	return rc < 0 ? rc : put_remedy(out, v, run, any_few);
}
