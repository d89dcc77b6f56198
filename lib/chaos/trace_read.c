#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "chaos/trace_check.h"
#include "chaos/trace_line.h"
#include "io/fd.h"
#include "round/fields.h"
#include "round/manifest.h"

#define CHUNK ((size_t)64 << 10)
#define WORDS 32                /* most of a line */
#define MOST 9007199254740991.0 /* 2^53 - 1: counts and seconds are exact */

/* ---- a line ---- */

struct trace_reader {
	int fd;
	struct buf text;  /* read and not yet given out */
	size_t at, seen;  /* the next line begins; no newline is before */
	bool end;         /* of the file */
	uint64_t line, events;
	struct trace_head head;
	struct trace_check *check;
	unsigned *who;    /* (learners) */
};
struct line {
	double at;
	const char *kind;
	const char *key[WORDS], *value[WORDS];
	size_t n;
};

static int refill(struct trace_reader *r)
{
	size_t left = r->text.len - r->at;
	ssize_t n;
	int rc;

	memmove(r->text.data, r->text.data + r->at, left);
	r->text.len = left;
	r->seen -= r->at;
	r->at = 0;
	if (left > TRACE_LINE)
		return err_set(ERR_DATA, "longer than %zu bytes", TRACE_LINE);
	if ((rc = buf_reserve(&r->text, CHUNK)) < 0)
		return rc;
	n = fd_read(r->fd, r->text.data + left, CHUNK);
	if (n < 0)
		return (int)n;
	r->end = n == 0;
	r->text.len += (size_t)n;
	r->text.data[r->text.len] = '\0';
	return 0;
}

/* 1 and a line without its end; 0 when there is none. */
static int next_line(struct trace_reader *r, char **line, size_t *n)
{
	char *newline;
	int rc;

	while (!(newline = r->text.len > r->seen
			   ? memchr(r->text.data + r->seen, '\n', r->text.len - r->seen) : NULL)) {
		r->seen = r->text.len;
		if (r->end && r->text.len > r->at)
			return err_set(ERR_DATA, "cut short: no newline at its end");
		if (r->end)
			return 0;
		if ((rc = refill(r)) < 0)
			return rc;
	}
	*line = r->text.data + r->at;
	*n = (size_t)(newline - *line);
	*newline = '\0';
	r->at = r->seen = (size_t)(newline - r->text.data) + 1;
	return 1;
}

static int take_pair(struct line *l, char *word)
{
	char *equals = strchr(word, '=');

	if (!equals || equals == word)
		return trace_not_so("KEY=VALUE", word);
	if (l->n == WORDS)
		return err_set(ERR_DATA, "more than %d keys", WORDS);
	*equals = '\0';
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->key[i], word) == 0)
			return trace_not_so("key that may be given twice", word);
	l->key[l->n] = word;
	l->value[l->n++] = equals + 1;
	return 0;
}

static int take_apart(struct line *l, char *text, size_t n)
{
	char *word;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return err_set(ERR_DATA, "byte 0x%02x, which no line has", (unsigned char)text[i]);
	l->n = 0;
	word = fields_next(&text);
	if (num_f64(word, &l->at) < 0 || !(l->at >= 0) || l->at > MOST)
		return trace_not_so("number of seconds", word);
	if (!(l->kind = fields_next(&text)))
		return err_set(ERR_DATA, "says nothing: TRACE_SECONDS KIND KEY=VALUE...");
	while (rc == 0 && (word = fields_next(&text)))
		rc = take_pair(l, word);
	return rc;
}

static const char *value_of(const struct line *l, const char *key)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->key[i], key) == 0)
			return l->value[i];
	return NULL;
}

/* ---- values ---- */

static int take_u64(const struct line *l, const char *key, double most, uint64_t *out)
{
	const char *value = value_of(l, key);
	int rc;

	if (!value)
		return err_set(ERR_DATA, "'%s' has no %s", l->kind, key);
	if ((rc = num_u64(value, out)) < 0)
		return err_at(rc, "%s", key);
	return (double)*out <= most ? 0 : err_set(ERR_DATA, "%s: %s is more than %.0f", key, value, most);
}

static int take_unsigned(const struct line *l, const char *key, unsigned *out)
{
	uint64_t x = 0;
	int rc = take_u64(l, key, INT32_MAX, &x);

	*out = (unsigned)x;
	return rc;
}

static int take_f64(const struct line *l, const char *key, double most, double *out)
{
	const char *value = value_of(l, key);
	int rc;

	if (!value)
		return err_set(ERR_DATA, "'%s' has no %s", l->kind, key);
	if ((rc = num_f64(value, out)) < 0)
		return err_at(rc, "%s", key);
	return *out >= 0 && *out <= most ? 0 : err_set(ERR_DATA, "%s: %s is not within 0 to %g", key, value, most);
}

static int take_state(const struct line *l, bool *kept)
{
	const char *value = value_of(l, "state");

	if (!value)
		return err_set(ERR_DATA, "'%s' has no state", l->kind);
	*kept = strcmp(value, "kept") == 0;
	return *kept || strcmp(value, "lost") == 0 ? 0 : trace_not_so("state: it is kept or lost", value);
}

static int take_why(const struct line *l, enum trace_why *w)
{
	const char *value = value_of(l, "why");

	return value ? trace_why_parse(value, w) : err_set(ERR_DATA, "'%s' has no why", l->kind);
}

static int take_list(struct trace_reader *r, const struct line *l, const char *key, struct trace_event *e)
{
	char *value = (char *)(uintptr_t)value_of(l, key), *comma; /* the line is ours to cut */
	uint64_t x;
	int rc;

	if (!value)
		return err_set(ERR_DATA, "'%s' has no %s", l->kind, key);
	if (e->kind == TRACE_CALL && strcmp(value, "all") == 0)
		return 0;
	e->who = r->who;
	for (; value && *value; value = comma) {
		comma = strchr(value, ',');
		if (comma)
			*comma++ = '\0';
		if (e->n == r->head.learners)
			return err_set(ERR_DATA, "%s: more than all learners", key);
		if ((rc = num_u64(value, &x)) < 0)
			return err_at(rc, "%s", key);
		r->who[e->n++] = x < UINT32_MAX ? (unsigned)x : UINT32_MAX;
	}
	return 0;
}

static int take_key(struct trace_reader *r, const struct line *l, enum trace_key k, struct trace_event *e)
{
	int rc;

	switch (k) {
	case TRACE_LEARNER:
		return take_unsigned(l, trace_keys[k], &e->learner);
	case TRACE_FRAGMENT:
		return take_unsigned(l, trace_keys[k], &e->fragment);
	case TRACE_ROUND:
		return take_u64(l, trace_keys[k], MOST, &e->round);
	case TRACE_VERSION:
		return take_u64(l, trace_keys[k], MOST, &e->version);
	case TRACE_SHARE:
		rc = take_f64(l, trace_keys[k], 1, &e->share);
		return rc == 0 && e->share == 0 ? err_set(ERR_DATA, "share: a step of nothing") : rc;
	case TRACE_STEPS:
		return take_u64(l, trace_keys[k], MOST, &e->steps);
	case TRACE_TOKENS:
		return take_u64(l, trace_keys[k], MOST, &e->tokens);
	case TRACE_SECONDS:
		return take_f64(l, trace_keys[k], MOST, &e->seconds);
	case TRACE_REASON:
		return take_why(l, &e->why);
	case TRACE_STATE:
		return take_state(l, &e->kept);
	default:
		return take_list(r, l, trace_keys[k], e);
	}
}

/* ---- the first line ---- */

static int take_adopt(const struct line *l, char out[16])
{
	const char *value = value_of(l, "adopt");
	struct adopt_rule unused;

	if (!value)
		return err_set(ERR_DATA, "'trace' has no adopt");
	if (strlen(value) > 15 || adopt_parse(value, &unused) < 0)
		return trace_not_so("adopt: those are overwrite, rebase and mix:A with A from 0 to 1", value);
	snprintf(out, 16, "%s", value);
	return 0;
}

static int take_head(struct trace_head *h, const struct line *l)
{
	const char *mode = value_of(l, "mode");
	uint64_t format = 0;
	int rc = strcmp(l->kind, "trace") == 0 ? take_u64(l, "format", MOST, &format)
					       : trace_not_so("trace: it does not begin with 'trace'", l->kind);

	if (rc == 0 && format != TRACE_FORMAT)
		rc = err_set(ERR_DATA, "format %" PRIu64 " is not known here, only %d", format, TRACE_FORMAT);
	if (rc == 0)
		rc = mode ? trace_mode_parse(mode, &h->mode) : err_set(ERR_DATA, "'trace' has no mode");
	if (rc == 0)
		rc = take_unsigned(l, "learners", &h->learners);
	if (rc == 0)
		rc = take_unsigned(l, "fragments", &h->fragments);
	if (rc == 0)
		rc = take_u64(l, "interval", MOST, &h->interval);
	if (rc == 0)
		rc = take_unsigned(l, "overlap", &h->overlap);
	if (rc == 0)
		rc = take_unsigned(l, "quorum", &h->quorum);
	if (rc == 0)
		rc = take_f64(l, "grace", 1e6, &h->grace);
	if (rc == 0)
		rc = take_adopt(l, h->adopt);
	if (rc == 0)
		rc = take_u64(l, "step_tokens", MOST, &h->step_tokens);
	if (rc == 0)
		rc = take_u64(l, "seed", (double)UINT64_MAX, &h->seed);
	if (rc == 0)
		rc = take_u64(l, "params", MOST, &h->params);
	return rc < 0 ? rc : take_u64(l, "chips", MOST, &h->chips);
}

/* 1 and a line taken apart; 0 at the end of the file. */
static int read_line(struct trace_reader *r, struct line *l)
{
	char *text = NULL;
	size_t n = 0;
	int rc;

	r->line++;
	rc = next_line(r, &text, &n);
	if (rc > 0 && (rc = take_apart(l, text, n)) == 0)
		rc = 1;
	return rc;
}

static int begin(struct trace_reader *r)
{
	struct line l;
	int rc = read_line(r, &l);

	if (rc == 0)
		rc = err_set(ERR_DATA, "the file is empty, and no trace");
	else if (rc > 0)
		rc = take_head(&r->head, &l);
	if (rc == 0)
		rc = trace_check_open(&r->check, &r->head);
	if (rc == 0 && !(r->who = calloc(r->head.learners, sizeof *r->who)))
		rc = err_nomem();
	return rc < 0 ? err_at(rc, "line 1") : 0;
}

int trace_open(struct trace_reader **out, int fd)
{
	struct trace_reader *r = calloc(1, sizeof *r);
	int rc = 0;

	*out = NULL;
	if (!r)
		return err_nomem();
	r->fd = fd;
	rc = buf_reserve(&r->text, CHUNK);
	if (rc == 0)
		rc = begin(r);
	if (rc < 0) {
		trace_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

void trace_close(struct trace_reader *r)
{
	if (!r)
		return;
	trace_check_close(r->check);
	buf_release(&r->text);
	free(r->who);
	free(r);
}

const struct trace_head *trace_head(const struct trace_reader *r)
{
	return &r->head;
}

/* ---- the others ---- */

static int check_last(struct trace_reader *r, const struct line *l)
{
	struct line more;
	uint64_t events = 0;
	int rc = take_u64(l, "events", MOST, &events);

	if (rc == 0 && events != r->events)
		return err_set(ERR_DATA, "%" PRIu64 " events were read, %" PRIu64 " were written", r->events, events);
	return rc < 0 ? rc : read_line(r, &more) != 0 ? err_set(ERR_DATA, "there is more behind 'end'") : 0;
}

static int take_event(struct trace_reader *r, const struct line *l, struct trace_event *e)
{
	unsigned k = 0;
	int rc = 0;

	while (k < TRACE_KINDS && strcmp(trace_rows[k].name, l->kind) != 0)
		k++;
	if (k == TRACE_KINDS)
		return trace_not_so("kind of line", l->kind);
	*e = (struct trace_event){ .at = l->at, .kind = (enum trace_kind)k, .share = k == TRACE_STEP };
	for (unsigned i = 0; rc == 0 && i < TRACE_KEYS; i++)
		if (trace_rows[k].has & TRACE_BIT(i) ||
			(trace_rows[k].may & TRACE_BIT(i) && value_of(l, trace_keys[i])))
			rc = take_key(r, l, (enum trace_key)i, e);
	return rc < 0 ? rc : trace_check_event(r->check, e);
}

int trace_next(struct trace_reader *r, struct trace_event *e)
{
	struct line l;
	int rc = read_line(r, &l);

	if (rc == 0)
		return err_set(ERR_DATA, "line %" PRIu64 ": the file ends before its line 'end': it was cut",
			r->line);
	if (rc > 0 && strcmp(l.kind, "end") == 0) {
		rc = check_last(r, &l);
	} else if (rc > 0) {
		r->events++;
		rc = take_event(r, &l, e);
		rc = rc < 0 ? rc : 1;
	}
	return rc < 0 ? err_at(rc, "line %" PRIu64, r->line) : rc;
}
