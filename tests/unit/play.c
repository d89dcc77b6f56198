/*
 * play - training by a trace, against the same order of events with the files of a run directory: learners with
 * replica and trainer, deltas and fragments in sealed files, merged by round/merging.
 */
#include "chaos/play.h"

#include <sys/mman.h>

#include "io/fd.h"
#include "round/difference.h"
#include "round/merging.h"
#include "round/replica.h"
#include "round/routed.h"
#include "round/rundir.h"
#include "round/trainer.h"
#include "drawn_sim.h"
#include "small_run.h"

enum { M = 3, P = 3, VERSIONS = 8 };
#define HEAD(mode, learners, adopt) \
	"0 trace format=1 mode=" mode " learners=" #learners " fragments=3 interval=4 overlap=2 quorum=1 grace=1" \
	" adopt=" adopt " step_tokens=16 seed=1 params=1 chips=0\n"

/* Everything that can happen: an answer that is not merged, two that are and one alone, versions adopted at once,
 * late and not at all, parts of batches, a learner that comes late and leaves, one that is lost with its state
 * and one without. */
#define EVENTS \
	"0 join learner=0\n0 join learner=1\n" \
	"1 step learner=0\n1 step learner=1\n1 call round=1 fragment=0 version=0 invited=all\n" \
	"2 step learner=1 share=0.5\n2 answer round=1 fragment=0 learner=1 steps=2 tokens=24\n" \
	"2 step learner=0\n2 step learner=0\n2 answer round=1 fragment=0 learner=0 steps=3 tokens=48\n" \
	"2 call round=2 fragment=2 version=0 invited=all\n3 step learner=0\n" \
	"3 answer round=2 fragment=2 learner=0 steps=4 tokens=64\n" \
	"3 merge round=1 fragment=0 version=1 answers=0,1\n3 step learner=1\n" \
	"3 answer round=2 fragment=2 learner=1 steps=3 tokens=40\n3 adopt learner=1 fragment=0 version=1\n" \
	"4 merge round=2 fragment=2 version=1 answers=0\n4 step learner=1\n" \
	"4 adopt learner=1 fragment=2 version=1\n4 step learner=0\n4 adopt learner=0 fragment=0 version=1\n" \
	"5 join learner=2\n5 step learner=2\n5 step learner=2\n5 call round=3 fragment=0 version=1 invited=all\n" \
	"5 answer round=3 fragment=0 learner=2 steps=2 tokens=32\n5 step learner=1\n" \
	"5 answer round=3 fragment=0 learner=1 steps=3 tokens=32\n5 step learner=0\n" \
	"5 answer round=3 fragment=0 learner=0 steps=4 tokens=32\n6 merge round=3 fragment=0 version=2 answers=0,1,2\n" \
	"6 call round=4 fragment=1 version=0 invited=0,2\n6 step learner=0\n" \
	"6 answer round=4 fragment=1 learner=0 steps=6 tokens=96\n6 step learner=2\n" \
	"6 answer round=4 fragment=1 learner=2 steps=3 tokens=48\n6 merge round=4 fragment=1 version=1 answers=0,2\n" \
	"7 adopt learner=0 fragment=0 version=2\n7 adopt learner=0 fragment=1 version=1\n7 step learner=0\n" \
	"7 call round=5 fragment=0 version=2 invited=all\n7 answer round=5 fragment=0 learner=0 steps=1 tokens=16\n" \
	"7 merge round=5 fragment=0 version=3 answers=0\n7 step learner=0\n7 adopt learner=0 fragment=0 version=3\n" \
	"7 step learner=1\n7 adopt learner=1 fragment=0 version=3\n7 adopt learner=1 fragment=1 version=1\n" \
	"8 step learner=1\n8 step learner=0\n8 call round=6 fragment=0 version=3 invited=all\n" \
	"8 answer round=6 fragment=0 learner=1 steps=1 tokens=16\n8 answer round=6 fragment=0 learner=0 steps=1 tokens=16\n" \
	"8 gone learner=2\n8 merge round=6 fragment=0 version=4 answers=0,1\n"

static struct small_run run;

static int trace_file(const char *head, const char *events)
{
	int fd = memfd_create("trace", MFD_CLOEXEC), lines = 0;
	char end[32];

	for (const char *at = events; *at; at++)
		lines += *at == '\n';
	snprintf(end, sizeof end, "99 end events=%d\n", lines);
	CHECK(fd_write(fd, head, strlen(head)) == 0 && fd_write(fd, events, strlen(events)) == 0);
	CHECK(fd_write(fd, end, strlen(end)) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/* ---- playing ---- */

struct played {
	float *params; /* (N) */
	struct play_row row[32];
	size_t rows;
	struct meta meta; /* of the checkpoint */
};

static int keep_row(void *ctx, const struct play_row *row)
{
	struct played *out = ctx;

	out->row[out->rows++ % 32] = *row;
	return 0;
}

static void read_meta(const struct play *p, const struct header *base, struct played *out)
{
	struct frame_reader *r = NULL;
	int fd = memfd_create("out", MFD_CLOEXEC);
	float *value = malloc(tensors_total(&run.layout) * sizeof *value);

	CHECK(play_write(p, fd, base, &run.key) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	CHECK(frame_open(&r, fd, "out", &run.trust, NULL) == 0 && meta_read(&out->meta, frame_header(r)) == 0);
	CHECK(ckpt_read(r, value) == 0);
	CHECK(memcmp(value, out->params, tensors_total(&run.layout) * sizeof *value) == 0);
	frame_reader_free(r);
	free(value);
	close(fd);
}

/* What is open while a trace is played. */
struct scene {
	struct frame_reader *ckpt;
	struct checkpoint c;
	struct model *model;
	struct trace_reader *trace;
	struct adoptions adoptions;
	struct shard *shard[8];
	unsigned shards;
	struct pool *pool;
	int trace_fd, ckpt_fd, scanned;
};

static void scene_open(struct scene *s, int trace_fd, unsigned given, int threads)
{
	*s = (struct scene){ .trace_fd = trace_fd, .ckpt_fd = open(run.ckpt, O_RDONLY) };
	CHECK(frame_open(&s->ckpt, s->ckpt_fd, "g", &run.trust, NULL) == 0);
	CHECK(checkpoint_open(&s->c, s->ckpt) == 0);
	CHECK(checkpoint_load(&s->model, &s->c, s->ckpt, MODEL_FORWARD, NULL) == 0);
	s->scanned = adoptions_scan(&s->adoptions, &s->trace, trace_fd);
	if (s->scanned < 0)
		return;
	CHECK(play_shards(&s->shards, trace_head(s->trace), given) == 0);
	for (unsigned i = 0; i < s->shards; i++)
		CHECK(shard_open(&s->shard[i], run.shard, &run.trust) == 0);
	CHECK(pool_open(&s->pool, threads) == 0);
}

static void scene_close(struct scene *s)
{
	for (unsigned i = 0; i < s->shards; i++)
		shard_close(s->shard[i]);
	trace_close(s->trace);
	adoptions_release(&s->adoptions);
	model_close(s->model);
	frame_reader_free(s->ckpt);
	pool_close(s->pool);
	close(s->ckpt_fd);
	close(s->trace_fd);
}

static struct play_conf conf(void)
{
	return (struct play_conf){ .rule = MERGE_RDA, .outer = { 0.7, 0.9 }, .encoding = ENC_F32, .until = HUGE_VAL };
}

static int play(struct played *out, int trace_fd, struct play_conf c, unsigned shards, int threads)
{
	size_t bytes = tensors_total(&run.layout) * sizeof(float);
	struct scene s;
	struct play *p = NULL;
	int rc;

	scene_open(&s, trace_fd, shards, threads);
	*out = (struct played){ .params = calloc(1, bytes) };
	c.row = keep_row;
	c.ctx = out;
	rc = s.scanned;
	if (rc == 0)
		rc = play_open(&p, &c, s.trace, &s.adoptions, &s.c, s.model, s.shard, s.shards, s.shard[0], s.pool, NULL);
	if (rc == 0 && (rc = play_run(p)) == 0) {
		memcpy(out->params, model_params(s.model), bytes);
		read_meta(p, frame_header(s.ckpt), out);
	}
	play_close(p);
	scene_close(&s);
	return rc;
}

static int play_fails(const char *head, const char *events)
{
	struct played out;
	int rc = play(&out, trace_file(head, events), conf(), 1, 1);

	free(out.params);
	return rc;
}

/* ---- the same with files ---- */

struct real_answer {
	float *base, *snap;
	uint64_t *routed; /* NULL: dense */
	struct meta meta;
};
struct real_learner {
	struct model *model;
	struct trainer trainer;
	struct replica replica;
	struct shard *shard;
	char name[16];
	struct real_answer answer[P];
};
struct real_version {
	int fd, outer;
	struct meta meta;
	digest id;
	bool counted[M];
};
struct real {
	struct fragments cut;
	struct real_learner learner[M];
	struct real_version version[P][VERSIONS];
	uint64_t newest[P];
	enum encoding encoding;
	struct merge_outer outer;
	enum merge_rule rule;
	enum merge_experts experts;
};

static void write_values(int fd, const struct meta *m, const struct tensors *layout, const float *value, digest *id)
{
	struct frame_writer *w = NULL;
	struct header h = { 0 };

	CHECK(meta_write(m, &h) == 0 && tensors_copy(&h.tensors, layout) == 0);
	CHECK(frame_create(&w, fd, &h, &run.key.secret, NULL) == 0);
	CHECK(ckpt_write(w, layout, value) == 0 && frame_finish(w, id) == 0);
	frame_writer_free(w);
	header_release(&h);
}

static void read_values(int fd, float *value)
{
	struct frame_reader *r = NULL;

	CHECK(lseek(fd, 0, SEEK_SET) == 0 && frame_open(&r, fd, "frag", &run.trust, NULL) == 0);
	CHECK(ckpt_read(r, value) == 0);
	frame_reader_free(r);
}

static float *room(const struct real *r, unsigned p)
{
	return malloc(r->cut.v[p].elems * sizeof(float));
}

static void real_begin(struct real *r, const struct scene *s, const char *adopt)
{
	struct adopt_rule rule;

	CHECK(adopt_parse(adopt, &rule) == 0 && fragments_cut(&r->cut, &run.layout, P) == 0);
	for (unsigned p = 0; p < P; p++) {
		struct real_version *v = &r->version[p][0];
		float *value = room(r, p);

		v->fd = memfd_create("frag", MFD_CLOEXEC);
		v->meta = (struct meta){ .kind = KIND_FRAGMENT, .step = s->c.meta.step };
		memcpy(v->meta.run, s->c.meta.run, sizeof v->meta.run);
		memcpy(v->meta.model, s->c.meta.model, sizeof v->meta.model);
		rundir_fragment_name(v->meta.fragment, p);
		fragment_gather(&r->cut.v[p], value, model_params(s->model));
		write_values(v->fd, &v->meta, &r->cut.v[p].layout, value, &v->id);
		free(value);
	}
	for (unsigned i = 0; i < M; i++) {
		struct real_learner *l = &r->learner[i];

		snprintf(l->name, sizeof l->name, "learner-%u", i);
		CHECK(shard_open(&l->shard, run.shard, &run.trust) == 0);
		CHECK(model_open(&l->model, &run.model, (int)run.train.context, MODEL_TRAIN, NULL) == 0);
		CHECK(trainer_open(&l->trainer, l->model, &run.train, l->shard, 32, s->c.meta.seed, l->name, NULL) == 0);
		CHECK(replica_open(&l->replica, &r->cut, l->trainer.params, &rule) == 0);
	}
}

static void real_end(struct real *r)
{
	for (unsigned i = 0; i < M; i++) {
		struct real_learner *l = &r->learner[i];

		for (unsigned p = 0; p < P; p++) {
			free(l->answer[p].base);
			free(l->answer[p].snap);
			free(l->answer[p].routed);
		}
		replica_close(&l->replica);
		trainer_close(&l->trainer);
		model_close(l->model);
		shard_close(l->shard);
	}
	for (unsigned p = 0; p < P; p++)
		for (uint64_t v = 0; v <= r->newest[p]; v++) {
			close(r->version[p][v].fd);
			if (v)
				close(r->version[p][v].outer);
		}
	fragments_release(&r->cut);
}

static struct replica_version version_for(const struct real *r, unsigned p, uint64_t version, unsigned learner)
{
	const struct real_version *v = &r->version[p][version];
	unsigned answers = 0;

	for (unsigned i = 0; i < M; i++)
		answers += v->counted[i];
	return (struct replica_version){ version, v->meta.round, v->meta.step, v->id, v->counted[learner], answers };
}

static void real_join(struct real *r, unsigned i)
{
	struct real_learner *l = &r->learner[i];

	for (unsigned p = 0; p < P; p++) {
		struct replica_version v = version_for(r, p, r->newest[p], i);
		float *value = room(r, p);

		read_values(r->version[p][r->newest[p]].fd, value);
		replica_load(&l->replica, p, &v, value, false);
		free(value);
	}
	if (i == 2) /* comes late: as learner 0, which is further than 1 */
		optimizer_take(&l->trainer.optimizer, &r->learner[0].trainer.optimizer);
}

static void real_step(struct real *r, const struct trace_event *e)
{
	struct real_learner *l = &r->learner[e->learner];
	struct metrics_row row = { 0 };
	struct model_load load;

	l->trainer.train.batch = e->share < 1 ? 1 : 2;
	CHECK(trainer_step(&l->trainer, l->replica.step, 0, &row) == 0);
	model_load(&load, l->model);
	replica_step(&l->replica, trainer_tokens(&l->trainer), row.loss, load.routed);
}

static void real_answer(struct real *r, const struct trace_event *e)
{
	struct real_learner *l = &r->learner[e->learner];
	struct real_answer *a = &l->answer[e->fragment];
	size_t bytes = r->cut.v[e->fragment].elems * sizeof(float), tensors = r->cut.v[e->fragment].n;

	CHECK(replica_may_answer(&l->replica, e->fragment, e->round, r->newest[e->fragment]));
	a->meta = (struct meta){ .kind = KIND_DELTA };
	memcpy(a->meta.learner, l->name, sizeof l->name);
	memcpy(a->meta.run, r->version[0][0].meta.run, sizeof a->meta.run);
	memcpy(a->meta.model, r->version[0][0].meta.model, sizeof a->meta.model);
	replica_snapshot(&l->replica, e->fragment, e->round, &a->meta);
	a->base = a->base ? a->base : malloc(bytes);
	a->snap = a->snap ? a->snap : malloc(bytes);
	memcpy(a->base, replica_base(&l->replica, e->fragment), bytes);
	memcpy(a->snap, replica_snap(&l->replica, e->fragment), bytes);
	if (run.model.experts) {
		a->routed = a->routed ? a->routed : malloc(tensors * sizeof *a->routed);
		memcpy(a->routed, replica_snap_routed(&l->replica, e->fragment), tensors * sizeof *a->routed);
	}
	replica_answered(&l->replica, e->fragment);
}

static void real_adopt(struct real *r, const struct trace_event *e)
{
	struct replica_version v = version_for(r, e->fragment, e->version, e->learner);
	float *value = room(r, e->fragment);

	read_values(r->version[e->fragment][e->version].fd, value);
	replica_adopt(&r->learner[e->learner].replica, e->fragment, &v, value);
	free(value);
}

static int write_delta(const struct real *r, const struct real_answer *a, unsigned p, digest *id)
{
	int fd = memfd_create("delta", MFD_CLOEXEC);
	struct frame_writer *w = NULL;
	struct header h = { 0 };

	CHECK(meta_write(&a->meta, &h) == 0);
	if (a->routed)
		CHECK(routed_write(&h.keys, ROUTED_KEY, &r->cut.v[p].layout, a->routed) == 0);
	CHECK(difference_table(&h.tensors, &r->cut.v[p].layout, r->encoding) == 0);
	CHECK(frame_create(&w, fd, &h, &run.key.secret, NULL) == 0);
	CHECK(difference_write(w, &r->cut.v[p].layout, r->encoding, a->base, a->snap) == 0);
	CHECK(frame_finish(w, id) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	frame_writer_free(w);
	header_release(&h);
	return fd;
}

/* Answers are summed in the order of their identities, which hang on all that is in the file: another place in the
 * data makes another one, until they ascend as in the trace. */
static void write_deltas(struct real *r, const struct trace_event *e, struct answers_input *in)
{
	digest id[M];

	for (size_t k = 0; k < e->n; k++) {
		struct real_answer *a = &r->learner[e->who[k]].answer[e->fragment];

		in[k] = (struct answers_input){ -1, "delta", NULL };
		do {
			if (in[k].fd >= 0)
				close(in[k].fd);
			a->meta.cursor++;
			in[k].fd = write_delta(r, a, e->fragment, &id[k]);
		} while ((k && memcmp(&id[k], &id[k - 1], sizeof id[k]) < 0) || id[k].b[0] > 127 + 60 * k);
	}
}

static void real_merge(struct real *r, const struct trace_event *e)
{
	unsigned p = e->fragment;
	struct real_version *was = &r->version[p][r->newest[p]], *is = was + 1;
	struct answers_conf ac = { .clock = clock_monotonic() };
	struct merging_conf mc = { .rule = r->rule, .experts = r->experts, .outer = r->outer, .round = e->round, .epoch = 1,
		.quorum = e->n, .strict = true };
	struct answers_input in[M];
	struct merging_output to, to_state;
	struct outer prior = OUTER_INIT;
	struct frame_reader *base = NULL;
	struct guard_round round;
	struct answers as = { 0 };
	struct merging *g = NULL;
	struct meta m;

	write_deltas(r, e, in);
	is->fd = memfd_create("frag", MFD_CLOEXEC);
	is->outer = memfd_create("outer", MFD_CLOEXEC);
	to = (struct merging_output){ is->fd, "frag" };
	to_state = (struct merging_output){ is->outer, "outer" };
	CHECK(lseek(was->fd, 0, SEEK_SET) == 0 && frame_open(&base, was->fd, "base", &run.trust, NULL) == 0);
	CHECK(frame_seekable(base) == 0 && meta_read(&m, frame_header(base)) == 0);
	if (r->newest[p] > 0) {
		CHECK(lseek(was->outer, 0, SEEK_SET) == 0);
		CHECK(outer_take(&prior, dup(was->outer), "outer", base, &m, &run.trust) == 0);
	}
	CHECK(merging_fragment_round(&round, base, &m, e->round) == 0);
	CHECK(answers_open(&as, &ac, in, e->n, &round, &run.trust, NULL) == 0);
	answers_settle(&as);
	CHECK(answers_enough(&as, e->n, true) == 0);
	CHECK(merging_open(&g, &mc, base, &m, &as, &prior, NULL) == 0);
	CHECK(merging_write(g, &to, &to_state, &run.key, NULL) == 0 && merging_finish(g, &is->id) == 0);
	is->meta = *merging_meta(g);
	for (size_t k = 0; k < e->n; k++) {
		is->counted[e->who[k]] = true;
		close(in[k].fd);
	}
	r->newest[p]++;
	merging_close(g);
	answers_release(&as);
	outer_close(&prior);
	frame_reader_free(base);
}

static void real_event(struct real *r, const struct trace_event *e)
{
	switch (e->kind) {
	case TRACE_JOIN:
		real_join(r, e->learner);
		break;
	case TRACE_STEP:
		real_step(r, e);
		break;
	case TRACE_ANSWER:
		real_answer(r, e);
		break;
	case TRACE_MERGE:
		real_merge(r, e);
		break;
	case TRACE_ADOPT:
		real_adopt(r, e);
		break;
	default:
		break;
	}
}

/* The parameters of all fragments at the end. */
static void with_files(float *params, int trace_fd, const char *adopt, struct play_conf c)
{
	struct real r = { .encoding = c.encoding, .outer = c.outer, .rule = c.rule, .experts = c.experts };
	struct trace_event e;
	struct scene s;

	scene_open(&s, trace_fd, 1, 1);
	real_begin(&r, &s, adopt);
	while (trace_next(s.trace, &e) == 1)
		real_event(&r, &e);
	for (unsigned p = 0; p < P; p++) {
		float *value = room(&r, p);

		read_values(r.version[p][r.newest[p]].fd, value);
		fragment_scatter(&r.cut.v[p], params, value);
		free(value);
	}
	real_end(&r);
	scene_close(&s);
}

/* ---- tests ---- */

static void same_as_with_files(const char *head, const char *adopt, struct play_conf c)
{
	size_t bytes = tensors_total(&run.layout) * sizeof(float);
	float *params = malloc(bytes);
	struct played out;

	CHECK(play(&out, trace_file(head, EVENTS), c, 1, 1) == 0);
	with_files(params, trace_file(head, EVENTS), adopt, c);
	CHECK(memcmp(params, out.params, bytes) == 0);
	CHECK(out.meta.tokens == out.row[1].tokens && out.meta.round == 3 + 6 && out.row[1].merges == 6);
	free(params);
	free(out.params);
}

/* A mixture: the tokens of an expert weigh its tensors in play as they do with files, and make a difference. */
static void a_mixture(void)
{
	size_t bytes = tensors_total(&run.layout) * sizeof(float);
	struct play_conf c = conf();
	struct played tokens, routed;

	CHECK(play(&tokens, trace_file(HEAD("decoupled", 3, "rebase"), EVENTS), c, 1, 1) == 0);
	same_as_with_files(HEAD("decoupled", 3, "rebase"), "rebase", c);
	c.experts = MERGE_BY_ROUTED;
	CHECK(play(&routed, trace_file(HEAD("decoupled", 3, "rebase"), EVENTS), c, 1, 3) == 0);
	same_as_with_files(HEAD("decoupled", 3, "rebase"), "rebase", c);
	CHECK(memcmp(tokens.params, routed.params, bytes) != 0);
	c.rule = MERGE_DIRECT;
	same_as_with_files(HEAD("decoupled", 3, "overwrite"), "overwrite", c);
	free(tokens.params);
	free(routed.params);
}

static void any_number_of_threads(void)
{
	size_t bytes = tensors_total(&run.layout) * sizeof(float);
	struct played one, three;
	struct play_conf c = conf();

	c.every = 50;
	c.finish = true;
	CHECK(play(&one, trace_file(HEAD("decoupled", 3, "rebase"), EVENTS), c, 1, 1) == 0);
	CHECK(play(&three, trace_file(HEAD("decoupled", 3, "rebase"), EVENTS), c, 2, 3) == 0);
	CHECK(memcmp(one.params, three.params, bytes) == 0);
	CHECK(one.rows == three.rows && one.rows > 5);
	CHECK(memcmp(one.row, three.row, one.rows * sizeof one.row[0]) == 0);
	CHECK(one.row[one.rows - 1].merges == 8); /* of fragments 1 and 2 once more: 0 has all */
	free(one.params);
	free(three.params);
}

static void it_ends_at_a_limit(void)
{
	struct play_conf c = conf();
	struct played out;

	c.tokens = 60;
	CHECK(play(&out, trace_file(HEAD("decoupled", 3, "rebase"), EVENTS), c, 1, 1) == 0);
	CHECK(out.rows == 2 && out.row[1].tokens == 72 && out.row[1].seconds == 2); /* 16, 16, 8, 16, 16 */
	free(out.params);
	c.tokens = 0;
	c.until = 2.5;
	CHECK(play(&out, trace_file(HEAD("decoupled", 3, "rebase"), EVENTS), c, 1, 1) == 0);
	CHECK(out.row[1].tokens == 72 && out.row[1].merges == 0 && out.meta.tokens == 72);
	free(out.params);
}

/* What a step's share leaves of a sample goes on to the next step: 1.5 samples each are 1, 2, 1, 2. */
static void shares_add_up(void)
{
	struct play_conf c = conf();
	struct played out;

	c.every = 1;
	CHECK(play(&out, trace_file(HEAD("decoupled", 1, "rebase"), "0 join learner=0\n1 step learner=0 share=0.75\n"
		"2 step learner=0 share=0.75\n3 step learner=0 share=0.75\n4 step learner=0 share=0.01\n"), c, 1, 1) == 0);
	CHECK(out.rows == 5 && out.row[1].tokens == 8 && out.row[2].tokens == 24 && out.row[3].tokens == 32);
	CHECK(out.row[4].tokens == 40); /* one sample at least */
	free(out.params);
}

#define LOCKSTEP "0 join learner=0\n1 step learner=0\n2 step learner=0\n3 step learner=0\n4 stop learner=0 seconds=63 why=restart\n" \
	"5 step learner=0\n6 step learner=0\n7 step learner=0\n8 step learner=0\n"

/* Four parts of two samples from one shard are a batch of eight. The gradient is a sum in another order, which moves
 * it by some 1e-7 of its size; AdamW divides by its size, and seven steps at a rate of up to 0.01 can add that up. */
static void lockstep_is_a_larger_batch(void)
{
	uint64_t n = tensors_total(&run.layout);
	struct train_conf train = run.train;
	struct metrics_row row;
	struct trainer t;
	struct played out;
	struct scene s;
	struct model *model;

	train.batch *= 4;
	scene_open(&s, trace_file(HEAD("lockstep", 1, "overwrite"), LOCKSTEP), 1, 1);
	CHECK(model_open(&model, &run.model, (int)train.context, MODEL_TRAIN, NULL) == 0);
	CHECK(trainer_open(&t, model, &train, s.shard[0], 32, s.c.meta.seed, "learner-0", NULL) == 0);
	memcpy(t.params, model_params(s.model), n * sizeof(float));
	for (uint64_t i = 0; i < 7; i++)
		CHECK(trainer_step(&t, s.c.meta.step + i, 0, &row) == 0);
	CHECK(play(&out, trace_file(HEAD("lockstep", 1, "overwrite"), LOCKSTEP), conf(), 4, 2) == 0);
	CHECK(out.row[1].tokens == 7 * 64 && out.meta.step == 107);
	for (uint64_t i = 0; i < n; i++)
		CHECK_NEAR(out.params[i], t.params[i], 1e-5);
	trainer_close(&t);
	model_close(model);
	scene_close(&s);
	free(out.params);
}

static void elastic_parts(void)
{
	struct play_conf c = conf();
	struct played out;

	c.every = 1;
	CHECK(play(&out, trace_file(HEAD("elastic", 1, "overwrite"), "0 join learner=0\n1 step learner=0 share=0.75\n"
		"2 step learner=0 share=0.3\n"), c, 4, 2) == 0);
	CHECK(out.row[1].tokens == 6 * 8 && out.row[2].tokens == 8 * 8); /* 6 of 8 samples; 2.4 */
	free(out.params);
}

/* With its state kept, a learner goes on where it was; what it then adopts replaces what it has trained, as at the
 * start of a process. Without, it is as if it came late. */
static void lost_and_back(void)
{
#define BEFORE "0 join learner=0\n0 join learner=1\n1 step learner=0\n1 call round=1 fragment=0 version=0 invited=all\n" \
	"1 step learner=0\n1 answer round=1 fragment=0 learner=0 steps=2 tokens=32\n" \
	"1 step learner=1\n1 merge round=1 fragment=0 version=1 answers=0\n"
#define AFTER "3 adopt learner=1 fragment=0 version=1\n3 step learner=1\n3 call round=2 fragment=0 version=1 invited=all\n" \
	"3 answer round=2 fragment=0 learner=1 steps=1 tokens=16\n4 merge round=2 fragment=0 version=2 answers=1\n"
	static const char *const between[] = { "2 stop learner=1 seconds=1 why=down\n", "2 lost learner=1 state=kept\n3 back learner=1\n",
		"2 lost learner=1 state=kept\n2 back learner=1\n" };
	size_t bytes = tensors_total(&run.layout) * sizeof(float);
	struct played out[3];
	char events[2048];

	for (int i = 0; i < 3; i++) {
		snprintf(events, sizeof events, "%s%s%s", BEFORE, between[i], AFTER);
		CHECK(play(&out[i], trace_file(HEAD("decoupled", 2, "rebase"), events), conf(), 1, 1) == 0);
	}
	CHECK(memcmp(out[0].params, out[1].params, bytes) != 0); /* rebased, overwritten */
	CHECK(memcmp(out[1].params, out[2].params, bytes) == 0);
	for (int i = 0; i < 3; i++)
		free(out[i].params);
	CHECK(play_fails(HEAD("decoupled", 2, "rebase"), BEFORE "2 lost learner=1 state=lost\n3 back learner=1\n"
		"3 step learner=1\n3 call round=2 fragment=0 version=1 invited=all\n"
		"3 answer round=2 fragment=0 learner=1 steps=1 tokens=16\n4 merge round=2 fragment=0 version=2 answers=1\n") == 0);
}

/* A learner that has stopped adopts, much later, what was new then: it is kept for it, and for nobody longer. */
static void an_old_version(void)
{
	char events[8192];
	size_t n = 0;
	struct played out;

	n += (size_t)sprintf(events + n, "0 join learner=0\n0 join learner=1\n");
	for (int i = 1; i <= 20; i++)
		n += (size_t)sprintf(events + n, "%d call round=%d fragment=1 version=%d invited=all\n%d step learner=0\n"
			"%d answer round=%d fragment=1 learner=0 steps=1 tokens=16\n%d merge round=%d fragment=1 version=%d answers=0\n"
			"%d adopt learner=0 fragment=1 version=%d\n", i, i, i - 1, i, i, i, i, i, i, i, i);
	sprintf(events + n, "30 adopt learner=1 fragment=1 version=3\n31 step learner=1\n31 adopt learner=1 fragment=1 version=20\n"
		"32 step learner=1\n");
	CHECK(play(&out, trace_file(HEAD("decoupled", 2, "rebase"), events), conf(), 1, 1) == 0);
	CHECK(out.row[out.rows - 1].merges == 20);
	free(out.params);
}

#define TWO_ANSWERS(answers) \
	"0 join learner=0\n0 join learner=1\n1 step learner=0\n1 step learner=1\n" \
	"1 call round=1 fragment=1 version=0 invited=all\n1 answer round=1 fragment=1 learner=0 steps=1 tokens=16\n" \
	"1 answer round=1 fragment=1 learner=1 steps=1 tokens=16\n2 merge round=1 fragment=1 version=1 answers=" answers "\n"

/* Of two answers the longer one is left out where the limit is 1, and the other merged alone. */
static void the_longer_answer_is_left_out(void)
{
	size_t bytes = tensors_total(&run.layout) * sizeof(float);
	struct played guarded, zero, one, both;
	struct play_conf c = conf();

	CHECK(play(&zero, trace_file(HEAD("decoupled", 2, "rebase"), TWO_ANSWERS("0")), c, 1, 1) == 0);
	CHECK(play(&one, trace_file(HEAD("decoupled", 2, "rebase"), TWO_ANSWERS("1")), c, 1, 1) == 0);
	c.outlier = 100;
	CHECK(play(&both, trace_file(HEAD("decoupled", 2, "rebase"), TWO_ANSWERS("0,1")), c, 1, 1) == 0);
	c.outlier = 1;
	CHECK(play(&guarded, trace_file(HEAD("decoupled", 2, "rebase"), TWO_ANSWERS("0,1")), c, 1, 1) == 0);
	CHECK(memcmp(zero.params, one.params, bytes) != 0 && memcmp(both.params, guarded.params, bytes) != 0);
	CHECK((memcmp(guarded.params, zero.params, bytes) == 0) != (memcmp(guarded.params, one.params, bytes) == 0));
	free(zero.params);
	free(one.params);
	free(both.params);
	free(guarded.params);
}

/* Whatever is simulated can be played: answers that come when their round is over, learners that have lost what they had
 * answered with, all that sim.c draws. */
static void whatever_is_simulated(void)
{
	for (uint64_t seed = 0; seed < 250; seed++) {
		struct sim_result r;
		struct sim_conf c;
		struct played out;
		int rc;

		drawn_sim(&c, seed);
		if (sim_conf_learners(&c) > 8) /* as many as a scene has shards */
			continue;
		c.length = fmin(c.length, 400 * c.step / sim_conf_learners(&c));
		rc = play(&out, drawn_sim_trace(&c, &r), conf(), 1, 1);
		if (rc < 0) {
			CHECK_STR(err_text(), "");
			fprintf(stderr, "with seed %d\n", (int)seed);
		}
		CHECK(rc < 0 || out.rows >= 1);
		free(out.params);
	}
}

static void what_cannot_be_played(void)
{
	struct trace_head many = { .mode = TRACE_DECOUPLED, .learners = 1025 }, two = { .mode = TRACE_LOCKSTEP, .learners = 2 };
	unsigned n;

	CHECK(play_shards(&n, &two, 3) == ERR_DATA);
	CHECK_SAYS("a trace of mode lockstep has one learner, not 2");
	CHECK(play_fails(HEAD("elastic", 1, "overwrite"), "0 join learner=0\n1 step learner=0\n"
		"1 call round=1 fragment=0 version=0 invited=all\n") == ERR_DATA);
	CHECK_SAYS("at 1.000000 s: a trace of mode elastic has no rounds");
	CHECK(play_shards(&n, &many, 3) == ERR_DATA);
	CHECK_SAYS("1025 learners: 1024 at most");
	CHECK(play_fails("0 trace format=1 mode=decoupled learners=1 fragments=99 interval=4 overlap=2 quorum=1 grace=1"
		" adopt=rebase step_tokens=16 seed=1 params=1 chips=0\n", "0 join learner=0\n") == ERR_USAGE);
	CHECK_SAYS("the trace has 99 fragments, and the model only 11 tensors");
	CHECK(play_fails(HEAD("decoupled", 1, "rebase"), "0 join learner=0\n1 step learner=0\n1 adopt learner=0 fragment=0 version=1\n")
		== ERR_DATA);
	CHECK_SAYS("line 4: ");
}

int main(void)
{
	struct play_conf c = conf();

	small_run_make(&run);
	same_as_with_files(HEAD("decoupled", 3, "rebase"), "rebase", c);
	same_as_with_files(HEAD("decoupled", 3, "overwrite"), "overwrite", c);
	same_as_with_files(HEAD("decoupled", 3, "mix:0.5"), "mix:0.5", c);
	c.rule = MERGE_DIRECT;
	c.encoding = ENC_F32R;
	same_as_with_files(HEAD("decoupled", 3, "rebase"), "rebase", c);
	c.outer = (struct merge_outer){ 1, 0 };
	c.encoding = ENC_BF16;
	same_as_with_files(HEAD("decoupled", 3, "rebase"), "rebase", c);
	any_number_of_threads();
	it_ends_at_a_limit();
	shares_add_up();
	lockstep_is_a_larger_batch();
	elastic_parts();
	lost_and_back();
	an_old_version();
	the_longer_answer_is_left_out();
	whatever_is_simulated();
	what_cannot_be_played();
	small_run_remove(&run);
	small_run_make_of(&run, small_run_mixture);
	a_mixture();
	small_run_remove(&run);
	return unit_done("play");
}
