#include <inttypes.h>
#include <math.h>

#include "base/json.h"
#include "round/board.h"

#define LOSSES 1000 /* points of the curve, the last */

static int put_key_text(struct buf *out, const char *key, const char *value)
{
	int rc = buf_fmt(out, ",\"%s\":", key);

	return rc < 0 ? rc : json_text(out, value);
}

static int put_key_f64(struct buf *out, const char *key, double value)
{
	int rc = buf_fmt(out, ",\"%s\":", key);

	return rc < 0 ? rc : json_f64(out, value);
}

static int put_key_u64(struct buf *out, const char *key, uint64_t value)
{
	return buf_fmt(out, ",\"%s\":%" PRIu64, key, value);
}

struct number {
	const char *key;
	double value;
};

static int put_numbers(struct buf *out, const struct number *v)
{
	int rc = 0;

	for (; rc == 0 && v->key; v++)
		rc = put_key_f64(out, v->key, v->value);
	return rc;
}

/* What is not known is null. */
static double known(double positive)
{
	return positive > 0 ? positive : NAN;
}

static int put_run(struct buf *out, const struct view *v, const struct board_conf *c)
{
	const struct head *h = &v->head;
	const struct number numbers[] = {
		{ "serial", (double)v->manifest.serial }, { "epoch", (double)h->epoch },
		{ "step", (double)h->step }, { "target_steps", (double)v->manifest.target_steps },
		{ "trained", v->trained }, { "merged", (double)h->tokens },
		{ "target_tokens", (double)v->manifest.target_tokens }, { "tokens_per_s", v->tokens_per_s },
		{ "learners_alive", (double)view_alive(v) }, { "merges", (double)v->merges },
		{ "refused", (double)(v->refusals - v->late) }, { "late", (double)v->late },
		{ "interval", (double)v->manifest.interval }, { "interval_achieved", known(v->achieved) },
		{ "quorum", v->manifest.quorum }, { "overlap", v->manifest.overlap },
		{ "xi_step", known(h->times.step) }, { "xi_quorum", known(h->times.quorum) },
		{ "xi_sync", known(h->times.sync) }, { "slack", h->times.step > 0 ? h->times.slack : NAN },
		{ "window", h->times.step > 0 ? h->times.window : NAN },
		{ "syncer_silent", v->syncer_silent }, { "tape_lines", (double)v->tape_lines },
		{ "disk", (double)c->disk },
		{ "room", v->room == UINT64_MAX ? NAN : (double)v->room }, { "unreadable", (double)v->trouble },
		{ NULL, 0 } };
	int rc = buf_str(out, "{\"directory\":");

	if (rc == 0)
		rc = json_text(out, c->run);
	if (rc == 0)
		rc = put_key_text(out, "run", v->manifest.meta.run);
	if (rc == 0)
		rc = put_key_text(out, "phase", view_phase_name(v));
	if (rc == 0)
		rc = put_key_text(out, "syncer", view_life_name(v->syncer));
	if (rc == 0)
		rc = put_numbers(out, numbers);
	if (rc == 0 && v->goodput >= 0)
		rc = put_key_f64(out, "goodput", v->goodput);
	else if (rc == 0)
		rc = buf_str(out, ",\"goodput\":null");
	return rc;
}

static int put_learner(struct buf *out, const struct view_learner *l)
{
	const struct beat *b = &l->beat;
	const struct number numbers[] = {
		{ "silent", l->silent }, { "incarnation", (double)b->incarnation },
		{ "step", (double)b->step }, { "behind", (double)l->stale }, { "steps", (double)b->steps },
		{ "trained", (double)b->trained }, { "tokens_per_s", l->rate },
		{ "step_seconds", known(b->step_seconds) }, { "loss", known(b->loss) },
		{ "answered", (double)l->answered },
		{ "answers", (double)l->books.answers }, { "accepted", (double)l->books.accepted },
		{ "merged", l->books.merged }, { "refused", l->books.refused }, { "lost", l->books.lost },
		{ "under_way", l->books.under_way }, { NULL, 0 } };
	int rc = buf_str(out, "{\"name\":");

	if (rc == 0)
		rc = json_text(out, l->name);
	if (rc == 0)
		rc = put_key_text(out, "life", view_life_name(l->life));
	if (rc == 0)
		rc = put_key_text(out, "state", b->fragment ? beat_state_name(b->state) : "absent");
	if (rc == 0)
		rc = put_numbers(out, numbers);
	if (rc == 0 && l->lost >= 0)
		rc = put_key_f64(out, "lost_for", l->lost);
	if (rc == 0 && l->books.name[0])
		rc = buf_fmt(out, ",\"balanced\":%s", l->books.balanced ? "true" : "false");
	return rc < 0 ? rc : buf_str(out, "}");
}

static int put_fragment(struct buf *out, const struct view *v, unsigned p)
{
	const struct head_fragment *f = &v->head.fragment[p];
	uint64_t age = v->head.step > f->step ? v->head.step - f->step : 0;
	int rc = buf_fmt(out, "{\"fragment\":\"f%03u\",\"version\":%" PRIu64, p, f->version);

	if (rc == 0)
		rc = put_key_u64(out, "round", f->round);
	if (rc == 0)
		rc = put_key_u64(out, "step", f->step);
	if (rc == 0)
		rc = put_key_u64(out, "age", age);
	if (rc == 0)
		rc = put_key_u64(out, "tokens", f->tokens);
	return rc < 0 ? rc : buf_str(out, "}");
}

static int put_names(struct buf *out, const struct view *v, const char *key, const bool *which)
{
	bool any = false;
	int rc = buf_fmt(out, ",\"%s\":[", key);

	for (size_t i = 0; rc == 0 && i < v->learners; i++) {
		if (!which[i])
			continue;
		rc = any ? buf_str(out, ",") : 0;
		any = true;
		if (rc == 0)
			rc = json_text(out, v->learner[i].name);
	}
	return rc < 0 ? rc : buf_str(out, "]");
}

static int put_call(struct buf *out, const struct view *v, const struct view_call *c)
{
	int rc = buf_fmt(out, "{\"round\":%" PRIu64 ",\"fragment\":\"f%03u\",\"version\":%" PRIu64, c->round,
			 c->fragment, c->version);

	if (rc == 0 && c->open >= 0)
		rc = put_key_f64(out, "open", c->open);
	if (rc == 0)
		rc = put_names(out, v, "invited", c->invited);
	if (rc == 0)
		rc = put_names(out, v, "answered", c->answered);
	return rc < 0 ? rc : buf_str(out, "}");
}

static int put_losses(struct buf *out, const struct view *v)
{
	size_t first = v->losses > LOSSES ? v->losses - LOSSES : 0;
	int rc = buf_str(out, ",\"training_loss\":[");

	for (size_t i = first; rc == 0 && i < v->losses; i++) {
		rc = buf_fmt(out, "%s[%" PRIu64 ",", i > first ? "," : "", v->loss[i].step);
		if (rc == 0)
			rc = json_f64(out, v->loss[i].loss);
		if (rc == 0)
			rc = buf_str(out, "]");
	}
	return rc < 0 ? rc : buf_str(out, "]");
}

int board_json(struct buf *out, const struct view *v, const struct board_conf *c)
{
	int rc = put_run(out, v, c);

	if (rc == 0)
		rc = buf_str(out, ",\"learners\":[");
	for (size_t i = 0; rc == 0 && i < v->learners; i++) {
		rc = i ? buf_str(out, ",") : 0;
		if (rc == 0)
			rc = put_learner(out, &v->learner[i]);
	}
	if (rc == 0)
		rc = buf_str(out, "],\"fragments\":[");
	for (unsigned p = 0; rc == 0 && p < v->head.fragments; p++) {
		rc = p ? buf_str(out, ",") : 0;
		if (rc == 0)
			rc = put_fragment(out, v, p);
	}
	if (rc == 0)
		rc = buf_str(out, "],\"open\":[");
	for (size_t i = 0; rc == 0 && i < v->calls; i++) {
		rc = i ? buf_str(out, ",") : 0;
		if (rc == 0)
			rc = put_call(out, v, &v->call[i]);
	}
	if (rc == 0)
		rc = buf_str(out, "]");
	if (rc == 0)
		rc = put_losses(out, v);
	return rc < 0 ? rc : buf_str(out, "}\n");
}
