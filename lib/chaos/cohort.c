#include "chaos/cohort.h"

#include <inttypes.h>
#include <stdlib.h>

#include "form/codec.h"
#include "math/blas.h"

static int open_learner(struct cohort *c, unsigned i, struct shard *shard, const char *name)
{
	const struct cohort_conf *conf = &c->conf;
	struct cohort_learner *l = &c->learner[i];
	uint64_t n;
	int rc;

	if ((rc = model_open(&l->model, conf->model, (int)conf->train->context, MODEL_TRAIN, NULL)) < 0)
		return rc;
	n = model_size(l->model);
	rc = trainer_open(&l->trainer, l->model, conf->train, shard, conf->model->vocab, conf->seed, name, NULL);
	if (rc < 0)
		return rc;
	if ((rc = replica_open(&l->replica, conf->cut, l->trainer.params, &conf->adopt)) < 0)
		return rc;
	l->delta = calloc(n, sizeof *l->delta);
	l->rest = conf->encoding == ENC_F32R ? calloc(n, sizeof *l->rest) : NULL;
	l->answer = calloc(conf->cut->n, sizeof *l->answer);
	if (!l->delta || !l->answer || (conf->encoding == ENC_F32R && !l->rest))
		return err_nomem();
	return 0;
}

int cohort_open(struct cohort *c, const struct cohort_conf *conf, struct shard **shard, char **name,
	unsigned learners, struct pool *pool)
{
	int rc = blas_room(pool_threads(pool));

	*c = (struct cohort){ .conf = *conf, .pool = pool };
	if (rc < 0)
		return rc;
	c->learner = calloc(learners, sizeof *c->learner);
	c->busy = calloc(learners, sizeof *c->busy);
	if (!c->learner || !c->busy)
		return err_nomem();
	for (unsigned i = 0; i < learners && rc == 0; i++) {
		c->learner[i].trainer = (struct trainer)TRAINER_INIT;
		c->learners++;
		rc = open_learner(c, i, shard[i], name[i]);
	}
	return rc;
}

void cohort_close(struct cohort *c)
{
	for (unsigned i = 0; i < c->learners; i++) {
		struct cohort_learner *l = &c->learner[i];

		replica_close(&l->replica);
		trainer_close(&l->trainer);
		model_close(l->model);
		free(l->delta);
		free(l->rest);
		free(l->answer);
		free(l->due);
	}
	free(c->learner);
	free(c->busy);
	*c = (struct cohort){ .learner = NULL };
}

/* ---- training ---- */

int cohort_due(struct cohort *c, unsigned learner, struct cohort_step step)
{
	struct cohort_learner *l = &c->learner[learner];

	if (l->dues == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct cohort_step *due = realloc(l->due, room * sizeof *due);

		if (!due)
			return err_nomem();
		l->due = due;
		l->room = room;
	}
	l->due[l->dues++] = step;
	l->back = false;
	return 0;
}

static int step(struct cohort_learner *l, const struct cohort_step *s)
{
	struct metrics_row row = { 0 };
	struct model_load load;
	uint64_t tokens;
	int rc;

	l->trainer.train.batch = s->samples;
	if ((rc = trainer_step(&l->trainer, l->replica.step, s->trained, &row)) < 0)
		return rc;
	tokens = trainer_tokens(&l->trainer);
	model_load(&load, l->model);
	replica_step(&l->replica, tokens, row.loss, load.routed);
	l->loss += row.loss * (double)tokens;
	l->tokens += tokens;
	return 0;
}

static int catch_up(void *ctx, int i, int thread)
{
	struct cohort *c = ctx;
	struct cohort_learner *l = &c->learner[c->busy[i]];
	int rc = 0;

	(void)thread;
	for (size_t s = 0; s < l->dues && rc == 0; s++) {
		if ((rc = step(l, &l->due[s])) < 0)
			rc = err_at(rc, "learner %u", c->busy[i]);
		else if (c->conf.stop && c->conf.stop())
			rc = err_set(ERR_IO, "interrupted");
	}
	l->dues = 0;
	return rc;
}

int cohort_catch_up(struct cohort *c)
{
	int n = 0;

	for (unsigned i = 0; i < c->learners; i++)
		if (c->learner[i].dues)
			c->busy[n++] = i;
	return n ? pool_run(c->pool, catch_up, c, n) : 0;
}

double cohort_loss(struct cohort *c)
{
	double loss = 0;
	uint64_t tokens = 0;

	for (struct cohort_learner *l = c->learner; l < c->learner + c->learners; l++) {
		loss += l->loss;
		tokens += l->tokens;
		l->loss = 0;
		l->tokens = 0;
	}
	return tokens ? loss / (double)tokens : 0;
}

/* ---- coming and going ---- */

static const struct cohort_learner *donor(const struct cohort *c, unsigned learner)
{
	const struct cohort_learner *best = NULL;

	for (const struct cohort_learner *l = c->learner; l < c->learner + c->learners; l++)
		if (l != &c->learner[learner] && l->there && (!best || l->replica.step > best->replica.step))
			best = l;
	return best;
}

void cohort_join(struct cohort *c, unsigned learner, const struct versions *v)
{
	struct cohort_learner *l = &c->learner[learner];
	const struct cohort_learner *from = donor(c, learner);
	struct replica_version version;

	for (unsigned p = 0; p < v->cut->n; p++) {
		const float *value = versions_get(v, p, versions_newest(v, p), learner, &version);

		replica_load(&l->replica, p, &version, value, false);
		l->answer[p].before = true;
	}
	optimizer_take(&l->trainer.optimizer, from ? &from->trainer.optimizer : NULL);
	l->there = true;
	l->back = false;
}

void cohort_leave(struct cohort *c, unsigned learner, bool kept)
{
	c->learner[learner].there = false;
	c->learner[learner].kept = kept;
}

void cohort_return(struct cohort *c, unsigned learner, const struct versions *v)
{
	struct cohort_learner *l = &c->learner[learner];

	if (!l->kept) {
		cohort_join(c, learner, v);
		return;
	}
	for (unsigned p = 0; p < l->replica.cut->n; p++) {
		l->replica.part[p].kept = false; /* snapshots are no part of a state */
		l->answer[p].before = true;
	}
	l->there = l->back = true;
}

/* ---- rounds ---- */

static const float *rest_of(const struct cohort_learner *l, uint64_t start)
{
	return l->rest ? l->rest + start : NULL;
}

#define BLOCK 1024

/* What would be read from the file of the answer. */
static void encode(const struct cohort *c, struct cohort_learner *l, unsigned p)
{
	uint64_t start = l->replica.start[p];
	size_t n = c->conf.cut->v[p].elems, have;
	const float *base = replica_base(&l->replica, p), *snap = replica_snap(&l->replica, p);
	float *delta = l->delta + start, unused[BLOCK];

	for (size_t at = 0; at < n; at += have) {
		have = n - at < BLOCK ? n - at : BLOCK;
		codec_difference(delta + at, l->rest ? l->rest + start + at : unused, base + at, snap + at, have);
	}
	if (c->conf.encoding == ENC_BF16)
		codec_bf16_round(delta, delta, n);
}

int cohort_answer(struct cohort *c, unsigned learner, unsigned p, uint64_t round, uint64_t version)
{
	struct cohort_learner *l = &c->learner[learner];
	struct replica_part *part = &l->replica.part[p];
	struct meta m = { .kind = KIND_DELTA };

	if (part->base.version != version)
		return err_set(ERR_DATA, "learner %u trains fragment %u from version %" PRIu64
			" and can't answer for %" PRIu64, learner, p, part->base.version, version);
	if (l->answer[p].before && part->round == round)
		part->round = part->base.round;
	if (!replica_may_answer(&l->replica, p, round, version))
		return 0;
	replica_snapshot(&l->replica, p, round, &m);
	encode(c, l, p);
	replica_answered(&l->replica, p);
	l->answer[p] = (struct cohort_answer){ round, m.step, m.steps, m.tokens, false };
	return 1;
}

bool cohort_answered(const struct cohort *c, unsigned learner, unsigned p, uint64_t round,
	struct versions_answer *out)
{
	const struct cohort_learner *l = &c->learner[learner];
	const struct cohort_answer *a = &l->answer[p];
	uint64_t start = l->replica.start[p];

	*out = (struct versions_answer){ learner, l->delta + start, rest_of(l, start), a->step, a->steps,
		a->tokens, replica_snap_routed(&l->replica, p) };
	return a->round == round;
}

int cohort_adopt(struct cohort *c, unsigned learner, unsigned p, uint64_t version, const struct versions *v)
{
	struct cohort_learner *l = &c->learner[learner];
	struct replica_version is;
	const float *value = versions_get(v, p, version, learner, &is);

	if (!value)
		return err_set(ERR_DATA, "learner %u adopts version %" PRIu64 " of fragment %u, which is not kept",
			learner, version, p);
	if (!replica_differs(&l->replica, p, is.version, &is.id))
		return 0;
	if (l->back)
		replica_load(&l->replica, p, &is, value, false);
	else
		replica_adopt(&l->replica, p, &is, value);
	return 0;
}
