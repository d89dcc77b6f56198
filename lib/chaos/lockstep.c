#include "chaos/lockstep.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 65536 /* parameters that are averaged at once */

static unsigned feed_of(const struct lockstep *l, struct shard **shard, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (memcmp(shard_id(shard[k]), shard_id(shard[i]), sizeof(digest)) == 0)
			return l->part[k].feed;
	return i;
}

int lockstep_open(struct lockstep *l, const struct model_conf *model, const struct train_conf *train,
	struct shard **shard, char **name, unsigned parts, uint64_t seed, struct pool *pool)
{
	int rc;

	*l = (struct lockstep){ .pool = pool };
	if (!(l->part = calloc(parts, sizeof *l->part)))
		return err_nomem();
	for (unsigned i = 0; i < parts; i++) {
		struct lockstep_part *p = &l->part[i];

		p->trainer = (struct trainer)TRAINER_INIT;
		p->feed = feed_of(l, shard, i);
		l->parts++;
		if ((rc = model_open(&p->model, model, (int)train->context, MODEL_TRAIN, NULL)) < 0)
			return rc;
		rc = trainer_open(&p->trainer, p->model, train, shard[i], model->vocab, seed, name[i],
			i ? NULL : pool);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void lockstep_close(struct lockstep *l)
{
	for (unsigned i = 0; i < l->parts; i++) {
		trainer_close(&l->part[i].trainer);
		model_close(l->part[i].model);
	}
	free(l->part);
	*l = (struct lockstep){ .part = NULL };
}

real *lockstep_params(const struct lockstep *l)
{
	return l->part[0].trainer.params;
}

/* In order, for parts of one shard take turns. */
static int draw(struct lockstep *l)
{
	int rc = 0;

	for (unsigned i = 0; i < l->parts && rc == 0; i++) {
		struct lockstep_part *p = &l->part[i];

		p->samples = l->samples / l->parts + (i < l->samples % l->parts);
		rc = feed_draw(&l->part[p->feed].trainer.feed, p->trainer.ids, p->samples);
	}
	return rc;
}

static int backward(void *ctx, int i, int thread)
{
	struct lockstep *l = ctx;
	struct lockstep_part *p = &l->part[i];

	(void)thread;
	p->loss = 0;
	if (!p->samples)
		return 0;
	if (i > 0)
		memcpy(p->trainer.params, lockstep_params(l), p->trainer.size * sizeof *p->trainer.params);
	return model_backward(p->model, &p->loss, p->trainer.ids, (int)p->samples,
		(int)p->trainer.train.context);
}

/* A chunk of the mean gradient, into that of part 0. Part 0 is never without samples. */
static int average(void *ctx, int i, int thread)
{
	struct lockstep *l = ctx;
	uint64_t at = (uint64_t)i * CHUNK, size = l->part[0].trainer.size, n = size - at;
	real *mean = model_grads(l->part[0].model) + at;

	(void)thread;
	if (n > CHUNK)
		n = CHUNK;
	for (unsigned k = 0; k < l->parts && l->part[k].samples; k++) {
		const real *g = model_grads(l->part[k].model) + at;
		real share = (real)((double)l->part[k].samples / (double)l->samples);

		for (uint64_t j = 0; j < n; j++)
			mean[j] = k ? mean[j] + share * g[j] : share * g[j];
	}
	return 0;
}

int lockstep_step(struct lockstep *l, uint64_t step, uint64_t tokens, uint64_t samples, struct metrics_row *row)
{
	uint64_t size = l->part[0].trainer.size;
	int rc;

	l->samples = samples;
	if ((rc = draw(l)) < 0)
		return rc;
	if ((rc = pool_run(l->pool, backward, l, (int)l->parts)) < 0)
		return rc;
	if (l->parts > 1 && (rc = pool_run(l->pool, average, l, (int)((size + CHUNK - 1) / CHUNK))) < 0)
		return rc;
	row->loss = 0;
	for (unsigned i = 0; i < l->parts; i++)
		row->loss += l->part[i].loss * ((double)l->part[i].samples / (double)samples);
	return trainer_update(&l->part[0].trainer, step, tokens, row);
}
