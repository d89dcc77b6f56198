/* view - readings of a run directory, and explain and board, which put them into words. */
#include "round/view.h"

#include "round/board.h"
#include "round/explain.h"
#include "run_dir.h"

/* An identity of 64 hex digits, from two of them. */
#define ID8(x) x x x x x x x x
#define ID(x) ID8(x) ID8(x) ID8(x) ID8(x)

static double time_now;
static double read_time(void *ctx)
{
	(void)ctx;
	return time_now;
}
static const struct clock own_clock = { read_time, NULL };

static const uint64_t from_start[2] = { 0, 0 }, none[2] = { 0, 0 };

static void open_view(struct view **v, struct run_dir *d)
{
	time_now = 100;
	CHECK(view_open(v, &d->trust, own_clock) == 0);
}

/* Text contains this. */
static void expect_in(const char *text, const char *part)
{
	if (!strstr(text, part))
		fprintf(stderr, "no '%s' in:\n%s\n", part, text);
	CHECK(strstr(text, part) != NULL);
}

static char *explained(const struct view *v)
{
	static struct buf text;

	buf_clear(&text);
	CHECK(explain_run(&text, v, "my run") == 0);
	return text.data;
}

static char *shown(const struct view *v, int columns, int rows)
{
	static struct buf text;
	const struct board_conf conf = { .run = "my run", .columns = columns, .rows = rows, .disk = 123456789 };

	buf_clear(&text);
	CHECK(board_text(&text, v, &conf) == 0);
	return text.data;
}

static void a_run_that_nobody_has_begun(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	CHECK(unlink("syncer/tape.1") == 0);
	open_view(&v, &d);
	CHECK(view_read(v) == 0 && v->syncer == VIEW_ABSENT && v->learners == 0 && v->calls == 0);
	CHECK(v->goodput < 0 && v->trouble == 0 && !view_over(v));
	expect_in(explained(v), "no syncer has begun this run yet\n");
	expect_in(explained(v), "to go on:\n    dl-sync -r 'my run'\n"
		"    dl-learn -r 'my run' -i NAME -d SHARD   # 2 of these, each with a NAME of its own\n");
	expect_in(shown(v, 80, 0), "not begun");
	view_close(v);
	run_dir_end(&d);
}

static void only_counters_that_change_are_signs_of_life(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	run_dir_head(&d);
	run_dir_beat(&d, "anna", BEAT_RUNNING, 1, from_start, none);
	run_dir_beat(&d, "ben", BEAT_RUNNING, 1, from_start, none);
	open_view(&v, &d);
	CHECK(view_read(v) == 0 && v->learners == 2);
	CHECK_STR(v->learner[0].name, "anna");
	CHECK(v->learner[0].life == VIEW_UNKNOWN && v->syncer == VIEW_UNKNOWN && v->learner[0].rate <= 0);
	time_now += 5;
	run_dir_head(&d);
	run_dir_beat(&d, "anna", BEAT_RUNNING, 2, from_start, none);
	run_dir_beat(&d, "carl", BEAT_RUNNING, 1, from_start, none); /* came while we looked */
	CHECK(view_read(v) == 0 && v->learners == 3);
	CHECK(v->syncer == VIEW_ALIVE && v->learner[0].life == VIEW_ALIVE && v->learner[2].life == VIEW_ALIVE);
	CHECK(v->learner[1].life == VIEW_UNKNOWN && v->learner[1].silent == 5);
	CHECK(view_alive(v) == 2 && v->tokens_per_s == 4000);
	time_now += 26; /* 31 for ben, who has not moved; 26 for the others */
	CHECK(view_read(v) == 0);
	CHECK(v->learner[1].life == VIEW_SILENT && v->learner[0].life == VIEW_ALIVE && v->syncer == VIEW_ALIVE);
	time_now += 5;
	run_dir_beat(&d, "anna", BEAT_GONE, 3, from_start, none);
	run_dir_beat(&d, "ben", BEAT_RUNNING, 2, from_start, none); /* is back */
	CHECK(view_read(v) == 0);
	CHECK(v->learner[0].life == VIEW_GONE && v->learner[1].life == VIEW_ALIVE);
	CHECK(v->learner[2].life == VIEW_SILENT && v->syncer == VIEW_SILENT);
	view_close(v);
	run_dir_end(&d);
}

static void an_old_beat_or_head_changes_nothing(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	d.head.counter = 50;
	run_dir_head(&d);
	run_dir_beat(&d, "anna", BEAT_RUNNING, 9, from_start, none);
	open_view(&v, &d);
	CHECK(view_read(v) == 0);
	d.head.counter = 20;
	run_dir_head(&d);
	run_dir_beat(&d, "anna", BEAT_RUNNING, 4, from_start, none);
	CHECK(view_read(v) == 0);
	CHECK(v->head.counter == 51 && v->learner[0].beat.counter == 9);
	CHECK(v->syncer == VIEW_UNKNOWN && v->learner[0].life == VIEW_UNKNOWN && v->trouble == 0);
	view_close(v);
	run_dir_end(&d);
}

static void a_head_that_was_never_readable_is_not_a_run_that_has_not_begun(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	run_dir_head(&d);
	CHECK(truncate("head", 50) == 0);
	open_view(&v, &d);
	CHECK(view_read(v) == 0 && v->head_trouble.code == ERR_AUTH && v->syncer == VIEW_UNKNOWN);
	expect_in(v->head_trouble.text, "head: ");
	expect_in(shown(v, 80, 0), "   unreadable\n");
	expect_in(shown(v, 80, 0), " syncer unknown\n");
	expect_in(shown(v, 80, 0), "\n1 unreadable: head: ");
	run_dir_head(&d);
	CHECK(view_read(v) == 0 && v->head_trouble.code == 0);
	CHECK_STR(view_phase_name(v), "running");
	view_close(v);
	run_dir_end(&d);
}

static void a_head_that_is_gone_is_not_a_run_that_has_not_begun(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	run_dir_tape(&d, (const char *const[]){ "anna", NULL });
	open_view(&v, &d);
	CHECK(view_read(v) == 0 && v->headless && v->syncer == VIEW_ABSENT && v->trouble == 0);
	CHECK_STR(view_phase_name(v), "no head");
	expect_in(explained(v), "the head is not there, though the tape tells that the run has begun: the next syncer makes "
		"it again\nto go on:\n    dl-sync -r 'my run'\n");
	run_dir_head(&d);
	CHECK(view_read(v) == 0 && !v->headless);
	CHECK(unlink("head") == 0 && view_read(v) == 0 && !v->headless); /* one was read */
	CHECK_STR(view_phase_name(v), "running");
	view_close(v);
	run_dir_end(&d);
}

static void what_makes_no_sense_is_counted_and_passed_over(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	run_dir_head(&d);
	run_dir_beat(&d, "anna", BEAT_RUNNING, 1, from_start, none);
	open_view(&v, &d);
	CHECK(view_read(v) == 0 && v->trouble == 0);
	CHECK(truncate("learner/anna/beat", 100) == 0 && truncate("head", 50) == 0);
	CHECK(mkdir("learner/.hidden", 0777) == 0 && mkdir("learner/a b", 0777) == 0);
	CHECK(mkdir("learner/zoe", 0777) == 0 && mkfifo("learner/zoe/beat", 0666) == 0);
	CHECK(view_read(v) == 0);
	CHECK(v->learners == 2 && v->trouble == 3 && v->head.fragment && v->learner[0].beat.fragment);
	CHECK(v->learner[1].life == VIEW_ABSENT && v->learner[1].trouble[0]);
	expect_in(v->learner[0].trouble, "learner/anna/beat: ");
	CHECK(!strstr(v->learner[0].trouble + 1, "learner/anna/beat: ")); /* once */
	expect_in(explained(v), "3 files could not be read: head: ");
	CHECK(v->head_trouble.code == ERR_AUTH);
	CHECK_STR(view_phase_name(v), "running"); /* as it was read last */
	/* anna's beat under another name */
	CHECK(unlink("learner/zoe/beat") == 0);
	run_dir_beat(&d, "anna", BEAT_RUNNING, 2, from_start, none);
	CHECK(rename("learner/anna/beat", "learner/zoe/beat") == 0);
	run_dir_head(&d);
	CHECK(view_read(v) == 0);
	CHECK(v->trouble == 1 && v->learner[1].life == VIEW_ABSENT && v->head_trouble.code == 0);
	expect_in(v->learner[1].trouble, "is of learner 'anna'");
	expect_in(explained(v), "\n1 file could not be read: ");
	expect_in(shown(v, 80, 0), "\nzoe            absent      -      -      -       -      -      -      -      -\n");
	expect_in(shown(v, 40, 0), "\n1 unreadable: learner/zoe/beat: is of\nlearner 'anna' of run\n");
	expect_in(shown(v, 80, 0), "xi step -   quorum -   sync -   slack -   window -\n");
	view_close(v);
	run_dir_end(&d);
}

/* anna has answered, ben is alive and has not, carl is lost, dora has left. */
static void make_open_round(struct run_dir *d, uint64_t counter)
{
	const uint64_t newest[2] = { 1, 0 }, answered[2] = { 3, 1 };

	run_dir_head(d);
	run_dir_beat(d, "anna", BEAT_RUNNING, counter, newest, answered);
	run_dir_beat(d, "ben", BEAT_RUNNING, counter, from_start, none);
	run_dir_beat(d, "carl", BEAT_RUNNING, 1, newest, none);
	run_dir_beat(d, "dora", BEAT_GONE, 1, newest, none);
}

static void write_rounds(struct run_dir *d)
{
	const char *const learners[] = { "anna", "ben", "carl", "dora", NULL };
	char base[RUNDIR_PATH];

	rundir_fragment(base, 0, 1);
	CHECK(place_make(base) == 0 && place_put(base, "", 0, true) == 0); /* that it is there is all that is looked at */
	run_dir_tape(d, learners);
	LINE(d, 2, "call", "round", "1", "fragment", "f000", "version", "0", "invited", "all", "steps", "6");
	LINE(d, 3, "answer", "round", "1", "fragment", "f000", "learner", "anna", "id", ID("aa"), "incarnation", "1",
		"steps", "3", "tokens", "300", "trained", "300", "step", "5", "loss", "3");
	LINE(d, 3, "answer", "round", "1", "fragment", "f000", "learner", "carl", "id", ID("bb"), "incarnation", "1",
		"steps", "3", "tokens", "100", "trained", "100", "step", "5", "loss", "5");
	LINE(d, 4, "merge", "round", "1", "fragment", "f000", "version", "1", "base", ID("cc"), "step", "5", "answers",
		"anna:" ID("aa") ":0.5:1,carl:" ID("bb") ":0.5:1");
	LINE(d, 4, "publish", "round", "1", "fragment", "f000", "version", "1", "id", ID("dd"));
	LINE(d, 5, "refuse", "round", "1", "fragment", "f000", "learner", "ben", "id", ID("ee"), "verdict", "late",
		"tokens", "300", "why", "late");
	LINE(d, 40, "lost", "learner", "carl", "silent", "31");
	LINE(d, 50, "call", "round", "3", "fragment", "f000", "version", "1", "invited", "all", "steps", "6");
	LINE(d, 52, "answer", "round", "3", "fragment", "f000", "learner", "anna", "id", ID("ff"), "incarnation", "1",
		"steps", "3", "tokens", "300", "trained", "600", "step", "11", "loss", "2");
	LINE(d, 62, "gone", "learner", "dora");
	d->head.fragment[0] = (struct head_fragment){ 1, 1, 5, 400, { { 1 } } };
	d->head.step = 14;
	d->head.trained = 1000;
	d->head.tokens = 800;
	d->head.times = (struct policy_times){ 0.5, 0.25, 0.125, 0.625, 0.625 };
	CHECK(head_add_call(&d->head, 3, 0, 1, NULL) == 0);
	make_open_round(d, 1);
}

static void open_rounds_say_who_is_missing(void)
{
	struct run_dir d;
	struct view *v;
	char *text;

	run_dir_begin(&d);
	write_rounds(&d);
	open_view(&v, &d);
	CHECK(view_read(v) == 0);
	time_now += 1;
	make_open_round(&d, 2);
	CHECK(view_read(v) == 0);
	CHECK(v->calls == 1 && v->call[0].round == 3 && v->call[0].invitations == 4 && v->call[0].answers == 1);
	CHECK(v->call[0].answered[0] && !v->call[0].answered[1] && v->call[0].open == 12 + 1);
	CHECK(v->learner[2].life == VIEW_SILENT && v->learner[2].lost == 31 + 22);
	CHECK(v->learner[0].stale == 2 && v->learner[0].answered == 3);
	CHECK_NEAR(v->trained, 4000, 0); /* by beats: the head lags */
	CHECK_NEAR(v->goodput, 0.2, 1e-12);
	CHECK(v->merges == 1 && v->refusals == 1 && v->late == 1);
	CHECK(v->losses == 1 && v->loss[0].step == 5);
	CHECK_NEAR(v->loss[0].loss, 3.5, 1e-12);
	text = explained(v);
	expect_in(text, "running at global step 14 of 100, 1 merges; 2 of 4 learners alive; syncer alive, epoch 1\n");
	expect_in(text, "round 3: fragment f000 from version 1, 1 of 2 answers, called at least 13 s ago\n");
	expect_in(text, "  it waits for 1 more of those that are alive\n");
	expect_in(text, "  anna             answered\n");
	expect_in(text, "  ben              is still at version 0 of it\n");
	expect_in(text, "  carl             silent for 53 s, and lost for the syncer\n");
	CHECK(!strstr(text, "dora") && !strstr(text, "to go on"));
	CHECK(unlink("global/f000/1.frag") == 0);
	expect_in(explained(v), "  global/f000/1.frag is not there: bring it back\n");
	view_close(v);
	run_dir_end(&d);
}

static void put_tape(unsigned epoch, const char *text)
{
	char path[32];

	snprintf(path, sizeof path, "syncer/tape.%u", epoch);
	CHECK(place_put(path, text, strlen(text), true) == 0);
}

/* What was read is superseded, and what it was superseded by can't be read: not now, and then it can. */
static void a_tape_that_begins_anew_and_cannot_be_read(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	write_rounds(&d);
	open_view(&v, &d);
	CHECK(view_read(v) == 0 && v->losses == 1);
	put_tape(2, "2 0 epoch epoch=2 after=1\n");
	put_tape(3, "no number\n");
	d.head.epoch = 3;
	run_dir_head(&d);
	for (int i = 0; i < 3; i++) {
		CHECK(view_read(v) == ERR_AUTH && v->losses == 0);
		CHECK_SAYS("syncer/tape.3: its first line has no number");
	}
	CHECK(unlink("syncer/tape.3") == 0 && unlink("syncer/tape.2") == 0);
	CHECK(view_read(v) == 0 && v->losses == 1);
	view_close(v);
	run_dir_end(&d);
}

static void too_few_learners_are_told_with_what_to_type(void)
{
	struct run_dir d;
	struct view *v;
	char *text;

	run_dir_begin(&d);
	write_rounds(&d);
	open_view(&v, &d);
	CHECK(view_read(v) == 0);
	run_dir_head(&d); /* the syncer lives, no learner does */
	CHECK(view_read(v) == 0);
	text = explained(v);
	expect_in(text, "  it can't have its quorum: 1 of the 2 learners it needs are alive\n");
	expect_in(text, "  ben              has not moved in the 0 s that were looked at\n");
	expect_in(text, "  dora             has left\n");
	expect_in(text, "to go on:\n    dl-learn -r 'my run' -i anna -d SHARD\n    dl-learn -r 'my run' -i ben -d SHARD\n");
	expect_in(text, "or wait for the end of the run: ");
	CHECK(!strstr(text, "dl-sync"));
	d.head.phase = PHASE_CLOSING;
	run_dir_head(&d);
	CHECK(view_read(v) == 0);
	text = explained(v);
	expect_in(text, "  it can't have its quorum, and needs none: the run is at its end, ");
	expect_in(text, "is merged when it has waited for a lease, 30 s\n");
	CHECK(!strstr(text, "or wait for the end"));
	d.head.phase = PHASE_RUNNING;
	time_now += 40; /* nobody lives */
	CHECK(view_read(v) == 0);
	CHECK(v->call[0].open == 12 + 40); /* its tape has not grown */
	v->manifest.quorum = 1;
	expect_in(shown(v, 80, 0), "   1/1    syncer\n");
	v->manifest.quorum = 2;
	text = explained(v);
	expect_in(text, "to go on:\n    dl-sync -r 'my run'\n    dl-learn -r 'my run' -i anna -d SHARD\n");
	view_close(v);
	run_dir_end(&d);
}

static void a_quorum_that_nobody_can_make_is_told_with_whom_to_start(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	run_dir_head(&d);
	run_dir_beat(&d, "anna", BEAT_GONE, 1, from_start, none);
	run_dir_beat(&d, "ben", BEAT_RUNNING, 1, from_start, none);
	open_view(&v, &d);
	CHECK(view_read(v) == 0);
	expect_in(explained(v), "no round is open, and nobody is there to call for one\nto go on:\n"
		"    dl-sync -r 'my run'\n    dl-learn -r 'my run' -i ben -d SHARD\n"
		"    dl-learn -r 'my run' -i anna -d SHARD\n"); /* who died comes first */
	run_dir_head(&d);
	run_dir_beat(&d, "ben", BEAT_RUNNING, 2, from_start, none);
	CHECK(view_read(v) == 0);
	v->manifest.quorum = 4;
	expect_in(explained(v), "no round is open: a quorum needs 4 learners, and 1 is alive\nto go on:\n"
		"    dl-learn -r 'my run' -i anna -d SHARD\n"
		"    dl-learn -r 'my run' -i NAME -d SHARD   # 2 of these, each with a NAME of its own\n"
		"or wait for the end of the run: ");
	v->manifest.quorum = 3;
	run_dir_beat(&d, "anna", BEAT_RUNNING, 2, from_start, none);
	CHECK(view_read(v) == 0);
	expect_in(explained(v), "a quorum needs 3 learners, and 2 are alive\nto go on:\n"
		"    dl-learn -r 'my run' -i NAME -d SHARD\nor wait");
	view_close(v);
	run_dir_end(&d);
}

static void a_run_of_dl_run_is_continued_by_it(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	run_dir_head(&d);
	run_dir_beat(&d, "learner-0", BEAT_GONE, 1, from_start, none);
	run_dir_beat(&d, "learner-1", BEAT_GONE, 1, from_start, none);
	run_dir_beat(&d, "other", BEAT_GONE, 1, from_start, none);
	CHECK(mkdir("log", 0777) == 0 && mkfifo("log/dl-run.lock", 0666) == 0);
	open_view(&v, &d);
	CHECK(view_read(v) == 0);
	expect_in(explained(v), "to go on:\n    dl-run -m 2 'my run'\n");
	v->manifest.quorum = 5; /* two of them would never be enough */
	expect_in(explained(v), "to go on:\n    dl-run -m 5 'my run'\n");
	view_close(v);
	run_dir_end(&d);
}

static void the_board_fits_its_screen(void)
{
	struct run_dir d;
	struct view *v;
	char *text;
	size_t lines = 0;
	const uint64_t answered[2] = { 3, 0 };

	run_dir_begin(&d);
	write_rounds(&d);
	open_view(&v, &d);
	CHECK(view_read(v) == 0);
	make_open_round(&d, 2);
	CHECK(view_read(v) == 0);
	text = shown(v, 80, 0);
	expect_in(text, "step 14 of 100   learners 2 of 4 alive   syncer alive, epoch 1\n");
	expect_in(text, "   K 2   tau 2   disk 123M\n");
	expect_in(text, "xi step 500 ms   quorum 250 ms   sync 125 ms   slack 625 ms   window 625 ms\n");
	expect_in(text, "tokens 4000 trained, 800 merged   goodput 20.0%   4000 tokens/s\n");
	expect_in(text, "anna           alive");
	expect_in(text, "3            f000            1      12 s    1/2    quorum\n");
	expect_in(text, "f000 v1 9");
	for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1)
		CHECK(end - at <= 80);
	text = shown(v, 50, 12);
	for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1, lines++)
		CHECK(end - at <= 50);
	CHECK(lines == 12);
	d.head.times = (struct policy_times){ 0.5, 0.25, 0.125, 0.625, 0 };
	run_dir_beat(&d, "ben", BEAT_RUNNING, 3, from_start, answered);
	run_dir_head(&d);
	CHECK(view_read(v) == 0);
	expect_in(shown(v, 80, 0), "2/2    merge\n");
	time_now += 40;
	CHECK(view_read(v) == 0);
	expect_in(shown(v, 80, 0), "2/2    syncer\n");
	view_close(v);
	run_dir_end(&d);
}

static void the_tape_is_read_on(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	write_rounds(&d);
	open_view(&v, &d);
	CHECK(view_read(v) == 0 && v->tape_lines == 15 && v->achieved <= 0);
	LINE(&d, 63, "merge", "round", "3", "fragment", "f000", "version", "2", "base", ID("dd"), "step", "11", "answers",
		"anna:" ID("ff") ":1:1");
	LINE(&d, 63, "publish", "round", "3", "fragment", "f000", "version", "2", "id", ID("ab"));
	head_end_call(&d.head, 3);
	run_dir_head(&d);
	CHECK(view_read(v) == 0 && v->tape_lines == 17 && v->merges == 2 && v->calls == 0);
	CHECK_NEAR(v->achieved, 6, 1e-12);
	CHECK(v->losses == 2 && v->loss[1].step == 11);
	CHECK_NEAR(v->loss[1].loss, 2, 1e-12);
	expect_in(explained(v), "no round is open: ");
	view_close(v);
	run_dir_end(&d);
}

static void goodput_is_never_above_one(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	d.head.trained = 1000;
	d.head.tokens = 1100;
	run_dir_head(&d);
	open_view(&v, &d);
	CHECK(view_read(v) == 0);
	CHECK_NEAR(v->goodput, 1, 0); /* what was merged was trained */
	run_dir_beat(&d, "anna", BEAT_RUNNING, 1, from_start, none);
	run_dir_beat(&d, "ben", BEAT_RUNNING, 1, from_start, none);
	CHECK(view_read(v) == 0);
	CHECK_NEAR(v->goodput, 0.55, 1e-12);
	d.head.trained = 4400; /* of others, too, whose beats are gone */
	run_dir_head(&d);
	CHECK(view_read(v) == 0);
	CHECK_NEAR(v->goodput, 0.25, 1e-12);
	view_close(v);
	run_dir_end(&d);
}

static void a_run_that_is_done(void)
{
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	d.head.phase = PHASE_DONE;
	d.head.step = 100;
	run_dir_head(&d);
	run_dir_beat(&d, "anna", BEAT_GONE, 1, from_start, none);
	CHECK(view_open(&v, &d.trust, clock_monotonic()) == 0);
	CHECK(view_look(v, 60) == 0 && view_over(v)); /* at once: nothing is waited for */
	expect_in(explained(v), "done at global step 100 of 100, 0 merges; 0 of 1 learners alive; it is over\n");
	view_close(v);
	run_dir_end(&d);
}

static void json_is_whole(void)
{
	const struct board_conf conf = { .run = "a \"b\"" };
	struct buf text = BUF_INIT;
	struct run_dir d;
	struct view *v;

	run_dir_begin(&d);
	write_rounds(&d);
	open_view(&v, &d);
	CHECK(view_read(v) == 0 && board_json(&text, v, &conf) == 0);
	expect_in(text.data, "{\"directory\":\"a \\\"b\\\"\",\"run\":\"");
	expect_in(text.data, "\"phase\":\"running\"");
	expect_in(text.data, "\"interval_achieved\":null,");
	expect_in(text.data, "\"trained\":4000,\"merged\":800,");
	expect_in(text.data, "\"open\":[{\"round\":3,\"fragment\":\"f000\",\"version\":1,\"open\":12,"
		"\"invited\":[\"anna\",\"ben\",\"carl\",\"dora\"],\"answered\":[\"anna\"]}]");
	expect_in(text.data, "\"training_loss\":[[5,3.5]]}\n");
	buf_release(&text);
	view_close(v);
	run_dir_end(&d);
}

int main(void)
{
	a_run_that_nobody_has_begun();
	only_counters_that_change_are_signs_of_life();
	an_old_beat_or_head_changes_nothing();
	a_head_that_was_never_readable_is_not_a_run_that_has_not_begun();
	a_head_that_is_gone_is_not_a_run_that_has_not_begun();
	what_makes_no_sense_is_counted_and_passed_over();
	open_rounds_say_who_is_missing();
	a_tape_that_begins_anew_and_cannot_be_read();
	too_few_learners_are_told_with_what_to_type();
	a_quorum_that_nobody_can_make_is_told_with_whom_to_start();
	a_run_of_dl_run_is_continued_by_it();
	the_board_fits_its_screen();
	the_tape_is_read_on();
	goodput_is_never_above_one();
	a_run_that_is_done();
	json_is_whole();
	return unit_done("view");
}
