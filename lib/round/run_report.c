#include "round/run_report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "round/rundir.h"

#define SHORT_ID 16 /* hex digits that people see */
#define KEY_WIDTH 16

/* ---- pieces; each does nothing once something has failed ---- */

struct column {
	const char *key, *title;
	int width; /* negative: left in its column; 0: the last one, as wide as it is */
};
struct page {
	struct buf *out;
	bool json, started; /* started: a comma is due */
	int rc;
	const struct column *column; /* of the next cell */
};

static ERR_PRINTF(2, 3) void put(struct page *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (p->rc == 0)
		p->rc = buf_vfmt(p->out, fmt, ap);
	va_end(ap);
}

static void put_json(struct page *p, const char *s)
{
	if (p->rc == 0)
		p->rc = json_text(p->out, s);
}

/* Harmless for a terminal. */
static void put_text(struct page *p, const char *s)
{
	size_t cap = 4 * strlen(s) + 1;

	if (p->rc == 0)
		p->rc = buf_reserve(p->out, cap);
	if (p->rc < 0)
		return;
	say_escape(p->out->data + p->out->len, cap, s);
	p->out->len += strlen(p->out->data + p->out->len);
}

static void put_f64(struct page *p, double x)
{
	if (p->rc == 0)
		p->rc = json_f64(p->out, x);
}

static void comma(struct page *p)
{
	if (p->json && p->started)
		put(p, ",");
	p->started = true;
}

/* The beginning of "key   value", or of a member. */
static void put_key(struct page *p, const char *key)
{
	comma(p);
	if (p->json)
		put(p, "\"%s\":", key);
	else
		put(p, "  %-*s ", KEY_WIDTH, key);
}

static void end_pair(struct page *p)
{
	if (!p->json)
		put(p, "\n");
}

static void pair_text(struct page *p, const char *key, const char *value)
{
	put_key(p, key);
	(p->json ? put_json : put_text)(p, value);
	end_pair(p);
}

static void pair_u64(struct page *p, const char *key, uint64_t value)
{
	put_key(p, key);
	put(p, "%" PRIu64, value);
	end_pair(p);
}

static void pair_bool(struct page *p, const char *key, bool value)
{
	put_key(p, key);
	put(p, "%s", value ? "true" : "false");
	end_pair(p);
}

static void pair_f64(struct page *p, const char *key, double value)
{
	put_key(p, key);
	if (p->json)
		put_f64(p, value);
	else
		put(p, "%.6g", value);
	end_pair(p);
}

static void open_part(struct page *p, const char *name, char bracket)
{
	comma(p);
	if (p->json)
		put(p, "\"%s\":%c", name, bracket);
	else
		put(p, "\n%s\n", name);
	p->started = false;
}

static void close_part(struct page *p, char bracket)
{
	if (p->json)
		put(p, "%c", bracket);
	p->started = true;
}

/* ---- tables ---- */

static void cell_start(struct page *p)
{
	if (p->json) {
		comma(p);
		put(p, "\"%s\":", p->column->key);
	} else {
		put(p, "%s", p->started ? "  " : "");
		p->started = true;
	}
}

static void cell_text(struct page *p, const char *s)
{
	char shown[4 * KEY_NAME + 1];

	cell_start(p);
	say_escape(shown, sizeof shown, s);
	if (p->json)
		put_json(p, s);
	else
		put(p, "%*s", p->column->width, shown);
	p->column++;
}

static void cell_u64(struct page *p, uint64_t x)
{
	cell_start(p);
	if (p->json)
		put(p, "%" PRIu64, x);
	else
		put(p, "%*" PRIu64, p->column->width, x);
	p->column++;
}

/* fmt: for people. */
static void cell_f64(struct page *p, int decimals, double x)
{
	cell_start(p);
	if (p->json)
		put_f64(p, x);
	else
		put(p, "%*.*f", p->column->width, decimals, x);
	p->column++;
}

/* That there is none. */
static void cell_none(struct page *p)
{
	cell_start(p);
	if (p->json)
		put(p, "null");
	else
		put(p, "%*s", p->column->width, "-");
	p->column++;
}

static void cell_digest(struct page *p, const digest *d)
{
	char hex[2 * SIG_DIGEST + 1];

	sig_hex(hex, d->b, sizeof d->b);
	if (!p->json)
		hex[SHORT_ID] = '\0';
	cell_text(p, hex);
}

/* yes, no; true, false. */
static void cell_bool(struct page *p, bool yes)
{
	cell_start(p);
	if (p->json)
		put(p, "%s", yes ? "true" : "false");
	else
		put(p, "%*s", p->column->width, yes ? "yes" : "no");
	p->column++;
}

static void begin_row(struct page *p, const struct column *c)
{
	p->column = c;
	if (p->json) {
		comma(p);
		put(p, "{");
	} else {
		put(p, "  ");
	}
	p->started = false;
}

static void end_row(struct page *p)
{
	put(p, p->json ? "}" : "\n");
	p->started = true;
}

static void titles(struct page *p, const struct column *c)
{
	if (p->json)
		return;
	begin_row(p, c);
	while (p->column->key)
		cell_text(p, p->column->title ? p->column->title : p->column->key);
	end_row(p);
}

/* ---- a line of the tape ---- */

/* Is this a key whose value is text, even where it looks like a number? */
static bool is_text(const char *key)
{
	static const char *const known[] = { "learner", "key", "id", "hash", "base", "merge", "content",
		"outer", "syncer", "nonce", "why", "verdict", "rule", "expert_weights", "invited", "fragment", NULL };
	size_t i = 0;

	while (known[i] && strcmp(known[i], key) != 0)
		i++;
	return known[i] != NULL;
}

static bool is_digest(const char *s)
{
	return strlen(s) == 2 * SIG_DIGEST && strspn(s, "0123456789abcdef") == 2 * SIG_DIGEST;
}

/* As it stands on the tape, where blanks are escaped; but for identities, which are cut. */
static void text_answers(struct page *p, const char *value)
{
	struct tape_answer a;
	char id[2 * SIG_DIGEST + 1];
	const char *gap = "";

	while (tape_answer_next(&a, &value) > 0) {
		sig_hex(id, a.id.b, sizeof a.id.b);
		put(p, "%s%s:%.*s:%.4g:%.4g", gap, a.learner, SHORT_ID, id, a.share, a.norm);
		gap = ",";
	}
}

static void text_field(struct page *p, const struct tape_field *f)
{
	double x;

	put(p, " %s=", f->key);
	if (strcmp(f->key, "answers") == 0)
		text_answers(p, f->value);
	else if (is_digest(f->value))
		put(p, "%.*s", SHORT_ID, f->value);
	else if (strchr(f->value, '.') && num_f64(f->value, &x) == 0)
		put(p, "%.6g", x);
	else if (strchr(f->value, ' ')) {
		put(p, "'");
		put_text(p, f->value);
		put(p, "'");
	} else
		put_text(p, f->value);
}

static void json_answers(struct page *p, const char *value)
{
	static const struct column columns[] = { { "learner", NULL, 0 }, { "id", NULL, 0 },
		{ "share", NULL, 0 }, { "norm", NULL, 0 } };
	struct tape_answer a;

	put(p, "[");
	p->started = false;
	while (tape_answer_next(&a, &value) > 0) {
		begin_row(p, columns);
		cell_text(p, a.learner);
		cell_digest(p, &a.id);
		cell_f64(p, 0, a.share);
		cell_f64(p, 0, a.norm);
		end_row(p);
	}
	put(p, "]");
	p->started = true;
}

static void json_field(struct page *p, const struct tape_field *f)
{
	if (strcmp(f->key, "epoch") == 0 || strcmp(f->key, "number") == 0 ||
		strcmp(f->key, "seconds") == 0 || strcmp(f->key, "kind") == 0)
		return; /* the line's own */
	put_key(p, f->key);
	if (strcmp(f->key, "answers") == 0)
		json_answers(p, f->value);
	else if (is_text(f->key))
		put_json(p, f->value);
	else if (p->rc == 0)
		p->rc = json_value(p->out, f->value);
}

int run_report_line(struct buf *out, const struct tape_line *l, bool json)
{
	struct page p = { .out = out, .json = json };

	if (!json) {
		put(&p, "%6" PRIu64 " %10.3f  %-10s", l->number, l->seconds, l->kind);
		for (size_t i = 0; i < l->fields; i++)
			text_field(&p, &l->field[i]);
		put(&p, "\n");
		return p.rc;
	}
	put(&p, "{");
	pair_u64(&p, "number", l->number);
	pair_u64(&p, "epoch", l->epoch);
	pair_f64(&p, "seconds", l->seconds);
	pair_text(&p, "kind", l->kind);
	for (size_t i = 0; i < l->fields; i++)
		json_field(&p, &l->field[i]);
	put(&p, "}\n");
	return p.rc;
}

/* ---- the books ---- */

static const struct column books_columns[] = { { "learner", NULL, -20 }, { "trained", NULL, 11 },
	{ "merged", NULL, 11 }, { "refused", NULL, 11 }, { "open", NULL, 11 }, { "lost", NULL, 11 },
	{ "under_way", "under-way", 11 }, { "answers", NULL, 7 }, { "accepted", NULL, 8 },
	{ "late", NULL, 5 }, { "refusals", NULL, 8 }, { "balanced", NULL, 0 }, { NULL, NULL, 0 } };

static void books_row(struct page *p, const struct books_learner *l, bool total)
{
	p->started = false;
	begin_row(p, books_columns);
	if (total && p->json)
		cell_none(p);
	else
		cell_text(p, total ? "total" : l->name);
	cell_f64(p, 0, l->trained);
	cell_f64(p, 0, l->merged);
	cell_f64(p, 0, l->refused);
	cell_f64(p, 0, l->open);
	cell_f64(p, 0, l->lost);
	cell_f64(p, 0, l->under_way);
	cell_u64(p, l->answers);
	cell_u64(p, l->accepted);
	cell_u64(p, l->late);
	cell_u64(p, l->refusals);
	if (l->revoked && l->balanced && !p->json)
		cell_text(p, "revoked");
	else
		cell_bool(p, l->balanced);
	if (p->json && l->revoked)
		pair_bool(p, "revoked", true);
	if (p->json && l->why[0])
		pair_text(p, "why", l->why);
	end_row(p);
	if (p->json)
		put(p, "\n");
}

static void add_learner(struct books_learner *sum, const struct books_learner *l)
{
	sum->trained += l->trained;
	sum->merged += l->merged;
	sum->refused += l->refused;
	sum->open += l->open;
	sum->lost += l->lost;
	sum->under_way += l->under_way;
	sum->answers += l->answers;
	sum->accepted += l->accepted;
	sum->late += l->late;
	sum->refusals += l->refusals;
	sum->balanced &= l->balanced;
}

int run_report_books(struct buf *out, const struct books *b, bool json, bool *balanced)
{
	struct page p = { .out = out, .json = json };
	struct books_learner sum = { .balanced = true }, l;

	titles(&p, books_columns);
	for (size_t i = 0; i < books_learners(b) && p.rc == 0; i++) {
		int rc = books_learner(b, i, &l);

		if (rc < 0)
			return rc;
		books_row(&p, &l, false);
		add_learner(&sum, &l);
	}
	books_row(&p, &sum, true);
	*balanced = sum.balanced;
	return p.rc;
}

/* ---- the whole run ---- */

static void pair_goal(struct page *p, const char *key, uint64_t value)
{
	if (value || p->json)
		pair_u64(p, key, value);
}

static void put_manifest(struct page *p, const struct manifest *m, const struct fragments *f)
{
	char print[33], text[48];

	pair_text(p, "run", m->meta.run);
	if (m->meta.label[0] || p->json)
		pair_text(p, "label", m->meta.label);
	sig_fingerprint(print, &m->owner);
	pair_text(p, "owner", print);
	pair_u64(p, "serial", m->serial);
	pair_text(p, "model", m->meta.model);
	pair_u64(p, "parameters", tensors_total(&m->layout));
	pair_u64(p, "fragments", m->fragments);
	pair_f64(p, "imbalance", f->imbalance);
	pair_u64(p, "interval", m->interval);
	pair_u64(p, "overlap", m->overlap);
	pair_u64(p, "quorum", m->quorum);
	pair_goal(p, "invite", m->invite);
	pair_f64(p, "grace", m->grace);
	pair_text(p, "rule", merge_rule_name(m->rule));
	pair_text(p, "expert_weights", merge_experts_name(m->experts));
	pair_f64(p, "outer_lr", m->outer.eta);
	pair_f64(p, "momentum", m->outer.mu);
	adopt_text(text, &m->adopt);
	pair_text(p, "adopt", text);
	pair_text(p, "delta", encoding_name(m->delta));
	pair_goal(p, "target_steps", m->target_steps);
	pair_goal(p, "target_tokens", m->target_tokens);
	pair_u64(p, "keep", m->keep);
	pair_f64(p, "lease", m->lease);
}

static void put_head(struct page *p, const struct head *h)
{
	open_part(p, "head", '{');
	pair_text(p, "phase", phase_name(h->phase));
	pair_u64(p, "epoch", h->epoch);
	pair_u64(p, "step", h->step);
	pair_u64(p, "tokens", h->tokens);
	pair_u64(p, "trained", h->trained);
	pair_f64(p, "xi_step", h->times.step);
	pair_f64(p, "xi_quorum", h->times.quorum);
	pair_f64(p, "xi_sync", h->times.sync);
	pair_f64(p, "slack", h->times.slack);
	pair_f64(p, "window", h->times.window);
	pair_u64(p, "tape_lines", h->tape_lines);
	close_part(p, '}');
}

static void put_fragments(struct page *p, const struct head *h, const struct fragments *f)
{
	static const struct column columns[] = { { "name", "fragment", -8 }, { "tensors", NULL, 7 },
		{ "elements", NULL, 11 }, { "version", NULL, 7 }, { "round", NULL, 7 },
		{ "step", NULL, 9 }, { "tokens", NULL, 12 }, { "id", NULL, 0 }, { NULL, NULL, 0 } };

	open_part(p, p->json ? "versions" : "fragments", '[');
	titles(p, columns);
	for (unsigned i = 0; i < f->n; i++) {
		const struct head_fragment none = { .version = 0 };
		const struct head_fragment *v = h->fragment ? &h->fragment[i] : &none;
		char name[5];

		begin_row(p, columns);
		cell_text(p, rundir_fragment_name(name, i));
		cell_u64(p, f->v[i].n);
		cell_u64(p, f->v[i].elems);
		cell_u64(p, v->version);
		cell_u64(p, v->round);
		cell_u64(p, v->step);
		cell_u64(p, v->tokens);
		if (h->fragment)
			cell_digest(p, &v->id);
		else
			cell_none(p);
		end_row(p);
	}
	close_part(p, ']');
}

static void put_calls(struct page *p, const struct head *h)
{
	static const struct column columns[] = { { "round", NULL, 7 }, { "fragment", NULL, -8 },
		{ "version", NULL, 7 }, { "invited", NULL, 0 }, { NULL, NULL, 0 } };

	if (h->calls == 0 && !p->json)
		return;
	open_part(p, "calls", '[');
	titles(p, columns);
	for (size_t i = 0; i < h->calls; i++) {
		const struct head_call *c = &h->call[i];
		char name[5];

		begin_row(p, columns);
		cell_u64(p, c->round);
		cell_text(p, rundir_fragment_name(name, c->fragment));
		cell_u64(p, c->version);
		cell_start(p);
		(p->json ? put_json : put_text)(p, c->invited ? c->invited : "all");
		end_row(p);
	}
	close_part(p, ']');
}

static void learner_row(struct page *p, const struct beat *b)
{
	static const struct column columns[] = { { "learner", NULL, -20 }, { "state", NULL, -7 },
		{ "incarnation", "life", 5 }, { "step", NULL, 8 }, { "trained", NULL, 12 },
		{ "tokens_per_s", "tokens/s", 9 }, { "loss", NULL, 8 }, { "round", "answered", 8 },
		{ NULL, NULL, 0 } };
	uint64_t round = 0;

	if (!b) {
		titles(p, columns);
		return;
	}
	for (unsigned i = 0; i < b->fragments; i++)
		if (b->fragment[i].round > round)
			round = b->fragment[i].round;
	begin_row(p, columns);
	cell_text(p, b->learner);
	cell_text(p, beat_state_name(b->state));
	cell_u64(p, b->incarnation);
	cell_u64(p, b->step);
	cell_u64(p, b->trained);
	cell_f64(p, 0, b->tokens_per_s);
	cell_f64(p, 4, b->loss);
	cell_u64(p, round);
	end_row(p);
}

static int put_learner(void *ctx, const struct beat *b)
{
	struct page *p = ctx;

	learner_row(p, b);
	return p->rc;
}

static int put_learners(struct page *p, const struct audit *a, struct say *say)
{
	int rc;

	open_part(p, "learners", '[');
	learner_row(p, NULL);
	rc = audit_beats(a, put_learner, p, say);
	close_part(p, ']');
	return rc;
}

static void put_members(struct page *p, const struct manifest *m)
{
	static const struct column columns[] = { { "name", "member", -20 }, { "role", NULL, -7 },
		{ "revoked", NULL, -7 }, { "fingerprint", NULL, 0 }, { NULL, NULL, 0 } };
	static const char *const roles[] = { "none", "learner", "syncer", "both" };

	if (m->members == 0 && !p->json)
		return;
	open_part(p, "members", '[');
	titles(p, columns);
	for (size_t i = 0; i < m->members; i++) {
		const struct member *who = &m->member[i];
		char print[33];

		sig_fingerprint(print, &who->key.pub);
		begin_row(p, columns);
		cell_text(p, who->key.name);
		cell_text(p, roles[who->roles & 3]);
		cell_bool(p, who->revoked);
		cell_text(p, print);
		end_row(p);
	}
	close_part(p, ']');
}

int run_report_run(struct buf *out, const char *name, const struct audit *a, const struct fragments *f,
	bool json, struct say *say)
{
	struct page p = { .out = out, .json = json };
	int rc;

	if (json) {
		put(&p, "{");
		pair_text(&p, "directory", name);
	} else {
		put_text(&p, name);
		put(&p, "\n");
	}
	put_manifest(&p, a->manifest, f);
	if (a->headed)
		put_head(&p, &a->head);
	put_fragments(&p, &a->head, f);
	put_calls(&p, &a->head);
	rc = put_learners(&p, a, say);
	put_members(&p, a->manifest);
	put(&p, json ? "}\n" : "");
	return rc < 0 ? rc : p.rc;
}
