/*
 * run_dir - a small run directory for tests of what reads one: made by the library, in a temporary
 * directory that is entered. Model of 5 tensors, 2 fragments, H 6, K 2, lease 30.
 */
#ifndef RUN_DIR_H
#define RUN_DIR_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "form/card.h"
#include "io/place.h"
#include "round/beat.h"
#include "round/head.h"
#include "round/manifest.h"
#include "round/run.h"
#include "round/rundir.h"
#include "round/tape.h"
#include "unit.h"

struct run_dir {
	char path[32];
	struct key key;
	struct trust trust;
	struct manifest manifest;
	struct head head;
	struct tape *tape;
};

static inline void run_dir_card(const struct run_dir *d, const char *path, const struct header *h)
{
	struct buf bytes = BUF_INIT;

	CHECK(card_seal(&bytes, h, &d->key.secret, NULL) == 0);
	CHECK(place_make(path) == 0 && place_put(path, bytes.data, bytes.len, true) == 0);
	buf_release(&bytes);
}

/* Publishes the head with its next counter. */
static inline void run_dir_head(struct run_dir *d)
{
	struct header h = { 0 };

	d->head.counter++;
	CHECK(head_write(&d->head, &h) == 0);
	run_dir_card(d, RUNDIR_HEAD, &h);
	header_release(&h);
}

/* A beat of incarnation 1; fragment p trains from version[p] and has last answered round[p]. */
static inline void run_dir_beat(struct run_dir *d, const char *name, enum beat_state state, uint64_t counter,
	const uint64_t version[2], const uint64_t round[2])
{
	char path[RUNDIR_PATH];
	struct header h = { 0 };
	struct beat b;

	CHECK(beat_init(&b, 2) == 0);
	snprintf(b.run, sizeof b.run, "%s", d->manifest.meta.run);
	snprintf(b.learner, sizeof b.learner, "%s", name);
	snprintf(b.nonce, sizeof b.nonce, "%016x", 7);
	b.incarnation = 1;
	b.counter = counter;
	b.epoch = 1;
	b.serial = 1;
	b.state = state;
	b.step = 10 + counter;
	b.steps = b.step;
	b.trained = 1000;
	b.step_seconds = 0.5;
	b.tokens_per_s = 2000;
	b.loss = 2.5;
	for (unsigned p = 0; p < 2; p++)
		b.fragment[p] = (struct beat_fragment){ .version = version[p], .steps = 3, .tokens = 300,
							.round = round[p], .answered = 600, .lost = 100 };
	CHECK(beat_write(&b, &h) == 0);
	run_dir_card(d, rundir_beat(path, name), &h);
	header_release(&h);
	beat_release(&b);
}

/* A line of the tape: kind, then key, value, ... up to a NULL. */
static inline void run_dir_line(struct run_dir *d, double seconds, const char *kind, const char *const *fields)
{
	tape_begin(d->tape, seconds, kind);
	for (; *fields; fields += 2)
		tape_put(d->tape, fields[0], fields[1]);
	CHECK(tape_end(d->tape, false) == 0);
}
#define LINE(d, seconds, kind, ...) \
	run_dir_line(d, seconds, kind, (const char *const[]){ __VA_ARGS__ __VA_OPT__(,) NULL })

static inline void run_dir_make_manifest(struct run_dir *d)
{
	static const char text[] = "d_model 16\nlayers 1\nheads 2\nff 32\ncontext 32\nvocab 40\n";
	struct manifest *m = &d->manifest;
	struct conf conf = { 0 };

	m->meta.kind = KIND_MANIFEST;
	CHECK(conf_parse(&conf, text, sizeof text - 1) == 0);
	CHECK(model_conf_read(&m->model, &conf) == 0 && train_conf_read(&m->train, &conf) == 0);
	CHECK(model_layout(&m->model, &m->layout) == 0);
	CHECK(run_model_digest(m->meta.model, &m->model, &m->layout) == 0);
	conf_release(&conf);
	m->owner = d->key.secret.pub;
	manifest_defaults(m);
	m->fragments = 2;
	m->interval = 6;
	m->quorum = 2;
	m->target_steps = 100;
	CHECK(manifest_identify(m) == 0 && manifest_publish(m, &d->key) == 0);
}

static inline void run_dir_begin(struct run_dir *d)
{
	digest start;

	*d = (struct run_dir){ .path = "/tmp/run-dir-XXXXXX" };
	CHECK(sig_init() == 0 && mkdtemp(d->path) && chdir(d->path) == 0);
	CHECK(setenv("HOME", d->path, 1) == 0 && setenv("XDG_CONFIG_HOME", "", 1) == 0);
	CHECK(mkdir("run", 0777) == 0 && chdir("run") == 0 && mkdir("syncer", 0777) == 0);
	CHECK(sig_generate(&d->key.secret) == 0);
	snprintf(d->key.name, sizeof d->key.name, "owner");
	CHECK(trust_load(&d->trust, NULL, &d->key) == 0);
	run_dir_make_manifest(d);
	tape_start(&start, d->manifest.meta.run);
	CHECK(tape_open(&d->tape, d->manifest.meta.run, 1, 0, &start) == 0);
	CHECK(head_init(&d->head, 2) == 0);
	snprintf(d->head.run, sizeof d->head.run, "%s", d->manifest.meta.run);
	snprintf(d->head.nonce, sizeof d->head.nonce, "%016x", 9);
	d->head.epoch = d->head.serial = 1;
}

/* What was made is in a directory of its own below /tmp. */
static inline void run_dir_end(struct run_dir *d)
{
	char command[64];

	tape_close(d->tape);
	head_release(&d->head);
	manifest_release(&d->manifest);
	trust_release(&d->trust);
	CHECK(chdir("/") == 0);
	snprintf(command, sizeof command, "rm -rf %s", d->path);
	CHECK(system(command) == 0);
}

/* The first lines of a tape: epoch 1 begins, these learners join. */
static inline void run_dir_tape(struct run_dir *d, const char *const *learners)
{
	LINE(d, 0, "epoch", "epoch", "1", "after", "0", "hash",
		"0000000000000000000000000000000000000000000000000000000000000000", "syncer",
		"00112233445566778899aabbccddeeff", "nonce", "0000000000000009", "at", "now");
	for (; *learners; learners++)
		LINE(d, 1, "join", "learner", *learners, "key", "AAAA", "incarnation", "1");
}

#endif
