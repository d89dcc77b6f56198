#include "chaos/play.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/cohort.h"
#include "chaos/lockstep.h"
#include "form/ckpt.h"
#include "form/frame.h"
#include "round/evaluate.h"

#define NEARLY 1e-9 /* what a sum of shares may miss of a whole sample */

struct play {
	struct play_conf conf;
	struct trace_reader *trace;
	struct trace_head head;
	const struct checkpoint *c;
	struct model *model; /* the caller's: for measuring, and for the end */
	struct shard *valid;
	struct pool *pool;
	struct say *say;
	bool rounds;         /* cohort, versions; else lockstep */

	char **name;         /* (names) */
	unsigned names;
	struct fragments cut;
	struct cohort cohort;
	struct adoptions *adoptions;
	struct versions versions;
	uint64_t *called;    /* (P) the version that the last round of a fragment began from */
	struct versions_answer *answer; /* (learners) */
	struct lockstep lockstep;
	uint64_t step;       /* lockstep: global */
	double sum;          /* lockstep: of loss * tokens since the last line */
	uint64_t summed;

	double *left;        /* (learners) of a sample */
	double at;           /* virtual time */
	uint64_t tokens, next; /* planned so far; of the next line */
	uint64_t told;         /* what there was at the last line; 0: none yet */
};

static bool has_rounds(const struct trace_head *h)
{
	return h->mode == TRACE_DILOCO || h->mode == TRACE_DECOUPLED;
}

int play_shards(unsigned *n, const struct trace_head *h, unsigned given)
{
	if (h->learners > PLAY_LEARNERS)
		return err_set(ERR_DATA, "a trace of %u learners: %d at most can be played", h->learners,
			PLAY_LEARNERS);
	if (!has_rounds(h) && h->learners != 1)
		return err_set(ERR_DATA, "a trace of mode %s has one learner, not %u", trace_mode_name(h->mode),
			h->learners);
	*n = has_rounds(h) ? h->learners : given;
	return 0;
}

/* ---- opening ---- */

static int make_names(struct play *p, unsigned n)
{
	if (!(p->name = calloc(n, sizeof *p->name)))
		return err_nomem();
	for (; p->names < n; p->names++)
		if (asprintf(&p->name[p->names], "learner-%u", p->names) < 0)
			return err_nomem();
	return 0;
}

static int open_rounds(struct play *p, struct shard **shard)
{
	struct cohort_conf conf = { .model = &p->c->model, .train = &p->c->train, .cut = &p->cut,
		.encoding = p->conf.encoding, .seed = p->c->meta.seed, .stop = p->conf.stop };
	const struct tensors *layout = model_tensors(p->model);
	int rc;

	if ((rc = adopt_parse(p->head.adopt, &conf.adopt)) < 0)
		return rc;
	if (p->head.fragments > layout->n)
		return err_set(ERR_USAGE, "the trace has %u fragments, and the model only %zu tensors: simulate fewer "
			"(-P), or take a larger model", p->head.fragments, layout->n);
	if ((rc = fragments_cut(&p->cut, layout, p->head.fragments)) < 0)
		return rc;
	rc = versions_open(&p->versions, &p->cut, p->adoptions, model_params(p->model), p->c->meta.step,
		p->head.learners);
	if (rc < 0)
		return rc;
	p->versions.slice = conf.encoding == ENC_F32R ? FRAME_ELEMS_PAIR : FRAME_ELEMS;
	p->versions.outer.rule = p->conf.rule;
	p->versions.experts = p->conf.experts;
	p->versions.outer.outer = p->conf.outer;
	p->answer = calloc(p->head.learners, sizeof *p->answer);
	p->called = calloc(p->head.fragments, sizeof *p->called);
	if (!p->answer || !p->called)
		return err_nomem();
	return cohort_open(&p->cohort, &conf, shard, p->name, p->head.learners, p->pool);
}

static int open_lockstep(struct play *p, struct shard **shard, unsigned n)
{
	int rc = lockstep_open(&p->lockstep, &p->c->model, &p->c->train, shard, p->name, n, p->c->meta.seed,
		p->pool);

	if (rc < 0)
		return rc;
	memcpy(lockstep_params(&p->lockstep), model_params(p->model), model_size(p->model) * sizeof(real));
	p->step = p->c->meta.step;
	return 0;
}

static int open_all(struct play *p, struct shard **shard, unsigned n)
{
	int rc;

	if (!(p->left = calloc(p->head.learners, sizeof *p->left)))
		return err_nomem();
	if ((rc = make_names(p, n)) < 0)
		return rc;
	return p->rounds ? open_rounds(p, shard) : open_lockstep(p, shard, n);
}

int play_open(struct play **out, const struct play_conf *conf, struct trace_reader *trace,
	struct adoptions *adoptions, const struct checkpoint *c, struct model *m, struct shard **shard, unsigned n,
	struct shard *valid, struct pool *pool, struct say *say)
{
	struct play *p = calloc(1, sizeof *p);
	int rc;

	if (!p)
		return err_nomem();
	*p = (struct play){ .conf = *conf, .trace = trace, .adoptions = adoptions, .head = *trace_head(trace),
		.c = c, .model = m, .valid = valid, .pool = pool, .say = say };
	p->rounds = has_rounds(&p->head);
	if ((rc = open_all(p, shard, n)) < 0) {
		play_close(p);
		return rc;
	}
	*out = p;
	return 0;
}

void play_close(struct play *p)
{
	if (!p)
		return;
	cohort_close(&p->cohort);
	versions_close(&p->versions);
	lockstep_close(&p->lockstep);
	fragments_release(&p->cut);
	for (unsigned i = 0; i < p->names; i++)
		free(p->name[i]);
	free(p->name);
	free(p->answer);
	free(p->called);
	free(p->left);
	free(p);
}

uint64_t play_tokens(const struct play *p)
{
	return p->tokens;
}

/* ---- the table ---- */

/* The global model into the one that is measured and written. */
static void gather(struct play *p)
{
	if (p->rounds)
		versions_gather(&p->versions, model_params(p->model));
	else
		memcpy(model_params(p->model), lockstep_params(&p->lockstep),
			model_size(p->model) * sizeof(real));
}

static double mean_loss(struct play *p)
{
	double loss = p->summed ? p->sum / (double)p->summed : 0;

	if (p->rounds)
		return cohort_loss(&p->cohort);
	p->sum = 0;
	p->summed = 0;
	return loss;
}

static uint64_t global_step(const struct play *p)
{
	return p->rounds ? versions_step(&p->versions) : p->step;
}

static int measure(struct play *p, struct play_row *row)
{
	const struct evaluate_pass how = { .batch = (int)p->c->train.batch, .context = (int)p->c->train.context };
	struct evaluate_result result;
	int rc = evaluate_shard(&result, p->model, &p->c->model, p->valid, &how, NULL);

	if (rc < 0)
		return err_at(rc, "%s", shard_name(p->valid));
	row->bits_per_byte = result.bits_per_byte;
	return 0;
}

/* Once for the same model. */
static bool told(struct play *p)
{
	uint64_t now = 1 + p->tokens + p->versions.merges; /* both only grow */
	bool same = p->told == now;

	p->told = now;
	return same;
}

static int tell_row(struct play *p)
{
	struct play_row row = { .seconds = p->at, .tokens = p->tokens };
	int rc = p->rounds ? cohort_catch_up(&p->cohort) : 0;

	if (rc < 0 || told(p))
		return rc;
	row.step = global_step(p);
	row.merges = p->versions.merges;
	row.loss = mean_loss(p);
	gather(p);
	if (p->valid && (rc = measure(p, &row)) < 0)
		return rc;
	return p->conf.row ? p->conf.row(p->conf.ctx, &row) : 0;
}

static int row_if_due(struct play *p)
{
	if (!p->conf.every || p->tokens < p->next)
		return 0;
	while (p->next <= p->tokens)
		p->next += p->conf.every;
	return tell_row(p);
}

/* ---- steps ---- */

/* Samples of a step of this share: whole ones. */
static uint64_t samples(struct play *p, unsigned learner, double share)
{
	uint64_t batch = p->c->train.batch * (p->rounds ? 1 : p->lockstep.parts);
	double want = share * (double)batch + p->left[learner], whole = floor(want + NEARLY);

	whole = fmin(fmax(whole, 1), (double)batch);
	p->left[learner] = want - whole;
	return (uint64_t)whole;
}

static uint64_t trained(const struct play *p)
{
	return p->c->meta.tokens + p->tokens;
}

static int lockstep(struct play *p, uint64_t n, uint64_t tokens)
{
	struct metrics_row row = { 0 };
	int rc = lockstep_step(&p->lockstep, p->step, trained(p), n, &row);

	if (rc < 0)
		return rc;
	p->step++;
	p->sum += row.loss * (double)tokens;
	p->summed += tokens;
	if (p->conf.stop && p->conf.stop())
		return err_set(ERR_IO, "interrupted");
	return 0;
}

static int step(struct play *p, const struct trace_event *e)
{
	uint64_t n = samples(p, e->learner, e->share), tokens = n * p->c->train.context;
	const struct cohort_step one = { (uint32_t)n, trained(p) };
	int rc = p->rounds ? cohort_due(&p->cohort, e->learner, one) : lockstep(p, n, tokens);

	if (rc < 0)
		return rc;
	p->tokens += tokens;
	if (say_due(p->say))
		say_progress(p->say, "%.0f s, %" PRIu64 " tokens", p->at, p->tokens);
	return row_if_due(p);
}

/* ---- rounds ---- */

/* It may be late: its round is over, and another version the newest, which the learner has not heard of. */
static int answer(struct play *p, unsigned learner, unsigned fragment, uint64_t round)
{
	int rc = cohort_catch_up(&p->cohort);

	if (rc == 0)
		rc = cohort_answer(&p->cohort, learner, fragment, round, p->called[fragment]);
	return rc < 0 ? rc : 0;
}

/* Those of the learners listed that had something to say; who NULL: all. */
static size_t collect(struct play *p, unsigned fragment, uint64_t round, const unsigned *who, size_t n)
{
	size_t have = 0;

	for (size_t i = 0; i < n; i++)
		have += cohort_answered(&p->cohort, who ? who[i] : (unsigned)i, fragment, round,
			&p->answer[have]);
	return have;
}

static int merge(struct play *p, unsigned fragment, uint64_t round, size_t n)
{
	int rc = versions_judge(&p->versions, fragment, p->answer, &n, p->conf.outlier, p->say);

	if (rc == 0)
		rc = versions_merge(&p->versions, fragment, round, p->answer, n);
	return rc < 0 ? err_at(rc, "fragment %u, round %" PRIu64, fragment, round) : 0;
}

static int merge_event(struct play *p, const struct trace_event *e)
{
	size_t n = collect(p, e->fragment, e->round, e->who, e->n);

	if (!n)
		return err_set(ERR_DATA, "round %" PRIu64 ": none of its learners has made a step to answer with",
			e->round);
	return merge(p, e->fragment, e->round, n);
}

static int adopt(struct play *p, const struct trace_event *e)
{
	int rc = cohort_catch_up(&p->cohort);

	if (rc == 0)
		rc = cohort_adopt(&p->cohort, e->learner, e->fragment, e->version, &p->versions);
	versions_adopted(&p->versions, e->fragment, e->version);
	return rc;
}

/* ---- who is there ---- */

static int come_or_go(struct play *p, const struct trace_event *e)
{
	int rc = cohort_catch_up(&p->cohort);

	if (rc < 0)
		return rc;
	if (e->kind == TRACE_JOIN)
		cohort_join(&p->cohort, e->learner, &p->versions);
	else if (e->kind == TRACE_BACK)
		cohort_return(&p->cohort, e->learner, &p->versions);
	else
		cohort_leave(&p->cohort, e->learner, e->kept);
	return 0;
}

/* ---- the trace ---- */

static int rounds_event(struct play *p, const struct trace_event *e)
{
	switch (e->kind) {
	case TRACE_CALL:
		p->called[e->fragment] = e->version;
		return 0;
	case TRACE_ANSWER:
		return answer(p, e->learner, e->fragment, e->round);
	case TRACE_MERGE:
		return merge_event(p, e);
	case TRACE_ADOPT:
		return adopt(p, e);
	case TRACE_JOIN:
	case TRACE_GONE:
	case TRACE_LOST:
	case TRACE_BACK:
		return come_or_go(p, e);
	default:
		return 0;
	}
}

static int event(struct play *p, const struct trace_event *e)
{
	p->at = e->at;
	if (e->kind == TRACE_STEP)
		return step(p, e);
	if (!p->rounds && (e->kind == TRACE_CALL || e->kind == TRACE_ANSWER || e->kind == TRACE_MERGE ||
		e->kind == TRACE_ABANDON || e->kind == TRACE_ADOPT))
		return err_set(ERR_DATA, "a trace of mode %s has no rounds", trace_mode_name(p->head.mode));
	return p->rounds ? rounds_event(p, e) : 0;
}

static int follow(struct play *p)
{
	struct trace_event e;
	int rc;

	while ((rc = trace_next(p->trace, &e)) == 1 && e.at <= p->conf.until) {
		if ((rc = event(p, &e)) < 0)
			return err_at(rc, "at %.6f s", e.at);
		if (p->conf.tokens && p->tokens >= p->conf.tokens)
			break;
	}
	return rc < 0 ? rc : 0;
}

/* ---- the end ---- */

/* One more round of a fragment, of all that are there and have something to say. */
static int last_round(struct play *p, unsigned fragment, uint64_t round)
{
	uint64_t newest = versions_newest(&p->versions, fragment);
	size_t n;
	int rc = 0;

	for (unsigned i = 0; i < p->cohort.learners && rc >= 0; i++) {
		if (!p->cohort.learner[i].there)
			continue;
		if ((rc = cohort_adopt(&p->cohort, i, fragment, newest, &p->versions)) == 0)
			rc = cohort_answer(&p->cohort, i, fragment, round, newest);
	}
	if (rc < 0)
		return rc;
	n = collect(p, fragment, round, NULL, p->cohort.learners);
	return n ? merge(p, fragment, round, n) : 0;
}

static int finish(struct play *p)
{
	int rc = p->rounds ? cohort_catch_up(&p->cohort) : 0;

	for (unsigned f = 0; f < p->cut.n && rc == 0 && p->conf.finish; f++)
		rc = last_round(p, f, UINT64_MAX - p->cut.n + f); /* after any of the trace */
	return rc;
}

int play_run(struct play *p)
{
	int rc;

	p->next = p->conf.every;
	if ((rc = tell_row(p)) < 0)
		return rc;
	rc = follow(p);
	say_progress_end(p->say);
	if (rc < 0)
		return rc;
	if ((rc = finish(p)) < 0)
		return rc;
	return tell_row(p);
}

static int make_header(const struct play *p, struct header *h, const struct header *base)
{
	struct meta m = p->c->meta;
	int rc;

	m.round += p->rounds ? p->versions.merges : 0;
	m.step = global_step(p);
	m.tokens += p->tokens;
	m.merge[0] = '\0';
	sig_hex(m.base, p->c->id.b, sizeof p->c->id.b);
	if ((rc = header_copy(h, base)) < 0)
		return rc;
	for (size_t t = 0; t < h->tensors.n; t++)
		h->tensors.v[t].enc = ENC_F32;
	return meta_write(&m, h);
}

int play_write(const struct play *p, int fd, const struct header *base, const struct key *key)
{
	struct frame_writer *w = NULL;
	struct header h = { 0 };
	int rc = make_header(p, &h, base);

	if (rc == 0)
		rc = frame_create(&w, fd, &h, &key->secret, p->pool);
	header_release(&h);
	if (rc == 0)
		rc = ckpt_write(w, model_tensors(p->model), model_params(p->model));
	if (rc == 0)
		rc = frame_finish(w, NULL);
	frame_writer_free(w);
	return rc;
}
