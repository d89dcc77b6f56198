/* estimate - what must hold between one estimate and another; that they are true is shown by dl-learn.bats. */
#include "round/estimate.h"

#include "small_run.h"

static struct small_run run;

static struct estimate of(enum model_use use, int threads, unsigned fragments, enum optimizer_kind optimizer)
{
	struct train_conf train = run.train;
	const struct estimate_conf c = { .model = &run.model, .train = &train, .use = use, .threads = threads,
		.fragments = fragments, .encoding = ENC_F32R };
	struct estimate e;

	train.optimizer = optimizer;
	CHECK(estimate(&e, &c) == 0);
	CHECK(e.memory == e.params + e.grads + e.moments + e.base + e.state + e.fragments + e.activations + e.files +
		e.program);
	return e;
}

static void sizes_follow_the_options(void)
{
	const struct estimate one = of(MODEL_TRAIN, 1, 0, OPTIMIZER_ADAMW);
	const struct estimate two = of(MODEL_TRAIN, 2, 0, OPTIMIZER_ADAMW);
	const struct estimate many = of(MODEL_TRAIN, 9, 0, OPTIMIZER_ADAMW);
	const struct estimate member = of(MODEL_TRAIN, 1, 3, OPTIMIZER_ADAMW);
	const struct estimate muon = of(MODEL_TRAIN, 1, 0, OPTIMIZER_MUON);

	CHECK(one.parameters == tensors_total(&run.layout) && one.params == 4 * one.parameters);
	CHECK(one.tokens == 16 && one.rows == 16 && one.a_parameter == 20);
	CHECK(two.grads == 2 * one.grads && two.rows == 16 && two.a_parameter == 24);
	CHECK(many.grads == two.grads && many.activations == two.activations); /* a batch of 2 */
	CHECK(member.base == 2 * one.base && member.state == 3 * one.params && member.fragments > 0);
	CHECK(member.sent == one.sent && one.state == 0 && one.fragments == 0);
	CHECK(muon.saved < one.saved && muon.memory - muon.moments == one.memory - one.moments);
	CHECK(of(MODEL_RECOMPUTE, 1, 0, OPTIMIZER_ADAMW).memory <= one.memory);
}

static void a_step_takes_time_and_leaves_nothing(void)
{
	const struct estimate_conf c = { .model = &run.model, .train = &run.train, .use = MODEL_TRAIN, .threads = 1 };
	struct shard *shard;
	double seconds = 0;

	CHECK(shard_open(&shard, run.shard, &run.trust) == 0);
	CHECK(estimate_time(&seconds, &c, shard, NULL, clock_monotonic()) == 0 && seconds > 0);
	shard_close(shard);
}

static void both_forms_name_what_there_is(void)
{
	const struct estimate e = of(MODEL_TRAIN, 1, 3, OPTIMIZER_ADAMW);
	struct buf text = BUF_INIT;

	CHECK(estimate_text(&text, &e, 0.5) == 0 && strstr(text.data, "0.5000 s, 16 tokens, 32 tokens/s\n") != NULL);
	buf_clear(&text);
	CHECK(estimate_json(&text, &e, 0.5) == 0 && strstr(text.data, "\"step\":{\"tokens\":16,\"seconds\":0.5}") != NULL);
	buf_release(&text);
}

static void too_long_a_context_is_refused(void)
{
	struct train_conf train = run.train;
	const struct estimate_conf c = { .model = &run.model, .train = &train, .threads = 1 };
	struct estimate e;

	train.context = run.model.context + 1;
	CHECK(estimate(&e, &c) == ERR_USAGE);
	CHECK_SAYS("longer than the model's 8");
}

int main(void)
{
	small_run_make(&run);
	sizes_follow_the_options();
	a_step_takes_time_and_leaves_nothing();
	both_forms_name_what_there_is();
	too_long_a_context_is_refused();
	small_run_remove(&run);
	return unit_done("estimate");
}
