/* trainer - one inner step on a small model. */
#include "round/trainer.h"

#include "math/model.h"
#include "small_run.h"

static struct small_run run;

/* A trainer with all that it borrows. */
struct rig {
	struct trainer t;
	struct model *model;
	struct shard *shard;
};

static int rig_open(struct rig *g, const char *name)
{
	const struct train_conf *c = &run.train;
	uint64_t at = 0;

	CHECK(shard_open(&g->shard, run.shard, &run.trust) == 0);
	CHECK(model_open(&g->model, &run.model, (int)c->context, MODEL_TRAIN, NULL) == 0);
	for (uint32_t i = 0; i < run.layout.n; at += run.layout.v[i++].count)
		model_init_slice(&run.model, &run.layout, 11, i, 0, model_params(g->model) + at,
			run.layout.v[i].count);
	return trainer_open(&g->t, g->model, c, g->shard, run.model.vocab, 11, name, NULL);
}

static void rig_close(struct rig *g)
{
	trainer_close(&g->t);
	model_close(g->model);
	shard_close(g->shard);
}

static void steps_lower_the_loss_and_count(void)
{
	struct metrics_row first = { 0 }, last = { 0 };
	struct rig g;

	CHECK(rig_open(&g, "ann") == 0);
	CHECK(trainer_tokens(&g.t) == 16);
	CHECK(trainer_step(&g.t, 0, 0, &first) == 0);
	for (uint64_t s = 1; s < 60; s++)
		CHECK(trainer_step(&g.t, s, 0, &last) == 0);
	CHECK(g.t.optimizer.updates == 60 && g.t.feed.cursor == 120);
	CHECK_NEAR(first.loss, log(32), 0.05);
	CHECK(last.loss < first.loss - 0.2 && last.grad_norm > 0);
	rig_close(&g);
}

static void the_rate_is_that_of_the_global_step(void)
{
	struct metrics_row row = { 0 };
	struct rig g;

	CHECK(rig_open(&g, "ann") == 0);
	CHECK(trainer_step(&g.t, 1, 0, &row) == 0);
	CHECK_NEAR(row.lr, 0.005, 1e-12); /* warm-up of 4 to 0.01 */
	CHECK(trainer_step(&g.t, 3, 0, &row) == 0);
	CHECK_NEAR(row.lr, 0.01, 1e-12);
	rig_close(&g);
}

static void names_see_data_in_orders_of_their_own(void)
{
	struct metrics_row ann = { 0 }, again = { 0 }, bob = { 0 };
	struct rig g;

	CHECK(rig_open(&g, "ann") == 0 && trainer_step(&g.t, 0, 0, &ann) == 0);
	rig_close(&g);
	CHECK(rig_open(&g, "ann") == 0 && trainer_step(&g.t, 0, 0, &again) == 0);
	rig_close(&g);
	CHECK(rig_open(&g, "bob") == 0 && trainer_step(&g.t, 0, 0, &bob) == 0);
	rig_close(&g);
	CHECK(ann.loss == again.loss && ann.grad_norm == again.grad_norm);
	CHECK(ann.loss != bob.loss);
}

static void a_step_that_is_not_finite_changes_nothing(void)
{
	struct metrics_row row = { 0 };
	struct rig g;
	float before;

	CHECK(rig_open(&g, "ann") == 0);
	for (uint64_t i = 0; i < g.t.size; i++)
		g.t.params[i] = 1e18f;
	before = g.t.params[7];
	CHECK(trainer_step(&g.t, 41, 0, &row) == ERR_DATA);
	CHECK_SAYS("step 42: ");
	CHECK_SAYS("try a lower rate than 0.01");
	CHECK(g.t.params[7] == before && g.t.optimizer.m[7] == 0 && g.t.optimizer.updates == 0);
	rig_close(&g);
}

static void settings_may_be_overridden(void)
{
	const enum optimizer_kind muon = OPTIMIZER_MUON;
	struct train_conf c = run.train;

	CHECK(trainer_override(&c, 0, 0, 0, NULL) == 0 && c.batch == 2 && c.context == 8);
	CHECK(c.optimizer == OPTIMIZER_ADAMW);
	CHECK(trainer_override(&c, 5, 4, 0.5, &muon) == 0 && c.batch == 5 && c.context == 4);
	CHECK(c.optimizer == OPTIMIZER_MUON);
	CHECK_NEAR(c.sched.lr, 0.5, 0);
	CHECK(trainer_override(&c, 1 << 21, 0, 0, NULL) == ERR_USAGE);
	CHECK_SAYS("a batch of 2097152 samples");
}

static void a_full_disk_under_metrics_costs_only_them(void)
{
	const struct metrics_row row = { .step = 1 };
	struct rig g;

	CHECK(rig_open(&g, "ann") == 0 && trainer_record_to(&g.t, run.metrics) == 0);
	trainer_record(&g.t, &row, NULL);
	CHECK(g.t.metrics.fd >= 0);
	close(g.t.metrics.fd);
	g.t.metrics.fd = open("/dev/full", O_WRONLY);
	if (g.t.metrics.fd >= 0) {
		trainer_record(&g.t, &row, NULL);
		CHECK(g.t.metrics.fd < 0);
	}
	trainer_record(&g.t, &row, NULL);
	rig_close(&g);
}

int main(void)
{
	small_run_make(&run);
	steps_lower_the_loss_and_count();
	the_rate_is_that_of_the_global_step();
	names_see_data_in_orders_of_their_own();
	a_step_that_is_not_finite_changes_nothing();
	settings_may_be_overridden();
	a_full_disk_under_metrics_costs_only_them();
	small_run_remove(&run);
	return unit_done("trainer");
}
