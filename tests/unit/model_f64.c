/* Only the order of sums differs. */
#define TOL 1e-11
#define STEP_TOL 1e-9
#include "differences.h"
#include "model_cases.h"

/* What the gradient is of. Where the experts of a token change it jumps; the tokens here are far
 * from that. */
static double mean_loss(void *ctx)
{
	struct fixture *f = ctx;
	double loss = NAN;

	struct model_load load;

	CHECK(model_forward(f->model, &loss, f->ids, f->B, f->T) == 0);
	model_load(&load, f->model);
	return loss + f->c.router_aux_loss_coef * load.balance;
}

/* Every parameter of the model. */
static void gradients_are_finite_differences(const char *text, int threads, int B, int T)
{
	struct fixture f;
	double loss;

	fixture_open(&f, text, threads, B, T);
	CHECK(model_backward(f.model, &loss, f.ids, B, T) == 0);
	const struct tensors *layout = model_tensors(f.model);
	real *params = model_params(f.model), *grads = model_grads(f.model);

	for (size_t t = 0; t < layout->n; t++) {
		const size_t n = (size_t)layout->v[t].count;

		check_gradient(layout->v[t].name, mean_loss, &f, params, grads, n);
		params += n;
		grads += n;
	}
	fixture_close(&f);
}

/* The list of losses once more, with plain gradients, plain clipping and plain AdamW. */
static void plain_steps_give_the_known_losses(const char *text, const double *known)
{
	const struct adamw_conf *a = &ten_steps_adamw;
	struct fixture f;
	double sums[4], balance;

	ten_steps_open(&f, text);
	const size_t n = (size_t)model_size(f.model);
	double *m = plain_zeros(n), *v = plain_zeros(n);

	for (int step = 0; step < 10; step++) {
		double *grads, square = 0;
		size_t i = 0;

		CHECK_NEAR(plain_batch(&f, &grads, sums, &balance), known[step], STEP_TOL);
		for (size_t k = 0; k < n; k++)
			square += grads[k] * grads[k];
		for (size_t t = 0; t < model_tensors(f.model)->n; t++) {
			const struct tensor *tensor = &model_tensors(f.model)->v[t];

			for (uint64_t k = 0; k < tensor->count; k++, i++)
				plain_adamw(&model_params(f.model)[i], &m[i], &v[i],
					grads[i] * fmin(1, a->clip / sqrt(square)), TEN_STEPS_RATE,
					a->beta1, a->beta2, a->eps,
					tensor->rank > 1 ? a->weight_decay : 0, step + 1);
		}
		free(grads);
	}
	free(m);
	free(v);
	fixture_close(&f);
}

int main(void)
{
	models_are_plain();
	the_model_keeps_its_word(GROUPED);
	the_model_keeps_its_word(EXPERTS);
	going_on_is_starting_over(GROUPED, 9);
	going_on_is_starting_over(TIED, 5);
	going_on_is_starting_over(EXPERTS, 9);
	going_on_is_starting_over(
		"d_model 48\nlayers 2\nheads 2\nff 64\nvocab 64\ncontext 130\n", 130);
	equal_experts_are_a_dense_model();
	ten_steps_give_the_known_losses(TEN_STEPS, known_losses);
	ten_steps_give_the_known_losses(TEN_STEPS_EXPERTS, known_losses_experts);
	plain_steps_give_the_known_losses(TEN_STEPS, known_losses);
	plain_steps_give_the_known_losses(TEN_STEPS_EXPERTS, known_losses_experts);
	gradients_are_finite_differences(GROUPED, 2, 3, 9);
	gradients_are_finite_differences(TIED, 1, 2, 5);
	gradients_are_finite_differences(TIED, 1, 1, 1);
	gradients_are_finite_differences(EXPERTS, 2, 3, 9);
	gradients_are_finite_differences(EXPERTS_OF("3", "1"), 1, 2, 5);
	gradients_are_finite_differences(EXPERTS_OF("4", "3"), 1, 2, 5);
	return unit_done("model_f64");
}
