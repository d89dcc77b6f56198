/* learner - training from a checkpoint to a delta, and the state between. */
#include "round/learner.h"

#include "form/codec.h"
#include "form/meta.h"
#include "io/fd.h"
#include "round/routed.h"
#include "small_run.h"

static struct small_run run;

#define ANN(...) { .name = "ann", .encoding = ENC_F32R, __VA_ARGS__ }

/* A clock that moves by one second each time it is looked at. */
static double tick(void *ctx)
{
	return ++*(double *)ctx;
}

/* A learner with all that it borrows. */
struct rig {
	struct learner *learner;
	struct shard *shard;
	struct frame_reader *ckpt;
	double seconds;
	int fd;
};

static int rig_open(struct rig *g, const struct learner_conf *c)
{
	const struct clock clock = { tick, &g->seconds };

	*g = (struct rig){ .seconds = 0 };
	CHECK(fd_open_in(run.ckpt, &g->fd) == 0);
	CHECK(frame_open(&g->ckpt, g->fd, "g.ckpt", &run.trust, NULL) == 0);
	CHECK(shard_open(&g->shard, run.shard, &run.trust) == 0);
	return learner_open(&g->learner, c, g->ckpt, g->shard, &run.key, &run.trust, NULL, clock,
		NULL);
}

static void rig_close(struct rig *g)
{
	learner_close(g->learner);
	shard_close(g->shard);
	frame_reader_free(g->ckpt);
	close(g->fd);
}

/* The delta of an open learner; the caller releases it. */
static int rig_answer(struct rig *g, struct buf *delta)
{
	char path[] = "/tmp/unit-learner-XXXXXX";
	int fd = mkstemp(path), rc;

	unlink(path);
	rc = learner_answer(g->learner, fd);
	buf_clear(delta);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && fd_slurp(fd, 1 << 20, delta) == 0);
	close(fd);
	return rc;
}

/* Open, train, save, answer, close. */
static void learn(const struct learner_conf *c, struct buf *delta)
{
	struct rig g;

	CHECK(rig_open(&g, c) == 0);
	CHECK(learner_train(g.learner) == 0);
	CHECK(learner_save(g.learner) == 0);
	CHECK(rig_answer(&g, delta) == 0);
	rig_close(&g);
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static int file_of(const struct buf *delta)
{
	char path[] = "/tmp/unit-learner-XXXXXX";
	int fd = mkstemp(path);

	unlink(path);
	CHECK(fd_write(fd, delta->data, delta->len) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static struct meta meta_of(const struct buf *delta)
{
	struct frame_reader *r;
	struct meta m;
	int fd = file_of(delta);

	CHECK(frame_open(&r, fd, "delta", &run.trust, NULL) == 0);
	CHECK(meta_read(&m, frame_header(r)) == 0);
	CHECK(tensors_same(&run.layout, &frame_header(r)->tensors) == 0);
	frame_reader_free(r);
	close(fd);
	return m;
}

static void a_delta_says_what_it_is(void)
{
	const struct learner_conf c = ANN(.steps = 40);
	struct buf delta = BUF_INIT;
	struct meta m;

	learn(&c, &delta);
	m = meta_of(&delta);
	CHECK(m.kind == KIND_DELTA && m.round == 3 && m.step == 100 && m.seed == 11);
	CHECK(m.steps == 40 && m.tokens == 40 * 2 * 8 && m.cursor == 280 && m.context == 8);
	CHECK_STR(m.learner, "ann");
	CHECK_NEAR(m.loss_first, log(32), 0.05);
	CHECK(m.loss_last < m.loss_first && m.loss_mean < m.loss_first);
	CHECK(strlen(m.base) == 64 && strlen(m.shard) == 64 && strlen(m.run) == 32);
	buf_release(&delta);
}

/* Two of four experts in two layers: of each layer, twice the tokens. */
static void check_routed(const struct header *h, uint64_t tokens)
{
	uint64_t *count = calloc(run.layout.n, sizeof *count), sum[2] = { 0, 0 };
	uint32_t layer, expert;

	CHECK(routed_read(count, &h->keys, ROUTED_KEY, &run.layout, tokens) == 1);
	for (size_t t = 0; t < run.layout.n; t++)
		if (model_expert(run.layout.v[t].name, &layer, &expert))
			sum[layer] += count[t];
	CHECK(sum[0] == 3 * 2 * tokens && sum[1] == 3 * 2 * tokens);
	free(count);
}

static void a_mixture_says_which_experts_were_used(void)
{
	const struct learner_conf c = ANN(.steps = 5);
	struct frame_reader *r = NULL;
	struct buf delta = BUF_INIT;
	int fd;

	learn(&c, &delta);
	fd = file_of(&delta);
	CHECK(frame_open(&r, fd, "delta", &run.trust, NULL) == 0);
	check_routed(frame_header(r), 5 * 16);
	frame_reader_free(r);
	close(fd);
	buf_release(&delta);
}

/* As an older program wrote it: the state again, without the key. */
static void forget_routed(void)
{
	struct header h = { 0 };
	struct frame_reader *r = NULL;
	struct frame_writer *w = NULL;
	struct frame_slice s;
	int from = open(run.state, O_RDONLY), to;

	CHECK(frame_open(&r, from, "state", &run.trust, NULL) == 0);
	CHECK(header_copy(&h, frame_header(r)) == 0 && conf_get(&h.keys, ROUTED_KEY));
	conf_unset(&h.keys, ROUTED_KEY);
	unlink(run.state);
	to = open(run.state, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(frame_create(&w, to, &h, &run.key.secret, NULL) == 0);
	while (frame_next(r, &s) > 0)
		CHECK(frame_write(w, s.value, NULL, s.n) == 0);
	CHECK(frame_finish(w, NULL) == 0);
	frame_writer_free(w);
	frame_reader_free(r);
	header_release(&h);
	close(from);
	close(to);
}

static bool says_routed(const struct buf *delta)
{
	struct frame_reader *r = NULL;
	int fd = file_of(delta);
	bool says;

	CHECK(frame_open(&r, fd, "delta", &run.trust, NULL) == 0);
	says = conf_get(&frame_header(r)->keys, ROUTED_KEY) != NULL;
	frame_reader_free(r);
	close(fd);
	return says;
}

static void a_state_that_does_not_say_it_has_a_delta_that_does_not(void)
{
	struct learner_conf c = ANN(.steps = 2, .state = run.state);
	struct buf delta = BUF_INIT;

	learn(&c, &delta);
	CHECK(says_routed(&delta));
	forget_routed();
	c.steps = 4;
	learn(&c, &delta);
	CHECK(!says_routed(&delta));
	unlink(run.state);
	buf_release(&delta);
}

/* Only moments and place of a state are for another base. */
static void the_next_base_counts_anew(void)
{
	struct learner_conf c = ANN(.steps = 3, .state = run.state);
	struct frame_reader *r = NULL;
	struct buf delta = BUF_INIT;
	int fd;

	learn(&c, &delta);
	small_run_ckpt(&run, 0.5f);
	c.steps = 2;
	learn(&c, &delta);
	fd = file_of(&delta);
	CHECK(frame_open(&r, fd, "delta", &run.trust, NULL) == 0);
	check_routed(frame_header(r), 2 * 16);
	frame_reader_free(r);
	close(fd);
	unlink(run.state);
	small_run_ckpt(&run, 1);
	buf_release(&delta);
}

static void at_once_or_in_pieces_is_the_same(const enum optimizer_kind *optimizer)
{
	struct learner_conf c = ANN(.steps = 9, .optimizer = optimizer);
	struct buf once = BUF_INIT, pieces = BUF_INIT;

	learn(&c, &once);
	c.state = run.state;
	for (c.steps = 2; c.steps < 9; c.steps += 3)
		learn(&c, &pieces);
	CHECK(!same(&once, &pieces));
	c.steps = 9;
	learn(&c, &pieces);
	CHECK(same(&once, &pieces));
	learn(&c, &pieces); /* a delta that was lost is had again */
	CHECK(same(&once, &pieces));
	unlink(run.state);
	buf_release(&once);
	buf_release(&pieces);
}

static void a_state_of_another_optimizer_is_refused(void)
{
	const enum optimizer_kind muon = OPTIMIZER_MUON;
	struct learner_conf c = ANN(.steps = 2, .state = run.state, .optimizer = &muon);
	struct buf delta = BUF_INIT, other = BUF_INIT;
	struct rig g;

	learn(&c, &delta);
	c.optimizer = NULL;
	CHECK(rig_open(&g, &c) == ERR_DATA);
	CHECK_SAYS("state: has moments of muon, not of adamw (--optimizer muon goes on with them)");
	rig_close(&g);
	unlink(run.state);
	learn(&c, &other);
	CHECK(!same(&delta, &other));
	c.optimizer = &muon;
	CHECK(rig_open(&g, &c) == ERR_DATA);
	CHECK_SAYS("has moments of adamw, not of muon");
	rig_close(&g);
	unlink(run.state);
	buf_release(&delta);
	buf_release(&other);
}

static void saving_often_changes_nothing(void)
{
	struct learner_conf c = ANN(.steps = 6, .state = run.state, .save_every = 0.5);
	struct buf often = BUF_INIT, never = BUF_INIT;

	learn(&c, &often);
	unlink(run.state);
	c.save_every = 1e9;
	learn(&c, &never);
	CHECK(same(&often, &never));
	unlink(run.state);
	buf_release(&often);
	buf_release(&never);
}

/* Another base keeps moments and place only. */
static void the_next_base_starts_from_its_parameters(void)
{
	struct learner_conf c = ANN(.steps = 3, .state = run.state);
	struct buf delta = BUF_INIT, fresh = BUF_INIT;
	struct meta m;

	learn(&c, &delta);
	small_run_ckpt(&run, 0.5);
	learn(&c, &delta);
	m = meta_of(&delta);
	CHECK(m.steps == 3 && m.cursor == 212);
	c.state = NULL;
	learn(&c, &fresh);
	m = meta_of(&fresh);
	CHECK(m.steps == 3 && m.cursor == 206);
	CHECK(!same(&delta, &fresh));
	small_run_ckpt(&run, 1);
	unlink(run.state);
	buf_release(&delta);
	buf_release(&fresh);
}

static void another_shard_begins_where_the_global_step_is(void)
{
	struct learner_conf c = ANN(.steps = 3, .state = run.state);
	struct buf delta = BUF_INIT;
	struct meta m;

	learn(&c, &delta);
	small_run_shard(&run, 32, 300, 0);
	c.steps = 4;
	learn(&c, &delta);
	m = meta_of(&delta);
	CHECK(m.steps == 4 && m.cursor == 202);
	small_run_shard(&run, 32, 200, 300);
	unlink(run.state);
	buf_release(&delta);
}

static void time_is_looked_at_between_steps(void)
{
	struct learner_conf c = ANN(.steps = UINT64_MAX, .seconds = 20);
	struct buf delta = BUF_INIT, counted = BUF_INIT;
	struct meta m;
	struct rig g;

	learn(&c, &delta);
	m = meta_of(&delta);
	CHECK(m.steps > 1 && m.steps < 20 && m.tokens == m.steps * 16);
	c.steps = m.steps;
	c.seconds = 0;
	learn(&c, &counted);
	CHECK(same(&delta, &counted));

	c.seconds = 0.1;
	CHECK(rig_open(&g, &c) == 0 && learner_train(g.learner) == 0);
	CHECK(rig_answer(&g, &delta) == ERR_AGAIN && delta.len == 0);
	CHECK_SAYS("before the first step");
	rig_close(&g);
	buf_release(&delta);
	buf_release(&counted);
}

static int stop_now(void)
{
	return 15;
}

static void a_request_to_stop_keeps_what_was_done(void)
{
	struct learner_conf c = ANN(.steps = 4, .state = run.state);
	struct buf delta = BUF_INIT, stopped = BUF_INIT;
	struct rig g;

	learn(&c, &delta);
	c.steps = 8;
	c.stop = stop_now;
	learn(&c, &stopped);
	CHECK(same(&delta, &stopped));
	unlink(run.state);
	CHECK(rig_open(&g, &c) == 0 && learner_train(g.learner) == 0 && learner_save(g.learner) == 0);
	stopped.len = 0;
	CHECK(rig_answer(&g, &stopped) == ERR_AGAIN && stopped.len == 0);
	CHECK(access(run.state, F_OK) < 0);
	rig_close(&g);
	buf_release(&delta);
	buf_release(&stopped);
}

static void what_is_not_finite_stops_it(void)
{
	const struct learner_conf c = ANN(.steps = 4, .state = run.state);
	struct buf delta = BUF_INIT;
	struct rig g;

	small_run_ckpt(&run, 1e18f);
	CHECK(rig_open(&g, &c) == 0);
	CHECK(learner_train(g.learner) == ERR_DATA);
	CHECK_SAYS("step 101:");
	CHECK_SAYS("is not finite");
	rig_close(&g);
	CHECK(access(run.state, F_OK) < 0);
	small_run_ckpt(&run, 1);
	buf_release(&delta);
}

static void two_learners_do_not_share_a_state(void)
{
	const struct learner_conf c = ANN(.steps = 2, .state = run.state);
	struct rig g, other;

	CHECK(rig_open(&g, &c) == 0);
	CHECK(rig_open(&other, &c) == ERR_BUSY);
	CHECK_SAYS("in use by process");
	rig_close(&other);
	rig_close(&g);
}

/* As on a file system without locks: somebody else has written the state meanwhile. */
static void a_state_that_changed_is_left_alone(void)
{
	const struct learner_conf c = ANN(.steps = 2, .state = run.state, .save_every = 1e9);
	struct buf delta = BUF_INIT;
	char aside[128];
	struct rig g;

	snprintf(aside, sizeof aside, "%s.aside", run.state);
	learn(&c, &delta);
	CHECK(rename(run.state, aside) == 0);
	CHECK(rig_open(&g, &c) == 0);
	CHECK(rename(aside, run.state) == 0);
	CHECK(learner_train(g.learner) == 0 && learner_save(g.learner) == ERR_BUSY);
	CHECK_SAYS("changed by another process meanwhile");
	rig_close(&g);
	CHECK(rig_open(&g, &c) == 0);
	CHECK(unlink(run.state) == 0);
	CHECK(learner_train(g.learner) == 0 && learner_save(g.learner) == 0); /* no news */
	rig_close(&g);
	buf_release(&delta);
}

static void refuses(enum err code, const char *why, struct learner_conf c)
{
	struct rig g;

	CHECK(rig_open(&g, &c) == code);
	CHECK_SAYS(why);
	rig_close(&g);
}

static void a_state_belongs_to_one_learner_of_one_run(void)
{
	struct learner_conf c = ANN(.steps = 2, .state = run.state);
	struct buf delta = BUF_INIT;

	learn(&c, &delta);
	c.name = "bob";
	refuses(ERR_DATA, "state: is of learner 'ann', not 'bob'", c);
	unlink(run.state);
	CHECK(link(run.ckpt, run.state) == 0);
	refuses(ERR_DATA, "state: is a checkpoint, not a state", c);
	unlink(run.state);
	buf_release(&delta);
}

static void what_does_not_fit_is_refused(void)
{
	struct learner_conf c = ANN(.steps = 1);

	c.name = "../ann";
	refuses(ERR_USAGE, "../ann", c);
	c.name = NULL;
	c.context = 9;
	refuses(ERR_USAGE, "context of 9 tokens is longer than the model's 8", c);
	c.context = 8;
	c.batch = 1 << 21;
	refuses(ERR_USAGE, "batch of 2097152 samples", c);
	c.batch = 0;
	small_run_shard(&run, 33, 200, 0);
	refuses(ERR_DATA, "a.tok: vocabulary of 33, the model's is 32", c);
	small_run_shard(&run, 32, 8, 0);
	refuses(ERR_DATA, "a.tok: too short: 8 tokens", c);
	small_run_shard(&run, 32, 200, 300);
}

static void names_tell_keys_and_shards_apart(void)
{
	char name[KEY_NAME + 1], again[KEY_NAME + 1];
	struct shard *s;

	CHECK(shard_open(&s, run.shard, &run.trust) == 0);
	learner_name(name, &run.key, s);
	shard_close(s);
	CHECK(key_name_check("learner", name) == 0 && strlen(name) == 17);
	small_run_shard(&run, 32, 201, 0);
	CHECK(shard_open(&s, run.shard, &run.trust) == 0);
	learner_name(again, &run.key, s);
	shard_close(s);
	CHECK(strncmp(name, again, 9) == 0 && strcmp(name, again) != 0);
	small_run_shard(&run, 32, 200, 300);
}

int main(void)
{
	small_run_make(&run);
	a_delta_says_what_it_is();
	at_once_or_in_pieces_is_the_same(NULL);
	at_once_or_in_pieces_is_the_same(&(enum optimizer_kind){ OPTIMIZER_MUON });
	a_state_of_another_optimizer_is_refused();
	saving_often_changes_nothing();
	the_next_base_starts_from_its_parameters();
	another_shard_begins_where_the_global_step_is();
	time_is_looked_at_between_steps();
	a_request_to_stop_keeps_what_was_done();
	what_is_not_finite_stops_it();
	two_learners_do_not_share_a_state();
	a_state_that_changed_is_left_alone();
	a_state_belongs_to_one_learner_of_one_run();
	what_does_not_fit_is_refused();
	names_tell_keys_and_shards_apart();
	small_run_remove(&run);
	small_run_make_of(&run, small_run_mixture);
	a_mixture_says_which_experts_were_used();
	at_once_or_in_pieces_is_the_same(NULL);
	a_state_that_does_not_say_it_has_a_delta_that_does_not();
	the_next_base_counts_anew();
	small_run_remove(&run);
	return unit_done("learner");
}
