/*
 * learner_run - a learner of a run directory. The syncer is played by the function that the learner asks at
 * each boundary whether to stop, so nothing depends on time: the learner trains as many steps as it takes.
 */
#include "round/learner_run.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "small_rundir.h"

#define STEPS_MOST 2000000 /* of a test that waits in vain */

static struct small_rundir dir;
static int (*play)(void); /* one move of the syncer at a boundary; not 0: the end */
static int stage;

static int step_on(void)
{
	return play ? play() : 0;
}

static int learn(struct learner_run_conf c)
{
	struct learner_run *l = NULL;
	struct shard *shard;
	int rc;

	c.name = c.name ? c.name : "ann";
	c.steps = c.steps ? c.steps : STEPS_MOST;
	c.stop = step_on;
	c.save_every = c.save_every > 0 ? c.save_every : 1e9;
	c.max_stale = c.max_stale ? c.max_stale : STEPS_MOST;
	stage = 0;
	CHECK(shard_open(&shard, dir.base.shard, &dir.base.trust) == 0);
	rc = learner_run_open(&l, &c, shard, &dir.base.key, &dir.base.trust, NULL, clock_monotonic(),
		NULL);
	if (rc == 0)
		rc = learner_run_train(l);
	learner_run_close(l);
	shard_close(shard);
	return rc;
}
#define LEARN(...) learn((struct learner_run_conf){ __VA_ARGS__ })

static struct beat beat_of(const char *name)
{
	struct beat b = { 0 };

	CHECK(small_rundir_beat(&dir, name, &b));
	for (unsigned p = 0; p < b.fragments; p++) /* beat_read has checked the sum */
		CHECK(b.fragment[p].answered <= b.trained);
	return b;
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static void start_over(void)
{
	small_rundir_remove(&dir);
	small_rundir_make(&dir);
	play = NULL;
}

/* ---- with no syncer ---- */

static void it_trains_before_there_is_a_head(void)
{
	struct beat b;

	CHECK(LEARN(.steps = 5) == 0);
	b = beat_of("ann");
	CHECK(b.incarnation == 1 && b.state == BEAT_GONE && b.epoch == 0 && b.serial == 1);
	CHECK(b.steps == 5 && b.step == 5 && b.trained == 5 * 16);
	CHECK(b.fragment[2].steps == 5 && b.fragment[2].tokens == 80 && b.fragment[2].lost == 0);
	CHECK(is_there("learner/ann/state"));
	beat_release(&b);
}

static void it_goes_on_where_it_was(void)
{
	struct beat b;

	CHECK(LEARN(.steps = 5) == 0);
	CHECK(LEARN(.steps = 2) == 0);
	b = beat_of("ann");
	CHECK(b.incarnation == 2 && b.steps == 7 && b.step == 7 && b.trained == 7 * 16);
	CHECK(b.fragment[0].steps == 7 && b.fragment[0].tokens == 112 && b.fragment[0].lost == 0);
	beat_release(&b);
}

static void it_gives_up_when_no_head_comes(void)
{
	struct beat b;

	CHECK(LEARN(.max_stale = 6) == ERR_AGAIN);
	CHECK_SAYS("no sign of a syncer for 6 steps");
	b = beat_of("ann");
	CHECK(b.steps == 6 && b.state == BEAT_GONE && is_there("learner/ann/state"));
	beat_release(&b);
}

/* ---- rounds ---- */

static void call(uint64_t round, unsigned p, const char *invited)
{
	CHECK(head_add_call(&dir.head, round, p, dir.head.fragment[p].version, invited) == 0);
}

static int one_round(void)
{
	struct meta m = { 0 };
	struct beat b = { 0 };
	bool adopted;

	if (stage == 0) {
		call(1, 1, NULL);
		small_rundir_head(&dir);
		stage = 1;
	} else if (stage == 1 && small_rundir_answer(&dir, "ann", 1, 1, &m)) {
		CHECK(m.kind == KIND_DELTA && m.round == 1 && m.version == 0 && m.incarnation == 1);
		CHECK(m.steps >= 1 && m.tokens == 16 * m.steps && m.trained == m.tokens);
		CHECK(m.answered == m.tokens && m.step == m.steps && m.cursor == 2 * m.steps);
		CHECK_STR(m.learner, "ann");
		CHECK_STR(m.run, dir.manifest.meta.run);
		CHECK(isfinite(m.loss_mean) && m.loss_mean > 0);
		head_end_call(&dir.head, 1);
		small_rundir_fragment(&dir, 1, 1, 1, m.step, 0.02f);
		small_rundir_head(&dir);
		stage = 2;
	} else if (stage == 2) {
		CHECK(small_rundir_beat(&dir, "ann", &b));
		adopted = b.fragment[1].version == 1 && b.fragment[1].round == 1;
		beat_release(&b);
		return adopted;
	}
	return 0;
}

static void a_call_is_answered_and_the_version_adopted(void)
{
	struct beat b;

	play = one_round;
	CHECK(LEARN(.adopting = true) == 0);
	b = beat_of("ann");
	CHECK(b.epoch == 1 && b.fragment[1].version == 1 && b.fragment[1].answered >= 16);
	CHECK(b.fragment[0].version == 0 && b.fragment[0].answered == 0 && b.fragment[0].lost == 0);
	CHECK(b.step <= b.steps);
	beat_release(&b);
}

static void rebasing_loses_nothing(void)
{
	struct beat b;

	play = one_round;
	CHECK(LEARN(.adopting = true, .adopt = { ADOPT_REBASE, 0 }) == 0);
	b = beat_of("ann");
	CHECK(b.fragment[1].version == 1 && b.fragment[1].lost == 0);
	beat_release(&b);
}

/* The run closes, round 2 is for bob only, round 3 for both; then it is done. */
static int the_end(void)
{
	struct meta m = { 0 };
	struct beat b = { 0 };
	bool idle;

	if (stage == 0 && small_rundir_beat(&dir, "ann", &b)) {
		stage += b.steps > 0;
		beat_release(&b);
	} else if (stage == 1) {
		dir.head.phase = PHASE_CLOSING;
		call(2, 0, "bob");
		call(3, 2, "bob,ann");
		small_rundir_head(&dir);
		stage = 2;
	} else if (stage == 2 && small_rundir_answer(&dir, "ann", 2, 3, &m)) {
		CHECK(!small_rundir_answer(&dir, "ann", 0, 2, &m));
		stage = 3;
	} else if (stage == 3 && small_rundir_beat(&dir, "ann", &b)) {
		idle = b.state == BEAT_IDLE && b.fragment[2].round == 3;
		beat_release(&b);
		if (idle) {
			dir.head.phase = PHASE_DONE;
			small_rundir_head(&dir);
			stage = 4;
		}
	}
	return 0;
}

static void a_closing_run_is_answered_and_a_done_one_left(void)
{
	struct beat b;

	play = the_end;
	CHECK(LEARN(.seconds = 0) == 0);
	CHECK(stage == 4);
	b = beat_of("ann");
	CHECK(b.state == BEAT_GONE && b.fragment[2].tokens == 0 && b.fragment[2].answered == b.trained);
	beat_release(&b);
}

static int until_idle(void)
{
	struct beat b = { 0 };
	bool idle = small_rundir_beat(&dir, "ann", &b) && b.state == BEAT_IDLE;

	beat_release(&b);
	return idle;
}

static void it_does_not_train_beyond_the_target(void)
{
	struct beat b;

	dir.manifest.target_steps = 7;
	CHECK(manifest_publish(&dir.manifest, &dir.base.key) == 0);
	play = until_idle;
	CHECK(LEARN(.seconds = 0) == 0);
	b = beat_of("ann");
	CHECK(b.step == 7 && b.steps == 7);
	beat_release(&b);
}

/* ---- old, foreign and missing things ---- */

static int heads_of_old(void)
{
	struct beat b = { 0 };
	int end = 0;

	if (stage == 0) {
		dir.head.epoch = 3;
		small_rundir_fragment(&dir, 0, 1, 1, 5, 0.02f);
		small_rundir_head(&dir);
		stage = 1;
	} else if (stage == 1 && small_rundir_beat(&dir, "ann", &b)) {
		if (b.fragment[0].version == 1) { /* now one of an epoch before */
			dir.head.epoch = 2;
			dir.head.counter += 100;
			small_rundir_fragment(&dir, 1, 1, 2, 5, 0.02f);
			small_rundir_head(&dir);
			dir.head.epoch = 3;
			stage = 2;
		}
		beat_release(&b);
	} else if (stage == 2 && small_rundir_beat(&dir, "ann", &b)) {
		CHECK(b.epoch == 3 && b.fragment[1].version == 0);
		end = b.steps > 400; /* it would have seen it by now */
		beat_release(&b);
	}
	return end;
}

static void a_head_of_an_older_epoch_is_ignored(void)
{
	struct beat b;

	play = heads_of_old;
	CHECK(LEARN(.seconds = 0) == 0);
	b = beat_of("ann");
	CHECK(b.epoch == 3 && b.fragment[0].version == 1 && b.fragment[1].version == 0);
	beat_release(&b);
}

static int vanishing(void)
{
	struct beat b = { 0 };
	char path[RUNDIR_PATH];
	int end = 0;

	if (stage == 0) {
		small_rundir_fragment(&dir, 0, 1, 1, 5, 0.02f);
		CHECK(unlink(rundir_fragment(path, 0, 1)) == 0);
		small_rundir_head(&dir);
		stage = 1;
	} else if (small_rundir_beat(&dir, "ann", &b)) {
		if (stage == 1 && b.epoch == 1 && b.steps > 50) {
			CHECK(b.fragment[0].version == 0);
			small_rundir_fragment(&dir, 0, 2, 2, 6, 0.03f);
			small_rundir_head(&dir);
			stage = 2;
		}
		end = stage == 2 && b.fragment[0].version == 2;
		beat_release(&b);
	}
	return end;
}

static void a_fragment_that_vanished_is_passed_over_for_the_next(void)
{
	play = vanishing;
	CHECK(LEARN(.seconds = 0) == 0);
	CHECK(stage == 2);
}

/* A fragment by a stranger, and one that is another than the head tells. */
static int foreign(void)
{
	struct beat b = { 0 };
	int end = 0;

	if (stage == 0) {
		small_rundir_fragment(&dir, 0, 1, 1, 5, 0.02f);
		dir.head.fragment[0].id.b[0] ^= 1;
		small_rundir_head(&dir);
		stage = 1;
	} else if (small_rundir_beat(&dir, "ann", &b)) {
		CHECK(b.fragment[0].version == 0);
		end = b.epoch == 1 && b.steps > 50;
		beat_release(&b);
	}
	return end;
}

static void a_fragment_that_is_not_the_one_told_is_not_adopted(void)
{
	play = foreign;
	CHECK(LEARN(.seconds = 0) == 0);
}

/* ---- identity ---- */

static void put_beat(uint64_t incarnation, const char *nonce)
{
	struct header h = { 0 };
	struct beat b = { 0 };
	char path[RUNDIR_PATH];

	CHECK(beat_init(&b, SMALL_P) == 0);
	memcpy(b.run, dir.manifest.meta.run, sizeof b.run);
	snprintf(b.learner, sizeof b.learner, "ann");
	snprintf(b.nonce, sizeof b.nonce, "%s", nonce);
	b.incarnation = incarnation;
	CHECK(beat_write(&b, &h) == 0);
	small_rundir_card(&h, &dir.base.key, rundir_beat(path, "ann"));
	header_release(&h);
	beat_release(&b);
}

static int another_takes_over(void)
{
	if (stage++ == 3)
		put_beat(2, "fedcba9876543210");
	return 0;
}
static int a_twin(void)
{
	if (stage++ == 3)
		put_beat(1, "fedcba9876543210");
	return 0;
}

static void a_learner_that_was_superseded_stops_and_writes_nothing(void)
{
	struct beat b;

	for (play = another_takes_over; play; play = play == a_twin ? NULL : a_twin) {
		int (*now)(void) = play;

		start_over();
		play = now;
		CHECK(LEARN(.seconds = 0) == ERR_BUSY);
		CHECK_SAYS("superseded by incarnation");
		b = beat_of("ann");
		CHECK_STR(b.nonce, "fedcba9876543210");
		CHECK(!is_there("learner/ann/state"));
		beat_release(&b);
	}
}

static int old_beat_comes_back(void)
{
	struct beat b = { 0 };
	int end = 0;

	if (stage == 0)
		put_beat(1, "fedcba9876543210"); /* this is incarnation 2 */
	else if (small_rundir_beat(&dir, "ann", &b)) {
		end = b.incarnation == 2;
		beat_release(&b);
	}
	stage++;
	return end;
}

static void a_beat_of_an_older_life_is_written_over(void)
{
	CHECK(LEARN(.steps = 1) == 0);
	play = old_beat_comes_back;
	CHECK(LEARN(.seconds = 0) == 0);
}

/* A lock belongs to an open file: this process can stand for another one. */
static int another_process(void)
{
	const struct learner_run_conf c = { .name = "ann", .steps = 1 };
	struct learner_run *l = NULL;
	struct shard *shard;

	if (stage++)
		return 1;
	CHECK(shard_open(&shard, dir.base.shard, &dir.base.trust) == 0);
	CHECK(learner_run_open(&l, &c, shard, &dir.base.key, &dir.base.trust, NULL,
		clock_monotonic(), NULL) == ERR_BUSY);
	CHECK_SAYS("learner/ann/state.lock: in use by process");
	shard_close(shard);
	return 0;
}

static void two_processes_do_not_share_a_name(void)
{
	play = another_process;
	CHECK(LEARN(.steps = 5) == 0);
	CHECK(stage == 2);
}

static int revoked(void)
{
	struct key_pub other = { .name = "carl" };

	if (stage++ == 2) {
		other.pub = dir.base.key.secret.pub;
		other.pub.b[0] ^= 1;
		CHECK(manifest_admit(&dir.manifest, &other, ROLE_LEARNER) == 0);
		CHECK(manifest_revoke(&dir.manifest, "carl") == 0);
		CHECK(manifest_publish(&dir.manifest, &dir.base.key) == 0);
		dir.head.serial = dir.manifest.serial;
		small_rundir_head(&dir);
	}
	return 0;
}

static int until_serial(void)
{
	struct beat b = { 0 };
	bool seen;

	revoked();
	if (!small_rundir_beat(&dir, "ann", &b))
		return 0;
	seen = b.serial == 2;
	beat_release(&b);
	return seen;
}

static void a_newer_manifest_is_taken_while_it_trains(void)
{
	play = until_serial;
	CHECK(LEARN(.seconds = 0) == 0);
}

static void a_manifest_that_was_rolled_back_is_refused(void)
{
	struct buf old = BUF_INIT;

	CHECK(place_read(RUNDIR_MANIFEST, CARD_BYTES, &old) == 1);
	play = until_serial;
	CHECK(LEARN(.seconds = 0) == 0);
	play = NULL;
	CHECK(place_put(RUNDIR_MANIFEST, old.data, old.len, true) == 0);
	CHECK(LEARN(.steps = 1) == ERR_AUTH);
	CHECK_SAYS("rolled back");
	buf_release(&old);
}

/* ---- death ---- */

/* In a process of its own, killed in the middle of things as soon as `until` says so. */
static void die(int (*until)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		play = until;
		(void)LEARN(.save_every = 1e-3);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int answered_then_killed(void)
{
	struct meta m = { 0 };

	if (stage == 0) {
		call(1, 1, NULL);
		small_rundir_head(&dir);
		stage = 1;
	} else if (small_rundir_answer(&dir, "ann", 1, 1, &m)) {
		raise(SIGKILL);
	}
	return 0;
}

static void what_was_answered_before_a_death_is_not_answered_again(void)
{
	struct meta before = { 0 }, after = { 0 };
	struct beat b;

	die(answered_then_killed);
	CHECK(small_rundir_answer(&dir, "ann", 1, 1, &before));
	CHECK(LEARN(.steps = 30) == 0);
	CHECK(small_rundir_answer(&dir, "ann", 1, 1, &after));
	CHECK(after.incarnation == 1 && after.trained == before.trained);
	b = beat_of("ann");
	CHECK(b.incarnation == 2 && b.trained >= before.trained + 30 * 16);
	CHECK(b.fragment[1].round == 1 && b.fragment[1].answered == before.answered);
	CHECK(b.fragment[1].tokens >= 30 * 16);
	beat_release(&b);
}

static int killed_after_some_steps(void)
{
	struct beat b = { 0 };

	if (small_rundir_beat(&dir, "ann", &b)) {
		if (b.steps > 20 && is_there("learner/ann/state"))
			raise(SIGKILL);
		beat_release(&b);
	}
	return 0;
}

static void a_death_costs_unfinished_work_only(void)
{
	struct beat dead, b;

	die(killed_after_some_steps);
	dead = beat_of("ann");
	CHECK(dead.state == BEAT_RUNNING);
	CHECK(LEARN(.steps = 3) == 0);
	b = beat_of("ann");
	CHECK(b.incarnation == 2 && b.trained >= dead.trained + 3 * 16);
	CHECK(b.fragment[0].lost + b.fragment[0].tokens == b.trained);
	CHECK(b.fragment[0].tokens > 3 * 16); /* the state was of use */
	beat_release(&dead);
	beat_release(&b);
}

static void damage(const char *path)
{
	struct stat st;
	char byte = 0;
	int fd = open(path, O_RDWR);

	CHECK(fd >= 0 && fstat(fd, &st) == 0 && pread(fd, &byte, 1, st.st_size / 2) == 1);
	byte ^= 4;
	CHECK(pwrite(fd, &byte, 1, st.st_size / 2) == 1);
	close(fd);
}

static void a_damaged_state_is_replaced_and_all_of_it_lost(void)
{
	struct beat b;

	CHECK(LEARN(.steps = 5) == 0);
	damage("learner/ann/state");
	CHECK(LEARN(.steps = 2) == 0);
	b = beat_of("ann");
	CHECK(b.incarnation == 2 && b.trained == 7 * 16 && b.steps == 7);
	CHECK(b.fragment[0].lost == 5 * 16 && b.fragment[0].tokens == 2 * 16);
	beat_release(&b);
	CHECK(LEARN(.steps = 1) == 0); /* the new one is good */
	b = beat_of("ann");
	CHECK(b.fragment[0].lost == 5 * 16 && b.fragment[0].tokens == 3 * 16);
	beat_release(&b);
}

static uint64_t updates_of(const char *path)
{
	struct frame_reader *r = NULL;
	uint64_t updates = 0;
	int fd;

	CHECK(place_open(path, &fd) == 1 && frame_open(&r, fd, path, &dir.base.trust, NULL) == 0);
	CHECK(conf_u64(&frame_header(r)->keys, "updates", 0, UINT64_MAX, &updates) == 1);
	frame_reader_free(r);
	close(fd);
	return updates;
}

static void moments_come_from_the_newest_good_state_of_a_peer(void)
{
	CHECK(LEARN(.name = "bob", .steps = 4) == 0);
	CHECK(LEARN(.name = "cat", .steps = 6) == 0);
	CHECK(LEARN(.name = "dan", .steps = 8) == 0);
	damage("learner/dan/state");
	CHECK(mkdir("learner/eve", 0777) == 0 && mkfifo("learner/eve/state", 0666) == 0);
	CHECK(mkdir("learner/fay", 0777) == 0 && symlink("../bob/state", "learner/fay/state") == 0);
	CHECK(LEARN(.name = "ann", .steps = 1) == 0);
	CHECK(updates_of("learner/ann/state") == 4 + 6 + 1); /* of bob, cat and its own */
}

/* Muon keeps other moments: a peer that trains with AdamW has none to give, and one's own are left behind. */
static void moments_come_from_a_peer_of_the_same_optimizer(void)
{
	const enum optimizer_kind muon = OPTIMIZER_MUON;

	CHECK(LEARN(.name = "bob", .steps = 4, .optimizer = &muon) == 0);
	CHECK(LEARN(.name = "cat", .steps = 6) == 0);
	CHECK(LEARN(.name = "ann", .steps = 1, .optimizer = &muon) == 0);
	CHECK(updates_of("learner/ann/state") == 4 + 1);
	CHECK(LEARN(.name = "ann", .steps = 2, .optimizer = &muon) == 0);
	CHECK(updates_of("learner/ann/state") == 4 + 3);
	CHECK(LEARN(.name = "ann", .steps = 1) == 0);
	CHECK(updates_of("learner/ann/state") == 6 + 1);
}

static void fresh_learners_begin_at_nothing(void)
{
	CHECK(LEARN(.name = "ann", .steps = 2) == 0);
	CHECK(updates_of("learner/ann/state") == 2);
}

/* ---- cleaning up ---- */

static int many_rounds(void)
{
	static uint64_t round;
	struct meta m = { 0 };

	if (stage == 0) {
		round = 1;
		call(round, 0, NULL);
		small_rundir_head(&dir);
		stage = 1;
	} else if (stage == 1 && small_rundir_answer(&dir, "ann", 0, round, &m)) {
		head_end_call(&dir.head, round);
		small_rundir_fragment(&dir, 0, round, round, m.step, 0.02f);
		if (round == 6) {
			small_rundir_head(&dir);
			stage = 2;
			return 0;
		}
		call(++round, 0, NULL);
		small_rundir_head(&dir);
	} else if (stage == 2) {
		return is_there("learner/ann/f000.6.delta") && !is_there("learner/ann/f000.4.delta");
	}
	return 0;
}

static void old_deltas_are_removed_as_the_run_keeps_versions(void)
{
	dir.manifest.keep = 2;
	play = many_rounds;
	CHECK(LEARN(.seconds = 60) == 0);
	/* of version 6, made by round 6, the last two before stay, with the answers that made 5 and 6 */
	CHECK(is_there("learner/ann/f000.5.delta") && is_there("learner/ann/f000.6.delta"));
	CHECK(!is_there("learner/ann/f000.4.delta") && !is_there("learner/ann/f000.1.delta"));
}

static void check(void (*test)(void))
{
	start_over();
	test();
}

int main(void)
{
	small_rundir_make(&dir);
	check(it_trains_before_there_is_a_head);
	check(it_goes_on_where_it_was);
	check(it_gives_up_when_no_head_comes);
	check(a_call_is_answered_and_the_version_adopted);
	check(rebasing_loses_nothing);
	check(a_closing_run_is_answered_and_a_done_one_left);
	check(it_does_not_train_beyond_the_target);
	check(a_head_of_an_older_epoch_is_ignored);
	check(a_fragment_that_vanished_is_passed_over_for_the_next);
	check(a_fragment_that_is_not_the_one_told_is_not_adopted);
	check(a_learner_that_was_superseded_stops_and_writes_nothing);
	check(a_beat_of_an_older_life_is_written_over);
	check(two_processes_do_not_share_a_name);
	check(a_newer_manifest_is_taken_while_it_trains);
	check(a_manifest_that_was_rolled_back_is_refused);
	check(what_was_answered_before_a_death_is_not_answered_again);
	check(a_death_costs_unfinished_work_only);
	check(a_damaged_state_is_replaced_and_all_of_it_lost);
	check(moments_come_from_the_newest_good_state_of_a_peer);
	check(moments_come_from_a_peer_of_the_same_optimizer);
	check(fresh_learners_begin_at_nothing);
	check(old_deltas_are_removed_as_the_run_keeps_versions);
	small_rundir_remove(&dir);
	return unit_done("learner_run");
}
