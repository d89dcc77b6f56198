#include "round/replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "form/content.h"
#include "io/fd.h"
#include "io/place.h"
#include "io/wake.h"
#include "round/audit.h"
#include "round/commit.h"
#include "round/decision.h"
#include "round/merging.h"
#include "round/rundir.h"

/* A fragment as far as it has been rebuilt. */
struct chain {
	bool there;           /* the files below are open, and are those of the tape */
	int fd;
	struct frame_reader *base;
	struct meta meta;
	struct outer outer;
	uint64_t version;     /* the last one that was published */
	bool published;       /* what the tape says of it, but of version 0: */
	digest id, content, momentum;
};
struct joined {
	char learner[KEY_NAME + 1];
	struct sig_public key;
};
struct replay {
	const struct replay_conf *conf;
	struct replay_report *report;
	struct say *say;
	struct key key;           /* seals the temporary files, and nobody else knows it */
	struct chain *chain;      /* (fragments) */
	struct decision *pending; /* decided, not published */
	size_t pendings;
	struct joined *joined;
	size_t joins;
};

/* ---- what is said ---- */

/* A version that is not what the tape says. The replay goes on. */
static __attribute__((format(printf, 4, 5))) void differ(
	struct replay *r, unsigned fragment, uint64_t version, const char *fmt, ...)
{
	char path[RUNDIR_PATH];
	size_t n;
	va_list ap;

	if (r->report->different++ > 0)
		return;
	n = (size_t)snprintf(r->report->first, sizeof r->report->first, "%s: ",
		rundir_fragment(path, fragment, version));
	va_start(ap, fmt);
	vsnprintf(r->report->first + n, sizeof r->report->first - n, fmt, ap);
	va_end(ap);
}

/* Errors that say something about a file; others are of this machine. */
static bool blames_file(int rc)
{
	return rc == ERR_AUTH || rc == ERR_DATA;
}

/* ---- chains ---- */

static void chain_drop(struct chain *c)
{
	frame_reader_free(c->base);
	if (c->base || c->there)
		close(c->fd);
	outer_close(&c->outer);
	c->base = NULL;
	c->there = false;
}

/* The content of a file from its beginning to its verified end. */
static int content_of(int fd, const char *name, digest *out)
{
	struct frame_reader *r = NULL;
	int rc;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys("%s", name);
	rc = frame_open(&r, fd, name, NULL, NULL);
	if (rc == 0)
		rc = content_read(out, r, NULL);
	frame_reader_free(r);
	return rc;
}

/* Opens a fragment whose descriptor becomes the chain's. */
static int chain_open(struct chain *c, int fd, const char *name)
{
	int rc;

	c->fd = fd;
	c->there = true;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys("%s", name);
	if ((rc = frame_open(&c->base, fd, name, NULL, NULL)) < 0 || (rc = frame_seekable(c->base)) < 0)
		return rc;
	rc = meta_read(&c->meta, frame_header(c->base));
	return rc < 0 ? err_at(rc, "%s", name) : 0;
}

static int check_momentum(const struct chain *c, const char *path)
{
	digest d;
	int rc = content_of(c->outer.fd, path, &d);

	if (rc == 0 && memcmp(&d, &c->momentum, sizeof d) != 0)
		rc = err_set(ERR_AUTH, "%s: is not what was published", path);
	return rc;
}

/* The momentum that is kept beside a kept fragment: 1, 0 when it is not there. */
static int open_kept_momentum(struct chain *c, unsigned fragment)
{
	char path[RUNDIR_PATH];
	int fd, rc;

	if (c->version == 0)
		return 1;
	rc = place_open(rundir_outer(path, fragment, c->version), &fd);
	if (rc <= 0)
		return rc;
	rc = outer_take(&c->outer, fd, path, c->base, &c->meta, NULL);
	if (rc == 0)
		rc = check_momentum(c, path);
	return rc < 0 ? rc : 1;
}

static int check_kept(struct chain *c, int fd, const char *path, const digest *base)
{
	digest d;
	int rc = content_of(fd, path, &d);

	if (rc == 0 && c->published && memcmp(&d, &c->content, sizeof d) != 0)
		rc = err_set(ERR_AUTH, "%s: its content is not what was published", path);
	if (rc == 0 && (rc = frame_id(c->base, &d)) == 0 && memcmp(&d, base, sizeof d) != 0)
		rc = err_set(ERR_AUTH, "%s: is not the one that was merged into", path);
	return rc;
}

/* Begins from the files of the version that is published: 1, 0 when they are not kept. */
static int chain_begin(struct chain *c, const struct decision *d)
{
	char path[RUNDIR_PATH];
	int fd, rc = place_open(rundir_fragment(path, d->fragment, c->version), &fd);

	if (rc <= 0)
		return rc;
	rc = chain_open(c, fd, path);
	if (rc == 0)
		rc = check_kept(c, fd, path, &d->base);
	if (rc < 0)
		return rc;
	return d->fresh ? 1 : open_kept_momentum(c, d->fragment);
}

/* ---- one merge ---- */

struct work {
	struct replay *r;
	const struct decision *d;
	struct chain *chain;
	char (*name)[RUNDIR_PATH];
	struct answers_input *in; /* (n) */
	size_t n;
	struct answers answers;
	struct merging *merging;
	int fd[2]; /* fragment and momentum */
};

static void work_release(struct work *w)
{
	merging_close(w->merging);
	answers_release(&w->answers);
	for (size_t i = 0; i < w->n; i++)
		close(w->in[i].fd);
	for (int i = 0; i < 2; i++)
		if (w->fd[i] >= 0)
			close(w->fd[i]);
	free(w->name);
	free(w->in);
}

/* 1, 0 when one of them is not there any more. */
static int open_deltas(struct work *w)
{
	const struct decision *d = w->d;

	w->name = calloc(d->answers + 1, sizeof *w->name);
	w->in = calloc(d->answers + 1, sizeof *w->in);
	if (!w->name || !w->in)
		return err_nomem();
	for (size_t i = 0; i < d->answers; i++) {
		struct answers_input *in = &w->in[w->n];
		int rc;

		in->name = rundir_delta(w->name[i], d->answer[i].learner, d->fragment, d->round);
		rc = place_open(in->name, &in->fd);
		if (rc <= 0)
			return rc;
		w->n++;
	}
	return 1;
}

static const struct sig_public *key_of(const struct replay *r, const char *learner)
{
	for (size_t i = 0; i < r->joins; i++)
		if (strcmp(r->joined[i].learner, learner) == 0)
			return &r->joined[i].key;
	return NULL;
}

/* Is it the file, and of whom, the tape says? */
static int check_answer(const struct work *w, size_t i)
{
	const struct answer *a = &w->answers.v[i];
	const struct sig_public *key = key_of(w->r, w->d->answer[i].learner);

	if (a->verdict != VERDICT_ACCEPTED)
		return err_set(ERR_AUTH, "%s: %s", a->name, a->why);
	if (memcmp(&a->id, &w->d->answer[i].id, sizeof a->id) != 0)
		return err_set(ERR_AUTH, "%s: is not the file that was merged", a->name);
	if (!key || memcmp(key, &a->signer, sizeof *key) != 0)
		return err_set(ERR_AUTH, "%s: its key is not the one that learner '%s' joined with", a->name,
			w->d->answer[i].learner);
	return 0;
}

/* They were answers to the file that was published, not to our copy of it. */
static int open_answers(struct work *w)
{
	struct answers_conf conf = { .clock = clock_monotonic() };
	struct guard_round round;
	int rc = merging_fragment_round(&round, w->chain->base, &w->chain->meta, w->d->round);

	if (rc < 0)
		return rc;
	sig_hex(round.base, w->d->base.b, sizeof w->d->base.b);
	rc = answers_open(&w->answers, &conf, w->in, w->n, &round, NULL, w->r->conf->pool);
	for (size_t i = 0; i < w->n && rc == 0; i++)
		rc = check_answer(w, i);
	if (rc < 0)
		return rc;
	answers_settle(&w->answers);
	return answers_enough(&w->answers, w->n, true);
}

/* What merging found out about the values of one answer. */
static int blame_answer(const struct work *w, int rc)
{
	for (size_t i = 0; i < w->answers.n && blames_file(rc); i++)
		if (w->answers.v[i].verdict != VERDICT_ACCEPTED)
			return err_set(ERR_AUTH, "%s: %s", w->answers.v[i].name, w->answers.v[i].why);
	return rc;
}

static int merge_values(struct work *w)
{
	const struct decision *d = w->d;
	struct merging_conf conf = { .rule = d->rule, .experts = d->experts, .outer = d->outer, .quorum = w->n,
		.strict = true, .round = d->round };
	struct merging_output file = { .name = "temporary file" }, momentum = file;
	int rc;

	if ((rc = fd_temporary(&w->fd[0])) < 0 || (rc = fd_temporary(&w->fd[1])) < 0 ||
		(rc = merging_open(&w->merging, &conf, w->chain->base, &w->chain->meta, &w->answers,
			&w->chain->outer, w->r->conf->pool)) < 0)
		return rc;
	file.fd = w->fd[0];
	momentum.fd = w->fd[1];
	rc = merging_write(w->merging, &file, &momentum, &w->r->key, NULL);
	return rc == 0 ? merging_finish(w->merging, NULL) : blame_answer(w, rc);
}

/* What the decision says of the answers, beside what was found. */
static int check_decision(const struct work *w)
{
	const struct meta *next = merging_meta(w->merging);

	for (size_t k = 0; k < w->answers.accepted; k++) {
		size_t i = w->answers.order[k];
		const struct tape_answer *told = &w->d->answer[i];

		if (told->share != w->answers.share[k] || told->norm != w->answers.v[i].norm)
			return err_set(ERR_AUTH, "the answer of '%s' has share %.9g and norm %.9g, the tape says "
				"%.9g and %.9g", told->learner, w->answers.share[k],
				w->answers.v[i].norm, told->share, told->norm);
	}
	if (next->step != w->d->step)
		return err_set(ERR_AUTH, "is of step %" PRIu64 ", the tape says %" PRIu64, next->step,
			w->d->step);
	return 0;
}

static int check_contents(struct work *w, const digest *content, const digest *momentum)
{
	static const char what[] = "temporary file";
	digest d[2];
	int rc;

	if ((rc = content_of(w->fd[0], what, &d[0])) < 0 || (rc = content_of(w->fd[1], what, &d[1])) < 0)
		return rc;
	if (memcmp(&d[0], content, sizeof d[0]) != 0)
		return err_set(ERR_AUTH, "rebuilt from the deltas that the tape names it is another: what was "
			"published is not what was decided");
	if (memcmp(&d[1], momentum, sizeof d[1]) != 0)
		return err_set(ERR_AUTH, "its momentum, rebuilt, is another than was published");
	return 0;
}

/* The chain goes on with what was rebuilt. */
static int advance(struct work *w)
{
	struct chain *c = w->chain;
	int fd[2] = { w->fd[0], w->fd[1] }, rc;

	chain_drop(c);
	w->fd[0] = w->fd[1] = -1;
	rc = chain_open(c, fd[0], "temporary file");
	if (rc == 0 && lseek(fd[1], 0, SEEK_SET) < 0)
		rc = err_sys("temporary file");
	if (rc < 0) {
		close(fd[1]);
		return rc;
	}
	return outer_take(&c->outer, fd[1], "temporary file", c->base, &c->meta, NULL);
}

/* 1 rebuilt, and the same; 0 not rebuilt, as something is not kept; ERR_AUTH and ERR_DATA: different. */
static int rebuild(struct replay *r, struct chain *c, const struct decision *d, const digest *content,
	const digest *momentum)
{
	struct work w = { .r = r, .d = d, .chain = c, .fd = { -1, -1 } };
	int rc;

	if (c->published && memcmp(&d->base, &c->id, sizeof d->base) != 0)
		return err_set(ERR_AUTH, "round %" PRIu64 " was merged into another file than was published",
			d->round);
	rc = open_deltas(&w);
	if (rc > 0 && !c->there)
		rc = chain_begin(c, d);
	if (rc > 0 && d->fresh)
		outer_close(&c->outer);
	if (rc > 0 && (rc = open_answers(&w)) == 0 && (rc = merge_values(&w)) == 0 &&
		(rc = check_decision(&w)) == 0 && (rc = check_contents(&w, content, momentum)) == 0 &&
		(rc = advance(&w)) == 0)
		rc = 1;
	work_release(&w);
	return rc;
}

/* ---- lines ---- */

static int take_join(struct replay *r, const struct tape_line *l)
{
	const char *name = tape_text(l, "learner");
	struct joined *j, *more;
	int rc = key_name_check("learner", name);

	if (rc < 0)
		return ERR_DATA;
	for (size_t i = 0; i < r->joins; i++)
		if (strcmp(r->joined[i].learner, name) == 0)
			return sig_unbase64(r->joined[i].key.b, SIG_PUBLIC, tape_text(l, "key"));
	more = realloc(r->joined, (r->joins + 1) * sizeof *more);
	if (!more)
		return err_nomem();
	r->joined = more;
	j = &more[r->joins];
	memcpy(j->learner, name, strlen(name) + 1);
	rc = sig_unbase64(j->key.b, sizeof j->key.b, tape_text(l, "key"));
	r->joins += rc == 0;
	return rc;
}

static size_t pending_of(const struct replay *r, uint64_t round)
{
	size_t i = 0;

	while (i < r->pendings && r->pending[i].round != round)
		i++;
	return i;
}

static void forget(struct replay *r, uint64_t round)
{
	size_t i = pending_of(r, round);

	if (i == r->pendings)
		return;
	decision_release(&r->pending[i]);
	r->pending[i] = r->pending[--r->pendings];
}

static int take_merge(struct replay *r, const struct tape_line *l)
{
	struct decision d, *more;
	int rc = decision_parse(&d, l);

	if (rc < 0)
		return rc;
	forget(r, d.round);
	more = realloc(r->pending, (r->pendings + 1) * sizeof *more);
	if (more)
		r->pending = more;
	else
		rc = err_nomem();
	if (rc == 0 && d.fragment >= r->conf->manifest->fragments)
		rc = err_set(ERR_DATA, "fragment %u, where there are %u", d.fragment, r->conf->manifest->fragments);
	if (rc < 0)
		decision_release(&d);
	else
		more[r->pendings++] = d;
	return rc;
}

/* Counts what became of a version, and remembers what the tape says of it. */
static int settle(struct replay *r, struct chain *c, const struct decision *d, int rc)
{
	if (rc < 0 && !blames_file(rc))
		return rc;
	if (rc > 0)
		r->report->identical++;
	else if (rc == 0)
		r->report->collected++;
	else
		differ(r, d->fragment, d->version, "%s", err_text());
	if (rc <= 0)
		chain_drop(c);
	return 0;
}

static int take_publish(struct replay *r, const struct tape_line *l)
{
	size_t i = pending_of(r, tape_u64(l, "round"));
	const struct decision *d = &r->pending[i];
	digest id, content, momentum;
	struct chain *c;
	int rc;

	if (i == r->pendings)
		return err_set(ERR_DATA, "round %" PRIu64 " is published and was not decided",
			tape_u64(l, "round"));
	if ((rc = tape_id(l, "id", &id)) < 0 || (rc = tape_id(l, "content", &content)) < 0 ||
		(rc = tape_id(l, "outer", &momentum)) < 0)
		return rc;
	c = &r->chain[d->fragment];
	if (d->version != c->version + 1)
		return err_set(ERR_DATA, "version %" PRIu64 " behind version %" PRIu64, d->version,
			c->version);
	r->report->versions++;
	rc = settle(r, c, d, rebuild(r, c, d, &content, &momentum));
	c->version = d->version;
	c->published = true;
	c->id = id;
	c->content = content;
	c->momentum = momentum;
	if (say_due(r->say))
		say_progress(r->say, "%" PRIu64 " versions, %" PRIu64 " of them identical",
			r->report->versions, r->report->identical);
	forget(r, tape_u64(l, "round"));
	return rc;
}

static int take_line(struct replay *r, const struct tape_line *l)
{
	int rc = 0;

	if (strcmp(l->kind, "join") == 0)
		rc = take_join(r, l);
	else if (strcmp(l->kind, "merge") == 0)
		rc = take_merge(r, l);
	else if (strcmp(l->kind, "publish") == 0)
		rc = take_publish(r, l);
	else if (strcmp(l->kind, "abandon") == 0)
		forget(r, tape_u64(l, "round"));
	if (rc < 0)
		err_at(rc, "syncer/tape.%" PRIu64 ": line %" PRIu64, l->epoch, l->number);
	return rc;
}

/* ---- all of them ---- */

static int read_tape(struct replay *r, const struct audit *a)
{
	const struct tape_line *l;
	struct tape_reader *t;
	int rc = audit_tape(a, &t);

	while (rc == 0 && (rc = tape_read(t, &l)) > 0) {
		r->report->lines++;
		rc = take_line(r, l);
	}
	if (t)
		r->report->torn = tape_read_torn(t);
	tape_read_close(t);
	say_progress_end(r->say);
	return rc;
}

/* ---- the files that lie there ---- */

/* While the run goes on a version may have been replaced, and removed, since the tape was read. */
static bool superseded(const struct replay *r, unsigned fragment, uint64_t version)
{
	struct audit now;
	bool newer = audit_open(&now, r->conf->manifest, r->conf->user) == 0 && now.headed &&
		now.head.fragment[fragment].version > version;

	audit_close(&now);
	return newer;
}

/* The others are said, the first is the error. */
static void damaged(struct replay *r, const char *what)
{
	if (r->report->damaged++ > 0 || r->report->different > 0)
		say_warn(r->say, "%s", what);
	else
		snprintf(r->report->first, sizeof r->report->first, "%.700s: dl-sync -r RUN makes it again while base "
			"and answers of its merge are there, else bring it back", what);
}

/* Its identity is on the tape, but that of version 0, which the head has while it is the newest. */
static int check_newest(struct replay *r, const struct audit *a, unsigned p)
{
	const struct chain *c = &r->chain[p];
	bool first = !c->published && a->headed && a->head.fragment[p].version == 0;
	const digest *id = c->published ? &c->id : first ? &a->head.fragment[p].id : NULL;
	char what[ERR_TEXT];
	int rc = id ? commit_verify(p, c->version, id, NULL, wake_requested) : 0;

	if (rc == 0 || !blames_file(rc))
		return rc;
	snprintf(what, sizeof what, "%s", err_text());
	if (!superseded(r, p, c->version))
		damaged(r, what);
	return 0;
}

static int check_all_newest(struct replay *r, const struct audit *a)
{
	int rc = 0;

	for (unsigned p = 0; p < r->conf->manifest->fragments && rc == 0; p++)
		rc = check_newest(r, a, p);
	return rc;
}

static int replay_init(struct replay *r)
{
	unsigned n = r->conf->manifest->fragments;

	r->chain = calloc(n, sizeof *r->chain);
	if (!r->chain)
		return err_nomem();
	for (unsigned p = 0; p < n; p++)
		r->chain[p] = (struct chain){ .fd = -1, .outer = OUTER_INIT };
	snprintf(r->key.name, sizeof r->key.name, "replay");
	return sig_generate(&r->key.secret);
}

static void replay_release(struct replay *r)
{
	for (unsigned p = 0; r->chain && p < r->conf->manifest->fragments; p++)
		chain_drop(&r->chain[p]);
	while (r->pendings)
		forget(r, r->pending[0].round);
	free(r->pending);
	free(r->joined);
	free(r->chain);
	key_wipe(&r->key);
}

int replay_run(const struct replay_conf *c, struct replay_report *out, struct say *say)
{
	struct replay r = { .conf = c, .report = out, .say = say };
	struct audit a;
	int rc = audit_open(&a, c->manifest, c->user);

	*out = (struct replay_report){ .lines = 0 };
	if (rc == 0)
		rc = replay_init(&r);
	if (rc == 0)
		rc = read_tape(&r, &a);
	if (rc == 0 && c->newest)
		rc = check_all_newest(&r, &a);
	replay_release(&r);
	audit_close(&a);
	if (rc == 0 && (out->different || out->damaged))
		rc = err_set(ERR_AUTH, "%s", out->first);
	return rc;
}

static int format_json(const struct replay_report *r, struct buf *out)
{
	int rc = buf_fmt(out, "{\"lines\":%" PRIu64 ",\"versions\":%" PRIu64 ",\"identical\":%" PRIu64
		",\"collected\":%" PRIu64 ",\"different\":%" PRIu64 ",\"damaged\":%" PRIu64
		",\"torn\":%s,\"first\":", r->lines, r->versions, r->identical, r->collected, r->different,
		r->damaged, r->torn ? "true" : "false");

	if (rc == 0)
		rc = r->first[0] ? json_text(out, r->first) : buf_str(out, "null");
	return rc == 0 ? buf_str(out, "}\n") : rc;
}

int replay_format(const struct replay_report *r, bool json, struct buf *out)
{
	int rc;

	if (json)
		return format_json(r, out);
	rc = buf_fmt(out, "%" PRIu64 " lines, %" PRIu64 " versions: %" PRIu64 " rebuilt and identical, %" PRIu64
		" not kept, %" PRIu64 " different\n", r->lines, r->versions, r->identical, r->collected,
		r->different);
	if (rc == 0 && r->damaged)
		rc = buf_fmt(out, "%" PRIu64 " of the newest are gone, or not as they were published\n", r->damaged);
	if (rc == 0 && r->first[0])
		rc = buf_fmt(out, "first %s: %s\n", r->different ? "difference" : "of them", r->first);
	return rc;
}
