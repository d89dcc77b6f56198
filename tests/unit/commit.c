/* One merge of a run directory, stopped at every step and carried out again. */
#include "round/commit.h"

#include "form/content.h"
#include "round/epoch.h"
#include "small_rundir.h"

#define ROUND 7

static struct small_rundir d;
static struct tape *tape;
static struct epoch epoch;
static enum commit_stage cut_at; /* one above the last: nowhere */

static int cut(void *ctx, enum commit_stage stage)
{
	(void)ctx;
	return stage == cut_at ? err_set(ERR_IO, "cut") : 0;
}

/* The answer of a learner, every value of it being `value`. */
static void write_delta(struct commit_answer *a, const char *learner, uint64_t tokens, float value)
{
	const struct fragment *f = &d.cut.v[0];
	struct meta m = { .kind = KIND_DELTA, .round = ROUND, .step = 40 + tokens, .steps = 10, .tokens = tokens,
		.trained = 1000, .incarnation = 1 };
	float *values = malloc(f->elems * sizeof *values);
	struct header h = { 0 };
	struct frame_writer *w;
	struct atomic file;
	char path[RUNDIR_PATH];

	*a = (struct commit_answer){ .tokens = tokens };
	strcpy(a->learner, learner);
	strcpy(m.learner, learner);
	memcpy(m.run, d.manifest.meta.run, sizeof m.run);
	memcpy(m.model, d.manifest.meta.model, sizeof m.model);
	sig_hex(m.base, d.head.fragment[0].id.b, SIG_DIGEST);
	rundir_fragment_name(m.fragment, 0);
	for (uint64_t i = 0; i < f->elems; i++)
		values[i] = value;
	CHECK(meta_write(&m, &h) == 0 && tensors_copy(&h.tensors, &f->layout) == 0);
	CHECK(place_make(rundir_delta(path, learner, 0, ROUND)) == 0 && place_create(&file, path) == 0);
	CHECK(frame_create(&w, file.fd, &h, &d.base.key.secret, NULL) == 0);
	CHECK(ckpt_write(w, &f->layout, values) == 0 && frame_finish(w, &a->id) == 0);
	CHECK(atomic_commit_fast(&file) == 0);
	frame_writer_free(w);
	header_release(&h);
	free(values);
}

static void begin(void)
{
	digest start;

	small_rundir_make(&d);
	tape_start(&start, d.manifest.meta.run);
	CHECK(place_make("syncer/tape.1") == 0);
	CHECK(epoch_take(&epoch, 0, d.manifest.meta.run, &d.base.key, &d.base.trust) == 0);
	CHECK(tape_open(&tape, d.manifest.meta.run, epoch.number, 0, &start) == 0);
	tape_begin(tape, 0, "epoch");
	tape_put_u64(tape, "epoch", epoch.number);
	tape_put_u64(tape, "after", 0);
	tape_put_id(tape, "hash", &start);
	CHECK(tape_end(tape, true) == 0);
	cut_at = COMMIT_PUBLISHED + 1;
}

static void end(void)
{
	tape_close(tape);
	small_rundir_remove(&d);
}

static struct commit_conf rules(void)
{
	return (struct commit_conf){ .manifest = &d.manifest, .fragments = &d.cut, .key = &d.base.key,
		.makers = &d.base.trust, .learners = &d.base.trust, .tape = tape, .epoch = epoch.number,
		.quorum = 2, .at = cut };
}

/* Two answers, and a third that is not finite. */
static void prepare(struct commit *c)
{
	*c = (struct commit){ .round = ROUND, .version = 1, .base = d.head.fragment[0].id, .answers = 3 };
	c->answer = calloc(3, sizeof *c->answer);
	write_delta(&c->answer[0], "ann", 100, 0.01f);
	write_delta(&c->answer[1], "bad", 100, (float)NAN);
	write_delta(&c->answer[2], "bob", 300, -0.02f);
}

/* How many lines of a kind the tape has; the last is the decision it tells, if it is one. */
static int count(const char *kind, struct commit *decision)
{
	struct tape_reader *r;
	const struct tape_line *l;
	int n = 0;

	CHECK(tape_read_open(&r, d.manifest.meta.run, epoch.number) == 0);
	while (tape_read(r, &l) > 0) {
		if (strcmp(l->kind, kind) != 0)
			continue;
		n++;
		if (decision) {
			commit_release(decision);
			CHECK(commit_parse(decision, l) == 0);
		}
	}
	tape_read_close(r);
	return n;
}

static bool there(const char *path)
{
	return access(path, F_OK) == 0;
}

static void check_published(const struct commit *c, const digest *content)
{
	struct commit told = { .round = 0 };

	CHECK(count("merge", &told) == 1 && count("publish", NULL) == 1);
	CHECK(told.answers == 2 && told.version == 1 && told.round == ROUND && told.tokens == 400);
	CHECK(told.step == c->step && c->step > 140);
	CHECK(there("global/f000/1.frag") && there("syncer/outer/f000/1.outer"));
	if (content)
		CHECK(memcmp(content, &c->content, sizeof *content) == 0);
	commit_release(&told);
}

static digest made_at_once(void)
{
	struct commit_conf conf;
	struct commit c;
	digest content;

	begin();
	conf = rules();
	prepare(&c);
	CHECK(commit_make(&c, &conf) == 0);
	CHECK(c.decided && c.answers == 2 && c.refused == 1);
	CHECK_STR(c.answer[2].learner, "bad");
	CHECK(c.answer[2].verdict == VERDICT_NOT_FINITE && c.answer[2].told && count("refuse", NULL) == 1);
	CHECK_NEAR(c.answer[0].share + c.answer[1].share, 1, 1e-12);
	check_published(&c, NULL);
	content = c.content;
	commit_release(&c);
	end();
	return content;
}

/* Then by the next syncer, from the tape alone. */
static void made_again(enum commit_stage stage, const digest *content)
{
	struct commit c, again = { .round = 0 };
	struct commit_conf conf;

	begin();
	conf = rules();
	prepare(&c);
	cut_at = stage;
	CHECK(commit_make(&c, &conf) == ERR_IO);
	CHECK_SAYS("cut");
	CHECK(c.decided == (stage >= COMMIT_DECIDED));
	commit_release(&c);
	if (stage == COMMIT_JUDGED) {
		CHECK(count("merge", NULL) == 0 && !there("global/f000/1.frag"));
		cut_at = COMMIT_PUBLISHED + 1;
		prepare(&c);
		CHECK(commit_make(&c, &conf) == 0);
		check_published(&c, content);
		commit_release(&c);
	} else if (stage < COMMIT_PUBLISHED) {
		for (enum commit_stage more = stage; more <= COMMIT_PUBLISHED + 1; more++) {
			CHECK(count("merge", &again) == 1 && count("publish", NULL) == 0);
			cut_at = more; /* stopped again on its way, too */
			if (more == COMMIT_PUBLISHED)
				continue;
			CHECK(commit_again(&again, &conf) ==
				(more == COMMIT_DECIDED || more > COMMIT_PUBLISHED ? 0 : ERR_IO));
			if (count("publish", NULL))
				break;
		}
		check_published(&again, content);
		commit_release(&again);
	}
	end();
}

static void too_few_are_left(void)
{
	struct commit_conf conf;
	struct commit c;

	begin();
	conf = rules();
	conf.quorum = 3;
	prepare(&c);
	CHECK(commit_make(&c, &conf) == ERR_AGAIN);
	CHECK(!c.decided && count("merge", NULL) == 0 && count("refuse", NULL) == 1);
	CHECK(c.answer[1].verdict == VERDICT_NOT_FINITE && c.answer[1].told && !c.answer[0].told);
	CHECK(!there("global/f000/1.frag"));
	commit_release(&c);
	end();
}

static void who_is_superseded_publishes_nothing(void)
{
	struct commit_conf conf;
	struct epoch next;
	struct commit c;

	begin();
	conf = rules();
	prepare(&c);
	CHECK(epoch_take(&next, epoch.number, d.manifest.meta.run, &d.base.key, &d.base.trust) == 0);
	CHECK(commit_make(&c, &conf) == ERR_BUSY);
	CHECK_SAYS("superseded by the syncer of epoch 2");
	CHECK(!c.decided && count("merge", NULL) == 0 && !there("global/f000/1.frag"));
	commit_release(&c);
	end();
}

static void a_delta_is_gone(void)
{
	struct commit c, again = { .round = 0 };
	struct commit_conf conf;
	char path[RUNDIR_PATH];

	begin();
	conf = rules();
	prepare(&c);
	cut_at = COMMIT_DECIDED;
	CHECK(commit_make(&c, &conf) == ERR_IO);
	commit_release(&c);
	CHECK(count("merge", &again) == 1);
	CHECK(place_remove(rundir_delta(path, "bob", 0, ROUND)) == 1);
	cut_at = COMMIT_PUBLISHED + 1;
	CHECK(commit_again(&again, &conf) == ERR_DATA);
	CHECK_SAYS("not there any more");
	commit_release(&again);
	end();
}

/* Another merge has the name, of a syncer that was superseded: it goes. Of a higher epoch: it stays. */
static void the_name_is_taken(uint64_t other)
{
	struct commit_conf conf;
	struct commit c;
	uint64_t mine;

	begin();
	prepare(&c);
	mine = epoch.number;
	conf = rules();
	conf.epoch = other;
	conf.quorum = 1;
	c.answers = 1;
	CHECK(commit_make(&c, &conf) == 0);
	commit_release(&c);
	prepare(&c);
	conf.epoch = mine;
	conf.quorum = 2;
	if (other > mine) {
		CHECK(commit_make(&c, &conf) == ERR_BUSY);
		CHECK_SAYS("superseded: ");
	} else {
		CHECK(commit_make(&c, &conf) == 0 && c.tokens == 400);
	}
	commit_release(&c);
	end();
}

int main(void)
{
	digest content;

	content = made_at_once();
	for (enum commit_stage s = COMMIT_JUDGED; s <= COMMIT_PUBLISHED; s++)
		made_again(s, &content);
	too_few_are_left();
	who_is_superseded_publishes_nothing();
	a_delta_is_gone();
	the_name_is_taken(1);
	the_name_is_taken(5);
	return unit_done("commit");
}
