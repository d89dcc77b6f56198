/*
 * small_run - a key, who trusts it, a checkpoint of a very small model and a shard, in a directory
 * of their own under /tmp: what tests of training and evaluation start from.
 */
#ifndef SMALL_RUN_H
#define SMALL_RUN_H

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "form/ckpt.h"
#include "form/shard.h"
#include "math/model_conf.h"
#include "round/run.h"
#include "unit.h"

struct small_run {
	char dir[64], ckpt[96], shard[96], state[96], metrics[96];
	struct key key;
	struct trust trust;
	struct trust_entry own;
	struct model_conf model;
	struct train_conf train;
	struct tensors layout;
};

static const char small_run_conf[] =
	"vocab 32\nd_model 8\nlayers 1\nheads 2\nff 16\ncontext 8\nbatch 2\nlr 0.01\nwarmup 4\n";

/* The same with four experts, two of which a token goes to. */
static const char small_run_mixture[] =
	"vocab 32\nd_model 8\nlayers 2\nheads 2\nff 8\nexperts 4\ncontext 8\nbatch 2\nlr 0.01\nwarmup 4\n";

/* Writes the checkpoint with every value multiplied by `factor`. */
static inline void small_run_ckpt(struct small_run *r, float factor)
{
	struct meta meta = { .kind = KIND_CHECKPOINT, .round = 3, .step = 100, .seed = 11 };
	uint64_t n = tensors_total(&r->layout), at = 0;
	float *value = malloc(n * sizeof *value);
	struct header h = { 0 };
	struct frame_writer *w;
	int fd = open(r->ckpt, O_RDWR | O_CREAT | O_TRUNC, 0600);

	for (uint32_t t = 0; t < r->layout.n; at += r->layout.v[t++].count)
		model_init_slice(&r->model, &r->layout, 11, t, 0, value + at, r->layout.v[t].count);
	for (uint64_t i = 0; i < n; i++)
		value[i] *= factor;
	CHECK(run_model_digest(meta.model, &r->model, &r->layout) == 0);
	CHECK(run_id(meta.run, meta.model, &r->train, 11, "") == 0);
	CHECK(meta_write(&meta, &h) == 0 && run_conf_write(&r->model, &r->train, &h) == 0);
	CHECK(tensors_copy(&h.tensors, &r->layout) == 0);
	CHECK(frame_create(&w, fd, &h, &r->key.secret, NULL) == 0);
	CHECK(ckpt_write(w, &r->layout, value) == 0 && frame_finish(w, NULL) == 0);
	frame_writer_free(w);
	header_release(&h);
	free(value);
	close(fd);
}

/* Tokens 0, 1, 2, 3, 5, 8, ... modulo `vocab`: something to learn, that does not repeat soon. */
static inline void small_run_shard(struct small_run *r, uint32_t vocab, uint64_t tokens,
	uint64_t bytes)
{
	const struct shard_info info = { .vocab = vocab, .tokens = tokens, .bytes = bytes };
	struct shard_writer *w;
	uint32_t id[3] = { 0, 1, 0 };
	int fd = open(r->shard, O_RDWR | O_CREAT | O_TRUNC, 0600);

	CHECK(shard_create(&w, fd, &info, &r->key.secret) == 0);
	for (uint64_t i = 0; i < tokens; i++) {
		id[2] = (id[0] + id[1] + (i % 7 == 0)) % vocab;
		CHECK(shard_write(w, &id[2], 1) == 0);
		id[0] = id[1];
		id[1] = id[2];
	}
	CHECK(shard_finish(w, NULL) == 0);
	shard_writer_free(w);
	close(fd);
}

static inline void small_run_make_of(struct small_run *r, const char *text)
{
	uint8_t seed[SIG_SEED] = { 42 };
	struct conf conf = { 0 };

	*r = (struct small_run){ .dir = "/tmp/unit-small-run-XXXXXX", .key = { .name = "test" } };
	CHECK(mkdtemp(r->dir) != NULL);
	snprintf(r->ckpt, sizeof r->ckpt, "%s/g.ckpt", r->dir);
	snprintf(r->shard, sizeof r->shard, "%s/a.tok", r->dir);
	snprintf(r->state, sizeof r->state, "%s/state", r->dir);
	snprintf(r->metrics, sizeof r->metrics, "%s/m.tsv", r->dir);
	CHECK(sig_init() == 0 && sig_from_seed(&r->key.secret, seed) == 0);
	key_public(&r->own.key, &r->key);
	r->own.own = true;
	r->trust.v = &r->own;
	r->trust.n = 1;
	CHECK(conf_parse(&conf, text, strlen(text)) == 0);
	CHECK(model_conf_read(&r->model, &conf) == 0 && train_conf_read(&r->train, &conf) == 0);
	CHECK(model_layout(&r->model, &r->layout) == 0);
	conf_release(&conf);
	small_run_ckpt(r, 1);
	small_run_shard(r, 32, 200, 300);
}

static inline void small_run_make(struct small_run *r)
{
	small_run_make_of(r, small_run_conf);
}

static inline void small_run_remove(struct small_run *r)
{
	char command[128];

	tensors_release(&r->layout);
	key_wipe(&r->key);
	snprintf(command, sizeof command, "rm -r %s", r->dir);
	CHECK(system(command) == 0);
}

#endif
