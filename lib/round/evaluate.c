#include "round/evaluate.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/rng.h"

/* A pass over one shard. */
struct pass {
	struct model *m;
	struct shard *shard;
	struct say *say;
	uint32_t *ids;  /* (B, T+1) */
	double *losses; /* (B, T) of each token */
	evaluate_each *each; /* or NULL */
	void *ctx;
	double total;  /* of -ln p so far */
	uint64_t done, tokens; /* predicted, and to be */
};

static int check_shard(const struct shard *shard, const struct model_conf *c)
{
	uint64_t tokens = shard_info(shard)->tokens;

	if (tokens < 2)
		return err_set(ERR_DATA,
			"too short: %" PRIu64 " tokens, of which none can be predicted", tokens);
	return shard_want_vocab(shard, c->vocab, c->vocabulary);
}

/* What the model said of `count` windows of T tokens. */
static int add_losses(struct pass *p, int count, int T)
{
	const double *loss = p->losses;
	int rc = 0;

	for (int b = 0; b < count; b++) {
		const uint32_t *targets = p->ids + (size_t)b * ((size_t)T + 1) + 1;
		double sum = 0;

		for (int t = 0; rc == 0 && t < T; t++, loss++) {
			sum += *loss;
			p->done++;
			if (p->each)
				rc = p->each(p->ctx, p->done, targets[t], -*loss);
		}
		p->total += sum;
	}
	return rc;
}

/* `count` windows of T tokens from where the pass is. */
static int add_windows(struct pass *p, int count, int T)
{
	uint32_t *ids = p->ids;
	int b, rc;

	for (b = 0; b < count; b++, ids += T + 1) {
		rc = shard_read(p->shard, ids, p->done + (uint64_t)b * (uint64_t)T, (size_t)T + 1);
		if (rc < 0)
			return rc;
	}
	if ((rc = model_token_losses(p->m, p->losses, p->ids, count, T)) < 0)
		return rc;
	if ((rc = add_losses(p, count, T)) < 0)
		return rc;
	if (say_due(p->say))
		say_progress(p->say, "%.0f %%, loss %.4f",
			100 * (double)p->done / (double)p->tokens, p->total / (double)p->done);
	return 0;
}

static int run_pass(struct pass *p, int batch, int context)
{
	uint64_t windows = p->tokens / (uint64_t)context, left;
	int count, rc;

	for (left = windows; left > 0; left -= (uint64_t)count) {
		count = left < (uint64_t)batch ? (int)left : batch;
		if ((rc = add_windows(p, count, context)) < 0)
			return rc;
	}
	if (p->done < p->tokens)
		return add_windows(p, 1, (int)(p->tokens - p->done));
	return 0;
}

static int conclude(struct evaluate_result *out, const struct pass *p,
	const struct shard_info *info)
{
	out->tokens = p->tokens;
	out->loss = p->total / (double)p->tokens;
	out->perplexity = exp(out->loss);
	out->bits_per_byte = 0;
	if (info->bytes)
		out->bits_per_byte =
			out->loss / log(2) * (double)info->tokens / (double)info->bytes;
	if (!isfinite(out->perplexity))
		return err_set(ERR_DATA, "the loss is %s: the model is broken",
			isfinite(out->loss) ? "beyond measure" : "not finite");
	return 0;
}

int evaluate_shard(struct evaluate_result *out, struct model *m, const struct model_conf *c,
	struct shard *shard, const struct evaluate_pass *how, struct say *say)
{
	const struct shard_info *info = shard_info(shard);
	const size_t B = (size_t)how->batch, T = (size_t)how->context;
	struct pass p = { .m = m, .shard = shard, .say = say, .each = how->each, .ctx = how->ctx };
	int rc = check_shard(shard, c);

	if (rc < 0)
		return err_at(rc, "%s", shard_name(shard));
	p.tokens = info->tokens - 1;
	p.ids = malloc(B * (T + 1) * sizeof *p.ids);
	p.losses = malloc(B * T * sizeof *p.losses);
	rc = p.ids && p.losses ? run_pass(&p, how->batch, how->context) : err_nomem();
	say_progress_end(say);
	free(p.ids);
	free(p.losses);
	if (rc == 0 && (rc = conclude(out, &p, info)) < 0 && how->model)
		rc = err_at(rc, "%s", how->model);
	return rc;
}

/* What comes after the last `window` of `have` ids, of which all but the last were there at the call
 * before, if it was not the first. */
static int next_logits(struct model *m, real *logits, const uint32_t *ids, size_t have,
	size_t window, bool first)
{
	if (have > window)
		return model_logits(m, logits, ids + have - window, (int)window);
	if (first)
		return model_logits(m, logits, ids, (int)have);
	return model_more(m, logits, ids + have - 1, 1);
}

int evaluate_sample(struct model *m, const struct model_conf *c, uint32_t *ids, size_t have,
	size_t n, const struct evaluate_draw *draw, int (*emit)(void *ctx, uint32_t id), void *ctx)
{
	size_t begin = have, end = have + n;
	real *logits = malloc(c->vocab * sizeof *logits);
	struct rng rng;
	int rc = logits ? 0 : err_nomem();

	rng_init(&rng, draw->seed, rng_stream("sample"));
	for (; rc == 0 && have < end; have++) {
		rc = next_logits(m, logits, ids, have, (size_t)draw->context, have == begin);
		if (rc < 0)
			break;
		ids[have] = sample_token(logits, (int)c->vocab, &draw->sample, &rng);
		rc = emit(ctx, ids[have]);
	}
	free(logits);
	return rc;
}
