/*
 * model_cases - the whole model against its plain double, for whatever `real` is. The includer
 * defines TOL, relative to max(1, |want|) for losses and to the largest gradient for gradients; and
 * STEP_TOL for the list of losses.
 */
#ifndef MODEL_CASES_H
#define MODEL_CASES_H

#include "base/rng.h"
#include "math/adamw.h"
#include "math/model.h"
#include "plain.h"
#include "unit.h"

/* A model with parameters large enough that every part matters, and a batch for it. */
struct fixture {
	struct model_conf c;
	struct pool *pool;
	struct model *model;
	uint32_t *ids; /* (B, T+1) */
	int B, T;
};

static inline void fixture_open(struct fixture *f, const char *text, int threads, int B, int T)
{
	struct conf conf = { 0 };
	struct rng rng;

	*f = (struct fixture){ .B = B, .T = T };
	CHECK(conf_parse(&conf, text, strlen(text)) == 0 && model_conf_read(&f->c, &conf) == 0);
	conf_release(&conf);
	CHECK(pool_open(&f->pool, threads) == 0);
	CHECK(model_open(&f->model, &f->c, (int)f->c.context, MODEL_TRAIN, f->pool) == 0);
	f->ids = calloc((size_t)B * (size_t)(T + 1), sizeof(*f->ids));
	if (!f->model || !f->ids)
		abort();
	rng_init(&rng, 3, 4);
	for (int i = 0; i < B * (T + 1); i++)
		f->ids[i] = (uint32_t)rng_below(&rng, f->c.vocab);
	for (uint64_t i = 0; i < model_size(f->model); i++)
		model_params(f->model)[i] = (real)(rng_normal_at(3, 9, i) * 0.4f);
}

static inline void fixture_close(struct fixture *f)
{
	model_close(f->model);
	pool_close(f->pool);
	free(f->ids);
}

/* Mean loss and its gradient from the plain model; grads is the caller's to free. *balance: the mean
 * load-balancing loss. */
static inline double plain_batch(const struct fixture *f, double **grads, double *sums,
	double *balance)
{
	const size_t n = (size_t)model_size(f->model);
	double *params = plain_zeros(n), total = 0;

	*grads = plain_zeros(n);
	*balance = 0;
	for (size_t i = 0; i < n; i++)
		params[i] = (double)model_params(f->model)[i];
	for (int b = 0; b < f->B; b++) {
		sums[b] = plain_model(&f->c, *grads, params,
			f->ids + (size_t)b * (size_t)(f->T + 1), f->T, 1.0 / ((double)f->B * f->T),
			balance);
		total += sums[b];
	}
	*balance /= f->B;
	free(params);
	return total / ((double)f->B * f->T);
}

/* Every token went to K experts of every layer. */
static inline void check_load(const struct fixture *f, double balance)
{
	const struct model_conf *c = &f->c;
	struct model_load load;

	model_load(&load, f->model);
	CHECK_NEAR(load.balance, balance, TOL);
	CHECK(load.tokens == (c->experts ? (uint64_t)f->B * (uint64_t)f->T : 0));
	CHECK(load.variation >= 0 && load.least >= 0 && load.least <= 1);
	for (uint32_t l = 0; l < c->layers; l++) {
		uint64_t sum = 0;

		for (uint32_t e = 0; e < c->experts; e++)
			sum += load.routed[l * c->experts + e];
		CHECK(sum == load.tokens * c->experts_per_token);
	}
}

static inline void model_is_plain(const char *text, int threads, int B, int T)
{
	struct fixture f;
	double *want, most = 0, off = 0, loss, forward, *sums = plain_zeros((size_t)B);
	double *plain_sums = plain_zeros((size_t)B), balance;

	fixture_open(&f, text, threads, B, T);
	const double plain_loss = plain_batch(&f, &want, plain_sums, &balance);

	CHECK(model_losses(f.model, sums, f.ids, B, T) == 0);
	CHECK(model_forward(f.model, &forward, f.ids, B, T) == 0);
	CHECK(model_backward(f.model, &loss, f.ids, B, T) == 0);
	CHECK_NEAR(loss, plain_loss, TOL);
	CHECK(forward == loss);
	check_load(&f, balance);
	for (int b = 0; b < B; b++)
		CHECK_NEAR(sums[b], plain_sums[b], TOL);
	for (uint64_t i = 0; i < model_size(f.model); i++) {
		most = fmax(most, fabs(want[i]));
		off = fmax(off, fabs((double)model_grads(f.model)[i] - want[i]));
	}
	CHECK_NEAR(off / most, 0, TOL);
	fixture_close(&f);
	free(want);
	free(sums);
	free(plain_sums);
}

#define GROUPED \
	"vocab 11\nd_model 10\nlayers 2\nheads 4\nkv_heads 2\nhead_dim 6\nff 7\ncontext 9\n" \
	"tied no\nrope_theta 50\n"
#define TIED \
	"vocab 7\nd_model 9\nlayers 3\nheads 3\nkv_heads 1\nhead_dim 4\nff 5\ncontext 5\n" \
	"tied yes\n"
/* The coefficient is large, so that the load-balancing loss matters too. */
#define EXPERTS \
	"vocab 11\nd_model 10\nlayers 3\nheads 2\nkv_heads 1\nhead_dim 6\nff 7\ncontext 9\n" \
	"tied no\nexperts 5\nexperts_per_token 2\nrouter_aux_loss_coef 0.7\n"

#define DENSE_TWIN \
	"vocab 11\nd_model 10\nlayers 2\nheads 2\nhead_dim 4\nff 7\ncontext 9\n"
#define EXPERTS_OF(E, K) \
	"vocab 7\nd_model 9\nlayers 2\nheads 3\nkv_heads 1\nhead_dim 4\nff 5\ncontext 5\n" \
	"experts " E "\nexperts_per_token " K "\nrouter_aux_loss_coef 0.3\n"

static inline void models_are_plain(void)
{
	model_is_plain(GROUPED, 1, 3, 9);
	model_is_plain(GROUPED, 2, 3, 8);
	model_is_plain(GROUPED, 3, 2, 1);
	model_is_plain(TIED, 1, 1, 5);
	model_is_plain(TIED, 2, 5, 5);
	model_is_plain(TIED, 1, 1, 1);
	model_is_plain(EXPERTS, 1, 3, 9);
	model_is_plain(EXPERTS, 2, 5, 8);
	model_is_plain(EXPERTS, 3, 2, 1);
	/* Each token to one expert, whose weight is 1 then; to all of them; one there is. */
	model_is_plain(EXPERTS_OF("4", "1"), 2, 3, 5);
	model_is_plain(EXPERTS_OF("3", "3"), 2, 3, 5);
	model_is_plain(EXPERTS_OF("1", "1"), 1, 3, 5);
	/* More experts than tokens: most have nothing to do. */
	model_is_plain(EXPERTS_OF("40", "3"), 1, 1, 5);
	/* More sequences than one call of a net takes. */
	model_is_plain("d_model 4\nlayers 1\nheads 1\nff 3\nvocab 5\ncontext 2\n", 2, 1100, 1);
	/* More logits than are in memory at a time: pieces that begin within a sequence. */
	model_is_plain("d_model 4\nlayers 1\nheads 1\nff 3\nvocab 20001\ncontext 100\n", 1, 5, 100);
	model_is_plain("d_model 4\nlayers 1\nheads 1\nff 3\nvocab 5\ncontext 2\nexperts 3\n"
		"router_aux_loss_coef 1\n", 2, 1100, 1);
	/* Longer than one strip of attention, in float's fast path as it is used. */
	model_is_plain("d_model 48\nlayers 1\nheads 2\nff 64\nvocab 64\ncontext 130\n", 2, 2, 130);
}

/* Initial loss is near ln V; the next logits are those of the sequence; ranges are refused. */
static inline void the_model_keeps_its_word(const char *text)
{
	struct fixture f;
	double loss, sum, before = 0;

	fixture_open(&f, text, 2, 2, 9);
	CHECK(model_forward(f.model, &loss, f.ids, 0, 9) == ERR_USAGE);
	CHECK(model_forward(f.model, &loss, f.ids, 1, 10) == ERR_USAGE);
	CHECK_SAYS("up to 9 tokens");
	for (int n = 1; n <= 9; n++) {
		real logits[11];
		double total = 0;

		CHECK(model_logits(f.model, logits, f.ids, n) == 0);
		for (int v = 0; v < 11; v++)
			total += exp((double)logits[v]);
		CHECK(model_losses(f.model, &sum, f.ids, 1, n) == 0);
		CHECK_NEAR(log(total) - (double)logits[f.ids[n]], sum - before, TOL);
		before = sum;
	}
	for (uint64_t i = 0; i < model_size(f.model); i++)
		model_params(f.model)[i] = (real)(rng_normal_at(3, 9, i) * 0.01f);
	CHECK(model_forward(f.model, &loss, f.ids, 2, 9) == 0);
	CHECK_NEAR(loss, log(11), 1e-3);
	fixture_close(&f);
}

/* A text in pieces, of all sizes, has the logits of the whole. */
static inline void going_on_is_starting_over(const char *text, int T)
{
	const int step[] = { 1, 2, 7, T };
	struct model *m;
	struct fixture f;

	fixture_open(&f, text, 2, 2, T);
	CHECK(model_open(&m, &f.c, T, MODEL_FORWARD, f.pool) == 0);
	const size_t bytes = (size_t)f.c.vocab * sizeof(real);
	real *have = malloc(bytes), *want = malloc(bytes);

	CHECK(model_more(m, have, f.ids, 1) == ERR_USAGE);
	CHECK_SAYS("no text to go on from");
	memcpy(model_params(m), model_params(f.model), (size_t)model_size(m) * sizeof(real));
	for (int i = 0; i < 4; i++)
		for (int n = step[i], seen = 0; seen < T; seen += n) {
			double most = 0, off = 0;

			n = T - seen < n ? T - seen : n;
			CHECK((seen ? model_more : model_logits)(m, have, f.ids + seen, n) == 0);
			/* Something else on the way changes nothing. */
			CHECK(model_forward(m, &off, f.ids + T + 1, 1, T) == 0);
			off = 0;
			CHECK(model_logits(f.model, want, f.ids, seen + n) == 0);
			for (uint32_t v = 0; v < f.c.vocab; v++) {
				most = fmax(most, fabs((double)want[v]));
				off = fmax(off, fabs((double)(have[v] - want[v])));
			}
			CHECK_NEAR(off / most, 0, TOL);
		}
	CHECK(model_more(m, have, f.ids, 1) == ERR_USAGE);
	CHECK(model_logits(f.model, want, f.ids, 1) == 0);
	CHECK(model_more(f.model, want, f.ids, 1) == ERR_USAGE);
	free(have);
	free(want);
	model_close(m);
	fixture_close(&f);
}

/* Experts that are all the same are one, whatever the router says. */
static inline void equal_experts_are_a_dense_model(void)
{
	struct fixture dense, moe;
	real *to, *from;
	double a, b;

	fixture_open(&dense, DENSE_TWIN, 1, 3, 9);
	fixture_open(&moe, DENSE_TWIN "experts 4\nexperts_per_token 3\n", 1, 3, 9);
	to = model_params(moe.model);
	from = model_params(dense.model);
	for (size_t t = 0, s = 0; t < model_tensors(moe.model)->n; t++) {
		const struct tensor *tensor = &model_tensors(moe.model)->v[t];
		const size_t n = (size_t)tensor->count;

		if (strstr(tensor->name, "moe.gate")) {
			to += n;
			continue;
		}
		/* gate, up, down: again for each expert */
		if (strstr(tensor->name, "w1.weight") && !strstr(tensor->name, "experts.0.")) {
			s -= 3;
			from -= 3 * 7 * 10;
		}
		CHECK(model_tensors(dense.model)->v[s++].count == n);
		memcpy(to, from, n * sizeof(*to));
		to += n;
		from += n;
	}
	CHECK(model_forward(dense.model, &a, dense.ids, 3, 9) == 0);
	CHECK(model_forward(moe.model, &b, dense.ids, 3, 9) == 0);
	CHECK_NEAR(a, b, TOL);
	fixture_close(&dense);
	fixture_close(&moe);
}

/*
 * Ten steps of AdamW from fixed values on fixed data. Initial values are floats, so runs in double
 * agree to rounding, on any machine; the plain model must give the list too. Float runs drift from
 * it by what rounding feeds back through the steps, on any path of the vector code: AdamW divides
 * by sqrt(v), which makes of the rounding of a small gradient an update as large as any.
 */
static const double known_losses[10] = { 3.8770883903668, 3.6773529902356, 3.6020016704085,
	3.4814323257239, 3.30994676077, 3.1304460070603, 2.9613381146876, 2.7617532108235,
	2.5798995484729, 2.389791059845 };
/* The same with experts. The K-th and the next are 2e-5 apart at the least where a token chooses: no
 * rounding sends it elsewhere. */
static const double known_losses_experts[10] = { 3.8747651227440, 3.6579963129708, 3.7037926072843,
	3.4277908714684, 3.2208407347916, 3.0622841291978, 2.8570892438655, 2.6617684975777,
	2.4455049229406, 2.2651145768517 };
static const struct adamw_conf ten_steps_adamw = {
	.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1
};
#define TEN_STEPS_RATE 0.01

#define TEN_STEPS \
	"vocab 48\nd_model 40\nlayers 2\nheads 5\nkv_heads 1\nff 72\ncontext 33\n"
#define TEN_STEPS_EXPERTS TEN_STEPS "experts 4\nrouter_aux_loss_coef 0.1\n"

static inline void ten_steps_open(struct fixture *f, const char *text)
{
	fixture_open(f, text, 2, 4, 33);
	const struct tensors *layout = model_tensors(f->model);
	real *at = model_params(f->model);
	float values[48 * 72];

	for (uint32_t t = 0; t < layout->n; at += layout->v[t++].count) {
		model_init_slice(&f->c, layout, 5, t, 0, values, layout->v[t].count);
		for (uint64_t i = 0; i < layout->v[t].count; i++)
			at[i] = values[i];
	}
}

static inline void ten_steps_give_the_known_losses(const char *text, const double *known)
{
	const struct adamw_conf *a = &ten_steps_adamw;
	struct fixture f;

	ten_steps_open(&f, text);
	const size_t n = (size_t)model_size(f.model);
	real *m = calloc(n, sizeof(*m)), *v = calloc(n, sizeof(*v));

	for (int i = 0; i < 10; i++) {
		double loss;

		CHECK(model_backward(f.model, &loss, f.ids, f.B, f.T) == 0);
		CHECK_NEAR(loss, known[i], STEP_TOL);
		const double norm = adamw_norm(model_grads(f.model), n, f.pool);

		adamw_step(model_params(f.model), m, v, model_grads(f.model),
			model_tensors(f.model), a, TEN_STEPS_RATE,
			norm > a->clip ? a->clip / norm : 1, (uint64_t)i + 1, f.pool);
	}
	free(m);
	free(v);
	fixture_close(&f);
}

#endif
