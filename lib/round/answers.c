#include "round/answers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/fd.h"
#include "io/spool.h"
#include "math/merge.h"
#include "round/routed.h"

#define HEAVY 0.9 /* share of the weight that is worth a warning */

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

int answers_refuse(struct answers *as, size_t i, int code)
{
	struct answer *a = &as->v[i];
	enum verdict v = VERDICT_UNREADABLE;

	if (code == ERR_NOMEM)
		return code;
	if (code == ERR_AUTH)
		v = VERDICT_NOT_AUTHENTIC;
	else if (code == ERR_DATA)
		v = VERDICT_NOT_DELTA;
	guard_refuse(a, v, "%s", reason(a->name, err_text()));
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

static int read_routed(const struct answer *a, struct answer_file *f)
{
	const struct header *h = frame_header(f->reader);
	uint64_t *count = calloc(h->tensors.n + 1, sizeof *count);
	int rc = count ? routed_read(count, &h->keys, ROUTED_KEY, &h->tensors, a->meta.tokens) : err_nomem();

	if (rc > 0)
		f->routed = count;
	else
		free(count);
	return rc < 0 ? rc : 0;
}

static int open_file(const struct reading *job, struct answer *a, struct answer_file *f)
{
	int rc = frame_open(&f->reader, f->copy >= 0 ? f->copy : f->fd, a->name, job->trust, NULL);

	if (rc < 0 || (rc = meta_read(&a->meta, frame_header(f->reader))) < 0)
		return rc;
	a->signer = *frame_signer(f->reader);
	guard_header(a, job->round, &frame_header(f->reader)->tensors, job->trust);
	if (a->verdict != VERDICT_ACCEPTED)
		return 0;
	if ((rc = read_routed(a, f)) < 0 || (rc = frame_seekable(f->reader)) < 0 ||
		(rc = frame_strict(f->reader)) < 0)
		return rc;
	return frame_id(f->reader, &a->id);
}

/* Of an answer refused for its signer, who that is. A seal that does not verify names nobody. */
static void name_stranger(struct answer *a, int fd, const struct trust *trust)
{
	struct sig_public signer;

	if (trust && a->verdict == VERDICT_NOT_AUTHENTIC && frame_claim(fd, &signer) == 0 &&
		trust_judge(trust, &signer, NULL) < 0)
		a->signer = signer;
}

static int open_one(void *ctx, int i, int thread)
{
	struct reading *job = ctx;
	struct answer *a = &job->as->v[i];
	struct answer_file *f = &job->as->file[i];
	int rc;

	(void)thread;
	if (a->verdict != VERDICT_ACCEPTED)
		return 0;
	if ((rc = open_file(job, a, f)) < 0) {
		if ((rc = answers_refuse(job->as, (size_t)i, rc)) == 0 && !f->reader)
			name_stranger(a, f->copy >= 0 ? f->copy : f->fd, job->trust);
		return rc;
	}
	f->norm = calloc(job->round->layout->n + 1, sizeof *f->norm);
	return f->norm ? 0 : err_nomem();
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
			guard_refuse(&as->v[i], VERDICT_UNREADABLE, "%s",
				reason(in[i].name, in[i].why));
	}
	return 0;
}

int answers_open(struct answers *as, const struct answers_conf *c, const struct answers_input *in,
	size_t n, const struct guard_round *round, const struct trust *trust, struct pool *pool)
{
	struct reading job = { as, round, trust };
	int rc;

	if ((rc = allocate(as, in, n)) < 0 || (rc = copy_pipes(as, c, round->layout)) < 0)
		return rc;
	as->tensors = round->layout->n;
	return pool_run(pool, open_one, &job, (int)n);
}

void answers_release(struct answers *as)
{
	for (size_t i = 0; i < as->n; i++) {
		frame_reader_free(as->file[i].reader);
		free(as->file[i].norm);
		free(as->file[i].routed);
		if (as->file[i].copy >= 0)
			close(as->file[i].copy);
	}
	free(as->v);
	free(as->file);
	free(as->order);
	free(as->share);
	*as = (struct answers){ .n = 0 };
}

static bool precedes(const struct answers *as, size_t i, size_t j)
{
	return memcmp(&as->v[i].id, &as->v[j].id, sizeof(digest)) < 0;
}

/* Those that count, by identity: the same sums whatever order they were given in. */
static void put_in_order(struct answers *as)
{
	as->accepted = 0;
	for (size_t i = 0; i < as->n; i++) {
		size_t at = as->accepted;

		if (as->v[i].verdict != VERDICT_ACCEPTED)
			continue;
		for (; at > 0 && precedes(as, i, as->order[at - 1]); at--)
			as->order[at] = as->order[at - 1];
		as->order[at] = i;
		as->accepted++;
	}
}

static void weigh(struct answers *as)
{
	for (size_t i = 0; i < as->n; i++)
		as->v[i].weight = 0;
	for (size_t k = 0; k < as->accepted; k++) {
		struct answer *a = &as->v[as->order[k]];

		a->weight = as->share[k] = merge_weight(a->meta.tokens, a->meta.steps);
	}
	merge_shares(as->share, as->accepted);
}

bool answers_counted(const struct answers *as)
{
	for (size_t k = 0; k < as->accepted; k++)
		if (!as->file[as->order[k]].routed)
			return false;
	return true;
}

bool answers_routed(const struct answers *as, double *share, size_t tensor)
{
	for (size_t k = 0; k < as->accepted; k++) {
		const uint64_t *routed = as->file[as->order[k]].routed;

		if (!routed)
			return false;
		share[k] = merge_weight(routed[tensor], as->v[as->order[k]].meta.steps);
	}
	return merge_shares(share, as->accepted);
}

void answers_settle(struct answers *as)
{
	for (struct answer *a = as->v; a < as->v + as->n; a++)
		if (a->verdict == VERDICT_DUPLICATE) { /* its rival may have been refused since */
			a->verdict = VERDICT_ACCEPTED;
			a->why[0] = '\0';
		}
	guard_duplicates(as->v, as->n);
	put_in_order(as);
	weigh(as);
}

int answers_measured(struct answers *as, double outlier)
{
	for (size_t k = 0; k < as->accepted; k++) {
		struct answer *a = &as->v[as->order[k]];
		const double *norm = as->file[as->order[k]].norm;
		double norm2 = 0;

		for (size_t t = 0; t < as->tensors; t++)
			norm2 += norm[t] * norm[t];
		a->norm = a->verdict == VERDICT_ACCEPTED ? sqrt(norm2) : 0;
		a->measured = true;
	}
	return guard_outliers(as->v, as->n, outlier);
}

size_t answers_refused(const struct answers *as)
{
	size_t n = 0;

	for (size_t i = 0; i < as->n; i++)
		n += as->v[i].verdict != VERDICT_ACCEPTED;
	return n;
}

void answers_say(const struct answers *as, struct say *say)
{
	for (const struct answer *a = as->v; a < as->v + as->n; a++)
		if (a->verdict != VERDICT_ACCEPTED)
			say_warn(say, "%s: refused: %s", a->name, a->why);
}

void answers_say_weight(const struct answers *as, struct say *say)
{
	for (size_t k = 0; k < as->accepted && as->accepted > 1; k++) {
		const struct answer *a = &as->v[as->order[k]];

		if (as->share[k] > HEAVY)
			say_warn(say, "%s: has %d %% of the weight, with %" PRIu64 " tokens in %" PRIu64
				" steps: the others hardly count", a->name, (int)(100 * as->share[k]),
				a->meta.tokens, a->meta.steps);
	}
}

static int strict_error(const struct answers *as)
{
	const struct answer *a = as->v;

	while (a->verdict == VERDICT_ACCEPTED)
		a++;
	return err_set(verdict_code(a->verdict), "%zu of %zu deltas refused, and none may be",
		as->n - as->accepted, as->n);
}

/* Nothing to merge: what all refusals have in common is the reason. */
static int nothing_error(const struct answers *as)
{
	enum err code = as->n ? verdict_code(as->v[0].verdict) : ERR_DATA;

	for (size_t i = 1; i < as->n; i++)
		if (verdict_code(as->v[i].verdict) != code)
			code = ERR_DATA;
	return err_set(code, "no delta was accepted (0 of %zu)", as->n);
}

int answers_enough(const struct answers *as, uint64_t quorum, bool strict)
{
	if (strict && as->accepted < as->n)
		return strict_error(as);
	if (as->accepted < quorum)
		return err_set(ERR_AGAIN, "no quorum: %zu of %zu deltas accepted, %" PRIu64 " wanted",
			as->accepted, as->n, quorum);
	return as->accepted ? 0 : nothing_error(as);
}
