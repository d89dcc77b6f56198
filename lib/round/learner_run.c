#include "round/learner_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/lock.h"
#include "io/place.h"
#include "math/model.h"
#include "round/courier.h"
#include "round/learner.h"
#include "round/revive.h"
#include "round/rundir.h"

#define STALE_ROUNDS 20   /* times H: own steps without a sign of a syncer */
#define IDLE_PAUSE 0.02   /* seconds */
#define MISSING_PAUSE 0.1
#define MISSING_TRIES 100 /* of a fragment that should be there */
#define MEAN_OF 20        /* steps that running means are about */

struct learner_run {
	struct learner_run_conf conf;
	struct manifest manifest; /* the courier's once it runs */
	const struct key *key;
	struct trust *user; /* the courier's once it runs */
	struct pool *pool;
	struct clock clock;
	struct say *say;

	struct meta about; /* what is said of it in all its files */
	struct lock lock;
	struct fragments cut;
	struct model *model;
	struct trainer trainer;
	struct replica replica;
	struct courier *courier;
	struct revived past;
	uint64_t max_stale;
	double lease; /* seconds */

	double opened, begun, saved; /* times */
	uint64_t steps_now, tokens_now;
	double step_seconds, loss; /* running means */
	uint64_t heads;  /* seen, as of the last look */
	bool waiting;    /* for a syncer, and said so */
	double stale;    /* own steps since the last of them, */
	double sign;     /* which was then */
	bool idle, done; /* nothing to train for; the run is over */
	bool unsaved;    /* the last state could not be written, and that was said */
	struct metrics_row row[DESK_ROWS]; /* (rows) not yet at the desk */
	size_t rows;
};

/* ---- opening ---- */

static int name_it(struct learner_run *l, const struct shard *shard)
{
	struct meta *m = &l->about;
	const struct meta *run = &l->manifest.meta;
	char name[KEY_NAME + 1];
	int rc;

	if (l->conf.name && (rc = key_name_check("learner", l->conf.name)) < 0)
		return rc;
	if (l->conf.name)
		snprintf(name, sizeof name, "%s", l->conf.name);
	else
		learner_name(name, l->key, shard);
	*m = (struct meta){ .kind = KIND_DELTA, .seed = run->seed,
		.context = l->manifest.train.context };
	memcpy(m->run, run->run, sizeof m->run);
	memcpy(m->model, run->model, sizeof m->model);
	memcpy(m->label, run->label, sizeof m->label);
	memcpy(m->learner, name, sizeof m->learner);
	sig_hex(m->shard, shard_id(shard)->b, SIG_DIGEST);
	return 0;
}

static int take_lock(struct learner_run *l)
{
	char path[RUNDIR_PATH];
	int fd, rc;

	rundir_state(path, l->about.learner);
	if ((rc = place_make(path)) < 0)
		return rc;
	if ((rc = place_open(path, &fd)) < 0)
		return rc;
	if (rc == 1)
		close(fd);
	return lock_take(&l->lock, path);
}

static int open_training(struct learner_run *l, struct shard *shard)
{
	struct train_conf train = l->manifest.train;
	const struct learner_run_conf *c = &l->conf;
	int rc;

	if ((rc = trainer_override(&train, c->batch, c->context, c->lr, c->optimizer)) < 0)
		return rc;
	if (train.context > l->manifest.model.context)
		return err_set(ERR_USAGE,
			"a context of %" PRIu64 " tokens is longer than the model's %" PRIu32,
			train.context, l->manifest.model.context);
	l->about.context = train.context;
	rc = model_open(&l->model, &l->manifest.model, (int)train.context,
		c->recompute ? MODEL_RECOMPUTE : MODEL_TRAIN, l->pool);
	if (rc < 0)
		return rc;
	return trainer_open(&l->trainer, l->model, &train, shard, l->manifest.model.vocab,
		l->manifest.meta.seed, l->about.learner, l->pool);
}

static int open_courier(struct learner_run *l)
{
	const struct learner_run_conf *c = &l->conf;
	const struct courier_conf conf = { .about = l->about, .incarnation = 1,
		.encoding = c->encoded ? c->encoding : l->manifest.delta, .metrics = &l->trainer.metrics,
		.optimizer = l->trainer.optimizer.kind };
	const struct adopt_rule *rule = c->adopting ? &c->adopt : &l->manifest.adopt;
	int rc;

	if ((rc = fragments_cut(&l->cut, l->trainer.layout, l->manifest.fragments)) < 0)
		return rc;
	if ((rc = replica_open(&l->replica, &l->cut, l->trainer.params, rule)) < 0)
		return rc;
	return courier_open(&l->courier, &conf, &l->manifest, l->user, l->key, &l->cut,
		l->trainer.layout, &l->replica, l->clock);
}

/* ---- what an earlier life left ---- */

/* Moments, and parameters of what may be trained on, from the state read to the desk. */
static void take_values(struct learner_run *l)
{
	const struct run_state *s = &courier_desk(l->courier)->state;
	struct optimizer *o = &l->trainer.optimizer;
	size_t bytes = l->trainer.size * sizeof(float);

	memcpy(o->m, s->values.m, bytes);
	memcpy(o->v, s->values.v, optimizer_size_v(o->kind, o->layout) * sizeof(float));
	if (l->past.whole)
		memcpy(l->trainer.params, s->values.p, bytes);
	o->updates = s->updates;
}

static void take_books(struct learner_run *l)
{
	const struct run_state *s = &courier_desk(l->courier)->state;
	const uint64_t *routed = s->routed;
	struct replica *r = &l->replica;

	r->steps = l->past.steps;
	r->trained = l->past.trained;
	r->of_all = l->past.of_all;
	r->step = l->past.step;
	for (unsigned p = 0; p < l->cut.n; routed += l->cut.v[p++].n)
		replica_restore(r, p, &l->past.part[p], &s->base[p], s->counted[p] ? routed : NULL);
	replica_settle(r);
	l->trainer.feed.cursor = l->past.cursor;
}

/* A learner that comes late, or has lost its state, takes moments as others have them. */
static int borrow_moments(struct learner_run *l)
{
	struct desk *d = courier_desk(l->courier);
	char from[KEY_NAME + 1];
	int rc = revive_moments(&d->state, from, &l->about, courier_learners(l->courier), l->pool,
		l->say);

	if (rc == 1)
		say_note(l->say, "moments from learner %s", from);
	else if (rc == 0 && (l->past.was || (d->headed && d->head.step > 0)))
		say_warn(l->say, "learner %s: no state of anybody to take moments from: they begin at zero",
			l->about.learner);
	return rc < 0 ? rc : 0;
}

static int take_past(struct learner_run *l)
{
	struct desk *d = courier_desk(l->courier);
	int rc = revive(&l->past, &d->state, &l->about, courier_learners(l->courier),
		&l->key->secret.pub, l->pool, l->say);

	if (rc < 0)
		return rc;
	if (l->past.serial > l->manifest.serial)
		return err_set(ERR_AUTH, "manifest: serial %" PRIu64 ", this learner has seen %" PRIu64
			": rolled back", l->manifest.serial, l->past.serial);
	if (!l->past.whole && (rc = borrow_moments(l)) < 0)
		return rc;
	take_values(l);
	take_books(l);
	courier_incarnate(l->courier, l->past.incarnation + 1);
	return 0;
}

/* ---- the fragments it starts from ---- */

static void poll_head(struct learner_run *l)
{
	if (courier_poll(l->courier) < 0)
		say_warn(l->say, "%s: ignored", err_text());
}

/* The version to start from: of the head; of the state, as long as there is no head; else the first. */
static uint64_t wanted(const struct learner_run *l, unsigned p, const digest **id)
{
	const struct desk *d = courier_desk(l->courier);
	const struct head_fragment *f = d->headed ? &d->head.fragment[p] : NULL;

	*id = f ? &f->id : NULL;
	return f ? f->version : l->past.whole ? l->replica.part[p].base.version : 0;
}

/* What should be there and is not may be on its way, or the head is about to tell of a newer one. */
static int fetch_patiently(struct learner_run *l, unsigned p, float *value, struct replica_version *v)
{
	const struct timespec pause = { .tv_nsec = (long)(MISSING_PAUSE * 1e9) };
	const digest *id;
	uint64_t version = wanted(l, p, &id);
	char path[RUNDIR_PATH];
	int rc;

	for (int tries = 0; (rc = courier_fetch(l->courier, p, version, id, value, v, l->pool)) != 1; tries++) {
		if (tries == MISSING_TRIES || (l->conf.stop && l->conf.stop()))
			break;
		nanosleep(&pause, NULL);
		poll_head(l);
		version = wanted(l, p, &id);
	}
	if (rc == 0)
		rc = err_set(ERR_AGAIN, "%s: no such version (yet)", rundir_fragment(path, p, version));
	return rc < 0 ? rc : 0;
}

/*
 * The head has moved on while the learner was away. The version it trained from is mostly there still, and so is
 * its own last answer: the newer version is adopted by the rule, and nothing lost, as if it had never stopped.
 * false: something is missing.
 */
static bool rejoin(struct learner_run *l, unsigned p, const struct replica_version *v, const float *value)
{
	struct courier *c = l->courier;
	float *base = courier_desk(c)->slot[1].value, *snap = courier_desk(c)->slot[2].value;
	const struct replica_part *part = &l->replica.part[p];
	const digest id = part->base.id;
	struct replica_version old = { 0 };

	if (!l->past.whole || l->replica.rule.how != ADOPT_REBASE || part->work.tokens == 0 ||
		courier_fetch(c, p, part->base.version, &id, base, &old, l->pool) != 1)
		return false;
	replica_load(&l->replica, p, &old, base, true);
	if (part->round > old.round && revive_snapshot(snap, &l->cut.v[p], p, part->round, &id, base, &l->about,
			courier_learners(c), &l->key->secret.pub))
		replica_recall(&l->replica, p, snap);
	replica_adopt(&l->replica, p, v, value);
	return true;
}

static int load_fragment(struct learner_run *l, unsigned p, float *value)
{
	struct replica_version v = { 0 };
	bool keep;
	int rc = fetch_patiently(l, p, value, &v);

	if (rc < 0)
		return rc;
	keep = l->past.whole && !replica_differs(&l->replica, p, v.version, &v.id);
	if (keep || !rejoin(l, p, &v, value))
		replica_load(&l->replica, p, &v, value, keep);
	return 0;
}

static int load_fragments(struct learner_run *l)
{
	float *value = courier_desk(l->courier)->slot[0].value;
	int rc;

	for (unsigned p = 0; p < l->cut.n; p++)
		if ((rc = load_fragment(l, p, value)) < 0)
			return rc;
	return 0;
}

static void tell_start(const struct learner_run *l)
{
	const struct train_conf *t = &l->trainer.train;

	say_note(l->say,
		"learner %s, incarnation %" PRIu64 ", step %" PRIu64 ", batch %" PRIu64 " x %" PRIu64
		" tokens, epoch %" PRIu64, l->about.learner, l->past.incarnation + 1, l->replica.step,
		t->batch, t->context, feed_epoch(&l->trainer.feed) + 1);
}

static int open_all(struct learner_run *l, struct shard *shard)
{
	int rc;

	if ((rc = manifest_load(&l->manifest, l->user)) < 0)
		return rc;
	if ((rc = name_it(l, shard)) < 0)
		return rc;
	if ((rc = open_training(l, shard)) < 0)
		return rc;
	if ((rc = open_courier(l)) < 0)
		return rc;
	if ((rc = take_lock(l)) < 0)
		return rc;
	poll_head(l);
	if ((rc = take_past(l)) < 0)
		return rc;
	if ((rc = load_fragments(l)) < 0)
		return rc;
	if ((rc = trainer_spread(&l->trainer, l->conf.spmd, &l->manifest.model)) < 0)
		return rc;
	if ((rc = trainer_record_to(&l->trainer, l->conf.metrics)) < 0)
		return rc;
	l->lease = l->manifest.lease; /* while the manifest is still ours */
	l->max_stale = l->conf.max_stale ? l->conf.max_stale : STALE_ROUNDS * l->manifest.interval;
	tell_start(l);
	return 0;
}

int learner_run_open(struct learner_run **out, const struct learner_run_conf *c, struct shard *shard,
	const struct key *key, struct trust *user, struct pool *pool, struct clock clock,
	struct say *say)
{
	struct learner_run *l = calloc(1, sizeof *l);
	int rc;

	if (!l)
		return err_nomem();
	l->conf = *c;
	l->key = key;
	l->user = user;
	l->pool = pool;
	l->clock = clock;
	l->say = say;
	l->lock = (struct lock)LOCK_INIT;
	l->trainer = (struct trainer)TRAINER_INIT;
	l->opened = clock_now(&clock);
	if ((rc = open_all(l, shard)) < 0) {
		learner_run_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

void learner_run_close(struct learner_run *l)
{
	if (!l)
		return;
	courier_close(l->courier);
	replica_close(&l->replica);
	fragments_release(&l->cut);
	trainer_close(&l->trainer);
	model_close(l->model);
	revived_release(&l->past);
	manifest_release(&l->manifest);
	lock_release(&l->lock);
	free(l);
}

/* ---- training ---- */

static void tell_notes(struct learner_run *l, struct desk *d)
{
	for (size_t i = 0; i < d->notes; i++)
		if (d->note[i].warning)
			say_warn(l->say, "%s", d->note[i].text);
		else
			say_note(l->say, "%s", d->note[i].text);
	d->notes = 0;
}

/* A disk that is full for a while does not stop the training. True when a state is left at the desk. */
static bool save_if_due(struct learner_run *l, struct desk *d)
{
	double now = clock_now(&l->clock);

	if (d->saving == DESK_FAILED && !l->unsaved)
		say_warn(l->say, "%s: state not saved, training goes on", d->saved.text);
	if (d->saving == DESK_DONE || d->saving == DESK_FAILED)
		l->unsaved = d->saving == DESK_FAILED;
	if (d->saving == DESK_DONE || d->saving == DESK_FAILED)
		d->saving = DESK_NONE;
	if (now - l->saved < l->conf.save_every || !desk_post_state(d, &l->replica, &l->trainer))
		return false;
	l->saved = now;
	return true;
}

static void follow_head(struct learner_run *l, const struct desk *d)
{
	enum phase phase = d->headed ? d->head.phase : PHASE_RUNNING;

	if (d->heads != l->heads) {
		l->stale = 0;
		l->sign = clock_now(&l->clock);
	}
	l->heads = d->heads;
	if (d->headed && d->head.trained > l->replica.of_all)
		l->replica.of_all = d->head.trained;
	l->done = phase == PHASE_DONE;
	l->idle = phase != PHASE_RUNNING ||
		(d->target_steps && l->replica.step >= d->target_steps);
}

static void leave_speed(const struct learner_run *l, struct desk *d)
{
	d->beat.state = l->idle ? BEAT_IDLE : BEAT_RUNNING;
	d->beat.step_seconds = l->step_seconds;
	d->beat.tokens_per_s = l->step_seconds > 0 ?
		(double)trainer_tokens(&l->trainer) / l->step_seconds : 0;
	d->beat.loss = l->loss;
}

static void leave_rows(struct learner_run *l, struct desk *d)
{
	for (size_t i = 0; i < l->rows; i++)
		desk_row(d, &l->row[i]);
	l->rows = 0;
}

/* Between two inner steps. When the desk is not free, everything waits for the next boundary but the
 * training. */
static int boundary(struct learner_run *l)
{
	struct desk *d = courier_desk(l->courier);
	bool posted;
	int rc;

	if (!courier_enter(l->courier))
		return 0;
	posted = desk_exchange(d, &l->replica, l->about.learner, l->trainer.feed.cursor);
	follow_head(l, d);
	leave_speed(l, d);
	leave_rows(l, d);
	tell_notes(l, d);
	posted = save_if_due(l, d) || posted;
	rc = err_restore(&d->end);
	courier_leave(l->courier, posted);
	return rc;
}

static void mean(double *m, double x, uint64_t n)
{
	*m += (x - *m) / (double)(n < MEAN_OF ? n : MEAN_OF);
}

static void tell_progress(const struct learner_run *l, double loss)
{
	say_progress(l->say, "step %" PRIu64 ", loss %.4f, %.0f tokens/s", l->replica.step, loss,
		(double)trainer_tokens(&l->trainer) / fmax(l->step_seconds, 1e-9));
}

static void record(struct learner_run *l, struct metrics_row *row, double seconds)
{
	if (!l->conf.metrics || l->rows == DESK_ROWS)
		return;
	row->global_step = l->replica.step;
	row->step = l->replica.steps;
	row->tokens = l->replica.trained;
	row->tokens_per_s = (double)trainer_tokens(&l->trainer) / fmax(seconds, 1e-9);
	l->row[l->rows++] = *row;
}

static int step(struct learner_run *l)
{
	struct metrics_row row = { 0 };
	struct model_load load;
	double before = clock_now(&l->clock), seconds;
	int rc = trainer_step(&l->trainer, l->replica.step, l->replica.of_all, &row);

	if (rc < 0)
		return rc;
	model_load(&load, l->model);
	replica_step(&l->replica, trainer_tokens(&l->trainer), row.loss, load.routed);
	seconds = clock_now(&l->clock) - before;
	l->steps_now++;
	l->tokens_now += trainer_tokens(&l->trainer);
	l->stale++;
	mean(&l->step_seconds, seconds, l->steps_now);
	mean(&l->loss, row.loss, l->steps_now);
	record(l, &row, seconds);
	if (say_due(l->say))
		tell_progress(l, row.loss);
	return 0;
}

/* Nothing to train for; calls may still come. Time without a head counts as the steps it would take. */
static void idle(struct learner_run *l)
{
	courier_wait(l->courier, IDLE_PAUSE);
	l->stale += IDLE_PAUSE / fmax(l->step_seconds, IDLE_PAUSE);
}

static bool time_to_end(const struct learner_run *l)
{
	if (l->done || l->steps_now >= l->conf.steps)
		return true;
	if (l->conf.stop && l->conf.stop())
		return true;
	return l->conf.seconds > 0 && clock_now(&l->clock) - l->opened >= l->conf.seconds;
}

/* Small models make thousands of steps in the time between two heads: unless a number was given, a syncer
 * has a lease as well to show that it lives. */
static bool is_stale(const struct learner_run *l)
{
	if (l->stale < (double)l->max_stale)
		return false;
	return l->conf.max_stale || clock_now(&l->clock) - fmax(l->sign, l->begun) >= l->lease;
}

/* Whose time is limited waits for the syncer until then: both may be called by cron, and not in the same minutes. */
static bool may_wait(const struct learner_run *l)
{
	return l->conf.seconds > 0 && !l->conf.max_stale;
}

static int no_syncer(const struct learner_run *l)
{
	return err_set(ERR_AGAIN, "no sign of a syncer for %" PRIu64
		" steps: stopped with its state saved (start dl-sync, then the same command again)",
		l->max_stale);
}

static void wait_for_syncer(struct learner_run *l)
{
	if (!l->waiting)
		say_note(l->say, "no sign of a syncer for %" PRIu64 " steps: waiting for one", l->max_stale);
	l->waiting = true;
	idle(l);
}

static int train(struct learner_run *l)
{
	bool stale = false;
	int rc;

	while ((rc = boundary(l)) == 0 && !time_to_end(l)) {
		if ((stale = is_stale(l)) && !may_wait(l))
			return no_syncer(l);
		if (stale)
			wait_for_syncer(l);
		else if (l->idle)
			idle(l);
		else if ((rc = step(l)) < 0)
			return rc;
		l->waiting = stale;
	}
	return rc == 0 && stale && l->heads <= 1 ? no_syncer(l) : rc; /* the first may be an old one */
}

static void tell_end(const struct learner_run *l)
{
	double seconds = clock_now(&l->clock) - l->begun;
	struct courier_work w;

	courier_told(l->courier, &w);
	if (l->steps_now)
		say_note(l->say, "%" PRIu64 " steps, %" PRIu64 " tokens, loss %.4f, %.0f tokens/s%s",
			l->steps_now, l->tokens_now, l->loss,
			(double)l->tokens_now / fmax(seconds, 1e-9),
			l->done ? "; the run is done" : "");
	say_note(l->say, "courier: %" PRIu64 " heads, %" PRIu64 " versions, %" PRIu64 " answers, %" PRIu64
		" beats, %" PRIu64 " states, %.2f s of a processor in %.1f s", w.heads, w.versions,
		w.answers, w.beats, w.states, w.seconds, seconds);
}

/* What is not finite is not kept: the state stays the one before. */
static int finish(struct learner_run *l, int rc)
{
	struct err_note note;
	int end;

	err_save(&note, rc);
	end = courier_finish(l->courier, &l->replica, rc == ERR_DATA ? NULL : &l->trainer);
	tell_notes(l, courier_desk(l->courier));
	if (rc == ERR_AGAIN && end < 0)
		return end; /* nothing is saved, as the note would say */
	return rc < 0 ? err_restore(&note) : end;
}

int learner_run_train(struct learner_run *l)
{
	int rc;

	l->begun = l->saved = clock_now(&l->clock);
	desk_exchange(courier_desk(l->courier), &l->replica, l->about.learner,
		l->trainer.feed.cursor);
	follow_head(l, courier_desk(l->courier));
	if ((rc = courier_start(l->courier)) < 0)
		return rc;
	rc = finish(l, train(l));
	say_progress_end(l->say);
	if (rc == 0)
		tell_end(l);
	return rc;
}
