#include "chaos/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/num.h"
#include "chaos/trace_line.h"
#include "io/fd.h"

#define CHUNK ((size_t)64 << 10)

struct trace_writer {
	int fd;
	struct buf text;
	uint64_t events;
	double at; /* in microseconds */
};

static int flush(struct trace_writer *w, size_t above)
{
	int rc = w->text.len > above ? fd_write(w->fd, w->text.data, w->text.len) : 0;

	if (w->text.len > above)
		buf_clear(&w->text);
	return rc;
}

int trace_create(struct trace_writer **out, int fd, const struct trace_head *h)
{
	struct trace_writer *w = calloc(1, sizeof *w);
	char grace[32];
	int rc;

	*out = NULL;
	if (!w)
		return err_nomem();
	w->fd = fd;
	num_f64_text(grace, h->grace);
	rc = buf_fmt(&w->text, "0 trace format=%d mode=%s learners=%u fragments=%u interval=%" PRIu64
		" overlap=%u quorum=%u grace=%s adopt=%s step_tokens=%" PRIu64 " seed=%" PRIu64
		" params=%" PRIu64 " chips=%" PRIu64 "\n", TRACE_FORMAT, trace_mode_name(h->mode), h->learners,
		h->fragments, h->interval, h->overlap, h->quorum, grace, h->adopt, h->step_tokens, h->seed,
		h->params, h->chips);
	if (rc < 0) {
		trace_discard(w);
		return rc;
	}
	*out = w;
	return 0;
}

/* Whole microseconds, without zeros at the end. */
static int put_seconds(struct buf *out, double micros)
{
	char text[48];
	size_t n = (size_t)snprintf(text, sizeof text, "%.0f.%06.0f", floor(micros / 1e6), fmod(micros, 1e6));

	while (text[n - 1] == '0')
		n--;
	n -= text[n - 1] == '.';
	return buf_add(out, text, n);
}

static int put_list(struct buf *out, const char *key, const unsigned *who, size_t n)
{
	int rc = buf_fmt(out, " %s=%s", key, who ? "" : "all");

	for (size_t i = 0; rc == 0 && who && i < n; i++)
		rc = buf_fmt(out, "%s%u", i ? "," : "", who[i]);
	return rc;
}

static int put_key(struct buf *out, const struct trace_event *e, enum trace_key k)
{
	char number[32];

	switch (k) {
	case TRACE_LEARNER:
		return buf_fmt(out, " learner=%u", e->learner);
	case TRACE_FRAGMENT:
		return buf_fmt(out, " fragment=%u", e->fragment);
	case TRACE_ROUND:
		return buf_fmt(out, " round=%" PRIu64, e->round);
	case TRACE_VERSION:
		return buf_fmt(out, " version=%" PRIu64, e->version);
	case TRACE_SHARE:
		num_f64_text(number, e->share);
		return e->share < 1 ? buf_fmt(out, " share=%s", number) : 0;
	case TRACE_STEPS:
		return buf_fmt(out, " steps=%" PRIu64, e->steps);
	case TRACE_TOKENS:
		return buf_fmt(out, " tokens=%" PRIu64, e->tokens);
	case TRACE_SECONDS:
		num_f64_text(number, e->seconds);
		return buf_fmt(out, " seconds=%s", number);
	case TRACE_REASON:
		return buf_fmt(out, " why=%s", trace_why_name(e->why));
	case TRACE_STATE:
		return buf_fmt(out, " state=%s", e->kept ? "kept" : "lost");
	case TRACE_INVITED:
	case TRACE_ANSWERS:
		return put_list(out, trace_keys[k], e->who, e->n);
	default:
		return 0;
	}
}

int trace_put(struct trace_writer *w, const struct trace_event *e)
{
	const struct trace_row *row = &trace_rows[e->kind];
	int rc;

	w->at = fmax(w->at, floor(e->at * 1e6 + 0.5));
	rc = put_seconds(&w->text, w->at);
	if (rc == 0)
		rc = buf_fmt(&w->text, " %s", trace_rows[e->kind].name);
	for (unsigned k = 0; rc == 0 && k < TRACE_KEYS; k++)
		if ((row->has | row->may) & TRACE_BIT(k))
			rc = put_key(&w->text, e, (enum trace_key)k);
	if (rc == 0)
		rc = buf_str(&w->text, "\n");
	w->events++;
	return rc < 0 ? rc : flush(w, CHUNK);
}

int trace_finish(struct trace_writer *w)
{
	int rc = put_seconds(&w->text, w->at);

	if (rc == 0)
		rc = buf_fmt(&w->text, " end events=%" PRIu64 "\n", w->events);
	return rc < 0 ? rc : flush(w, 0);
}

void trace_discard(struct trace_writer *w)
{
	if (!w)
		return;
	buf_release(&w->text);
	free(w);
}
