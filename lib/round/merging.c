#include "round/merging.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "io/fd.h"
#include "io/wake.h"
#include "round/fields.h"
#include "round/group.h"
#include "round/routed.h"
#include "round/sink.h"

#define DOMAIN "dl-merge-1"

struct merging {
	struct merging_conf conf;
	const struct frame_reader *base;
	struct meta from, next; /* of the base, of the new checkpoint */
	digest base_id;
	struct answers *answers;
	const struct outer *prior;
	struct group group;
	struct pool *pool;
	struct sink sink[2]; /* checkpoint and state */
	int sinks;
	bool dry;            /* measure only */
	int spill;           /* sums of what can't be held; -1: not needed yet */
	uint64_t done, total; /* elements */
	struct say *say;
};

static int set_round(struct guard_round *r, const struct frame_reader *base, const struct meta *m,
	enum kind want)
{
	const struct tensors *ts = &frame_header(base)->tensors;
	digest id;
	int rc;

	if ((rc = meta_want(m, want)) < 0)
		return err_at(rc, "%s", frame_name(base));
	for (size_t t = 0; t < ts->n; t++)
		if (ts->v[t].enc != ENC_F32 && ts->v[t].enc != ENC_BF16)
			return err_set(ERR_DATA, "%s: tensor '%s' is encoded as %s, not f32 or bf16",
				frame_name(base), ts->v[t].name, encoding_name(ts->v[t].enc));
	if ((rc = frame_id(base, &id)) < 0)
		return rc;
	*r = (struct guard_round){ .round = m->round, .layout = ts, .version = m->version };
	memcpy(r->fragment, m->fragment, sizeof r->fragment);
	memcpy(r->run, m->run, sizeof r->run);
	memcpy(r->model, m->model, sizeof r->model);
	sig_hex(r->base, id.b, sizeof id.b);
	return 0;
}

int merging_round(struct guard_round *r, const struct frame_reader *base, const struct meta *m)
{
	return set_round(r, base, m, KIND_CHECKPOINT);
}

int merging_fragment_round(struct guard_round *r, const struct frame_reader *base,
	const struct meta *m, uint64_t round)
{
	int rc = set_round(r, base, m, KIND_FRAGMENT);

	r->round = round;
	return rc;
}

/* ---- the header of what comes out ---- */

static void hash_f64(struct sig_hash *h, double x)
{
	uint8_t bytes[8];

	le64_put(bytes, double_bits(x));
	sig_hash_add(h, bytes, sizeof bytes);
}

/* Everything the result depends on: base, momentum, answers, rule and outer rates. */
static void merge_digest(const struct merging *m, char out[65])
{
	const char *rule = merge_rule_name(m->conf.rule), *experts = merge_experts_name(m->conf.experts);
	struct sig_hash h;
	digest d;

	sig_hash_init(&h);
	sig_hash_add(&h, DOMAIN, sizeof DOMAIN);
	sig_hash_add(&h, m->base_id.b, sizeof m->base_id.b);
	sig_hash_add(&h, m->prior->id.b, sizeof m->prior->id.b);
	sig_hash_add(&h, rule, strlen(rule) + 1);
	if (m->conf.experts != MERGE_BY_TOKENS)
		sig_hash_add(&h, experts, strlen(experts) + 1);
	hash_f64(&h, m->conf.outer.eta);
	hash_f64(&h, m->conf.outer.mu);
	for (size_t k = 0; k < m->answers->accepted; k++)
		sig_hash_add(&h, m->answers->v[m->answers->order[k]].id.b, SIG_DIGEST);
	sig_hash_end(&h, &d);
	sig_hex(out, d.b, sizeof d.b);
}

/* Weighted as their values are. */
static uint64_t mean_steps(const struct answers *as, bool fragment)
{
	double steps = 0;

	for (size_t k = 0; k < as->accepted; k++) {
		const struct meta *m = &as->v[as->order[k]].meta;

		steps += as->share[k] * (double)(fragment ? m->step : m->steps);
	}
	return (uint64_t)(steps + 0.5);
}

static void set_place(struct merging *m, uint64_t steps)
{
	struct meta *next = &m->next;

	if (!m->from.fragment[0]) {
		next->round++;
		next->step += steps;
		return;
	}
	next->round = m->conf.round;
	next->epoch = m->conf.epoch;
	next->version++;
	if (steps > next->step)
		next->step = steps;
}

static int set_next(struct merging *m)
{
	const struct answers *as = m->answers;
	uint64_t tokens = 0;

	for (size_t k = 0; k < as->accepted; k++)
		tokens += as->v[as->order[k]].meta.tokens;
	if (m->from.tokens > UINT64_MAX - tokens || m->from.step > UINT64_MAX - GUARD_COUNT ||
		m->from.round == UINT64_MAX || m->from.version == UINT64_MAX)
		return err_set(ERR_DATA, "%s: counts are at their end", frame_name(m->base));
	m->next = m->from;
	set_place(m, mean_steps(as, m->from.fragment[0]));
	m->next.tokens += tokens;
	if (m->from.fragment[0] && m->next.tokens > FIELD_MOST)
		m->next.tokens = FIELD_MOST; /* the head would not be read any more */
	sig_hex(m->next.base, m->base_id.b, sizeof m->base_id.b);
	merge_digest(m, m->next.merge);
	return 0;
}

int merging_open(struct merging **out, const struct merging_conf *c, const struct frame_reader *base,
	const struct meta *m, struct answers *answers, const struct outer *prior, struct pool *pool)
{
	struct merging *g = calloc(1, sizeof *g);
	int rc;

	if (!g)
		return err_nomem();
	*g = (struct merging){ .conf = *c, .base = base, .from = *m, .answers = answers,
		.prior = prior, .pool = pool, .spill = -1,
		.total = tensors_total(&frame_header(base)->tensors) };
	if ((rc = frame_id(base, &g->base_id)) < 0) {
		merging_close(g);
		return rc;
	}
	*out = g;
	return 0;
}

void merging_close(struct merging *m)
{
	if (!m)
		return;
	group_close(&m->group);
	for (int i = 0; i < m->sinks; i++)
		sink_release(&m->sink[i]);
	if (m->spill >= 0)
		close(m->spill);
	free(m);
}

const struct meta *merging_meta(const struct merging *m)
{
	return &m->next;
}

/* ---- output ---- */

/* So that a learner knows what became of its answer. */
static int list_answers(const struct merging *m, struct header *h)
{
	struct buf names = BUF_INIT;
	int rc = 0;

	for (size_t k = 0; k < m->answers->accepted && rc == 0; k++)
		rc = buf_fmt(&names, "%s%s", k ? "," : "",
			m->answers->v[m->answers->order[k]].meta.learner);
	if (rc == 0)
		rc = conf_set(&h->keys, MERGING_ANSWERS, names.data ? names.data : "");
	buf_release(&names);
	return rc;
}

static int begin_checkpoint(struct merging *m, const struct key *key)
{
	struct header h = { .keys = { 0 } };
	int rc = header_copy(&h, frame_header(m->base));

	for (size_t t = 0; t < h.tensors.n; t++)
		h.tensors.v[t].enc = ENC_F32;
	if (rc == 0)
		rc = meta_write(&m->next, &h);
	if (rc == 0 && m->next.fragment[0])
		rc = list_answers(m, &h);
	if (rc == 0)
		rc = sink_begin(&m->sink[0], &h, key);
	header_release(&h);
	return rc;
}

static int begin_state(struct merging *m, const struct key *key)
{
	struct header h = { .keys = { 0 } };
	int rc = outer_header(&h, m->prior, &m->next, &m->base_id, &frame_header(m->base)->tensors);

	if (rc == 0)
		rc = sink_begin(&m->sink[1], &h, key);
	header_release(&h);
	return rc;
}

/* Array i of the group to sink i. */
static int write_sink(void *ctx, int i, int thread)
{
	struct merging *m = ctx;
	const struct group *g = &m->group;
	int rc = 0;

	(void)thread;
	for (size_t k = 0; k < g->units && rc == 0; k++)
		rc = sink_write(&m->sink[i], group_array(g, (size_t)i) + g->unit[k].at, g->unit[k].n);
	return rc;
}

/* Step and write, when there are sums; and in any case the end of a group. */
static int end_group(struct merging *m, bool summed)
{
	int rc = 0;

	if (summed && (rc = group_step(&m->group)) == 0)
		rc = pool_run(m->pool, write_sink, m, m->sinks);
	m->done += m->group.elems;
	if (say_due(m->say))
		say_progress(m->say, "%s %.0f %%", summed ? "merged" : "read",
			100 * (double)m->done / (double)m->total);
	if (m->conf.tick)
		m->conf.tick(m->conf.tick_ctx);
	else if (rc == 0 && wake_requested())
		rc = err_set(ERR_IO, "interrupted");
	return rc;
}

/* ---- a pass ---- */

static bool useless(const struct merging *m)
{
	return m->dry || m->group.spoiled;
}

static int merge_held(struct merging *m, struct group_place *at)
{
	int rc;

	group_fill(&m->group, at);
	if ((rc = group_read(&m->group)) < 0)
		return rc;
	if (!useless(m) && (rc = group_sum(&m->group)) < 0)
		return rc;
	return end_group(m, !useless(m));
}

/* Value and rest of the sums, array by array. */
static int spill_sums(struct merging *m)
{
	size_t n = m->group.elems * sizeof(float);
	int rc = fd_write(m->spill, group_array(&m->group, 0), n);

	return rc < 0 ? rc : fd_write(m->spill, group_array(&m->group, 1), n);
}

static int load_sums(struct merging *m)
{
	size_t n = m->group.elems * sizeof(float);

	for (size_t k = 0; k < 2; k++) {
		ssize_t got = fd_read(m->spill, group_array(&m->group, k), n);

		if (got < 0)
			return (int)got;
		if ((size_t)got < n)
			return err_set(ERR_IO, "cut short");
	}
	return 0;
}

static int rewind_spill(struct merging *m)
{
	int rc = m->spill < 0 ? fd_temporary(&m->spill) : 0;

	if (rc == 0 && lseek(m->spill, 0, SEEK_SET) < 0)
		rc = err_sys("temporary file");
	return rc;
}

static int measure_pieces(struct merging *m, struct group_place at)
{
	uint32_t tensor = at.tensor;
	int rc = 0;

	while (at.tensor == tensor && rc == 0) {
		group_fill_pieces(&m->group, &at);
		rc = group_measure(&m->group);
	}
	return rc;
}

/* Sums a tensor into the temporary file, and decides how it is merged. */
static int sum_pieces(struct merging *m, struct group_place at)
{
	uint32_t tensor = at.tensor;
	int rc = rewind_spill(m);

	while (at.tensor == tensor && rc == 0) {
		group_fill_pieces(&m->group, &at);
		if ((rc = group_sum_pieces(&m->group)) == 0 && (rc = spill_sums(m)) < 0)
			err_at(rc, "temporary file");
	}
	return rc;
}

static int merge_pieces(struct merging *m, struct group_place *at)
{
	struct group_place end = { at->tensor + 1, 0 };
	int rc = measure_pieces(m, *at);

	if (rc < 0 || useless(m)) {
		*at = end;
		return rc;
	}
	do
		rc = sum_pieces(m, *at);
	while (rc == 0 && !group_decide(&m->group, at->tensor));
	if (rc == 0)
		rc = rewind_spill(m);
	while (at->tensor < end.tensor && rc == 0) {
		group_fill_pieces(&m->group, at);
		if ((rc = load_sums(m)) < 0)
			err_at(rc, "temporary file");
		else
			rc = end_group(m, true);
	}
	return rc;
}

static int merge_tensors(struct merging *m)
{
	struct group_place at = { 0, 0 };
	int rc = 0;

	m->done = 0;
	while (at.tensor < m->group.layout->n && rc == 0)
		rc = group_can_hold(&m->group, at.tensor) ? merge_held(m, &at) : merge_pieces(m, &at);
	say_progress_end(m->say);
	return rc;
}

static int open_group(struct merging *m)
{
	struct group_conf c = { m->base, m->prior->reader, m->answers, m->conf.rule, m->conf.experts,
		m->conf.outer, m->conf.cosine, m->pool };

	group_close(&m->group);
	return group_open(&m->group, &c);
}

/* 1: an answer was refused on the way, or it was a dry pass; 0: all is written but for the ends. */
static int pass(struct merging *m, const struct key *key)
{
	size_t refused = answers_refused(m->answers);
	int rc;

	if ((rc = set_next(m)) < 0 || (rc = open_group(m)) < 0)
		return rc;
	if (!m->dry && ((rc = begin_checkpoint(m, key)) < 0 ||
		(m->sinks > 1 && (rc = begin_state(m, key)) < 0)))
		return rc;
	if ((rc = merge_tensors(m)) < 0 ||
		(rc = answers_measured(m->answers, m->conf.outlier)) < 0)
		return rc;
	return m->dry || answers_refused(m->answers) > refused;
}

static void set_cosines(struct merging *m)
{
	const struct group_tally *t = &m->group.tally;

	for (size_t k = 0; k < m->answers->accepted; k++) {
		struct answer *a = &m->answers->v[m->answers->order[k]];
		double norms = a->norm * sqrt(t->all_norm2);
		double cosine = norms > 0 ? t->all_dot[k] / norms : 0;

		a->cosine = fmax(-1, fmin(1, cosine));
	}
}

/* Experts are weighed by all tokens, though it was asked for other. */
static void tell_uncounted(const struct merging *m)
{
	if (m->conf.experts == MERGE_BY_ROUTED && routed_experts(&frame_header(m->base)->tensors) > 0 &&
		!answers_counted(m->answers))
		say_note(m->say, "%s: not all answers say which experts their tokens went to: all tensors are weighed "
			"by tokens", frame_name(m->base));
}

/* Passes until one is of use; each before it has refused an answer, or was the dry one. */
static int run_passes(struct merging *m, const struct key *key)
{
	int rc;

	while ((rc = pass(m, key)) > 0) {
		bool again = !m->dry;

		answers_settle(m->answers);
		if ((rc = answers_enough(m->answers, m->conf.quorum, m->conf.strict)) < 0)
			break;
		if (again && !m->sink[0].seekable)
			return err_set(ERR_AUTH, "%s: a delta changed while it was read",
				m->sink[0].name);
		m->dry = false;
	}
	for (int i = 0; i < m->sinks && rc < 0; i++)
		if (sink_cut(&m->sink[i]) < 0)
			break;
	return rc;
}

int merging_write(struct merging *m, const struct merging_output *checkpoint,
	const struct merging_output *state, const struct key *key, struct say *say)
{
	int rc;

	m->say = say;
	sink_init(&m->sink[0], checkpoint->fd, checkpoint->name);
	m->sinks = 1;
	if (state)
		sink_init(&m->sink[m->sinks++], state->fd, state->name);
	m->dry = !m->sink[0].seekable;
	if ((rc = run_passes(m, key)) < 0)
		return rc;
	tell_uncounted(m);
	if (m->conf.cosine)
		set_cosines(m);
	return state ? sink_finish(&m->sink[1], NULL) : 0;
}

int merging_judge(struct merging *m, struct say *say)
{
	bool again;
	int rc;

	m->say = say;
	m->dry = true;
	do {
		size_t refused = answers_refused(m->answers);

		if ((rc = pass(m, NULL)) < 0)
			return rc;
		again = answers_refused(m->answers) > refused;
		answers_settle(m->answers);
		rc = answers_enough(m->answers, m->conf.quorum, m->conf.strict);
	} while (rc == 0 && again);
	return rc;
}

int merging_finish(struct merging *m, digest *id)
{
	return sink_finish(&m->sink[0], id);
}
