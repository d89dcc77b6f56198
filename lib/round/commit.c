#include "round/commit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/content.h"
#include "io/place.h"
#include "round/epoch.h"
#include "round/merging.h"
#include "round/rundir.h"

#define READ_TRIES 3 /* of answers that this machine fails to read */

/* What is open while a commit is made. */
struct work {
	const struct commit_conf *conf;
	uint64_t epoch; /* in which the file is made */
	bool again;
	int base_fd;
	struct frame_reader *base;
	struct meta meta;
	char path[2][RUNDIR_PATH]; /* of base, and of what is made: fragment, ... */
	char outer_path[RUNDIR_PATH], prior_path[RUNDIR_PATH]; /* prior_path: empty when there is none */
	char (*name)[RUNDIR_PATH]; /* (n) of the deltas */
	char (*why)[ERR_TEXT];     /* (n) */
	struct answers_input *in;  /* (n) */
	size_t n;
	struct answers answers;
	struct outer prior;
	struct merging *merging;
	struct atomic file, momentum;
};

void commit_release(struct commit *c)
{
	free(c->answer);
	*c = (struct commit){ .round = 0 };
}

static const char *run_of(const struct work *w)
{
	return w->conf->manifest->meta.run;
}

static int reached(const struct work *w, enum commit_stage stage)
{
	return w->conf->at ? w->conf->at(w->conf->ctx, stage) : 0;
}

/* ---- what it is made from ---- */

static int open_base(struct work *w, const struct commit *c)
{
	digest id;
	int rc = place_open(rundir_fragment(w->path[0], c->fragment, c->version - 1), &w->base_fd);

	if (rc == 0)
		return err_set(ERR_DATA, "%s: not there", w->path[0]);
	if (rc < 0 || (rc = frame_open(&w->base, w->base_fd, w->path[0], w->conf->makers, NULL)) < 0 ||
		(rc = frame_seekable(w->base)) < 0 || (rc = frame_id(w->base, &id)) < 0)
		return rc;
	if (memcmp(&id, &c->base, sizeof id) != 0)
		return err_set(ERR_AUTH, "%s: is not the one that was published", w->path[0]);
	if ((rc = meta_read(&w->meta, frame_header(w->base))) < 0)
		return err_at(rc, "%s", w->path[0]);
	return 0;
}

/* The momentum that goes with the base. Version 0 has none. */
static int open_prior(struct work *w, const struct commit *c)
{
	int fd, rc;

	if (c->version == 1 || c->fresh)
		return 0;
	rc = place_open(rundir_outer(w->prior_path, c->fragment, c->version - 1), &fd);
	if (rc > 0)
		return outer_take(&w->prior, fd, w->prior_path, w->base, &w->meta, w->conf->makers);
	return rc == 0 ? err_set(ERR_DATA, "%s: not there", w->prior_path) : rc;
}

static int open_deltas(struct work *w, const struct commit *c)
{
	size_t n = c->answers;

	w->name = calloc(n + 1, sizeof *w->name);
	w->why = calloc(n + 1, sizeof *w->why);
	w->in = calloc(n + 1, sizeof *w->in);
	if (!w->name || !w->why || !w->in)
		return err_nomem();
	for (w->n = 0; w->n < n; w->n++) {
		struct answers_input *in = &w->in[w->n];
		int rc;

		in->name = rundir_delta(w->name[w->n], c->answer[w->n].learner, c->fragment, c->round);
		in->why = w->why[w->n];
		in->fd = -1;
		if ((rc = place_open(in->name, &in->fd)) > 0)
			continue;
		in->fd = -1;
		if (rc < 0 && rc != ERR_DATA)
			return rc;
		if (w->again)
			return err_set(ERR_DATA, "%s: not there any more", in->name);
		snprintf(w->why[w->n], sizeof w->why[w->n], "%s", rc ? err_text() : "not there any more");
	}
	return 0;
}

static int open_answers(struct work *w, const struct commit *c)
{
	struct answers_conf conf = { .clock = clock_monotonic() };
	struct guard_round round;
	int rc;

	if ((rc = merging_fragment_round(&round, w->base, &w->meta, c->round)) < 0 ||
		(rc = open_deltas(w, c)) < 0)
		return rc;
	rc = answers_open(&w->answers, &conf, w->in, w->n, &round,
		w->again ? NULL : w->conf->learners, w->conf->pool);
	for (size_t i = 0; i < w->n && rc == 0; i++)
		if (w->answers.v[i].verdict == VERDICT_ACCEPTED &&
			memcmp(&w->answers.v[i].id, &c->answer[i].id, sizeof(digest)) != 0)
			guard_refuse(&w->answers.v[i], VERDICT_NOT_AUTHENTIC,
				"is not the file that was there before");
	return rc;
}

static void release(struct work *w)
{
	atomic_abort(&w->file);
	atomic_abort(&w->momentum);
	merging_close(w->merging);
	answers_release(&w->answers);
	outer_close(&w->prior);
	frame_reader_free(w->base);
	for (size_t i = 0; i < w->n; i++)
		if (w->in[i].fd >= 0)
			close(w->in[i].fd);
	if (w->base_fd >= 0)
		close(w->base_fd);
	free(w->name);
	free(w->why);
	free(w->in);
}

/* ---- judging and merging ---- */

/* A dl file that goes on being written under its own name: its directory is made when missing. */
static int create(struct atomic *a, const char *path)
{
	int rc = place_make(path);

	return rc < 0 ? rc : place_create(a, path);
}

static int merge(struct work *w, const struct commit *c)
{
	const struct manifest *m = w->conf->manifest;
	struct merging_conf conf = { .rule = c->rule, .experts = c->experts, .outer = c->outer,
		.outlier = w->again ? 0 : m->outlier, .quorum = w->again ? c->answers : w->conf->quorum,
		.strict = w->again, .round = c->round, .epoch = w->epoch, .tick = w->conf->tick,
		.tick_ctx = w->conf->ctx };
	struct merging_output file, momentum;
	int rc;

	rundir_fragment(w->path[1], c->fragment, c->version);
	rundir_outer(w->outer_path, c->fragment, c->version);
	answers_settle(&w->answers);
	if ((rc = answers_enough(&w->answers, conf.quorum, conf.strict)) < 0 ||
		(rc = merging_open(&w->merging, &conf, w->base, &w->meta, &w->answers, &w->prior,
			w->conf->pool)) < 0 ||
		(rc = create(&w->file, w->path[1])) < 0 || (rc = create(&w->momentum, w->outer_path)) < 0)
		return rc;
	file = (struct merging_output){ w->file.fd, w->path[1] };
	momentum = (struct merging_output){ w->momentum.fd, w->outer_path };
	return merging_write(w->merging, &file, &momentum, w->conf->key, w->conf->say);
}

/* What came out of judging, for who asked; answers keep their places. */
static void copy_verdicts(struct commit *c, const struct work *w)
{
	for (size_t i = 0; i < w->answers.n; i++) {
		struct commit_answer *a = &c->answer[i];

		a->verdict = w->answers.v[i].verdict;
		a->norm = w->answers.v[i].norm;
		memcpy(a->why, w->answers.v[i].why, sizeof a->why);
	}
	for (size_t k = 0; k < w->answers.accepted; k++)
		c->answer[w->answers.order[k]].share = w->answers.share[k];
}

static int judge(struct work *w, struct commit *c)
{
	int rc;

	if ((rc = open_base(w, c)) < 0 || (rc = open_prior(w, c)) < 0 || (rc = open_answers(w, c)) < 0)
		return rc;
	rc = merge(w, c);
	if (!w->again)
		copy_verdicts(c, w);
	return rc < 0 ? rc : reached(w, COMMIT_JUDGED);
}

/* ---- the decision ---- */

static int tell_refusals(const struct work *w, const struct commit *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->answers && rc == 0; i++)
		if (c->answer[i].verdict != VERDICT_ACCEPTED) {
			rc = commit_refuse(w->conf->tape, w->conf->now, c->round, c->fragment, &c->answer[i]);
			c->answer[i].told = rc == 0;
		}
	return rc;
}

/* Those that count first, in the order of their sums. */
static int in_order(const void *a, const void *b)
{
	const struct commit_answer *x = a, *y = b;
	bool bad = x->verdict != VERDICT_ACCEPTED, worse = y->verdict != VERDICT_ACCEPTED;

	return bad != worse ? bad - worse : memcmp(&x->id, &y->id, sizeof x->id);
}

static void put_in_order(struct commit *c, size_t accepted)
{
	qsort(c->answer, c->answers, sizeof *c->answer, in_order);
	c->refused = c->answers - accepted;
	c->answers = accepted;
}

static int decide(struct work *w, struct commit *c)
{
	const struct meta *next = merging_meta(w->merging);
	int rc;

	memcpy(c->merge, next->merge, sizeof c->merge);
	c->step = next->step;
	c->tokens = next->tokens;
	if ((rc = epoch_check(w->conf->epoch, run_of(w), w->conf->makers)) < 0 ||
		(rc = tell_refusals(w, c)) < 0)
		return rc;
	put_in_order(c, w->answers.accepted);
	if ((rc = commit_tell_merge(w->conf->tape, w->conf->now, c)) < 0)
		return rc;
	c->decided = true;
	return reached(w, COMMIT_DECIDED);
}

/* ---- publishing ---- */

/* What a file says whose name is wanted: 1 and its meta, 0 when there is none, or none of a syncer. */
static int look_at(struct meta *m, const char *path, const struct work *w)
{
	struct frame_reader *r = NULL;
	int fd, rc = place_open(path, &fd);

	if (rc == 0)
		return 0;
	if (rc < 0)
		return rc == ERR_DATA ? 0 : rc;
	rc = frame_open(&r, fd, path, w->conf->makers, NULL);
	if (rc == 0 && (rc = frame_seekable(r)) == 0)
		rc = meta_read(m, frame_header(r));
	frame_reader_free(r);
	close(fd);
	if (rc == 0)
		return strcmp(m->run, run_of(w)) == 0;
	return rc == ERR_IO || rc == ERR_NOMEM ? rc : 0;
}

/* The whole file from where readers find it, verified: what it says, and its identity. stop: NULL for what has to
 * be carried through. */
static int read_back(const char *path, const struct trust *makers, int (*stop)(void), digest *content, digest *id)
{
	struct frame_reader *r = NULL;
	int fd, rc = place_open(path, &fd);

	if (rc == 0)
		return err_set(ERR_IO, "%s: gone as soon as it was written", path);
	if (rc < 0)
		return rc;
	rc = frame_open(&r, fd, path, makers, NULL);
	if (rc == 0)
		rc = content_read(content, r, stop);
	if (rc == 0)
		rc = frame_id(r, id);
	frame_reader_free(r);
	close(fd);
	return rc;
}

/* 1 when the file is whole, 0 when its bytes are wrong somewhere. */
static int is_whole(const char *path, const struct work *w)
{
	digest content, id;
	int rc = read_back(path, w->conf->makers, NULL, &content, &id);

	if (rc == 0)
		return 1;
	return rc == ERR_AUTH || rc == ERR_DATA ? 0 : rc;
}

/*
 * Gives the file its name, unless one of the same merge has it already, whole: 1 then. What is damaged, or
 * what a superseded syncer, or nobody, left there goes.
 */
static int publish(const struct work *w, const struct commit *c, struct atomic *a, const char *path)
{
	struct meta m;
	int rc = look_at(&m, path, w);

	if (rc < 0)
		return rc;
	if (rc > 0 && m.version == c->version && strcmp(m.merge, c->merge) == 0) {
		if ((rc = is_whole(path, w)) != 0)
			return rc;
	} else if (rc > 0 && m.epoch > w->conf->epoch)
		return err_set(ERR_BUSY, "superseded: %s is of epoch %" PRIu64, path, m.epoch);
	if ((rc = place_remove(path)) < 0 || (rc = atomic_commit_new(a)) < 0)
		return rc;
	return rc ? err_set(ERR_IO, "%s: somebody else just made it", path) : 0;
}

static int carry_out(struct work *w, struct commit *c)
{
	digest id;
	int rc;

	if ((rc = epoch_check(w->conf->epoch, run_of(w), w->conf->makers)) < 0 ||
		(rc = publish(w, c, &w->momentum, w->outer_path)) < 0 ||
		(rc = reached(w, COMMIT_MOMENTUM)) < 0 ||
		(rc = merging_finish(w->merging, &id)) < 0 ||
		(rc = publish(w, c, &w->file, w->path[1])) < 0 || (rc = reached(w, COMMIT_FRAGMENT)) < 0)
		return rc;
	if ((rc = read_back(w->outer_path, w->conf->makers, NULL, &c->momentum, &id)) < 0 ||
		(rc = read_back(w->path[1], w->conf->makers, NULL, &c->content, &c->id)) < 0 ||
		(rc = reached(w, COMMIT_READ_BACK)) < 0 ||
		(rc = commit_tell_publish(w->conf->tape, w->conf->now, c)) < 0)
		return rc;
	return reached(w, COMMIT_PUBLISHED);
}

/* ---- all of it ---- */

static void open_work(struct work *w, const struct commit_conf *conf, bool again)
{
	*w = (struct work){ .conf = conf, .epoch = conf->epoch, .again = again, .base_fd = -1,
		.prior = OUTER_INIT, .file = ATOMIC_INIT, .momentum = ATOMIC_INIT };
}

static bool any_unread(const struct commit *c)
{
	for (size_t i = 0; i < c->answers; i++)
		if (c->answer[i].verdict == VERDICT_UNREADABLE)
			return true;
	return false;
}

/* Is it the momentum that the merge failed by? */
static bool prior_is_bad(const struct work *w, int rc)
{
	struct err_note note;
	digest content, id;
	int found, fd;

	if ((rc != ERR_AUTH && rc != ERR_DATA) || !w->prior_path[0])
		return false;
	err_save(&note, rc);
	if ((found = place_open(w->prior_path, &fd)) > 0) {
		close(fd);
		found = read_back(w->prior_path, w->conf->makers, NULL, &content, &id);
		found = found < 0 ? found : 1;
	}
	(void)err_restore(&note);
	return found == 0 || found == ERR_AUTH || found == ERR_DATA;
}

/* An answer that this machine can't read, for once, is no bad answer: all is read again. And momentum that is
 * lost is no reason to lose the fragment. */
static int judge_patiently(struct work *w, struct commit *c, const struct commit_conf *conf)
{
	int rc;

	for (int tries = 1;; tries++) {
		open_work(w, conf, false);
		rc = judge(w, c);
		if (!c->fresh && prior_is_bad(w, rc))
			c->fresh = true;
		else if (tries >= READ_TRIES || !any_unread(c))
			return rc;
		release(w);
	}
}

int commit_make(struct commit *c, const struct commit_conf *conf)
{
	struct work w;
	int rc;

	c->rule = conf->manifest->rule;
	c->experts = conf->manifest->experts;
	c->outer = conf->manifest->outer;
	rc = judge_patiently(&w, c, conf);
	if (rc == ERR_AGAIN) {
		int told = tell_refusals(&w, c);

		rc = told < 0 ? told : err_set(ERR_AGAIN, "round %" PRIu64 ": %s", c->round, err_text());
	}
	if (rc == 0)
		rc = decide(&w, c);
	if (rc == 0)
		rc = carry_out(&w, c);
	release(&w);
	return rc;
}

/* Merged from the same files it is the same merge; else it is none that was decided. */
static int check_same(const struct work *w, const struct commit *c)
{
	if (strcmp(merging_meta(w->merging)->merge, c->merge) == 0)
		return 0;
	return err_set(ERR_DATA, "round %" PRIu64 ": its files do not make the merge on the tape", c->round);
}

int commit_again(struct commit *c, const struct commit_conf *conf)
{
	struct work w;
	int rc;

	open_work(&w, conf, true);
	rc = judge(&w, c);
	if (rc == 0)
		rc = check_same(&w, c);
	else if (rc != ERR_IO && rc != ERR_NOMEM)
		rc = err_at(ERR_DATA, "round %" PRIu64, c->round);
	if (rc == 0)
		rc = carry_out(&w, c);
	release(&w);
	return rc;
}

/* ---- a version that is lost ---- */

int commit_verify(unsigned fragment, uint64_t version, const digest *id, const struct trust *makers,
	int (*stop)(void))
{
	char path[RUNDIR_PATH];
	digest content, have;
	int fd, rc = place_open(rundir_fragment(path, fragment, version), &fd);

	if (rc <= 0)
		return rc < 0 ? rc : err_set(ERR_DATA, "%s: not there", path);
	close(fd);
	rc = read_back(path, makers, stop, &content, &have);
	if (rc == 0 && memcmp(&have, id, sizeof have) != 0)
		rc = err_set(ERR_AUTH, "%s: is not the one that was published", path);
	return rc;
}

/* What lies there is not what was published, else nobody would be here. */
static int replace(struct work *w, struct commit *c)
{
	digest id;
	int rc;

	if ((rc = epoch_check(w->conf->epoch, run_of(w), w->conf->makers)) < 0 ||
		(rc = merging_finish(w->merging, &id)) < 0)
		return rc;
	if (memcmp(&id, &c->id, sizeof id) != 0)
		return err_set(ERR_DATA, "made again it is another file than was published");
	rc = publish(w, c, &w->momentum, w->outer_path);
	return rc < 0 ? rc : atomic_commit(&w->file); /* at no moment is there none */
}

int commit_remake(struct commit *c, const struct commit_conf *conf, uint64_t epoch)
{
	struct work w;
	int rc;

	open_work(&w, conf, true);
	w.epoch = epoch;
	rc = judge(&w, c);
	if (rc == 0)
		rc = check_same(&w, c);
	if (rc == 0)
		rc = replace(&w, c);
	release(&w);
	return rc;
}
