#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "form/card.h"
#include "io/place.h"
#include "math/merge.h"
#include "round/courier_inside.h"
#include "round/difference.h"
#include "round/routed.h"
#include "round/rundir.h"

#define MUTE 1.0      /* seconds without answers after one that could not be written */
#define LIST_MOST 100000

/* ---- fencing ---- */

static int superseded(struct courier *c, const struct beat *b)
{
	int rc;

	if (b->incarnation < c->conf.incarnation || (b->incarnation == c->conf.incarnation &&
			strcmp(b->nonce, c->mine.nonce) == 0))
		return 0;
	rc = err_set(ERR_BUSY, "learner %s: superseded by incarnation %" PRIu64
		" in another process: stopped, with its unfinished work", c->conf.about.learner,
		b->incarnation);
	c->superseded = true;
	courier_end(c, rc);
	return rc;
}

static int judge_beat(struct courier *c, const char *path)
{
	struct header h = { 0 };
	struct beat b = { 0 };
	struct sig_public signer;
	int rc = card_parse(&h, &signer, c->scratch.data, c->scratch.len, path, &c->learners);
	bool ours = rc == 0 && memcmp(&signer, &c->key->secret.pub, sizeof signer) == 0 &&
		beat_read(&b, &h, c->cut->n) == 0 && strcmp(b.run, c->mine.run) == 0;

	rc = ours ? superseded(c, &b) : 0; /* what is not is written over */
	beat_release(&b);
	header_release(&h);
	return rc;
}

/* Is the beat that is there the one we wrote? */
static int fence(struct courier *c)
{
	char path[RUNDIR_PATH];
	int rc;

	if (c->superseded)
		return err_set(ERR_BUSY, "superseded");
	buf_clear(&c->scratch);
	rc = place_read(rundir_beat(path, c->conf.about.learner), CARD_BYTES, &c->scratch);
	if (rc <= 0 || (c->scratch.len == c->beat.len &&
			memcmp(c->scratch.data, c->beat.data, c->beat.len) == 0))
		return 0;
	return judge_beat(c, path);
}

/* ---- beat ---- */

/* What the training thread left, and what the courier knows. */
static void collect_beat(struct courier *c, bool last)
{
	const struct beat *b = &c->desk.beat;
	struct beat *mine = &c->mine;

	pthread_mutex_lock(&c->lock);
	mine->step = b->step;
	mine->steps = b->steps;
	mine->trained = b->trained;
	mine->step_seconds = b->step_seconds;
	mine->tokens_per_s = b->tokens_per_s;
	mine->loss = b->loss;
	mine->state = last ? BEAT_GONE : b->state;
	memcpy(mine->fragment, b->fragment, c->cut->n * sizeof *b->fragment);
	pthread_mutex_unlock(&c->lock);
	mine->incarnation = c->conf.incarnation;
	mine->counter++;
	mine->epoch = c->desk.headed ? c->desk.head.epoch : 0;
	mine->serial = c->manifest->serial;
}

/* In a new directory when somebody has removed ours. */
static int put_beat(struct courier *c, const char *path)
{
	struct err_note note;
	int rc = place_put(path, c->beat.data, c->beat.len, true);

	if (rc == 0)
		return 0;
	err_save(&note, rc);
	if (place_make(path) < 0)
		return err_restore(&note);
	return place_put(path, c->beat.data, c->beat.len, true);
}

int courier_write_beat(struct courier *c, bool last)
{
	struct header h = { 0 };
	char path[RUNDIR_PATH];
	int rc;

	c->beat_at = courier_now(c);
	c->beaten = false;
	c->work.beats++;
	if ((rc = fence(c)) < 0)
		return rc;
	collect_beat(c, last);
	rc = beat_write(&c->mine, &h);
	if (rc == 0) {
		buf_clear(&c->beat);
		rc = card_seal(&c->beat, &h, &c->key->secret, NULL);
	}
	header_release(&h);
	return rc < 0 ? rc : put_beat(c, rundir_beat(path, c->conf.about.learner));
}

/* ---- answers ---- */

static int answer_header(const struct courier *c, const struct meta *of, struct header *h)
{
	const struct meta *about = &c->conf.about;
	const uint64_t *routed;
	struct meta m = *of;
	unsigned p;
	int rc;

	m.kind = KIND_DELTA;
	memcpy(m.run, about->run, sizeof m.run);
	memcpy(m.model, about->model, sizeof m.model);
	memcpy(m.label, about->label, sizeof m.label);
	memcpy(m.learner, about->learner, sizeof m.learner);
	memcpy(m.shard, about->shard, sizeof m.shard);
	m.seed = about->seed;
	m.context = about->context;
	m.incarnation = c->conf.incarnation;
	m.epoch = c->desk.headed ? c->desk.head.epoch : 0;
	if ((rc = rundir_fragment_parse(m.fragment, &p)) < 0)
		return rc;
	if ((rc = meta_write(&m, h)) < 0)
		return rc;
	if ((routed = replica_snap_routed(c->replica, p)) &&
		(rc = routed_write(&h->keys, ROUTED_KEY, &c->cut->v[p].layout, routed)) < 0)
		return rc;
	return difference_table(&h->tensors, &c->cut->v[p].layout, c->conf.encoding);
}

static int check_finite(const float *value, size_t n)
{
	size_t bad;

	merge_norm2(value, NULL, n, &bad);
	return bad == n ? 0 : err_set(ERR_DATA, "a parameter is not finite");
}

static int write_delta(const struct courier *c, unsigned p, const struct meta *m, int fd)
{
	const struct fragment *f = &c->cut->v[p];
	const float *base = replica_base(c->replica, p), *snap = replica_snap(c->replica, p);
	struct frame_writer *w = NULL;
	struct header h = { 0 };
	int rc = check_finite(snap, f->elems);

	if (rc == 0)
		rc = answer_header(c, m, &h);
	if (rc == 0)
		rc = frame_create(&w, fd, &h, &c->key->secret, NULL);
	header_release(&h);
	if (rc == 0)
		rc = difference_write(w, &f->layout, c->conf.encoding, base, snap);
	if (rc == 0)
		rc = frame_finish(w, NULL);
	frame_writer_free(w);
	return rc;
}

/* Not made durable: one that a crash of the machine takes is unfinished work, and one that it leaves torn
 * is seen to be so. */
static int send_answer(struct courier *c, unsigned p, const struct meta *m)
{
	struct atomic out;
	char path[RUNDIR_PATH];
	int rc = fence(c);

	if (rc < 0)
		return rc;
	if ((rc = place_create(&out, rundir_delta(path, c->conf.about.learner, p, m->round))) < 0)
		return rc;
	if ((rc = write_delta(c, p, m, out.fd)) < 0) {
		atomic_abort(&out);
		return err_at(rc, "%s", path);
	}
	return atomic_commit_fast(&out);
}

static void settle(struct courier *c, struct desk_answer *a, int rc)
{
	if (rc < 0 && !c->superseded)
		courier_complain(c, "the answer waits, training goes on");
	c->work.answers += rc == 0;
	if (rc < 0)
		c->mute_until = courier_now(c) + MUTE;
	else
		c->beaten = true;
	pthread_mutex_lock(&c->lock);
	a->job = rc < 0 ? DESK_FAILED : DESK_DONE;
	c->desk.mute = c->desk.mute || rc < 0;
	pthread_cond_broadcast(&c->settled);
	pthread_mutex_unlock(&c->lock);
}

static void try_again(struct courier *c)
{
	if (c->mute_until == 0 || courier_now(c) < c->mute_until)
		return;
	c->mute_until = 0;
	pthread_mutex_lock(&c->lock);
	c->desk.mute = false;
	pthread_mutex_unlock(&c->lock);
}

void courier_send_answers(struct courier *c)
{
	struct meta m;
	bool posted;

	try_again(c);
	for (unsigned p = 0; p < c->cut->n; p++) {
		struct desk_answer *a = &c->desk.answer[p];

		pthread_mutex_lock(&c->lock);
		if ((posted = a->job == DESK_POSTED)) {
			a->job = DESK_TAKEN;
			m = a->meta;
		}
		pthread_mutex_unlock(&c->lock);
		if (posted)
			settle(c, a, send_answer(c, p, &m));
	}
}

/* ---- state ---- */

static int save(struct courier *c)
{
	struct run_state *s = &c->desk.state;
	struct atomic out;
	char path[RUNDIR_PATH];
	int rc = fence(c);

	if (rc < 0)
		return rc;
	s->books.incarnation = c->conf.incarnation;
	s->books.counter = c->mine.counter;
	s->books.epoch = c->mine.epoch;
	s->books.serial = c->manifest->serial;
	if ((rc = place_create(&out, rundir_state(path, c->conf.about.learner))) < 0)
		return rc;
	if ((rc = run_state_write(s, out.fd, &c->conf.about, &c->key->secret)) < 0) {
		atomic_abort(&out);
		return err_at(rc, "%s", path);
	}
	return atomic_commit(&out);
}

void courier_write_state(struct courier *c)
{
	bool posted;
	int rc;

	pthread_mutex_lock(&c->lock);
	if ((posted = c->desk.saving == DESK_POSTED))
		c->desk.saving = DESK_TAKEN;
	pthread_mutex_unlock(&c->lock);
	if (!posted)
		return;
	rc = save(c);
	c->work.states += rc == 0;
	pthread_mutex_lock(&c->lock);
	err_save(&c->desk.saved, rc);
	c->desk.saving = rc < 0 ? DESK_FAILED : DESK_DONE;
	pthread_cond_broadcast(&c->settled);
	pthread_mutex_unlock(&c->lock);
}

/* ---- metrics ---- */

void courier_write_rows(struct courier *c)
{
	struct metrics_row row[DESK_ROWS];
	size_t n;

	if (!c->conf.metrics || c->conf.metrics->fd < 0)
		return;
	pthread_mutex_lock(&c->lock);
	n = c->desk.rows;
	memcpy(row, c->desk.row, n * sizeof *row);
	c->desk.rows = 0;
	pthread_mutex_unlock(&c->lock);
	for (size_t i = 0; i < n; i++)
		if (metrics_add(c->conf.metrics, &row[i]) < 0) {
			courier_complain(c, "no more metrics from here");
			metrics_close(c->conf.metrics);
			return;
		}
}

/* ---- old deltas ---- */

/* The round that made a version: answers up to it are for versions before. */
static bool round_of(struct courier *c, unsigned p, uint64_t version, uint64_t *round)
{
	struct frame_reader *r = NULL;
	char path[RUNDIR_PATH];
	struct meta m;
	int fd;
	bool good;

	if (place_open(rundir_fragment(path, p, version), &fd) != 1)
		return false;
	good = frame_open(&r, fd, path, &c->syncers, NULL) == 0 &&
		meta_read(&m, frame_header(r)) == 0 && m.kind == KIND_FRAGMENT &&
		m.version == version;
	frame_reader_free(r);
	close(fd);
	if (good)
		*round = m.round;
	return good;
}

static bool know_more(struct courier *c)
{
	uint64_t keep = c->manifest->keep, newest, round;
	bool more = false;

	for (unsigned p = 0; p < c->cut->n; p++) {
		newest = c->desk.head.fragment[p].version;
		if (newest <= keep || newest - keep <= c->tidied_version[p] ||
			!round_of(c, p, newest - keep, &round))
			continue;
		c->tidied_version[p] = newest - keep;
		c->tidied[p] = round;
		more = true;
	}
	return more;
}

static bool is_delta(void *ctx, const char *name)
{
	unsigned p;
	uint64_t round;

	(void)ctx;
	return rundir_delta_parse(name, &p, &round);
}

static void remove_old(struct courier *c, const char *name)
{
	char path[RUNDIR_PATH];
	unsigned p;
	uint64_t round;

	if (!rundir_delta_parse(name, &p, &round) || p >= c->cut->n || round > c->tidied[p])
		return;
	rundir_delta(path, c->conf.about.learner, p, round);
	if (place_remove(path) < 0)
		courier_complain(c, "left where it is");
}

void courier_tidy(struct courier *c)
{
	char dir[RUNDIR_PATH], **names;
	bool more;
	size_t n;

	if (c->manifest->keep == 0 || !c->desk.headed || c->superseded || !know_more(c))
		return;
	snprintf(dir, sizeof dir, "learner/%s", c->conf.about.learner);
	if (place_list_if(&names, &n, dir, LIST_MOST, &more, is_delta, NULL) < 0) {
		courier_complain(c, "old deltas stay");
		return;
	}
	for (size_t i = 0; i < n; i++)
		remove_old(c, names[i]);
	place_list_free(names, n);
}
