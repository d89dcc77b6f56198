#include "round/learner.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "form/meta.h"
#include "math/merge.h"
#include "math/model.h"
#include "round/checkpoint.h"
#include "round/difference.h"
#include "round/learner_state.h"
#include "round/routed.h"
#include "round/trainer.h"

struct learner {
	struct learner_conf conf;
	struct checkpoint ckpt; /* its train: with conf's overrides */
	const struct key *key;
	struct pool *pool;
	struct clock clock;
	struct say *say;

	struct model *model;
	float *base; /* (N): parameters of the checkpoint; the model holds the local ones */
	struct trainer trainer;
	struct learner_state state;
	uint32_t *route; /* (tensors) of routed_map */

	double opened, begun, saved; /* times: of open, of the first step, of the last save */
	uint64_t steps_now, tokens_now; /* made since `begun` */
	bool unsaved;
};

/* ---- opening ---- */

void learner_name(char out[KEY_NAME + 1], const struct key *key, const struct shard *shard)
{
	const struct shard_info *info = shard_info(shard);
	char print[33], id[9];

	sig_fingerprint(print, &key->secret.pub);
	sig_hex(id, shard_id(shard)->b, 4);
	if (info->parts)
		snprintf(out, KEY_NAME + 1, "%.8s-%" PRIu64, print, info->part);
	else
		snprintf(out, KEY_NAME + 1, "%.8s-%s", print, id);
}

static int load_model(struct learner *l, struct frame_reader *r)
{
	const struct learner_conf *c = &l->conf;
	uint64_t n;
	int rc;

	if ((rc = checkpoint_open(&l->ckpt, r)) < 0)
		return rc;
	if ((rc = trainer_override(&l->ckpt.train, c->batch, c->context, c->lr,
		     c->optimizer)) < 0)
		return rc;
	if ((rc = checkpoint_load(&l->model, &l->ckpt, r,
		     c->recompute ? MODEL_RECOMPUTE : MODEL_TRAIN, l->pool)) < 0)
		return rc;
	n = model_size(l->model);
	l->base = malloc(n * sizeof *l->base);
	if (!l->base)
		return err_nomem();
	memcpy(l->base, model_params(l->model), n * sizeof *l->base);
	return 0;
}

/* The meta of a learner on this checkpoint and shard that has done nothing yet. Its place in the
 * data follows the global step: rounds without a state must not see the same samples each time. */
static void begin_meta(struct meta *m, const struct learner *l, const char *name)
{
	const struct meta *base = &l->ckpt.meta;

	*m = (struct meta){ .kind = KIND_STATE, .round = base->round, .step = base->step,
		.seed = base->seed, .context = l->ckpt.train.context,
		.cursor = base->step * l->ckpt.train.batch };
	memcpy(m->run, base->run, sizeof m->run);
	memcpy(m->model, base->model, sizeof m->model);
	sig_hex(m->base, l->ckpt.id.b, SIG_DIGEST);
	sig_hex(m->shard, shard_id(l->trainer.feed.shard)->b, SIG_DIGEST);
	snprintf(m->learner, sizeof m->learner, "%s", name);
}

/* What there is to say of a state that has begun on this base. */
static void tell_state(const struct learner *l)
{
	uint64_t steps = l->state.meta.steps;

	if (steps > l->conf.steps)
		say_warn(l->say,
			"%s: has %" PRIu64 " steps already, more than the %" PRIu64
			" asked for: the delta is of %" PRIu64,
			l->conf.state, steps, l->conf.steps, steps);
	else if (steps == l->conf.steps)
		say_note(l->say, "%s: has made the %" PRIu64 " steps: the same delta again",
			l->conf.state, steps);
	else if (steps)
		say_note(l->say, "%s: going on after %" PRIu64 " steps", l->conf.state, steps);
}

static void tell_start(const struct learner *l)
{
	const struct meta *m = &l->state.meta;

	if (l->state.new_data)
		say_note(l->say, "%s: from another shard or context: its place does not count",
			l->conf.state);
	tell_state(l);
	say_note(l->say,
		"learner %s, batch %" PRIu64 " x %" PRIu64 " tokens, %" PRIu64
		" samples an epoch, epoch %" PRIu64,
		m->learner, l->ckpt.train.batch, l->ckpt.train.context, l->trainer.feed.order.samples,
		feed_epoch(&l->trainer.feed) + 1);
}

static int map_experts(struct learner *l)
{
	const struct tensors *layout = l->trainer.layout;

	l->route = calloc(layout->n, sizeof *l->route);
	if (!l->route)
		return err_nomem();
	routed_map(l->route, layout, l->ckpt.model.experts);
	return 0;
}

static int open_state(struct learner *l, const char *name, const struct trust *trust)
{
	const struct trainer *t = &l->trainer;
	const struct moments values = { t->optimizer.kind, t->optimizer.m, t->optimizer.v, t->params };
	struct meta begin;
	int rc;

	begin_meta(&begin, l, name);
	rc = learner_state_open(&l->state, l->conf.state, &begin, t->layout, &values, trust,
		l->pool);
	if (rc < 0)
		return rc;
	l->trainer.feed.cursor = l->state.meta.cursor;
	l->trainer.optimizer.updates = l->state.updates;
	return 0;
}

static int open_all(struct learner *l, struct frame_reader *r, struct shard *shard,
	const struct trust *trust)
{
	char name[KEY_NAME + 1];
	int rc;

	if (l->conf.name)
		snprintf(name, sizeof name, "%s", l->conf.name);
	else
		learner_name(name, l->key, shard);
	if ((rc = load_model(l, r)) < 0)
		return rc;
	rc = trainer_open(&l->trainer, l->model, &l->ckpt.train, shard, l->ckpt.model.vocab,
		l->ckpt.meta.seed, name, l->pool);
	if (rc < 0)
		return rc;
	if ((rc = map_experts(l)) < 0)
		return rc;
	if ((rc = open_state(l, name, trust)) < 0)
		return rc;
	if ((rc = trainer_spread(&l->trainer, l->conf.spmd, &l->ckpt.model)) < 0)
		return rc;
	if ((rc = trainer_record_to(&l->trainer, l->conf.metrics)) < 0)
		return rc;
	tell_start(l);
	return 0;
}

int learner_open(struct learner **out, const struct learner_conf *c, struct frame_reader *r,
	struct shard *shard, const struct key *key, const struct trust *trust, struct pool *pool,
	struct clock clock, struct say *say)
{
	struct learner *l;
	int rc;

	if (c->name && (rc = key_name_check("learner", c->name)) < 0)
		return rc;
	l = calloc(1, sizeof *l);
	if (!l)
		return err_nomem();
	l->conf = *c;
	l->key = key;
	l->pool = pool;
	l->clock = clock;
	l->say = say;
	l->trainer = (struct trainer)TRAINER_INIT;
	l->opened = clock_now(&clock);
	if ((rc = open_all(l, r, shard, trust)) < 0) {
		learner_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

void learner_close(struct learner *l)
{
	if (!l)
		return;
	learner_state_close(&l->state);
	trainer_close(&l->trainer);
	model_close(l->model);
	free(l->base);
	free(l->route);
	free(l);
}

/* ---- training ---- */

static void count_step(struct learner *l, double loss)
{
	struct meta *m = &l->state.meta;
	uint64_t tokens = trainer_tokens(&l->trainer);
	struct model_load load;

	if (m->steps == 0)
		m->loss_first = loss;
	m->loss_last = loss;
	l->state.loss_sum += loss;
	m->steps++;
	m->tokens += tokens;
	model_load(&load, l->model);
	routed_add(l->state.routed, l->route, load.routed, l->trainer.layout->n);
	m->cursor = l->trainer.feed.cursor;
	l->state.updates = l->trainer.optimizer.updates;
	l->steps_now++;
	l->tokens_now += tokens;
	l->unsaved = true;
}

static void record(struct learner *l, struct metrics_row *row, double seconds)
{
	const struct meta *m = &l->state.meta;

	row->global_step = m->step + m->steps;
	row->step = m->steps;
	row->tokens = m->tokens;
	row->tokens_per_s = (double)trainer_tokens(&l->trainer) / fmax(seconds, 1e-9);
	trainer_record(&l->trainer, row, l->say);
}

/* Seconds to the last step or the time limit, whichever comes first. */
static double time_left(const struct learner *l, double now)
{
	double left = HUGE_VAL, limit;

	if (l->conf.steps != UINT64_MAX)
		left = (double)(l->conf.steps - l->state.meta.steps) * (now - l->begun) /
			(double)l->steps_now;
	if (l->conf.seconds > 0) {
		limit = l->opened + l->conf.seconds - now;
		left = fmin(left, fmax(limit, 0));
	}
	return left;
}

static void tell_progress(struct learner *l, double loss, double now)
{
	unsigned long left = (unsigned long)fmin(time_left(l, now), 1e9);
	char of[32] = "";

	if (l->conf.steps != UINT64_MAX)
		snprintf(of, sizeof of, "/%" PRIu64, l->conf.steps);
	say_progress(l->say, "step %" PRIu64 "%s, loss %.4f, %.0f tokens/s, %lu:%02lu:%02lu left",
		l->state.meta.steps, of, loss, (double)l->tokens_now / fmax(now - l->begun, 1e-9),
		left / 3600, left / 60 % 60, left % 60);
}

static int learn_step(struct learner *l)
{
	struct metrics_row row = { 0 };
	double before = clock_now(&l->clock), now;
	int rc = trainer_step(&l->trainer, l->state.meta.step + l->state.meta.steps,
		l->ckpt.meta.tokens + l->state.meta.tokens, &row);

	if (rc < 0)
		return rc;
	count_step(l, row.loss);
	now = clock_now(&l->clock);
	record(l, &row, now - before);
	if (say_due(l->say))
		tell_progress(l, row.loss, now);
	return 0;
}

/* A disk that is full for a while does not stop the training; another process on the same state
 * does. */
static int save_if_due(struct learner *l)
{
	double now = clock_now(&l->clock);
	int rc;

	if (!l->conf.state || now - l->saved < l->conf.save_every)
		return 0;
	rc = learner_save(l);
	if (rc == ERR_BUSY)
		return rc;
	if (rc < 0)
		say_warn(l->say, "%s: state not saved, training goes on", err_text());
	l->saved = clock_now(&l->clock);
	return 0;
}

static bool time_to_end(const struct learner *l)
{
	if (l->state.meta.steps >= l->conf.steps)
		return true;
	if (l->conf.stop && l->conf.stop())
		return true;
	return l->conf.seconds > 0 && clock_now(&l->clock) - l->opened >= l->conf.seconds;
}

static void tell_end(const struct learner *l)
{
	const struct meta *m = &l->state.meta;
	double seconds = clock_now(&l->clock) - l->begun;

	if (l->steps_now)
		say_note(l->say,
			"%" PRIu64 " steps, %" PRIu64 " tokens, loss %.4f to %.4f, %.0f tokens/s",
			m->steps, m->tokens, m->loss_first, m->loss_last,
			(double)l->tokens_now / fmax(seconds, 1e-9));
}

/* Ranks that are lost cost the step under way only. */
static int end_early(struct learner *l, int rc)
{
	struct err_note note;

	if (rc != ERR_IO || !spmd_lost(l->conf.spmd))
		return rc;
	err_save(&note, rc);
	if ((rc = learner_save(l)) < 0)
		return rc;
	err_restore(&note);
	return err_at(ERR_IO, "after step %" PRIu64 "%s", l->state.meta.steps,
		l->conf.state ? ", which is saved" : "");
}

int learner_train(struct learner *l)
{
	int rc = 0;

	l->begun = l->saved = clock_now(&l->clock);
	while (rc == 0 && !time_to_end(l)) {
		rc = learn_step(l);
		if (rc == 0)
			rc = save_if_due(l);
	}
	say_progress_end(l->say);
	if (rc == 0)
		tell_end(l);
	return end_early(l, rc);
}

int learner_save(struct learner *l)
{
	int rc;

	if (!l->unsaved)
		return 0;
	rc = learner_state_save(&l->state, &l->key->secret, l->pool);
	if (rc == 0)
		l->unsaved = false;
	return rc;
}

/* ---- the delta ---- */

static int delta_header(const struct learner *l, struct header *h)
{
	struct meta m = l->state.meta;
	int rc;

	m.kind = KIND_DELTA;
	m.loss_mean = l->state.loss_sum / (double)m.steps;
	if ((rc = meta_write(&m, h)) < 0)
		return rc;
	if ((rc = learner_state_routed(&l->state, &h->keys)) < 0)
		return rc;
	return difference_table(&h->tensors, l->state.layout, l->conf.encoding);
}

/* Before the first byte goes out: a last step may have gone wrong without a loss to show it. */
static int check_finite(const struct learner *l)
{
	size_t n = model_size(l->model), bad;

	merge_norm2(l->trainer.params, NULL, n, &bad);
	if (bad == n)
		return 0;
	return err_set(ERR_DATA,
		"step %" PRIu64 ": parameter %zu is not finite: try a lower rate than %g",
		l->state.meta.step + l->state.meta.steps, bad, l->ckpt.train.sched.lr);
}

int learner_answer(struct learner *l, int fd)
{
	struct frame_writer *w = NULL;
	struct header h = { 0 };
	int rc;

	if (l->state.meta.steps == 0)
		return err_set(ERR_AGAIN, "stopped before the first step: no delta");
	if ((rc = check_finite(l)) < 0)
		return rc;
	rc = delta_header(l, &h);
	if (rc == 0)
		rc = frame_create(&w, fd, &h, &l->key->secret, l->pool);
	header_release(&h);
	if (rc == 0)
		rc = difference_write(w, l->state.layout, l->conf.encoding, l->base,
			l->trainer.params);
	if (rc == 0)
		rc = frame_finish(w, NULL);
	frame_writer_free(w);
	return rc;
}
