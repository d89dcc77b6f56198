/* evaluate - loss over a whole shard, and sampling. */
#include "round/evaluate.h"

#include "io/fd.h"
#include "round/checkpoint.h"
#include "small_run.h"

static struct small_run run;

static struct model *open_model(struct pool *pool)
{
	struct frame_reader *r;
	struct checkpoint c;
	struct model *m;
	int fd;

	CHECK(fd_open_in(run.ckpt, &fd) == 0);
	CHECK(frame_open(&r, fd, "g.ckpt", &run.trust, NULL) == 0);
	CHECK(checkpoint_open(&c, r) == 0);
	CHECK(checkpoint_load(&m, &c, r, MODEL_FORWARD, pool) == 0);
	CHECK(c.meta.step == 100);
	frame_reader_free(r);
	close(fd);
	return m;
}

static int measure(struct evaluate_result *out, struct model *m, int batch, int context)
{
	const struct evaluate_pass how = { .batch = batch, .context = context };
	struct shard *s;
	int rc;

	CHECK(shard_open(&s, run.shard, &run.trust) == 0);
	rc = evaluate_shard(out, m, &run.model, s, &how, NULL);
	shard_close(s);
	return rc;
}

/* Every token but the first, from those before it in its window, one at a time. */
static double plain_loss(struct model *m, uint64_t tokens, int context)
{
	uint32_t ids[512];
	double sum = 0, one;
	struct shard *s;

	CHECK(shard_open(&s, run.shard, &run.trust) == 0 && shard_read(s, ids, 0, tokens) == 0);
	for (uint64_t at = 0; at < tokens - 1; at++) {
		uint64_t start = at / (uint64_t)context * (uint64_t)context, n = at - start + 1;
		double before = 0;

		/* The difference of two means is the loss of the last token. */
		CHECK(model_forward(m, &one, ids + start, 1, (int)n) == 0);
		if (n > 1)
			CHECK(model_forward(m, &before, ids + start, 1, (int)n - 1) == 0);
		sum += one * (double)n - before * (double)(n - 1);
	}
	shard_close(s);
	return sum / (double)(tokens - 1);
}

static void every_token_but_the_first_counts_once(void)
{
	struct model *m = open_model(NULL);
	struct evaluate_result r;

	for (uint64_t tokens = 195; tokens < 204; tokens += 2) {
		small_run_shard(&run, 32, tokens, 300);
		CHECK(measure(&r, m, 4, 8) == 0);
		CHECK(r.tokens == tokens - 1);
		CHECK_NEAR(r.loss, plain_loss(m, tokens, 8), 1e-6);
		CHECK_NEAR(r.perplexity, exp(r.loss), 1e-12);
		CHECK_NEAR(r.bits_per_byte, r.loss / log(2) * (double)tokens / 300, 1e-12);
	}
	small_run_shard(&run, 32, 200, 300);
	model_close(m);
}

static void batch_and_threads_do_not_matter(void)
{
	static const int batches[] = { 1, 3, 25, 1000 };
	struct evaluate_result want, have;
	struct pool *pool;
	struct model *m = open_model(NULL), *threaded;

	CHECK(pool_open(&pool, 3) == 0);
	threaded = open_model(pool);
	CHECK(measure(&want, m, 2, 8) == 0);
	for (size_t i = 0; i < 4; i++) {
		CHECK(measure(&have, m, batches[i], 8) == 0);
		CHECK_NEAR(have.loss, want.loss, 1e-6);
		CHECK(measure(&have, threaded, batches[i], 8) == 0);
		CHECK_NEAR(have.loss, want.loss, 1e-6);
	}
	model_close(m);
	model_close(threaded);
	pool_close(pool);
}

static void what_cannot_be_measured_is_refused(void)
{
	struct model *m = open_model(NULL);
	struct evaluate_result r;

	small_run_shard(&run, 32, 1, 1);
	CHECK(measure(&r, m, 2, 8) == ERR_DATA);
	CHECK_SAYS("1 tokens, of which none can be predicted");
	small_run_shard(&run, 32, 2, 0);
	CHECK(measure(&r, m, 2, 8) == 0 && r.tokens == 1 && r.bits_per_byte == 0);
	small_run_shard(&run, 40, 100, 0);
	CHECK(measure(&r, m, 2, 8) == ERR_DATA);
	CHECK_SAYS("vocabulary of 40, the model's is 32 (dl-data --vocab, dl-model(5))");
	small_run_shard(&run, 31, 100, 0);
	CHECK(measure(&r, m, 2, 8) == ERR_DATA);
	CHECK_SAYS("vocabulary of 31, the model's is 32");
	small_run_shard(&run, 32, 200, 300);
	model_close(m);
	small_run_ckpt(&run, 1e18f);
	m = open_model(NULL);
	CHECK(measure(&r, m, 2, 8) == ERR_DATA);
	CHECK_SAYS("the model is broken");
	small_run_ckpt(&run, 1);
	model_close(m);
}

struct heard {
	uint32_t ids[64];
	size_t n, most;
};

static int hear(void *ctx, uint32_t id)
{
	struct heard *h = ctx;

	if (h->n == h->most)
		return err_set(ERR_IO, "no room");
	h->ids[h->n++] = id;
	return 0;
}

static void a_seed_gives_the_same_text(void)
{
	struct evaluate_draw draw = { { 1, 0 }, 5, 8 };
	struct heard a = { .most = 64 }, b = { .most = 64 }, c = { .most = 64 }, d = { .most = 3 };
	struct model *m = open_model(NULL);
	uint32_t ids[64] = { 1, 2 };

	CHECK(evaluate_sample(m, &run.model, ids, 2, 40, &draw, hear, &a) == 0 && a.n == 40);
	CHECK(memcmp(ids + 2, a.ids, 40 * sizeof *ids) == 0);
	CHECK(evaluate_sample(m, &run.model, ids, 2, 40, &draw, hear, &b) == 0);
	CHECK(memcmp(a.ids, b.ids, sizeof a.ids) == 0);
	draw.seed = 6;
	CHECK(evaluate_sample(m, &run.model, ids, 2, 40, &draw, hear, &c) == 0);
	CHECK(memcmp(a.ids, c.ids, sizeof a.ids) != 0);
	CHECK(evaluate_sample(m, &run.model, ids, 2, 40, &draw, hear, &d) == ERR_IO && d.n == 3);
	model_close(m);
}

/* Whatever is kept from one token to the next: the likeliest after each, from its window alone. */
static void every_token_is_that_of_its_window(void)
{
	const struct evaluate_draw draw = { { 0, 0 }, 5, 8 };
	struct model *m = open_model(NULL), *plain = open_model(NULL);
	const struct sample_conf likeliest = { 0 };
	struct rng rng = { 0 };

	for (size_t have = 1; have < 12; have += 2) {
		uint32_t ids[64] = { 3, 9, 27, 1, 30, 7, 7, 2, 19, 4, 11, 31 };
		struct heard a = { .most = 64 };

		CHECK(evaluate_sample(m, &run.model, ids, have, 30, &draw, hear, &a) == 0);
		for (size_t i = have; i < have + 30; i++) {
			const size_t from = i > 8 ? i - 8 : 0;
			real logits[32];

			CHECK(model_logits(plain, logits, ids + from, (int)(i - from)) == 0);
			CHECK(ids[i] == sample_token(logits, 32, &likeliest, &rng));
		}
	}
	model_close(m);
	model_close(plain);
}

int main(void)
{
	small_run_make(&run);
	every_token_but_the_first_counts_once();
	batch_and_threads_do_not_matter();
	what_cannot_be_measured_is_refused();
	a_seed_gives_the_same_text();
	every_token_is_that_of_its_window();
	small_run_remove(&run);
	return unit_done("evaluate");
}
