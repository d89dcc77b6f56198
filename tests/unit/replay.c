#include "round/replay.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "form/content.h"
#include "io/fd.h"
#include "round/merging.h"
#include "round/rundir.h"
#include "round/tape.h"
#include "unit.h"

#define RUN "00112233445566778899aabbccddeeff"
#define MODEL "aa112233445566778899aabbccddeeffaa112233445566778899aabbccddeeff"
#define ELEMS 300
#define VERSIONS 4 /* that are merged */
#define LEARNERS 2

static struct key owner, learner[LEARNERS];
static struct manifest manifest;
static const struct trust nobody;
static char home[] = "/tmp/unit-replay.XXXXXX";

static void make_key(struct key *k, const char *name)
{
	snprintf(k->name, sizeof k->name, "%s", name);
	CHECK(sig_generate(&k->secret) == 0);
}

static void set_manifest(void)
{
	memcpy(manifest.meta.run, RUN, 33);
	manifest.fragments = 1;
	manifest.owner = owner.secret.pub;
	manifest.lease = 1;
}

static void set_meta(struct meta *m, enum kind kind, uint64_t version)
{
	*m = (struct meta){ .kind = kind, .version = version, .fragment = "f000" };
	memcpy(m->run, RUN, 33);
	memcpy(m->model, MODEL, 65);
}

static void write_file(const char *path, const struct meta *m, const struct key *key, float seed, digest *id)
{
	struct tensor one = { .name = "some", .dtype = DTYPE_F32, .enc = ENC_F32, .rank = 1, .dim = { ELEMS } };
	struct header h = { .keys = { 0 } };
	struct frame_writer *w;
	float value[ELEMS];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	for (int i = 0; i < ELEMS; i++)
		value[i] = seed * (float)(i % 17 + 1);
	CHECK(fd >= 0 && tensors_push(&h.tensors, &one) == 0 && meta_write(m, &h) == 0);
	CHECK(frame_create(&w, fd, &h, &key->secret, NULL) == 0);
	CHECK(frame_write(w, value, NULL, ELEMS) == 0 && frame_finish(w, id) == 0);
	frame_writer_free(w);
	header_release(&h);
	close(fd);
}

/* ---- a syncer, in short ---- */

struct base {
	int fd;
	struct frame_reader *reader;
	struct meta meta;
	digest id;
	struct outer outer;
};

static void open_base(struct base *b, uint64_t version)
{
	char path[RUNDIR_PATH];

	b->outer = (struct outer)OUTER_INIT;
	CHECK(fd_open_in(rundir_fragment(path, 0, version), &b->fd) == 0);
	CHECK(frame_open(&b->reader, b->fd, "base", NULL, NULL) == 0 && frame_seekable(b->reader) == 0);
	CHECK(frame_id(b->reader, &b->id) == 0 && meta_read(&b->meta, frame_header(b->reader)) == 0);
	if (version) {
		int fd;

		CHECK(fd_open_in(rundir_outer(path, 0, version), &fd) == 0);
		CHECK(outer_take(&b->outer, fd, "outer", b->reader, &b->meta, NULL) == 0);
	}
}

static void content_of(const char *path, digest *out)
{
	struct frame_reader *r = NULL;
	struct frame_slice s;
	struct content sum;
	int fd;

	CHECK(fd_open_in(path, &fd) == 0 && frame_open(&r, fd, path, NULL, NULL) == 0);
	content_init(&sum, &frame_header(r)->tensors);
	while (frame_next(r, &s) > 0)
		content_add(&sum, &s);
	content_end(&sum, out);
	frame_reader_free(r);
	close(fd);
}

static void write_deltas(uint64_t round, const struct base *b)
{
	char path[RUNDIR_PATH];

	for (unsigned k = 0; k < LEARNERS; k++) {
		struct meta m;

		set_meta(&m, KIND_DELTA, b->meta.version);
		m.round = round;
		m.step = 10 * round + k;
		m.steps = 5;
		m.tokens = 100 + k;
		memcpy(m.learner, learner[k].name, sizeof m.learner);
		sig_hex(m.base, b->id.b, sizeof b->id.b);
		write_file(rundir_delta(path, learner[k].name, 0, round), &m, &learner[k],
			0.01f * (float)(round + k), NULL);
	}
}

static void put_merge(struct tape *t, uint64_t round, const struct base *b, const struct answers *as,
	const struct merging_conf *c, const struct meta *next)
{
	struct buf text = BUF_INIT;

	tape_begin(t, 1, "merge");
	tape_put_u64(t, "round", round);
	tape_put(t, "fragment", "f000");
	tape_put_u64(t, "version", b->meta.version + 1);
	tape_put_id(t, "base", &b->id);
	tape_put(t, "merge", next->merge);
	tape_put(t, "rule", merge_rule_name(c->rule));
	tape_put_f64(t, "outer_lr", c->outer.eta);
	tape_put_f64(t, "momentum", c->outer.mu);
	tape_put_u64(t, "step", next->step);
	for (size_t k = 0; k < as->accepted; k++) {
		const struct answer *a = &as->v[as->order[k]];
		struct tape_answer one = { .id = a->id, .share = as->share[k], .norm = a->norm };

		memcpy(one.learner, a->meta.learner, sizeof one.learner);
		CHECK(tape_answer_add(&text, &one) == 0);
	}
	tape_put(t, "answers", text.data);
	CHECK(tape_end(t, false) == 0);
	buf_release(&text);
}

static void put_publish(struct tape *t, uint64_t round, uint64_t version)
{
	char path[RUNDIR_PATH];
	digest id, content, momentum;
	struct base b;

	open_base(&b, version);
	id = b.id;
	outer_close(&b.outer);
	frame_reader_free(b.reader);
	close(b.fd);
	content_of(rundir_fragment(path, 0, version), &content);
	content_of(rundir_outer(path, 0, version), &momentum);
	tape_begin(t, 1, "publish");
	tape_put_u64(t, "round", round);
	tape_put(t, "fragment", "f000");
	tape_put_u64(t, "version", version);
	tape_put_id(t, "id", &id);
	tape_put_id(t, "content", &content);
	tape_put_id(t, "outer", &momentum);
	CHECK(tape_end(t, false) == 0);
}

static void merge_round(struct tape *t, uint64_t round, uint64_t version)
{
	char path[LEARNERS][RUNDIR_PATH], file[RUNDIR_PATH], outer[RUNDIR_PATH];
	struct answers_conf ac = { .clock = clock_monotonic() };
	struct merging_conf c = { .rule = round % 2 ? MERGE_RDA : MERGE_DIRECT, .outer = { 0.7, 0.9 },
		.round = round };
	struct answers_input in[LEARNERS];
	struct merging_output out[2];
	struct guard_round gr;
	struct answers as;
	struct merging *m;
	struct base b;

	open_base(&b, version - 1);
	write_deltas(round, &b);
	for (unsigned k = 0; k < LEARNERS; k++) {
		in[k].name = rundir_delta(path[k], learner[k].name, 0, round);
		CHECK(fd_open_in(path[k], &in[k].fd) == 0);
	}
	CHECK(merging_fragment_round(&gr, b.reader, &b.meta, round) == 0);
	CHECK(answers_open(&as, &ac, in, LEARNERS, &gr, NULL, NULL) == 0);
	answers_settle(&as);
	CHECK(as.accepted == LEARNERS);
	CHECK(merging_open(&m, &c, b.reader, &b.meta, &as, &b.outer, NULL) == 0);
	out[0] = (struct merging_output){ open(rundir_fragment(file, 0, version), O_RDWR | O_CREAT, 0666), file };
	out[1] = (struct merging_output){ open(rundir_outer(outer, 0, version), O_RDWR | O_CREAT, 0666), outer };
	CHECK(merging_write(m, &out[0], &out[1], &owner, NULL) == 0 && merging_finish(m, NULL) == 0);
	put_merge(t, round, &b, &as, &c, merging_meta(m));
	merging_close(m);
	answers_release(&as);
	for (unsigned k = 0; k < LEARNERS; k++)
		close(in[k].fd);
	close(out[0].fd);
	close(out[1].fd);
	outer_close(&b.outer);
	frame_reader_free(b.reader);
	close(b.fd);
	put_publish(t, round, version);
}

static void make_directories(void)
{
	CHECK(mkdir("global", 0777) == 0 && mkdir("global/f000", 0777) == 0);
	CHECK(mkdir("syncer", 0777) == 0 && mkdir("syncer/outer", 0777) == 0);
	CHECK(mkdir("syncer/outer/f000", 0777) == 0);
	CHECK(mkdir("learner", 0777) == 0 && mkdir("learner/a", 0777) == 0 && mkdir("learner/b", 0777) == 0);
}

static void put_joins(struct tape *t)
{
	char key[SIG_BASE64(SIG_PUBLIC)];

	for (unsigned k = 0; k < LEARNERS; k++) {
		tape_begin(t, 0, "join");
		tape_put(t, "learner", learner[k].name);
		sig_base64(key, sizeof key, learner[k].secret.pub.b, SIG_PUBLIC);
		tape_put(t, "key", key);
		CHECK(tape_end(t, false) == 0);
	}
}

static void make_run(void)
{
	char path[RUNDIR_PATH];
	struct tape *t;
	struct meta m;
	digest start;

	CHECK(system("rm -rf global syncer learner") == 0);
	make_directories();
	set_meta(&m, KIND_FRAGMENT, 0);
	write_file(rundir_fragment(path, 0, 0), &m, &owner, 0.5f, NULL);
	tape_start(&start, RUN);
	CHECK(tape_open(&t, RUN, 1, 0, &start) == 0);
	tape_begin(t, 0, "epoch");
	tape_put(t, "epoch", "1");
	tape_put(t, "after", "0");
	CHECK(tape_end(t, false) == 0);
	put_joins(t);
	for (uint64_t v = 1; v <= VERSIONS; v++)
		merge_round(t, 2 * v, v);
	tape_close(t);
}

/* ---- tests ---- */

static int replay(struct replay_report *r, int threads)
{
	struct replay_conf c = { .manifest = &manifest, .user = &nobody };
	int rc = threads ? pool_open(&c.pool, threads) : 0;

	if (rc == 0)
		rc = replay_run(&c, r, NULL);
	pool_close(c.pool);
	return rc;
}

static void test_all(void)
{
	struct replay_report r;
	struct buf text = BUF_INIT;

	make_run();
	for (int threads = 0; threads < 4; threads++) {
		CHECK(replay(&r, threads) == 0);
		CHECK(r.versions == VERSIONS && r.identical == VERSIONS && !r.collected && !r.different);
		CHECK(r.lines == 3 + 2 * VERSIONS && !r.torn);
	}
	CHECK(replay_format(&r, false, &text) == 0);
	CHECK_STR(text.data, "11 lines, 4 versions: 4 rebuilt and identical, 0 not kept, 0 different\n");
	buf_clear(&text);
	CHECK(replay_format(&r, true, &text) == 0);
	CHECK_STR(text.data, "{\"lines\":11,\"versions\":4,\"identical\":4,\"collected\":0,\"different\":0,\"damaged\":0,"
		"\"torn\":false,\"first\":null}\n");
	buf_release(&text);
	/* none of the versions in between is needed */
	CHECK(system("rm global/f000/[1-9]* syncer/outer/f000/*") == 0);
	CHECK(replay(&r, 1) == 0 && r.identical == VERSIONS);
}

static void test_collected(void)
{
	struct replay_report r;

	make_run();
	CHECK(unlink("learner/a/f000.2.delta") == 0);
	CHECK(replay(&r, 1) == 0 && r.identical == 3 && r.collected == 1);
	CHECK(unlink("global/f000/1.frag") == 0);
	CHECK(replay(&r, 1) == 0 && r.identical == 2 && r.collected == 2);
	CHECK(unlink("syncer/outer/f000/2.outer") == 0);
	CHECK(replay(&r, 1) == 0 && r.identical == 1 && r.collected == 3);
	CHECK(system("rm learner/*/*") == 0);
	CHECK(replay(&r, 1) == 0 && r.identical == 0 && r.collected == 4);
}

static void check_differs(const char *says, uint64_t identical)
{
	struct replay_report r;

	CHECK(replay(&r, 1) == ERR_AUTH);
	CHECK_SAYS(says);
	CHECK(r.different == 1 && r.identical == identical && r.versions == VERSIONS);
	CHECK_STR(r.first, err_text());
}

static void test_differences(void)
{
	struct meta m;

	/* a delta that another took the place of, of the same learner; the next versions begin from what is
	 * kept */
	make_run();
	CHECK(system("cp learner/a/f000.4.delta learner/a/f000.2.delta") == 0);
	check_differs("global/f000/1.frag: learner/a/f000.2.delta: ", 3);
	/* by another key: its identity is another, too */
	make_run();
	set_meta(&m, KIND_DELTA, 0);
	write_file("learner/a/f000.2.delta", &m, &learner[1], 1, NULL);
	check_differs("global/f000/1.frag: learner/a/f000.2.delta: ", 3);
	/* damage */
	make_run();
	CHECK(system("printf x | dd of=learner/a/f000.2.delta bs=1 seek=400 conv=notrunc 2>/dev/null") == 0);
	check_differs("global/f000/1.frag: learner/a/f000.2.delta: ", 3);
	/* another version 0 */
	make_run();
	set_meta(&m, KIND_FRAGMENT, 0);
	write_file("global/f000/0.frag", &m, &owner, 0.25f, NULL);
	check_differs("global/f000/0.frag: is not the one that was merged into", 3);
}

/* A syncer that published something else than what it decided. */
static void test_lie(void)
{
	char path[RUNDIR_PATH];
	struct tape *t;
	struct tape_reader *r;
	const struct tape_line *l;
	struct meta m;
	digest last, id, content;
	struct replay_report report;

	make_run();
	CHECK(tape_read_open(&r, RUN, 1) == 0);
	while (tape_read(r, &l) > 0)
		if (l->number == 4)
			tape_read_hash(r, &last);
	tape_read_close(r);
	/* an epoch behind the first decision, which is carried out otherwise */
	CHECK(tape_open(&t, RUN, 2, 4, &last) == 0);
	tape_begin(t, 0, "epoch");
	tape_put(t, "epoch", "2");
	tape_put(t, "after", "4");
	CHECK(tape_end(t, false) == 0);
	set_meta(&m, KIND_FRAGMENT, 1);
	write_file(rundir_fragment(path, 0, 1), &m, &owner, 0.125f, &id);
	content_of(path, &content);
	tape_begin(t, 1, "publish");
	tape_put_u64(t, "round", 2);
	tape_put(t, "fragment", "f000");
	tape_put_u64(t, "version", 1);
	tape_put_id(t, "id", &id);
	tape_put_id(t, "content", &content);
	tape_put_id(t, "outer", &content);
	CHECK(tape_end(t, false) == 0);
	tape_close(t);
	CHECK(replay(&report, 1) == ERR_AUTH);
	CHECK_SAYS("global/f000/1.frag: rebuilt from the deltas that the tape names it is another");
	CHECK(report.versions == 1 && report.different == 1);
}

static void test_torn(void)
{
	struct replay_report r;
	struct stat st;

	make_run();
	CHECK(stat("syncer/tape.1", &st) == 0 && truncate("syncer/tape.1", st.st_size - 7) == 0);
	CHECK(replay(&r, 1) == 0 && r.torn && r.identical == VERSIONS - 1 && r.versions == VERSIONS - 1);
	CHECK(system("sed -i '5s/round=2/round=3/' syncer/tape.1") == 0);
	CHECK(replay(&r, 1) == ERR_AUTH);
	CHECK_SAYS("syncer/tape.1: line 5: hash does not match");
}

int main(void)
{
	CHECK(sig_init() == 0);
	make_key(&owner, "owner");
	make_key(&learner[0], "a");
	make_key(&learner[1], "b");
	set_manifest();
	CHECK(mkdtemp(home) != NULL && chdir(home) == 0);
	test_all();
	test_collected();
	test_differences();
	test_lie();
	test_torn();
	CHECK(system("rm -rf global syncer learner") == 0);
	CHECK(chdir("/") == 0 && rmdir(home) == 0);
	return unit_done("replay");
}
