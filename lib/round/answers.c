#include "round/answers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/fd.h"
#include "io/spool.h"
#include "io/wake.h"
#include "math/merge.h"

/* What the largest encoding and its frames can need for `layout`, and something for the header. */
static uint64_t longest_file(const struct tensors *layout)
{
	return 9 * tensors_total(layout) + 1024 * (uint64_t)layout->n + ((uint64_t)16 << 20);
}

/* A sentence about a file without the file's name, which stands before it in most. */
static const char *reason(const char *name, const char *text)
{
	size_t n = strlen(name);

	return strncmp(text, name, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

/* The last error as a verdict on this answer; an error still when it is not the answer's fault. */
static int refuse_for(struct answer *a, int code)
{
	if (code == ERR_NOMEM)
		return code;
	guard_refuse(a, code == ERR_AUTH ? VERDICT_NOT_AUTHENTIC :
		code == ERR_DATA ? VERDICT_NOT_DELTA : VERDICT_UNREADABLE, "%s", reason(a->name, err_text()));
	return 0;
}

/* ---- pipes ---- */

static void take_copies(struct answers *as, const struct spool *copy, const size_t *whose, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct answer *a = &as->v[whose[i]];

		as->file[whose[i]].copy = copy[i].to;
		if (copy[i].note.code < 0)
			guard_refuse(a, VERDICT_UNREADABLE, "%s", copy[i].note.text);
	}
}

static int copy_pipes(struct answers *as, const struct answers_conf *c, const struct tensors *layout)
{
	struct spool *copy = calloc(as->n + 1, sizeof *copy);
	size_t *whose = calloc(as->n + 1, sizeof *whose), n = 0;
	uint64_t size;
	int rc = copy && whose ? 0 : err_nomem();

	for (size_t i = 0; i < as->n && rc == 0; i++)
		if (as->v[i].verdict == VERDICT_ACCEPTED && !fd_regular(as->file[i].fd, &size)) {
			copy[n].from = as->file[i].fd;
			whose[n++] = i;
		}
	if (rc == 0) {
		rc = spool_run(copy, n, longest_file(layout), c->wait, &c->clock);
		take_copies(as, copy, whose, n);
	}
	free(copy);
	free(whose);
	return rc;
}

/* ---- one file ---- */

struct reading {
	struct answers *as;
	const struct guard_round *round;
	const struct trust *trust;
};

static int judge_header(const struct reading *job, struct answer *a, const struct answer_file *f)
{
	const struct header *h = frame_header(f->reader);
	int rc = meta_read(&a->meta, h);

	if (rc < 0)
		return refuse_for(a, rc);
	a->signer = *frame_signer(f->reader);
	guard_header(a, job->round, &h->tensors, job->trust);
	return 0;
}

/* Adds to the norms; the first value that makes no sense refuses the answer. */
static void measure(struct answer *a, double *norm2, const struct tensors *layout,
	const struct frame_slice *s)
{
	size_t bad;

	norm2[s->tensor] += merge_norm2(s->value, s->rest, s->n, &bad);
	if (bad < s->n)
		guard_refuse(a, VERDICT_NOT_FINITE, "tensor '%s' element %" PRIu64 " is %g",
			layout->v[s->tensor].name, s->first + bad, (double)s->value[bad]);
}

/* The whole file, up to its verified end. */
static int stream(struct answer *a, struct answer_file *f, const struct tensors *layout)
{
	struct frame_slice s;
	double norm2 = 0;
	int rc;

	while ((rc = frame_next(f->reader, &s)) > 0) {
		measure(a, f->norm, layout, &s);
		if (wake_requested())
			return err_set(ERR_IO, "interrupted");
	}
	if (rc < 0 || (rc = frame_id(f->reader, &a->id)) < 0 || (rc = frame_seekable(f->reader)) < 0)
		return refuse_for(a, rc);
	for (size_t t = 0; t < layout->n; t++) {
		norm2 += f->norm[t];
		f->norm[t] = sqrt(f->norm[t]);
	}
	a->norm = sqrt(norm2);
	return 0;
}

static int read_one(void *ctx, int i, int thread)
{
	struct reading *job = ctx;
	struct answer *a = &job->as->v[i];
	struct answer_file *f = &job->as->file[i];
	const struct tensors *layout = job->round->layout;
	int rc;

	(void)thread;
	if (a->verdict != VERDICT_ACCEPTED)
		return 0;
	rc = frame_open(&f->reader, f->copy >= 0 ? f->copy : f->fd, a->name, job->trust, NULL);
	if (rc < 0)
		return refuse_for(a, rc);
	rc = judge_header(job, a, f);
	if (rc < 0 || a->verdict != VERDICT_ACCEPTED)
		return rc;
	f->norm = calloc(layout->n + 1, sizeof *f->norm);
	return f->norm ? stream(a, f, layout) : err_nomem();
}

/* ---- all ---- */

static int allocate(struct answers *as, const struct answers_input *in, size_t n)
{
	*as = (struct answers){ .n = n };
	as->v = calloc(n + 1, sizeof *as->v);
	as->file = calloc(n + 1, sizeof *as->file);
	as->order = calloc(n + 1, sizeof *as->order);
	as->share = calloc(n + 1, sizeof *as->share);
	if (!as->v || !as->file || !as->order || !as->share) {
		as->n = 0;
		return err_nomem();
	}
	for (size_t i = 0; i < n; i++) {
		as->v[i].name = in[i].name;
		as->file[i].fd = in[i].fd;
		as->file[i].copy = -1;
		if (in[i].fd < 0)
			guard_refuse(&as->v[i], VERDICT_UNREADABLE, "%s", reason(in[i].name, in[i].why));
	}
	return 0;
}

static void file_release(struct answer_file *f)
{
	frame_reader_free(f->reader);
	f->reader = NULL;
	free(f->norm);
	f->norm = NULL;
	if (f->copy >= 0)
		close(f->copy);
	f->copy = -1;
}

/* Those that count, by identity: the same sums whatever order they were given in. */
static void put_in_order(struct answers *as)
{
	for (size_t i = 0; i < as->n; i++) {
		size_t at = as->accepted;

		if (as->v[i].verdict != VERDICT_ACCEPTED)
			continue;
		for (; at > 0 && memcmp(&as->v[as->order[at - 1]].id, &as->v[i].id, sizeof(digest)) > 0; at--)
			as->order[at] = as->order[at - 1];
		as->order[at] = i;
		as->accepted++;
	}
}

static void weigh(struct answers *as)
{
	for (size_t k = 0; k < as->accepted; k++) {
		struct answer *a = &as->v[as->order[k]];

		a->weight = merge_weight(a->meta.tokens, a->meta.steps);
		as->weight += a->weight;
	}
	for (size_t k = 0; k < as->accepted; k++)
		as->share[k] = as->v[as->order[k]].weight / as->weight;
}

int answers_read(struct answers *as, const struct answers_conf *c, const struct answers_input *in,
	size_t n, const struct guard_round *round, const struct trust *trust, struct pool *pool)
{
	struct reading job = { as, round, trust };
	int rc;

	if ((rc = allocate(as, in, n)) < 0 || (rc = copy_pipes(as, c, round->layout)) < 0 ||
		(rc = pool_run(pool, read_one, &job, (int)n)) < 0)
		return rc;
	guard_duplicates(as->v, n);
	if ((rc = guard_outliers(as->v, n, c->outlier)) < 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		if (as->v[i].verdict != VERDICT_ACCEPTED)
			file_release(&as->file[i]);
	put_in_order(as);
	weigh(as);
	return 0;
}

void answers_release(struct answers *as)
{
	for (size_t i = 0; i < as->n; i++)
		file_release(&as->file[i]);
	free(as->v);
	free(as->file);
	free(as->order);
	free(as->share);
	*as = (struct answers){ .n = 0 };
}

void answers_say(const struct answers *as, struct say *say)
{
	for (const struct answer *a = as->v; a < as->v + as->n; a++)
		if (a->verdict != VERDICT_ACCEPTED)
			say_warn(say, "%s: refused: %s", a->name, a->why);
}

static int strict_error(const struct answers *as)
{
	const struct answer *a = as->v;

	while (a->verdict == VERDICT_ACCEPTED)
		a++;
	return err_set(verdict_code(a->verdict), "%zu of %zu answers refused, and none may be",
		as->n - as->accepted, as->n);
}

/* Nothing to merge: what all refusals have in common is the reason. */
static int nothing_error(const struct answers *as)
{
	enum err code = as->n ? verdict_code(as->v[0].verdict) : ERR_DATA;

	for (size_t i = 1; i < as->n; i++)
		if (verdict_code(as->v[i].verdict) != code)
			code = ERR_DATA;
	return err_set(code, "no positive weight: 0 of %zu answers accepted", as->n);
}

int answers_enough(const struct answers *as, uint64_t quorum, bool strict)
{
	if (strict && as->accepted < as->n)
		return strict_error(as);
	if (as->accepted < quorum)
		return err_set(ERR_AGAIN, "no quorum: %zu of %zu answers accepted, %" PRIu64 " wanted",
			as->accepted, as->n, quorum);
	return as->accepted ? 0 : nothing_error(as);
}
