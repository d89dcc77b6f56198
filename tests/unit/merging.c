/* Merging whole files, against a plain implementation that holds everything in memory. */
#include "round/merging.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "form/ckpt.h"
#include "form/codec.h"
#include "io/fd.h"
#include "math/outer_step.h"
#include "unit.h"

#define LEARNERS 3

#define EXPERT(e) "model.layers.0.block_sparse_moe.experts." #e ".w1.weight"

/* A lookup table, a scalar, tensors of one slice and of some, and one that is larger than a group: two are of
 * experts. */
static const struct {
	const char *name;
	uint64_t n;
} shapes[] = { { "model.embed_tokens.weight", 2100 }, { "scalar", 1 }, { "norm", 300 }, { EXPERT(0), 260000 },
	{ EXPERT(1), 2000000 }, { "last", 77 } };
#define EXPERTS_AT 3 /* of two tensors */
#define TENSORS (sizeof shapes / sizeof shapes[0])
#define TOTAL (2100 + 1 + 300 + 260000 + 2000000 + 77)

static struct key key;
static struct trust_entry me;
static const struct trust trust = { .v = &me, .n = 1 };

/* One learner's answer, and what a merge must make of all. */
struct scene {
	enum encoding enc[LEARNERS];
	uint64_t tokens[LEARNERS], steps[LEARNERS];
	const char *routed[LEARNERS];  /* value of the key; NULL: none */
	uint64_t by_expert[2][LEARNERS]; /* the same in numbers */
	enum merge_experts experts;
	float *base, *v, *delta[LEARNERS]; /* (TOTAL) */
	int base_fd, delta_fd[LEARNERS], state_fd;
	size_t n;
	enum merge_rule rule;
	struct merge_outer outer;
	bool fragment; /* version 4 of one, and answers to round 9 */
};

static float *floats(void)
{
	float *x = calloc(TOTAL, sizeof *x);

	CHECK(x != NULL);
	return x;
}

static int memory_file(void)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static void add_shapes(struct tensors *ts, enum encoding enc)
{
	for (size_t t = 0; t < TENSORS; t++) {
		struct tensor one = { .dtype = DTYPE_F32, .enc = enc, .rank = shapes[t].n > 1 };

		one.dim[0] = shapes[t].n;
		snprintf(one.name, sizeof one.name, "%s", shapes[t].name);
		CHECK(tensors_push(ts, &one) == 0);
	}
}

static void write_file(int fd, const struct meta *m, enum encoding enc, const char *routed, const float *value,
	digest *id)
{
	struct frame_writer *w = NULL;
	struct header h = { .keys = { 0 } };

	add_shapes(&h.tensors, enc);
	CHECK(meta_write(m, &h) == 0);
	if (routed)
		CHECK(conf_set(&h.keys, "routed", routed) == 0);
	CHECK(frame_create(&w, fd, &h, &key.secret, NULL) == 0);
	for (size_t t = 0; t < TENSORS; t++) {
		CHECK(frame_write(w, value, NULL, shapes[t].n) == 0);
		value += shapes[t].n;
	}
	CHECK(frame_finish(w, id) == 0);
	frame_writer_free(w);
	header_release(&h);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
}

static void prepare(struct scene *s, size_t n)
{
	struct meta m = { .kind = KIND_CHECKPOINT, .step = 1000, .tokens = 5000 };
	digest id;

	memset(m.run, '1', 32);
	memset(m.model, '2', 64);
	if (s->fragment) {
		m.kind = KIND_FRAGMENT;
		memcpy(m.fragment, "f001", 5);
		m.version = 4;
		m.round = 3;
	}
	s->n = n;
	s->base_fd = memory_file();
	write_file(s->base_fd, &m, ENC_F32, NULL, s->base, &id);
	sig_hex(m.base, id.b, sizeof id.b);
	m.kind = KIND_DELTA;
	m.round = s->fragment ? 9 : 0;
	for (size_t k = 0; k < n; k++) {
		m.tokens = s->tokens[k];
		m.steps = s->steps[k];
		m.step += 100 * s->fragment;
		snprintf(m.learner, sizeof m.learner, "learner%zu", k);
		s->delta_fd[k] = memory_file();
		if (s->enc[k] == ENC_BF16)
			codec_bf16_round(s->delta[k], s->delta[k], TOTAL);
		write_file(s->delta_fd[k], &m, s->enc[k], s->routed[k], s->delta[k], NULL);
	}
}

static void scene_init(struct scene *s, uint64_t seed)
{
	*s = (struct scene){ .rule = MERGE_RDA, .outer = { 0.7, 0.9 }, .tokens = { 100, 200, 300 },
		.steps = { 10, 15, 10 }, .enc = { ENC_F32, ENC_F32R, ENC_BF16 } };
	s->base = floats();
	s->v = floats();
	for (size_t k = 0; k < LEARNERS; k++)
		s->delta[k] = floats();
	for (uint64_t i = 0; i < TOTAL; i++) {
		uint32_t x = (uint32_t)(rng_permute(seed, 0, TOTAL, i));

		s->base[i] = (float)x / TOTAL - 0.5f;
		s->delta[0][i] = (float)(x % 1009) / 1e4f - 0.05f;
		s->delta[1][i] = (float)(x % 1013) / 1e5f - 0.005f;
		s->delta[2][i] = (float)(x % 2003) / 1e4f - 0.1f;
	}
}

static void scene_release(struct scene *s)
{
	for (size_t k = 0; k < LEARNERS; k++)
		free(s->delta[k]);
	for (size_t k = 0; k < s->n; k++)
		close(s->delta_fd[k]);
	free(s->base);
	free(s->v);
	close(s->base_fd);
}

static struct frame_reader *open_file(int fd, const char *name)
{
	struct frame_reader *r = NULL;

	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(frame_open(&r, fd, name, &trust, NULL) == 0);
	return r;
}

/* Merges the scene's files, learners in the order given, and leaves identity and new files. */
static struct meta run(struct scene *s, const int *order, int threads, digest *id, int *out, int *state,
	double *cosine)
{
	struct answers_conf ac = { .clock = clock_monotonic() };
	struct merging_conf mc = { .rule = s->rule, .experts = s->experts, .outer = s->outer, .cosine = true, .round = 9,
		.epoch = 2 };
	struct answers_input in[LEARNERS];
	struct merging_output to = { memory_file(), "out" }, to_state = { memory_file(), "state" };
	struct outer prior = OUTER_INIT;
	struct frame_reader *base = open_file(s->base_fd, "base");
	struct guard_round round;
	struct answers as = { 0 };
	struct merging *g = NULL;
	struct pool *pool = NULL;
	struct meta m, next;

	CHECK(pool_open(&pool, threads) == 0);
	CHECK(frame_seekable(base) == 0 && meta_read(&m, frame_header(base)) == 0);
	for (size_t k = 0; k < s->n; k++) {
		CHECK(lseek(s->delta_fd[order[k]], 0, SEEK_SET) == 0);
		in[k] = (struct answers_input){ s->delta_fd[order[k]], "delta", NULL };
	}
	CHECK((s->fragment ? merging_fragment_round(&round, base, &m, 9)
			   : merging_round(&round, base, &m)) == 0);
	CHECK(answers_open(&as, &ac, in, s->n, &round, &trust, pool) == 0);
	answers_settle(&as);
	CHECK(answers_enough(&as, s->n, true) == 0);
	CHECK(merging_open(&g, &mc, base, &m, &as, &prior, pool) == 0);
	CHECK(merging_write(g, &to, &to_state, &key, NULL) == 0);
	CHECK(merging_finish(g, id) == 0);
	next = *merging_meta(g);
	for (size_t k = 0; k < s->n; k++)
		cosine[order[k]] = as.v[k].cosine;
	merging_close(g);
	answers_release(&as);
	frame_reader_free(base);
	pool_close(pool);
	*out = to.fd;
	*state = to_state.fd;
	return next;
}

/* ---- the plain way ---- */

static double norm_of(const float *x, uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	return sqrt(sum);
}

static void plain_mean(double *d, const struct scene *s, const double *a, uint64_t at, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		d[at + i] = 0;
		for (size_t k = 0; k < s->n; k++)
			d[at + i] += a[k] * s->delta[k][at + i];
	}
}

static void plain_tensor(double *d, const struct scene *s, const double *share, bool rda, uint64_t at, uint64_t n)
{
	double a[LEARNERS], mean = 0, length = 0;

	for (size_t k = 0; k < s->n; k++) {
		double norm = norm_of(s->delta[k] + at, n);

		a[k] = rda ? share[k] / norm : share[k];
		mean += share[k] * norm;
	}
	plain_mean(d, s, a, at, n);
	for (uint64_t i = 0; i < n; i++)
		length += d[at + i] * d[at + i];
	length = sqrt(length);
	if (rda && length < 1e-6)
		plain_mean(d, s, share, at, n);
	else if (rda)
		for (uint64_t i = 0; i < n; i++)
			d[at + i] *= mean / length;
}

/* Of a tensor, in the order of the learners. */
static void plain_weights(double *w, const struct scene *s, size_t t)
{
	const uint64_t *by = t == EXPERTS_AT || t == EXPERTS_AT + 1 ? s->by_expert[t - EXPERTS_AT] : s->tokens;

	if (s->experts == MERGE_BY_TOKENS)
		by = s->tokens;
	for (size_t k = 0; k < s->n; k++)
		w[k] = merge_weight(by[k], s->steps[k]);
}

static void plain(double *d, const struct scene *s)
{
	double share[LEARNERS], sum;
	uint64_t at = 0;

	for (size_t t = 0; t < TENSORS; t++) {
		plain_weights(share, s, t);
		sum = 0;
		for (size_t k = 0; k < s->n; k++)
			sum += share[k];
		for (size_t k = 0; k < s->n; k++)
			share[k] /= sum;
		plain_tensor(d, s, share, s->rule == MERGE_RDA && t > 0, at, shapes[t].n);
		at += shapes[t].n;
	}
}

/* ---- in memory: the same bits ---- */

/* Answers in the order of their identities, as they are summed. */
static void order_answers(const struct scene *s, int *order)
{
	digest id[LEARNERS];

	for (size_t k = 0; k < s->n; k++) {
		struct frame_reader *r = open_file(s->delta_fd[k], "delta");
		size_t at = k;

		CHECK(frame_seekable(r) == 0 && frame_id(r, &id[k]) == 0);
		for (; at > 0 && memcmp(&id[order[at - 1]], &id[k], sizeof id[k]) > 0; at--)
			order[at] = order[at - 1];
		order[at] = (int)k;
		frame_reader_free(r);
	}
}

/* The outer step in memory, from zero momentum. */
static void step_in_memory(const struct scene *s, float *x, float *v)
{
	struct outer_step os;
	struct outer_step_answer answer[LEARNERS];
	double sum, w[LEARNERS];
	int order[LEARNERS];
	uint64_t at = 0;

	CHECK(outer_step_open(&os, TOTAL, LEARNERS) == 0);
	os.rule = s->rule;
	os.outer = s->outer;
	order_answers(s, order);
	memcpy(x, s->base, TOTAL * sizeof *x);
	for (size_t t = 0; t < TENSORS; at += shapes[t++].n) {
		plain_weights(w, s, t);
		sum = 0;
		for (size_t k = 0; k < s->n; k++)
			sum += w[order[k]];
		for (size_t k = 0; k < s->n; k++)
			answer[k] = (struct outer_step_answer){ s->delta[order[k]] + at, NULL, w[order[k]] / sum,
				s->enc[order[k]] == ENC_F32R ? FRAME_ELEMS_PAIR : FRAME_ELEMS };
		CHECK(outer_step_tensor(&os, shapes[t].name, x + at, v + at, answer, s->n, shapes[t].n) == 0);
	}
	outer_step_close(&os);
}

static void compare_bits(const struct scene *s, int out, int state)
{
	float *x = floats(), *v = floats(), *y = floats();
	struct frame_reader *r = open_file(out, "out");

	step_in_memory(s, x, v);
	CHECK(ckpt_read(r, y) == 0);
	frame_reader_free(r);
	CHECK(memcmp(x, y, TOTAL * sizeof *x) == 0);
	r = open_file(state, "state");
	CHECK(ckpt_read(r, y) == 0);
	frame_reader_free(r);
	CHECK(memcmp(v, y, TOTAL * sizeof *v) == 0);
	free(x);
	free(v);
	free(y);
}

static void not_finite_in_memory(void)
{
	float x[2] = { 1, 2 }, v[2] = { 0 }, d[2] = { 0.5f, NAN };
	const struct outer_step_answer answer[2] = { { d, NULL, 0.5, MERGE_UNIT }, { d, NULL, 0.5, MERGE_UNIT } };
	struct outer_step os;

	CHECK(outer_step_open(&os, 2, 2) == 0);
	os.outer = (struct merge_outer){ 1, 0 };
	CHECK(outer_step_tensor(&os, "a", x, v, answer, 2, 2) == ERR_DATA);
	CHECK_SAYS("tensor 'a': element 1 of an answer is nan");
	CHECK(x[0] == 1 && x[1] == 2);
	outer_step_close(&os);
}

/* ---- tests ---- */

static void compare(const struct scene *s, int out, int state, const double *cosine)
{
	double *d = calloc(TOTAL, sizeof *d), eta = s->outer.eta, mu = s->outer.mu, all = 0;
	float *x = floats(), *v = floats();
	struct frame_reader *r = open_file(out, "out");
	int wrong = 0;

	plain(d, s);
	CHECK(ckpt_read(r, x) == 0);
	frame_reader_free(r);
	r = open_file(state, "state");
	CHECK(ckpt_read(r, v) == 0);
	frame_reader_free(r);
	for (uint64_t i = 0; i < TOTAL; i++) {
		wrong += !(fabs(v[i] - d[i]) <= 1e-6 * fabs(d[i]) + 1e-12);
		wrong += !(fabs(x[i] - (s->base[i] - eta * (d[i] + mu * d[i]))) <= 1e-7);
		all += d[i] * d[i];
	}
	CHECK(wrong == 0);
	for (size_t k = 0; k < s->n; k++) {
		double dot = 0;

		for (uint64_t i = 0; i < TOTAL; i++)
			dot += d[i] * s->delta[k][i];
		CHECK_NEAR(cosine[k], dot / sqrt(all) / norm_of(s->delta[k], TOTAL), 1e-6);
	}
	free(d);
	free(x);
	free(v);
}

/* The second of two merges that came out the same; both are closed. */
static void compare_both(struct scene *s, const int out[2], const int state[2], const double *cosine)
{
	compare(s, out[1], state[1], cosine);
	compare_bits(s, out[1], state[1]);
	for (int i = 0; i < 2; i++) {
		close(out[i]);
		close(state[i]);
	}
}

static void merged_as_the_formula_says(enum merge_rule rule)
{
	static const int order[2][LEARNERS] = { { 0, 1, 2 }, { 2, 0, 1 } };
	struct scene s;
	double cosine[LEARNERS];
	digest id[2];
	int out[2], state[2];
	uint64_t size[2];

	scene_init(&s, 1);
	s.rule = rule;
	prepare(&s, LEARNERS);
	for (int i = 0; i < 2; i++) {
		struct meta m = run(&s, order[i], i ? 3 : 1, &id[i], &out[i], &state[i], cosine);

		CHECK(m.round == 1 && m.tokens == 5600 && m.kind == KIND_CHECKPOINT);
		CHECK(m.step == 1011); /* weights 1000, 2667, 9000: 11.05 steps */
		CHECK(fd_regular(out[i], &size[i]));
	}
	CHECK(size[0] == size[1] && memcmp(&id[0], &id[1], sizeof id[0]) == 0);
	compare_both(&s, out, state, cosine);
	scene_release(&s);
}

/* Tensors of experts by the tokens routed to these: as the formula says and in memory, other tensors as before, in a
 * merge that has another name. */
static void experts_by_what_was_routed(void)
{
	static const int order[2][LEARNERS] = { { 0, 1, 2 }, { 2, 0, 1 } };
	struct scene s;
	double cosine[LEARNERS];
	digest id[2];
	int out[2], state[2];
	struct meta m[3];

	scene_init(&s, 1);
	s.routed[0] = "100 0";
	s.routed[1] = "0 20";
	s.routed[2] = "30 10";
	prepare(&s, LEARNERS);
	m[0] = run(&s, order[0], 1, &id[0], &out[0], &state[0], cosine);
	close(out[0]);
	close(state[0]);
	s.experts = MERGE_BY_ROUTED;
	memcpy(s.by_expert, (const uint64_t[2][LEARNERS]){ { 100, 0, 30 }, { 0, 20, 10 } }, sizeof s.by_expert);
	for (int i = 0; i < 2; i++)
		m[i + 1] = run(&s, order[i], i ? 3 : 1, &id[i], &out[i], &state[i], cosine);
	CHECK(memcmp(&id[0], &id[1], sizeof id[0]) == 0);
	CHECK_STR(m[1].merge, m[2].merge);
	CHECK(strcmp(m[0].merge, m[1].merge) != 0 && m[1].step == m[0].step);
	compare_both(&s, out, state, cosine);
	scene_release(&s);
}

/* Counts that cannot be are a reason to refuse an answer, whoever asks for them. */
static void counts_that_cannot_be(void)
{
	struct answers_conf ac = { .clock = clock_monotonic() };
	struct answers_input in;
	struct guard_round round;
	struct frame_reader *base;
	struct answers as;
	struct scene s;
	struct meta m;

	scene_init(&s, 1);
	s.routed[0] = "1 101";
	prepare(&s, 1);
	base = open_file(s.base_fd, "base");
	CHECK(frame_seekable(base) == 0 && meta_read(&m, frame_header(base)) == 0);
	CHECK(merging_round(&round, base, &m) == 0);
	in = (struct answers_input){ s.delta_fd[0], "delta", NULL };
	CHECK(answers_open(&as, &ac, &in, 1, &round, &trust, NULL) == 0);
	CHECK(as.v[0].verdict == VERDICT_NOT_DELTA);
	CHECK_STR(as.v[0].why, "key 'routed': 101 of 100 tokens");
	answers_release(&as);
	frame_reader_free(base);
	scene_release(&s);
}

/* The same values as of a whole model, whose round and step go on by other rules. */
static void a_fragment(void)
{
	static const int order[LEARNERS] = { 1, 0, 2 };
	struct scene s;
	struct meta whole, m, state_meta;
	struct frame_reader *r;
	double cosine[LEARNERS];
	digest id;
	int out, state;

	scene_init(&s, 1);
	s.fragment = true;
	prepare(&s, LEARNERS);
	m = run(&s, order, 2, &id, &out, &state, cosine);
	CHECK(m.kind == KIND_FRAGMENT && m.round == 9 && m.version == 5 && m.epoch == 2);
	CHECK(m.step == 1263 && m.tokens == 5600); /* at 1100, 1200, 1300 */
	CHECK_STR(m.fragment, "f001");
	compare(&s, out, state, cosine);
	compare_bits(&s, out, state);
	r = open_file(state, "state");
	CHECK(meta_read(&state_meta, frame_header(r)) == 0 && state_meta.version == 5);
	CHECK_STR(state_meta.fragment, "f001");
	CHECK_STR(state_meta.merge, m.merge);
	frame_reader_free(r);
	r = open_file(s.base_fd, "base");
	CHECK(meta_read(&whole, frame_header(r)) == 0);
	CHECK(merging_round(&(struct guard_round){ .round = 0 }, r, &whole) == ERR_DATA);
	CHECK_SAYS("base: is a fragment, not a checkpoint");
	frame_reader_free(r);
	close(out);
	close(state);
	scene_release(&s);
}

/* Opposite answers of different lengths: no direction, so the plain mean, in small tensors and large. */
static void opposite_answers(void)
{
	static const int order[] = { 0, 1 };
	struct scene s;
	double cosine[LEARNERS];
	digest id;
	int out, state;

	scene_init(&s, 2);
	s.enc[1] = ENC_F32;
	for (uint64_t i = 2100; i < TOTAL; i++)
		s.delta[1][i] = -3 * s.delta[0][i];
	prepare(&s, 2);
	run(&s, order, 2, &id, &out, &state, cosine);
	compare(&s, out, state, cosine);
	compare_bits(&s, out, state);
	close(out);
	close(state);
	scene_release(&s);
}

/* eta 1, mu 0: the learner's parameters, bit for bit, by either rule. */
static void one_answer(enum merge_rule rule)
{
	static const int order[] = { 0 };
	struct scene s;
	struct frame_reader *r;
	float *x = floats();
	double cosine[LEARNERS];
	digest id;
	int out, state, wrong = 0;

	scene_init(&s, 3);
	s.rule = rule;
	s.outer = (struct merge_outer){ 1, 0 };
	prepare(&s, 1);
	run(&s, order, 2, &id, &out, &state, cosine);
	r = open_file(out, "out");
	CHECK(ckpt_read(r, x) == 0);
	for (uint64_t i = 0; i < TOTAL; i++)
		wrong += x[i] != (float)((double)s.base[i] - s.delta[0][i]);
	CHECK(wrong == 0);
	compare_bits(&s, out, state);
	CHECK_NEAR(cosine[0], 1, 1e-12);
	frame_reader_free(r);
	free(x);
	close(out);
	close(state);
	scene_release(&s);
}

int main(void)
{
	CHECK(sig_init() == 0 && sig_generate(&key.secret) == 0);
	me.key.pub = key.secret.pub;
	merged_as_the_formula_says(MERGE_RDA);
	merged_as_the_formula_says(MERGE_DIRECT);
	experts_by_what_was_routed();
	counts_that_cannot_be();
	a_fragment();
	opposite_answers();
	one_answer(MERGE_RDA);
	one_answer(MERGE_DIRECT);
	not_finite_in_memory();
	return unit_done("merging");
}
