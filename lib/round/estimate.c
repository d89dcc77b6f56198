#include "round/estimate.h"

#include <inttypes.h>

#include "base/num.h"

#include "form/gang.h"
#include "math/model_conf.h"
#include "round/desk.h"
#include "round/fragment.h"
#include "round/trainer.h"

/* What a learner of a very small model takes: program, libraries, stacks, buffers for lines. */
#define PROGRAM (6 << 20)

/* Bits that a parameter takes in a file: weights, moments, and deltas of a round of 24 steps. */
#define WEIGHT_BITS 26.7
static double delta_bits(enum encoding e)
{
	return e == ENC_BF16 ? 10.6 : e == ENC_F32R ? 27.7 : 25.8;
}

static uint64_t file_bytes(uint64_t n, double bits)
{
	return (uint64_t)((double)n * bits / 8);
}

static uint64_t largest_fragment(const struct fragments *cut)
{
	uint64_t most = 0;

	for (unsigned p = 0; p < cut->n; p++)
		most = cut->v[p].elems > most ? cut->v[p].elems : most;
	return most;
}

static int count_fragments(struct estimate *e, const struct tensors *layout, unsigned fragments)
{
	struct fragments cut = { 0 };
	int rc = fragments_cut(&cut, layout, fragments);

	if (rc == 0)
		e->fragments = DESK_SLOTS * sizeof(float) * largest_fragment(&cut);
	fragments_release(&cut);
	return rc;
}

/* The reader of the checkpoint and the writer of the delta; in a run directory the courier's, which work with
 * one thread. */
static uint64_t files(const struct estimate_conf *c, const struct tensors *layout)
{
	uint64_t frames = 0, most = 0;

	for (size_t t = 0; t < layout->n; t++) {
		const uint64_t bytes = layout->v[t].count * sizeof(float);

		frames += bytes / GANG_FRAME + 1;
		most = bytes > most ? bytes : most;
	}
	if (c->fragments)
		return gang_bytes(c->threads, 3, frames / c->fragments + 1, most) + 2 * gang_bytes(1, 1, 1, most);
	return gang_bytes(c->threads, 3, frames, most) + gang_bytes(c->threads, 2, frames, most);
}

static int count_memory(struct estimate *e, const struct estimate_conf *c, const struct tensors *layout)
{
	const struct train_conf *t = c->train;
	const bool member = c->fragments > 0;
	struct model_memory m;
	int rc = model_memory(&m, c->model, (int)t->context, c->use, c->threads, t->batch);

	if (rc < 0)
		return rc;
	e->params = m.params;
	e->grads = m.grads;
	e->activations = m.activations;
	e->rows = m.rows * (m.grads / m.params);
	e->moments = optimizer_bytes(t->optimizer, layout, c->threads);
	e->base = (member ? 2 : 1) * m.params;
	e->state = member ? 2 * m.params + optimizer_size_v(t->optimizer, layout) * sizeof(float) : 0;
	e->program = PROGRAM + t->batch * (t->context + 1) * sizeof(uint32_t);
	e->files = files(c, layout);
	return member ? count_fragments(e, layout, c->fragments) : 0;
}

static void count_files(struct estimate *e, const struct estimate_conf *c, const struct tensors *layout)
{
	const uint64_t state = 2 * e->parameters + optimizer_size_v(c->train->optimizer, layout);

	e->received = file_bytes(e->parameters, WEIGHT_BITS);
	e->sent = file_bytes(e->parameters, delta_bits(c->encoding));
	e->saved = file_bytes(state, WEIGHT_BITS);
}

static void add_up(struct estimate *e)
{
	const uint64_t each = e->params + e->grads + e->moments + e->base + e->state + e->fragments;

	e->memory = each + e->activations + e->files + e->program;
	e->a_parameter = (double)each / (double)e->parameters;
	e->a_row = (double)e->activations / (double)e->rows;
}

int estimate(struct estimate *out, const struct estimate_conf *c)
{
	struct tensors layout = { 0 };
	int rc;

	if (c->train->context > c->model->context)
		return err_set(ERR_USAGE, "a context of %" PRIu64 " tokens is longer than the model's %" PRIu32,
			c->train->context, c->model->context);
	if ((rc = model_layout(c->model, &layout)) < 0)
		return rc;
	*out = (struct estimate){ .parameters = tensors_total(&layout),
		.tokens = c->train->batch * c->train->context };
	if ((rc = count_memory(out, c, &layout)) == 0) {
		count_files(out, c, &layout);
		add_up(out);
	}
	tensors_release(&layout);
	return rc;
}

/* ---- time ---- */

/* A second at least, and the mean: what else the machine does comes and goes, and a run gets its share of that. */
enum { LEAST = 5 };
#define ENOUGH 1.0

static void first_values(struct model *m, const struct model_conf *c)
{
	const struct tensors *layout = model_tensors(m);
	float *at = model_params(m);

	for (uint32_t t = 0; t < layout->n; at += layout->v[t++].count)
		model_init_slice(c, layout, 1, t, 0, at, layout->v[t].count);
}

static int time_steps(double *seconds, struct trainer *t, struct clock clock)
{
	struct metrics_row row;
	int n = 0, rc = trainer_step(t, 0, 0, &row); /* touches its memory for the first time */
	const double start = clock_now(&clock);

	for (*seconds = 0; rc == 0 && (n < LEAST || *seconds < ENOUGH); n++) {
		rc = trainer_step(t, 0, 0, &row);
		*seconds = clock_now(&clock) - start;
	}
	if (rc == 0)
		*seconds /= n;
	return rc;
}

int estimate_time(double *seconds, const struct estimate_conf *c, struct shard *shard, struct pool *pool,
	struct clock clock)
{
	struct trainer t = TRAINER_INIT;
	struct model *m = NULL;
	int rc = model_open(&m, c->model, (int)c->train->context, c->use, pool);

	if (rc == 0) {
		first_values(m, c->model);
		rc = trainer_open(&t, m, c->train, shard, c->model->vocab, 1, "estimate", pool);
		if (rc == 0)
			rc = time_steps(seconds, &t, clock);
		trainer_close(&t);
	}
	model_close(m);
	return rc;
}

/* ---- words ---- */

static int put_size(struct buf *out, const char *name, uint64_t bytes)
{
	return bytes ? buf_fmt(out, "  %-16s %10.1f MiB\n", name, (double)bytes / (1 << 20)) : 0;
}

static int put_memory(struct buf *out, const struct estimate *e)
{
	const struct { const char *name; uint64_t bytes; } part[] = {
		{ "parameters", e->params }, { "gradients", e->grads }, { "optimizer", e->moments },
		{ "base", e->base }, { "state", e->state }, { "fragments", e->fragments },
		{ "activations", e->activations }, { "files", e->files }, { "program", e->program },
	};
	int rc = buf_fmt(out, "%-18s %10.1f MiB\n", "memory", (double)e->memory / (1 << 20));

	for (size_t i = 0; rc == 0 && i < sizeof part / sizeof *part; i++)
		rc = put_size(out, part[i].name, part[i].bytes);
	if (rc == 0)
		rc = buf_fmt(out, "  %-16s %10.1f bytes\n", "a parameter", e->a_parameter);
	if (rc == 0)
		rc = buf_fmt(out, "  %-16s %10.0f bytes, %" PRIu64 " at a time\n", "a token", e->a_row, e->rows);
	return rc;
}

int estimate_text(struct buf *out, const struct estimate *e, double seconds)
{
	int rc = buf_fmt(out, "%-18s %10" PRIu64 "\n", "parameters", e->parameters);

	if (rc == 0)
		rc = put_memory(out, e);
	if (rc == 0)
		rc = buf_fmt(out, "%-18s %10.4f s, %" PRIu64 " tokens, %.0f tokens/s\n", "step", seconds, e->tokens,
			(double)e->tokens / seconds);
	if (rc == 0)
		rc = buf_fmt(out, "round\n");
	if (rc == 0)
		rc = put_size(out, "received", e->received);
	if (rc == 0)
		rc = put_size(out, "sent", e->sent);
	return rc == 0 ? put_size(out, "state on disk", e->saved) : rc;
}

int estimate_json(struct buf *out, const struct estimate *e, double seconds)
{
	char time[32], each[32], row[32];

	num_f64_text(time, seconds);
	num_f64_text(each, e->a_parameter);
	num_f64_text(row, e->a_row);
	return buf_fmt(out, "{\"parameters\":%" PRIu64 ",\"memory\":{\"total\":%" PRIu64 ",\"parameters\":%" PRIu64
		",\"gradients\":%" PRIu64 ",\"optimizer\":%" PRIu64 ",\"base\":%" PRIu64 ",\"state\":%" PRIu64
		",\"fragments\":%" PRIu64 ",\"activations\":%" PRIu64 ",\"files\":%" PRIu64 ",\"program\":%" PRIu64
		",\"a_parameter\":%s,\"a_token\":%s,\"tokens_at_a_time\":%" PRIu64 "},\"step\":{\"tokens\":%" PRIu64
		",\"seconds\":%s},\"round\":{\"received\":%" PRIu64 ",\"sent\":%" PRIu64 "},\"state\":%" PRIu64 "}\n",
		e->parameters, e->memory, e->params, e->grads, e->moments, e->base, e->state, e->fragments,
		e->activations, e->files, e->program, each, row, e->rows, e->tokens, time, e->received, e->sent,
		e->saved);
}
