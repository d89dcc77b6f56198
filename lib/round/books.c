#include "round/books.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "round/guard.h"
#include "round/rundir.h"

enum fate { FATE_OPEN, FATE_DECIDED, FATE_MERGED, FATE_REFUSED };

/* One file that came as an answer. */
struct entry {
	digest id;
	uint64_t round, incarnation; /* incarnation 0: not told */
	uint64_t tokens, trained;    /* trained 0: not told */
	uint64_t answered; /* its process's count of answered tokens, with these; 0: not told */
	enum fate fate;
	bool counts; /* its tokens are its learner's, and stand nowhere else */
	bool old;    /* refused as one of a process that another had replaced */
	bool stray;  /* of such a one, and what its learner counts now does not know of it */
};
/* What a learner did for one fragment. */
struct account {
	struct entry *v; /* in order of round */
	size_t n, cap;
	bool known;      /* the rest is up to date */
	uint64_t merged, refused, open, stray; /* tokens; strays are among the others */
	char overlap[160];
};
struct learner {
	char name[KEY_NAME + 1];
	struct account *account; /* (fragments) */
	uint64_t accepted, late, refusals;
	char fault[200]; /* the first thing on the tape that does not balance */
	bool beat, revoked;
	uint64_t incarnation, trained;
	struct beat_fragment *own; /* (fragments) of its beat */
};
/* A decision that is not published yet. */
struct decision {
	uint64_t round;
	unsigned fragment;
	char *answers; /* as the tape has them */
};
struct books {
	unsigned fragments;
	double *weight; /* (fragments) sum to 1 */
	struct learner **learner; /* in order of name */
	size_t learners, cap;
	struct decision *decision;
	size_t decisions;
};

int books_open(struct books **out, const struct fragments *f)
{
	struct books *b = calloc(1, sizeof *b);
	double total = 0;

	*out = b;
	if (!b)
		return err_nomem();
	b->fragments = f->n;
	b->weight = calloc(f->n, sizeof *b->weight);
	if (!b->weight) {
		books_close(b);
		*out = NULL;
		return err_nomem();
	}
	for (unsigned p = 0; p < f->n; p++)
		total += (double)f->v[p].elems;
	for (unsigned p = 0; p < f->n; p++)
		b->weight[p] = (double)f->v[p].elems / total;
	return 0;
}

static void learner_free(struct learner *l, unsigned fragments)
{
	for (unsigned p = 0; l->account && p < fragments; p++)
		free(l->account[p].v);
	free(l->account);
	free(l->own);
	free(l);
}

void books_close(struct books *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->learners; i++)
		learner_free(b->learner[i], b->fragments);
	for (size_t i = 0; i < b->decisions; i++)
		free(b->decision[i].answers);
	free(b->learner);
	free(b->decision);
	free(b->weight);
	free(b);
}

/* ---- learners and accounts ---- */

static struct learner *learner_new(const struct books *b, const char *name)
{
	struct learner *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	memcpy(l->name, name, strlen(name) + 1);
	l->account = calloc(b->fragments, sizeof *l->account);
	l->own = calloc(b->fragments, sizeof *l->own);
	if (!l->account || !l->own) {
		learner_free(l, b->fragments);
		return NULL;
	}
	return l;
}

/* Where it stands, or would. */
static size_t place_of(const struct books *b, const char *name, bool *there)
{
	size_t low = 0, high = b->learners;

	*there = false;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(b->learner[mid]->name, name);

		if (order == 0) {
			*there = true;
			return mid;
		}
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int find_learner(struct books *b, const char *name, struct learner **out)
{
	bool there;
	size_t at = place_of(b, name, &there);

	if (!there && key_name_check("learner", name) < 0)
		return ERR_DATA;
	if (!there && b->learners == b->cap) {
		size_t cap = b->cap ? 2 * b->cap : 16;
		struct learner **more = realloc(b->learner, cap * sizeof *more);

		if (!more)
			return err_nomem();
		b->learner = more;
		b->cap = cap;
	}
	if (!there) {
		struct learner *l = learner_new(b, name);

		if (!l)
			return err_nomem();
		memmove(b->learner + at + 1, b->learner + at, (b->learners - at) * sizeof l);
		b->learner[at] = l;
		b->learners++;
	}
	*out = b->learner[at];
	return 0;
}

static __attribute__((format(printf, 2, 3))) void fault(struct learner *l, const char *fmt, ...)
{
	va_list ap;

	if (l->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(l->fault, sizeof l->fault, fmt, ap);
	va_end(ap);
}

/* The first entry of a round, or where it would be. */
static size_t first_of(const struct account *a, uint64_t round)
{
	size_t low = 0, high = a->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (a->v[mid].round < round)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct entry *find_entry(const struct account *a, uint64_t round, const digest *id)
{
	for (size_t i = first_of(a, round); i < a->n && a->v[i].round == round; i++)
		if (memcmp(&a->v[i].id, id, sizeof *id) == 0)
			return &a->v[i];
	return NULL;
}

/* Found or added; valid until the next. */
static struct entry *make_entry(struct account *a, uint64_t round, const digest *id)
{
	struct entry *e = find_entry(a, round, id);
	size_t at = first_of(a, round);

	a->known = false;
	if (e)
		return e;
	if (a->n == a->cap) {
		size_t cap = a->cap ? 2 * a->cap : 16;
		struct entry *more = realloc(a->v, cap * sizeof *more);

		if (!more)
			return NULL;
		a->v = more;
		a->cap = cap;
	}
	memmove(a->v + at + 1, a->v + at, (a->n - at) * sizeof *e);
	a->v[at] = (struct entry){ .id = *id, .round = round, .counts = true };
	a->n++;
	return &a->v[at];
}

/* ---- lines ---- */

static int fragment_of(const struct books *b, const struct tape_line *l, unsigned *p)
{
	int rc = rundir_fragment_parse(tape_text(l, "fragment"), p);

	if (rc == 0 && *p >= b->fragments)
		rc = err_set(ERR_DATA, "fragment %u, where there are %u", *p, b->fragments);
	return rc;
}

static int entry_of(struct books *b, const struct tape_line *l, struct learner **who, struct entry **e)
{
	unsigned p;
	digest id = { { 0 } };
	int rc = fragment_of(b, l, &p);

	if (rc == 0)
		rc = find_learner(b, tape_text(l, "learner"), who);
	if (rc == 0 && tape_text(l, "id")[0])
		rc = tape_id(l, "id", &id);
	if (rc < 0)
		return rc;
	*e = make_entry(&(*who)->account[p], tape_u64(l, "round"), &id);
	return *e ? 0 : err_nomem();
}

static int take_answer(struct books *b, const struct tape_line *l)
{
	struct learner *who;
	struct entry *e;
	int rc = entry_of(b, l, &who, &e);

	if (rc < 0)
		return rc;
	e->incarnation = tape_u64(l, "incarnation");
	e->tokens = tape_u64(l, "tokens");
	e->trained = tape_u64(l, "trained");
	e->answered = tape_u64(l, "answered");
	if (e->tokens > e->trained)
		fault(who, "answer to round %" PRIu64 " has %" PRIu64 " tokens of %" PRIu64 " trained",
			e->round, e->tokens, e->trained);
	return 0;
}

/* Does a refusal for this reason leave the tokens to be the learner's, and only here? */
static bool verdict_counts(const char *verdict)
{
	static const enum verdict not[] = { VERDICT_UNREADABLE, VERDICT_NOT_AUTHENTIC, VERDICT_NOT_DELTA,
		VERDICT_OTHER_RUN, VERDICT_OTHER_LAYOUT, VERDICT_NOT_ITS_NAME, VERDICT_DUPLICATE,
		VERDICT_OVERLAP };

	for (size_t i = 0; i < sizeof not / sizeof not[0]; i++)
		if (strcmp(verdict, verdict_name(not[i])) == 0)
			return false;
	return true;
}

static int take_refusal(struct books *b, const struct tape_line *l)
{
	const char *verdict = tape_text(l, "verdict");
	const bool abandoned = strcmp(verdict, verdict_name(VERDICT_ABANDONED)) == 0; /* its decision is, too */
	struct learner *who;
	struct entry *e;
	int rc = entry_of(b, l, &who, &e);

	if (rc < 0)
		return rc;
	if (strcmp(verdict, verdict_name(VERDICT_LATE)) == 0)
		who->late++;
	else
		who->refusals++;
	if (e->fate == FATE_MERGED || (e->fate == FATE_DECIDED && !abandoned))
		fault(who, "answer to round %" PRIu64 " was refused after it was accepted", e->round);
	else
		e->fate = FATE_REFUSED;
	e->counts = verdict_counts(verdict);
	e->old = strcmp(verdict, verdict_name(VERDICT_OLD_INCARNATION)) == 0;
	if (e->trained) /* a line `answer` told of it */
		return 0;
	e->tokens = tape_u64(l, "tokens");
	e->incarnation = tape_u64(l, "incarnation");
	e->trained = tape_u64(l, "trained");
	if (e->counts || strcmp(verdict, verdict_name(VERDICT_OVERLAP)) == 0) /* its learner's word */
		e->answered = tape_u64(l, "answered");
	return 0;
}

/* Each answer of a decision gets this fate. */
static int settle(struct books *b, const struct decision *d, enum fate fate)
{
	const char *at = d->answers;
	struct tape_answer a;
	int rc;

	while ((rc = tape_answer_next(&a, &at)) > 0) {
		struct learner *who;
		struct account *account;
		struct entry *e;

		if ((rc = find_learner(b, a.learner, &who)) < 0)
			return rc;
		account = &who->account[d->fragment];
		e = find_entry(account, d->round, &a.id);
		account->known = false;
		if (!e) {
			fault(who, "an answer to round %" PRIu64 " was merged that the tape does not know",
				d->round);
			continue;
		}
		if (fate == FATE_DECIDED && e->fate == FATE_MERGED)
			fault(who, "answer to round %" PRIu64 " was merged twice", d->round);
		if (fate == FATE_DECIDED && e->fate == FATE_REFUSED)
			fault(who, "answer to round %" PRIu64 " was merged though it was refused", d->round);
		who->accepted += fate == FATE_MERGED;
		e->fate = fate;
	}
	return rc;
}

static void forget(struct books *b, size_t i)
{
	free(b->decision[i].answers);
	b->decision[i] = b->decision[--b->decisions];
}

static size_t decision_of(const struct books *b, uint64_t round)
{
	size_t i = 0;

	while (i < b->decisions && b->decision[i].round != round)
		i++;
	return i;
}

static int take_merge(struct books *b, const struct tape_line *l)
{
	struct decision d = { .round = tape_u64(l, "round") }, *more;
	int rc = fragment_of(b, l, &d.fragment);

	if (rc < 0)
		return rc;
	if (decision_of(b, d.round) < b->decisions)
		return err_set(ERR_DATA, "round %" PRIu64 " is decided twice", d.round);
	more = realloc(b->decision, (b->decisions + 1) * sizeof *more);
	if (more)
		b->decision = more;
	d.answers = strdup(tape_text(l, "answers"));
	if (!more || !d.answers) {
		free(d.answers);
		return err_nomem();
	}
	b->decision[b->decisions++] = d;
	return settle(b, &d, FATE_DECIDED);
}

static int end_decision(struct books *b, const struct tape_line *l, enum fate fate)
{
	uint64_t round = tape_u64(l, "round");
	size_t i = decision_of(b, round);
	int rc;

	if (i == b->decisions && fate == FATE_REFUSED)
		return 0; /* a call that was given up */
	if (i == b->decisions)
		return err_set(ERR_DATA, "round %" PRIu64 " is published and was not decided", round);
	rc = settle(b, &b->decision[i], fate);
	forget(b, i);
	return rc;
}

static int take_learner(struct books *b, const struct tape_line *l)
{
	struct learner *who;

	return find_learner(b, tape_text(l, "learner"), &who);
}

int books_line(struct books *b, const struct tape_line *l)
{
	int rc = 0;

	if (strcmp(l->kind, "join") == 0)
		rc = take_learner(b, l);
	else if (strcmp(l->kind, "answer") == 0)
		rc = take_answer(b, l);
	else if (strcmp(l->kind, "refuse") == 0)
		rc = take_refusal(b, l);
	else if (strcmp(l->kind, "merge") == 0)
		rc = take_merge(b, l);
	else if (strcmp(l->kind, "publish") == 0)
		rc = end_decision(b, l, FATE_MERGED);
	else if (strcmp(l->kind, "abandon") == 0)
		rc = end_decision(b, l, FATE_REFUSED);
	if (rc < 0)
		err_at(rc, "syncer/tape.%" PRIu64 ": line %" PRIu64, l->epoch, l->number);
	return rc;
}

int books_beat(struct books *b, const struct beat *beat)
{
	struct learner *l;
	int rc;

	if (beat->fragments != b->fragments)
		return err_set(ERR_DATA, "beat of %u fragments, where there are %u", beat->fragments,
			b->fragments);
	if ((rc = find_learner(b, beat->learner, &l)) < 0)
		return rc;
	l->beat = true;
	l->incarnation = beat->incarnation;
	l->trained = beat->trained;
	memcpy(l->own, beat->fragment, b->fragments * sizeof *l->own);
	for (unsigned p = 0; p < b->fragments; p++)
		l->account[p].known = false;
	return 0;
}

int books_revoke(struct books *b, const char *learner)
{
	struct learner *l;
	int rc = find_learner(b, learner, &l);

	if (rc == 0)
		l->revoked = true;
	return rc;
}

/* ---- sums ---- */

static int newest_process_first(const void *a, const void *b)
{
	const struct entry *x = *(const struct entry *const *)a, *y = *(const struct entry *const *)b;

	return (x->incarnation < y->incarnation) - (x->incarnation > y->incarnation);
}

/*
 * A process that is replaced may send an answer while its successor, which has looked for answers already, starts.
 * The successor counts on from the answers that it knows: what ends beyond where the first of a later process begins,
 * or beyond its beat while there is none, is not among them.
 */
static int find_strays(struct learner *l, unsigned p)
{
	struct account *a = &l->account[p];
	struct entry **v = malloc((a->n + 1) * sizeof *v);
	uint64_t process = 0, known = UINT64_MAX, least = UINT64_MAX; /* least: with the answers of this process */

	if (!v)
		return err_nomem();
	for (size_t i = 0; i < a->n; i++)
		v[i] = &a->v[i];
	qsort(v, a->n, sizeof *v, newest_process_first);
	if (a->n && l->beat && v[0]->incarnation < l->incarnation)
		least = l->own[p].answered;
	for (size_t i = 0; i < a->n; i++) {
		struct entry *e = v[i];
		bool told = e->answered && e->answered >= e->tokens;

		if (i == 0 || e->incarnation != process)
			known = least;
		process = e->incarnation;
		e->stray = e->old || (told && e->answered > known);
		if (told && e->answered - e->tokens < least)
			least = e->answered - e->tokens;
	}
	free(v);
	return 0;
}

static int by_end(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->trained != y->trained)
		return x->trained < y->trained ? -1 : 1;
	return (x->round > y->round) - (x->round < y->round);
}

/* Two that have a token in common. Those of strays are of another count. */
static int find_overlap(struct account *a)
{
	struct entry *v = malloc((a->n + 1) * sizeof *v);
	size_t n = 0;

	if (!v)
		return err_nomem();
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].counts && !a->v[i].stray && a->v[i].trained && a->v[i].tokens)
			v[n++] = a->v[i];
	qsort(v, n, sizeof *v, by_end);
	a->overlap[0] = '\0';
	for (size_t i = 1; i < n; i++)
		if (v[i].trained - v[i].tokens < v[i - 1].trained) {
			snprintf(a->overlap, sizeof a->overlap, "answers to rounds %" PRIu64 " and %" PRIu64
				" have tokens in common", v[i - 1].round, v[i].round);
			break;
		}
	free(v);
	return 0;
}

static int sum_account(struct learner *l, unsigned p)
{
	struct account *a = &l->account[p];
	int rc;

	if (a->known)
		return 0;
	if ((rc = find_strays(l, p)) < 0)
		return rc;
	a->merged = a->refused = a->open = a->stray = 0;
	for (size_t i = 0; i < a->n; i++) {
		const struct entry *e = &a->v[i];

		if (!e->counts)
			continue;
		if (e->fate == FATE_MERGED)
			a->merged += e->tokens;
		else if (e->fate == FATE_REFUSED)
			a->refused += e->tokens;
		else
			a->open += e->tokens;
		if (e->stray)
			a->stray += e->tokens;
	}
	a->known = true;
	return find_overlap(a);
}

/* What it answered after its beat; *trained: what it had trained by then, if more. */
static uint64_t younger(const struct learner *l, unsigned p, uint64_t *trained)
{
	const struct account *a = &l->account[p];
	uint64_t tokens = 0;

	for (size_t i = a->n; i > 0 && a->v[i - 1].round > l->own[p].round; i--) {
		const struct entry *e = &a->v[i - 1];

		if (!e->counts || e->stray || (e->incarnation && e->incarnation < l->incarnation))
			continue;
		tokens += e->tokens;
		if (e->trained > *trained)
			*trained = e->trained;
	}
	return tokens;
}

/* The least it must have trained, by its answers. */
static uint64_t answered_at_least(const struct learner *l, unsigned fragments)
{
	uint64_t most = 0;

	for (unsigned p = 0; p < fragments; p++) {
		const struct account *a = &l->account[p];

		if (a->merged + a->refused + a->open > most)
			most = a->merged + a->refused + a->open;
	}
	return most;
}

/* The largest count that any of its answers tells. */
static uint64_t farthest(const struct learner *l, unsigned fragments)
{
	uint64_t most = 0;

	for (unsigned p = 0; p < fragments; p++)
		for (size_t i = 0; i < l->account[p].n; i++)
			if (l->account[p].v[i].counts && !l->account[p].v[i].stray &&
				l->account[p].v[i].trained > most)
				most = l->account[p].v[i].trained;
	return most;
}

static __attribute__((format(printf, 3, 4))) void unbalance(
	struct books_learner *out, unsigned p, const char *fmt, ...)
{
	char name[5];
	size_t n;
	va_list ap;

	if (!out->balanced)
		return;
	out->balanced = false;
	n = (size_t)snprintf(out->why, sizeof out->why, "%s: ", rundir_fragment_name(name, p));
	va_start(ap, fmt);
	vsnprintf(out->why + n, sizeof out->why - n, fmt, ap);
	va_end(ap);
}

/* trained, answered: by its own count, to which strays are added as far as it lacks them. */
static void add_account(struct books_learner *out, const struct learner *l, unsigned p, double weight,
	uint64_t trained, uint64_t answered)
{
	const struct account *a = &l->account[p];
	uint64_t told = a->merged + a->refused + a->open, lost = l->own[p].lost;
	uint64_t judged = a->merged + a->refused, stray = told > answered ? told - answered : 0;

	if (stray > a->stray)
		stray = a->stray;
	trained += stray;
	answered += stray;
	out->trained += weight * (double)stray;
	if (a->overlap[0])
		unbalance(out, p, "%s", a->overlap);
	if (told > answered)
		unbalance(out, p, "the tape has answers of %" PRIu64 " tokens, it answered %" PRIu64, told,
			answered);
	if (answered + lost > trained)
		unbalance(out, p, "answered %" PRIu64 " and lost %" PRIu64 " of %" PRIu64
			" trained tokens", answered, lost, trained);
	out->merged += weight * (double)a->merged;
	out->refused += weight * (double)a->refused;
	out->open += weight * (double)(answered > judged ? answered - judged : 0);
	out->lost += weight * (double)lost;
	out->under_way += weight * (double)(trained > answered + lost ? trained - answered - lost : 0);
	out->answers += a->n;
}

int books_learner(const struct books *b, size_t i, struct books_learner *out)
{
	struct learner *l = b->learner[i];
	uint64_t trained = l->trained, far;

	*out = (struct books_learner){ .accepted = l->accepted, .late = l->late,
		.refusals = l->refusals, .balanced = true, .revoked = l->revoked };
	memcpy(out->name, l->name, sizeof out->name);
	if (l->fault[0]) {
		out->balanced = false;
		snprintf(out->why, sizeof out->why, "%s", l->fault);
	}
	for (unsigned p = 0; p < b->fragments; p++) {
		int rc = sum_account(l, p);

		if (rc < 0)
			return rc;
		(void)younger(l, p, &trained);
	}
	far = farthest(l, b->fragments);
	if (!l->beat) {
		trained = answered_at_least(l, b->fragments);
		trained = far > trained ? far : trained;
	}
	out->trained = (double)trained;
	for (unsigned p = 0; p < b->fragments; p++) {
		const struct account *a = &l->account[p];
		uint64_t none = 0, answered = a->merged + a->refused + a->open;

		if (l->beat)
			answered = l->own[p].answered + younger(l, p, &none);
		add_account(out, l, p, b->weight[p], trained, answered);
	}
	if (out->balanced && far > trained) {
		out->balanced = false;
		snprintf(out->why, sizeof out->why, "an answer tells of %" PRIu64
			" trained tokens, its beat of %" PRIu64, far, trained);
	}
	if (out->balanced && !l->beat && !l->revoked && out->answers) {
		out->balanced = false;
		snprintf(out->why, sizeof out->why, "there is no beat of it that counts");
	}
	return 0;
}

size_t books_learners(const struct books *b)
{
	return b->learners;
}
