#include "round/merging.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "io/fd.h"
#include "io/wake.h"
#include "round/group.h"

#define DOMAIN "dl-merge-1"

/* A file that is being written; writer NULL: none. */
struct sink {
	struct frame_writer *writer;
	const char *name;
};

struct merging {
	struct merging_conf conf;
	const struct frame_reader *base;
	digest base_id;
	struct answers *answers;
	const struct outer *prior;
	struct meta next; /* of the new checkpoint */
	struct group group;
	struct pool *pool;
	struct sink checkpoint, state;
	int spill; /* sums of a tensor larger than a group; -1: not needed yet */
	uint64_t done, total; /* elements */
	struct say *say;
};

int merging_round(struct guard_round *r, const struct frame_reader *base, const struct meta *m)
{
	const struct tensors *ts = &frame_header(base)->tensors;
	digest id;
	int rc;

	if ((rc = meta_want(m, KIND_CHECKPOINT)) < 0)
		return err_at(rc, "%s", frame_name(base));
	for (size_t t = 0; t < ts->n; t++)
		if (ts->v[t].enc != ENC_F32 && ts->v[t].enc != ENC_BF16)
			return err_set(ERR_DATA, "%s: tensor '%s' is encoded as %s, not f32 or bf16",
				frame_name(base), ts->v[t].name, encoding_name(ts->v[t].enc));
	if ((rc = frame_id(base, &id)) < 0)
		return rc;
	*r = (struct guard_round){ .round = m->round, .layout = ts };
	memcpy(r->run, m->run, sizeof r->run);
	memcpy(r->model, m->model, sizeof r->model);
	sig_hex(r->base, id.b, sizeof id.b);
	return 0;
}

/* ---- the header of what comes out ---- */

static void hash_f64(struct sig_hash *h, double x)
{
	uint8_t bytes[8];
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	le64_put(bytes, bits);
	sig_hash_add(h, bytes, sizeof bytes);
}

/* Everything the result depends on: base, momentum, answers, rule and outer rates. */
static void merge_digest(const struct merging *m, char out[65])
{
	const char *rule = merge_rule_name(m->conf.rule);
	struct sig_hash h;
	digest d;

	sig_hash_init(&h);
	sig_hash_add(&h, DOMAIN, sizeof DOMAIN);
	sig_hash_add(&h, m->base_id.b, sizeof m->base_id.b);
	sig_hash_add(&h, m->prior->id.b, sizeof m->prior->id.b);
	sig_hash_add(&h, rule, strlen(rule) + 1);
	hash_f64(&h, m->conf.outer.eta);
	hash_f64(&h, m->conf.outer.mu);
	for (size_t k = 0; k < m->answers->accepted; k++)
		sig_hash_add(&h, m->answers->v[m->answers->order[k]].id.b, SIG_DIGEST);
	sig_hash_end(&h, &d);
	sig_hex(out, d.b, sizeof d.b);
}

/* Global step: on by the steps of the answers in the mean, weighted as their values are. */
static int next_meta(struct merging *m, const struct meta *base)
{
	const struct answers *as = m->answers;
	double steps = 0;
	uint64_t tokens = 0;

	for (size_t k = 0; k < as->accepted; k++) {
		steps += as->share[k] * (double)as->v[as->order[k]].meta.steps;
		tokens += as->v[as->order[k]].meta.tokens;
	}
	if (base->tokens > UINT64_MAX - tokens || base->step > UINT64_MAX - GUARD_COUNT ||
		base->round == UINT64_MAX)
		return err_set(ERR_DATA, "%s: counts are at their end", frame_name(m->base));
	m->next = *base;
	m->next.round++;
	m->next.step += (uint64_t)(steps + 0.5);
	m->next.tokens += tokens;
	merge_digest(m, m->next.merge);
	return 0;
}

int merging_open(struct merging **out, const struct merging_conf *c, const struct frame_reader *base,
	const struct meta *m, struct answers *answers, const struct outer *prior, struct pool *pool)
{
	struct merging *g = calloc(1, sizeof *g);
	struct group_conf group = { base, prior->reader, answers, c->rule, c->outer, c->cosine, pool };
	int rc;

	if (!g)
		return err_nomem();
	g->conf = *c;
	g->base = base;
	g->answers = answers;
	g->prior = prior;
	g->pool = pool;
	g->spill = -1;
	g->total = tensors_total(&frame_header(base)->tensors);
	if ((rc = frame_id(base, &g->base_id)) < 0 || (rc = next_meta(g, m)) < 0 ||
		(rc = group_open(&g->group, &group)) < 0) {
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
	frame_writer_free(m->checkpoint.writer);
	frame_writer_free(m->state.writer);
	if (m->spill >= 0)
		close(m->spill);
	free(m);
}

const struct meta *merging_meta(const struct merging *m)
{
	return &m->next;
}

/* ---- the second pass ---- */

static int sink_open(struct sink *s, const struct merging_output *to, const struct header *h, const struct key *key,
	struct pool *pool)
{
	int rc = frame_create(&s->writer, to->fd, h, &key->secret, pool);

	s->name = to->name;
	return rc < 0 ? err_at(rc, "%s", s->name) : 0;
}

static int sink_write(const struct sink *s, const float *value, size_t n)
{
	int rc = s->writer ? frame_write(s->writer, value, NULL, n) : 0;

	return rc < 0 ? err_at(rc, "%s", s->name) : 0;
}

static int sink_finish(const struct sink *s, digest *id)
{
	int rc = s->writer ? frame_finish(s->writer, id) : 0;

	return rc < 0 ? err_at(rc, "%s", s->name) : 0;
}

static int write_group(struct merging *m)
{
	const struct group *g = &m->group;
	int rc = 0;

	for (size_t i = 0; i < g->units && rc == 0; i++) {
		const struct group_unit *u = &g->unit[i];

		rc = sink_write(&m->checkpoint, g->out + u->at, u->n);
		if (rc == 0)
			rc = sink_write(&m->state, g->v + u->at, u->n);
	}
	m->done += g->elems;
	if (say_due(m->say))
		say_progress(m->say, "merged %.0f %%", 100 * (double)m->done / (double)m->total);
	if (rc == 0 && wake_requested())
		rc = err_set(ERR_IO, "interrupted");
	return rc;
}

static int spill_sums(struct merging *m)
{
	return fd_write(m->spill, m->group.sum, m->group.elems * sizeof *m->group.sum);
}

static int load_sums(struct merging *m, uint64_t first)
{
	size_t n = m->group.elems * sizeof *m->group.sum;
	ssize_t got = fd_read_at(m->spill, m->group.sum, n, first * sizeof *m->group.sum);

	if (got < 0)
		return (int)got;
	return (size_t)got == n ? 0 : err_set(ERR_IO, "cut short");
}

/* Sums a tensor piece by piece into the temporary file, and decides how it is merged. */
static int sum_large(struct merging *m, uint32_t tensor)
{
	struct group_place at = { tensor, 0 };
	int rc;

	if (m->spill < 0 && (rc = fd_temporary(&m->spill)) < 0)
		return rc;
	if (lseek(m->spill, 0, SEEK_SET) < 0)
		return err_sys("temporary file");
	while (at.tensor == tensor) {
		group_fill_piece(&m->group, &at);
		if ((rc = group_sum_piece(&m->group)) < 0)
			return rc;
		if ((rc = spill_sums(m)) < 0)
			return err_at(rc, "temporary file");
	}
	return 0;
}

/* A tensor whose mean direction vanishes is left where it is: merged directly it needs no norm, and goes
 * through groups as others do. */
static int merge_large(struct merging *m, struct group_place *at)
{
	uint32_t tensor = at->tensor;
	int rc;

	if ((rc = sum_large(m, tensor)) < 0 || !group_decide(&m->group, tensor))
		return rc;
	while (at->tensor == tensor) {
		uint64_t first = at->first;

		group_fill_piece(&m->group, at);
		if ((rc = load_sums(m, first)) < 0)
			return err_at(rc, "temporary file");
		if ((rc = group_step(&m->group)) < 0 || (rc = write_group(m)) < 0)
			return rc;
	}
	return 0;
}

static int merge_all(struct merging *m)
{
	struct group_place at = { 0, 0 };
	int rc = 0;

	while (at.tensor < m->group.layout->n && rc == 0) {
		if (group_too_large(&m->group, at.tensor)) {
			rc = merge_large(m, &at);
			continue;
		}
		group_fill(&m->group, &at);
		if ((rc = group_sum(&m->group)) < 0 || (rc = group_step(&m->group)) < 0)
			break;
		rc = write_group(m);
	}
	say_progress_end(m->say);
	return rc;
}

static void set_cosines(struct merging *m)
{
	const struct group_tally *t = &m->group.tally;

	for (size_t k = 0; k < m->answers->accepted; k++) {
		struct answer *a = &m->answers->v[m->answers->order[k]];
		double norms = a->norm * sqrt(t->all_norm2), cosine = norms > 0 ? t->all_dot[k] / norms : 0;

		a->cosine = fmax(-1, fmin(1, cosine));
	}
}

static int open_checkpoint(struct merging *m, const struct merging_output *to, const struct key *key)
{
	struct header h = { .keys = { 0 } };
	int rc = header_copy(&h, frame_header(m->base));

	for (size_t t = 0; t < h.tensors.n; t++)
		h.tensors.v[t].enc = ENC_F32;
	if (rc == 0)
		rc = meta_write(&m->next, &h);
	if (rc == 0)
		rc = sink_open(&m->checkpoint, to, &h, key, m->pool);
	header_release(&h);
	return rc;
}

static int open_state(struct merging *m, const struct merging_output *to, const struct key *key)
{
	struct header h = { .keys = { 0 } };
	int rc = outer_header(&h, m->prior, &m->next, &m->base_id, &frame_header(m->base)->tensors);

	if (rc == 0)
		rc = sink_open(&m->state, to, &h, key, m->pool);
	header_release(&h);
	return rc;
}

int merging_write(struct merging *m, const struct merging_output *checkpoint, const struct merging_output *state,
	const struct key *key, struct say *say)
{
	int rc;

	m->say = say;
	if ((rc = open_checkpoint(m, checkpoint, key)) < 0 ||
		(state && (rc = open_state(m, state, key)) < 0) || (rc = merge_all(m)) < 0)
		return rc;
	if (m->conf.cosine)
		set_cosines(m);
	return sink_finish(&m->state, NULL);
}

int merging_finish(struct merging *m, digest *id)
{
	return sink_finish(&m->checkpoint, id);
}
