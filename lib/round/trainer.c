#include "round/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "math/sched.h"

#define BATCH_MAX (1 << 20) /* that of a configuration */

int trainer_override(struct train_conf *t, uint64_t batch, uint64_t context, double lr,
	const enum optimizer_kind *optimizer)
{
	if (batch)
		t->batch = batch;
	if (context)
		t->context = context;
	if (lr > 0)
		t->sched.lr = lr;
	if (optimizer)
		t->optimizer = *optimizer;
	if (t->batch > BATCH_MAX)
		return err_set(ERR_USAGE, "a batch of %" PRIu64 " samples is larger than %d",
			t->batch, BATCH_MAX);
	return 0;
}

int trainer_open(struct trainer *t, struct model *model, const struct train_conf *train,
	struct shard *shard, uint32_t vocab, uint64_t seed, const char *name, struct pool *pool)
{
	int rc;

	*t = (struct trainer){ .train = *train, .model = model, .layout = model_tensors(model),
		.size = model_size(model), .params = model_params(model), .pool = pool, .metrics = METRICS_INIT };
	t->ids = malloc(train->batch * (train->context + 1) * sizeof *t->ids);
	if (!t->ids)
		return err_nomem();
	if ((rc = optimizer_open(&t->optimizer, train->optimizer, t->layout, pool)) < 0)
		return rc;
	rc = feed_init(&t->feed, shard, seed, name, train->context, vocab,
		model_configuration(model)->vocabulary);
	return rc < 0 ? err_at(rc, "%s", shard_name(shard)) : 0;
}

int trainer_spread(struct trainer *t, struct spmd *s, const struct model_conf *c)
{
	t->spmd = s;
	return spmd_begin(s, t->model, c, (int)t->train.context);
}

void trainer_close(struct trainer *t)
{
	metrics_close(&t->metrics);
	optimizer_close(&t->optimizer);
	free(t->ids);
	t->ids = NULL;
}

uint64_t trainer_tokens(const struct trainer *t)
{
	return t->train.batch * t->train.context;
}

static int check_finite(const struct trainer *t, const struct metrics_row *row, uint64_t step)
{
	if (isfinite(row->loss) && isfinite(row->grad_norm))
		return 0;
	return err_set(ERR_DATA, "step %" PRIu64 ": %s is not finite: try a lower rate than %g",
		step + 1, isfinite(row->loss) ? "gradient" : "loss", t->train.sched.lr);
}

static void note_experts(struct metrics_row *row, const struct model *m)
{
	struct model_load load;

	model_load(&load, m);
	row->expert_balance = load.balance;
	row->expert_cv = load.variation;
	row->expert_least = load.least;
}

int trainer_update(struct trainer *t, uint64_t step, uint64_t tokens, struct metrics_row *row)
{
	const struct adamw_conf *a = &t->train.adamw;
	double scale;
	int rc;

	row->grad_norm = adamw_norm(model_grads(t->model), t->size, t->pool);
	note_experts(row, t->model);
	if ((rc = check_finite(t, row, step)) < 0)
		return rc;
	row->lr = sched_rate(&t->train.sched, step, tokens);
	scale = a->clip > 0 && row->grad_norm > a->clip ? a->clip / row->grad_norm : 1;
	optimizer_step(&t->optimizer, t->params, model_grads(t->model), a, t->train.muon_momentum, row->lr, scale);
	return 0;
}

/* Loss and gradients of the next batch. */
static int gradients(struct trainer *t, struct metrics_row *row)
{
	int rc = feed_draw(&t->feed, t->ids, t->train.batch);

	return rc < 0 ? rc : spmd_backward(t->spmd, t->model, &row->loss, t->ids, (int)t->train.batch,
		(int)t->train.context);
}

int trainer_step(struct trainer *t, uint64_t step, uint64_t tokens, struct metrics_row *row)
{
	const uint64_t place = t->feed.cursor;
	int rc = gradients(t, row);

	if (rc == 0)
		rc = trainer_update(t, step, tokens, row);
	if (rc < 0)
		t->feed.cursor = place;
	return rc;
}

int trainer_record_to(struct trainer *t, const char *path)
{
	struct model_load load;

	model_load(&load, t->model);
	t->table = path;
	return path ? metrics_open(&t->metrics, path, load.experts > 0) : 0;
}

void trainer_record(struct trainer *t, const struct metrics_row *row, struct say *say)
{
	if (metrics_add(&t->metrics, row) == 0)
		return;
	say_warn(say, "%s: %s: no more metrics from here", t->table, err_text());
	metrics_close(&t->metrics);
}
