/* commit_tape - what a commit is on the tape: the lines refuse, merge and publish, and a merge read back. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "round/commit.h"
#include "round/decision.h"
#include "round/rundir.h"

/* ---- writing ---- */

int commit_refuse(struct tape *t, double now, uint64_t round, unsigned fragment,
	const struct commit_answer *a)
{
	char name[5];

	tape_begin(t, now, "refuse");
	tape_put_u64(t, "round", round);
	tape_put(t, "fragment", rundir_fragment_name(name, fragment));
	tape_put(t, "learner", a->learner);
	tape_put_id(t, "id", &a->id);
	tape_put(t, "verdict", verdict_name(a->verdict));
	tape_put_u64(t, "tokens", a->tokens);
	if (a->trained) {
		tape_put_u64(t, "incarnation", a->incarnation);
		tape_put_u64(t, "trained", a->trained);
		tape_put_u64(t, "answered", a->answered);
	}
	tape_put(t, "why", a->why);
	return tape_end(t, false);
}

static int format_answers(struct buf *out, const struct commit *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->answers && rc == 0; i++) {
		const struct commit_answer *from = &c->answer[i];
		struct tape_answer a = { .id = from->id, .share = from->share, .norm = from->norm };

		memcpy(a.learner, from->learner, sizeof a.learner);
		rc = tape_answer_add(out, &a);
	}
	return rc;
}

static void put_times(struct tape *t, const struct commit *c)
{
	tape_put_f64(t, "quorum", c->quorum);
	tape_put_f64(t, "waited", c->waited);
	tape_put_f64(t, "xi_step", c->times.step);
	tape_put_f64(t, "xi_quorum", c->times.quorum);
	tape_put_f64(t, "xi_sync", c->times.sync);
	tape_put_f64(t, "slack", c->times.slack);
	tape_put_f64(t, "window", c->times.window);
}

int commit_tell_merge(struct tape *t, double now, const struct commit *c)
{
	struct buf answers = BUF_INIT;
	char name[5];
	int rc = format_answers(&answers, c);

	if (rc == 0) {
		tape_begin(t, now, "merge");
		tape_put_u64(t, "round", c->round);
		tape_put(t, "fragment", rundir_fragment_name(name, c->fragment));
		tape_put_u64(t, "version", c->version);
		tape_put_id(t, "base", &c->base);
		tape_put(t, "merge", c->merge);
		tape_put(t, "rule", merge_rule_name(c->rule));
		if (c->experts != MERGE_BY_TOKENS)
			tape_put(t, "expert_weights", merge_experts_name(c->experts));
		tape_put_f64(t, "outer_lr", c->outer.eta);
		tape_put_f64(t, "momentum", c->outer.mu);
		tape_put_u64(t, "step", c->step);
		tape_put_u64(t, "tokens", c->tokens);
		if (c->fresh)
			tape_put(t, "prior", "none");
		put_times(t, c);
		tape_put(t, "answers", answers.data ? answers.data : "");
		rc = tape_end(t, true);
	}
	buf_release(&answers);
	return rc;
}

int commit_tell_publish(struct tape *t, double now, const struct commit *c)
{
	char name[5];

	tape_begin(t, now, "publish");
	tape_put_u64(t, "round", c->round);
	tape_put(t, "fragment", rundir_fragment_name(name, c->fragment));
	tape_put_u64(t, "version", c->version);
	tape_put_id(t, "id", &c->id);
	tape_put_id(t, "content", &c->content);
	tape_put_id(t, "outer", &c->momentum);
	return tape_end(t, true);
}

/* ---- reading ---- */

static int take_answers(struct commit *c, const struct decision *d)
{
	c->answer = calloc(d->answers, sizeof *c->answer);
	if (!c->answer)
		return err_nomem();
	for (; c->answers < d->answers; c->answers++) {
		struct commit_answer *to = &c->answer[c->answers];
		const struct tape_answer *from = &d->answer[c->answers];

		memcpy(to->learner, from->learner, sizeof to->learner);
		to->id = from->id;
		to->share = from->share;
		to->norm = from->norm;
	}
	return 0;
}

int commit_parse(struct commit *c, const struct tape_line *l)
{
	struct decision d;
	int rc = decision_parse(&d, l);

	*c = (struct commit){ .decided = true };
	if (rc < 0)
		return err_at(rc, "line %" PRIu64, l->number);
	c->round = d.round;
	c->version = d.version;
	c->fragment = d.fragment;
	c->base = d.base;
	c->step = d.step;
	c->tokens = d.tokens;
	c->rule = d.rule;
	c->experts = d.experts;
	c->outer = d.outer;
	c->fresh = d.fresh;
	memcpy(c->merge, d.merge, sizeof c->merge);
	rc = take_answers(c, &d);
	decision_release(&d);
	return rc;
}
