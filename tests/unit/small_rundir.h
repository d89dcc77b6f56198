/*
 * small_rundir - a run directory for the model of small_run.h, entered, and a syncer played by hand.
 */
#ifndef SMALL_RUNDIR_H
#define SMALL_RUNDIR_H

#include "form/card.h"
#include "io/place.h"
#include "round/beat.h"
#include "round/fragment.h"
#include "round/head.h"
#include "round/manifest.h"
#include "round/rundir.h"
#include "small_run.h"

#define SMALL_P 3

struct small_rundir {
	struct small_run base;
	struct manifest manifest;
	struct fragments cut;
	struct head head;      /* the syncer's */
	char home[256];        /* where the test was started */
};

/* Publishes a version of a fragment, every value of it being `value`, and tells it in the head (which is not
 * written). */
static inline void small_rundir_fragment(struct small_rundir *d, unsigned p, uint64_t version,
	uint64_t round, uint64_t step, float value)
{
	struct head_fragment *f = &d->head.fragment[p];
	const struct fragment *cut = &d->cut.v[p];
	struct meta m = { .kind = KIND_FRAGMENT, .version = version, .round = round, .step = step };
	float *values = malloc(cut->elems * sizeof *values);
	struct header h = { 0 };
	struct frame_writer *w;
	struct atomic a;
	char path[RUNDIR_PATH];

	memcpy(m.run, d->manifest.meta.run, sizeof m.run);
	memcpy(m.model, d->manifest.meta.model, sizeof m.model);
	rundir_fragment_name(m.fragment, p);
	for (uint64_t i = 0; i < cut->elems; i++)
		values[i] = value * (float)(1 + i % 3);
	rundir_fragment(path, p, version);
	CHECK(meta_write(&m, &h) == 0 && tensors_copy(&h.tensors, &cut->layout) == 0);
	CHECK(place_make(path) == 0 && place_create(&a, path) == 0);
	CHECK(frame_create(&w, a.fd, &h, &d->base.key.secret, NULL) == 0);
	CHECK(ckpt_write(w, &cut->layout, values) == 0 && frame_finish(w, &f->id) == 0);
	CHECK(atomic_commit_fast(&a) == 0);
	f->version = version;
	f->round = round;
	f->step = step;
	if (step > d->head.step)
		d->head.step = step;
	frame_writer_free(w);
	header_release(&h);
	free(values);
}

static inline void small_rundir_card(const struct header *h, const struct key *key, const char *path)
{
	struct buf bytes = BUF_INIT;

	CHECK(card_seal(&bytes, h, &key->secret, NULL) == 0);
	CHECK(place_put(path, bytes.data, bytes.len, true) == 0);
	buf_release(&bytes);
}

static inline void small_rundir_head(struct small_rundir *d)
{
	struct header h = { 0 };

	d->head.counter++;
	CHECK(head_write(&d->head, &h) == 0);
	small_rundir_card(&h, &d->base.key, RUNDIR_HEAD);
	header_release(&h);
}

/* The beat of a learner. */
static inline bool small_rundir_beat(struct small_rundir *d, const char *learner, struct beat *out)
{
	struct buf bytes = BUF_INIT;
	struct sig_public signer;
	struct header h = { 0 };
	char path[RUNDIR_PATH];
	bool good = place_read(rundir_beat(path, learner), CARD_BYTES, &bytes) == 1;

	if (good) {
		CHECK(card_parse(&h, &signer, bytes.data, bytes.len, path, &d->base.trust) == 0);
		CHECK(beat_read(out, &h, SMALL_P) == 0);
	}
	header_release(&h);
	buf_release(&bytes);
	return good;
}

/* Is the answer of a learner there? Then its header. */
static inline bool small_rundir_answer(struct small_rundir *d, const char *learner, unsigned p,
	uint64_t round, struct meta *m)
{
	struct frame_reader *r = NULL;
	char path[RUNDIR_PATH];
	int fd;

	if (place_open(rundir_delta(path, learner, p, round), &fd) != 1)
		return false;
	CHECK(frame_open(&r, fd, path, &d->base.trust, NULL) == 0);
	CHECK(frame_seekable(r) == 0 && meta_read(m, frame_header(r)) == 0);
	CHECK(tensors_same(&d->cut.v[p].layout, &frame_header(r)->tensors) == 0);
	frame_reader_free(r);
	close(fd);
	return true;
}

static inline void small_rundir_make(struct small_rundir *d)
{
	struct manifest *m = &d->manifest;

	*d = (struct small_rundir){ 0 };
	small_run_make(&d->base);
	CHECK(getcwd(d->home, sizeof d->home) != NULL && chdir(d->base.dir) == 0);
	m->model = d->base.model;
	m->train = d->base.train;
	m->owner = d->base.key.secret.pub;
	m->meta.kind = KIND_MANIFEST;
	m->meta.seed = 11;
	CHECK(tensors_copy(&m->layout, &d->base.layout) == 0);
	CHECK(run_model_digest(m->meta.model, &m->model, &m->layout) == 0);
	manifest_defaults(m);
	m->fragments = SMALL_P;
	m->interval = 4;
	CHECK(manifest_identify(m) == 0 && manifest_publish(m, &d->base.key) == 0);
	CHECK(fragments_cut(&d->cut, &m->layout, SMALL_P) == 0 && head_init(&d->head, SMALL_P) == 0);
	memcpy(d->head.run, m->meta.run, sizeof d->head.run);
	snprintf(d->head.nonce, sizeof d->head.nonce, "0123456789abcdef");
	d->head.epoch = 1;
	d->head.serial = m->serial;
	for (unsigned p = 0; p < SMALL_P; p++)
		small_rundir_fragment(d, p, 0, 0, 0, 0.01f);
}

static inline void small_rundir_remove(struct small_rundir *d)
{
	CHECK(chdir(d->home) == 0);
	head_release(&d->head);
	fragments_release(&d->cut);
	manifest_release(&d->manifest);
	small_run_remove(&d->base);
}

#endif
