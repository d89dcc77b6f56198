#include "round/view_tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "round/rundir.h"
#include "round/tape.h"

#define LATELY 64 /* intervals from version to version that the achieved H is the mean of */

struct answer {
	char *learner;
	double tokens, loss;
	bool refused;
};
struct open_round {
	uint64_t round;
	uint64_t epoch;
	double called;
	struct answer *answer;
	size_t n;
};
struct view_tape {
	const char *run;
	const struct fragments *f;
	struct tape_reader *reader;
	struct books *books;
	uint64_t epoch;       /* of the last line */
	double seconds;       /* of the last line */
	bool finishing;
	struct view_tape_learner *learner;
	size_t learners;
	struct open_round *open;
	size_t opens;
	struct view_loss *loss;
	size_t losses, cap;
	uint64_t *last_step;  /* (fragments) of the merge before; 0: none yet */
	double interval[LATELY];
	uint64_t intervals;
	uint64_t lines, merges, refusals, late;
};

/* ---- rounds ---- */

static struct open_round *find_round(const struct view_tape *t, uint64_t round)
{
	for (size_t i = 0; i < t->opens; i++)
		if (t->open[i].round == round)
			return &t->open[i];
	return NULL;
}

static void free_round(struct open_round *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->answer[i].learner);
	free(r->answer);
}

static void close_round(struct view_tape *t, uint64_t round)
{
	struct open_round *r = find_round(t, round);

	if (!r)
		return;
	free_round(r);
	t->opens--;
	memmove(r, r + 1, (t->opens - (size_t)(r - t->open)) * sizeof *r);
}

static int open_round(struct view_tape *t, const struct tape_line *l)
{
	uint64_t round = tape_u64(l, "round");
	struct open_round *v;

	if (find_round(t, round))
		return 0;
	v = realloc(t->open, (t->opens + 1) * sizeof *v);
	if (!v)
		return err_nomem();
	t->open = v;
	v[t->opens++] = (struct open_round){ .round = round, .epoch = l->epoch, .called = l->seconds };
	return 0;
}

static struct answer *find_answer(const struct open_round *r, const char *learner)
{
	for (size_t i = 0; r && i < r->n; i++)
		if (strcmp(r->answer[i].learner, learner) == 0)
			return &r->answer[i];
	return NULL;
}

static int add_answer(struct view_tape *t, const struct tape_line *l)
{
	struct open_round *r = find_round(t, tape_u64(l, "round"));
	struct answer *v;

	if (!r || find_answer(r, tape_text(l, "learner")))
		return 0;
	v = realloc(r->answer, (r->n + 1) * sizeof *v);
	if (!v)
		return err_nomem();
	r->answer = v;
	v[r->n] = (struct answer){ .learner = strdup(tape_text(l, "learner")),
				   .tokens = tape_f64(l, "tokens"), .loss = tape_f64(l, "loss") };
	if (!v[r->n].learner)
		return err_nomem();
	r->n++;
	return 0;
}

static void refuse(struct view_tape *t, const struct tape_line *l)
{
	struct answer *a = find_answer(find_round(t, tape_u64(l, "round")), tape_text(l, "learner"));

	t->refusals++;
	t->late += strcmp(tape_text(l, "verdict"), "late") == 0;
	if (a && strcmp(tape_text(l, "verdict"), "late") != 0)
		a->refused = true;
}

/* ---- merges ---- */

static int add_loss(struct view_tape *t, uint64_t step, const struct open_round *r)
{
	double tokens = 0, sum = 0;

	for (size_t i = 0; i < r->n; i++)
		if (!r->answer[i].refused && r->answer[i].loss > 0) {
			tokens += r->answer[i].tokens;
			sum += r->answer[i].tokens * r->answer[i].loss;
		}
	if (!(tokens > 0))
		return 0;
	if (t->losses == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 256;
		struct view_loss *v = realloc(t->loss, cap * sizeof *v);

		if (!v)
			return err_nomem();
		t->loss = v;
		t->cap = cap;
	}
	t->loss[t->losses++] = (struct view_loss){ step, sum / tokens };
	return 0;
}

/* A decision counts once, also when a syncer that came back carries it out. */
static int merged(struct view_tape *t, const struct tape_line *l)
{
	const struct open_round *r = find_round(t, tape_u64(l, "round"));
	const char *name = tape_text(l, "fragment");
	uint64_t step = tape_u64(l, "step");
	unsigned p;

	if (rundir_fragment_parse(name, &p) == 0 && p < t->f->n) {
		if (t->last_step[p] && step > t->last_step[p] && !t->finishing)
			t->interval[t->intervals++ % LATELY] = (double)(step - t->last_step[p]);
		t->last_step[p] = step;
	}
	return r ? add_loss(t, step, r) : 0;
}

/* ---- learners ---- */

static int compare(const void *name, const void *learner)
{
	return strcmp(name, ((const struct view_tape_learner *)learner)->name);
}

static struct view_tape_learner *find_learner(const struct view_tape *t, const char *name)
{
	if (!t->learners)
		return NULL;
	return bsearch(name, t->learner, t->learners, sizeof *t->learner, compare);
}

static int add_learner(struct view_tape *t, const char *name, struct view_tape_learner **out)
{
	struct view_tape_learner *v;
	size_t at = t->learners;

	*out = find_learner(t, name);
	if (*out)
		return 0;
	if (key_name_check("learner", name) < 0)
		return err_set(ERR_DATA, "syncer/tape: %s", err_text());
	v = realloc(t->learner, (t->learners + 1) * sizeof *v);
	if (!v)
		return err_nomem();
	t->learner = v;
	while (at > 0 && strcmp(v[at - 1].name, name) > 0)
		at--;
	memmove(v + at + 1, v + at, (t->learners - at) * sizeof *v);
	v[at] = (struct view_tape_learner){ .lost_at = -1 };
	snprintf(v[at].name, sizeof v[at].name, "%s", name);
	t->learners++;
	*out = &v[at];
	return 0;
}

static int learner_line(struct view_tape *t, const struct tape_line *l, bool lost)
{
	struct view_tape_learner *v;
	int rc = add_learner(t, tape_text(l, "learner"), &v);

	if (rc < 0)
		return rc;
	v->lost_at = lost ? l->seconds : -1;
	v->silent = lost ? tape_f64(l, "silent") : 0;
	v->lost_epoch = l->epoch;
	return 0;
}

/* ---- reading ---- */

static int take(struct view_tape *t, const struct tape_line *l)
{
	const char *kind = l->kind;

	t->lines = l->number;
	t->epoch = l->epoch;
	t->seconds = l->seconds;
	if (strcmp(kind, "call") == 0)
		return open_round(t, l);
	if (strcmp(kind, "answer") == 0)
		return add_answer(t, l);
	if (strcmp(kind, "merge") == 0)
		return merged(t, l);
	if (strcmp(kind, "join") == 0 || strcmp(kind, "back") == 0 || strcmp(kind, "gone") == 0 ||
	    strcmp(kind, "lost") == 0)
		return learner_line(t, l, strcmp(kind, "lost") == 0);
	if (strcmp(kind, "refuse") == 0)
		refuse(t, l);
	else if (strcmp(kind, "finish") == 0)
		t->finishing = true;
	t->merges += strcmp(kind, "publish") == 0;
	if (strcmp(kind, "publish") == 0 || strcmp(kind, "abandon") == 0)
		close_round(t, tape_u64(l, "round"));
	return 0;
}

static void clear(struct view_tape *t)
{
	for (size_t i = 0; i < t->opens; i++)
		free_round(&t->open[i]);
	free(t->open);
	free(t->learner);
	free(t->loss);
	free(t->last_step);
	books_close(t->books);
	tape_read_close(t->reader);
	*t = (struct view_tape){ .run = t->run, .f = t->f };
}

static int begin(struct view_tape *t, uint64_t epoch)
{
	int rc;

	clear(t);
	t->last_step = calloc(t->f->n + 1, sizeof *t->last_step);
	if (!t->last_step)
		return err_nomem();
	rc = books_open(&t->books, t->f);
	return rc < 0 ? rc : tape_read_open(&t->reader, t->run, epoch);
}

int view_tape_open(struct view_tape **out, const char *run, const struct fragments *f)
{
	struct view_tape *t = calloc(1, sizeof *t);
	int rc;

	*out = NULL;
	if (!t)
		return err_nomem();
	t->run = run;
	t->f = f;
	rc = begin(t, 0);
	if (rc < 0)
		view_tape_close(t);
	else
		*out = t;
	return rc;
}

void view_tape_close(struct view_tape *t)
{
	if (!t)
		return;
	clear(t);
	free(t);
}

static int read_on(struct view_tape *t)
{
	const struct tape_line *l;
	int rc;

	while ((rc = tape_read(t->reader, &l)) > 0) {
		rc = books_line(t->books, l);
		if (rc == 0)
			rc = take(t, l);
		if (rc < 0)
			break;
	}
	return rc;
}

int view_tape_read(struct view_tape *t, uint64_t epoch)
{
	int rc;

	if (!t->reader && (rc = begin(t, epoch)) < 0) /* it could not be begun again */
		return rc;
	tape_read_upto(t->reader, epoch);
	rc = read_on(t);
	if (rc != ERR_AGAIN)
		return rc;
	rc = begin(t, epoch);
	return rc < 0 ? rc : read_on(t);
}

/* ---- what was read ---- */

size_t view_tape_learners(const struct view_tape *t)
{
	return t->learners;
}

const struct view_tape_learner *view_tape_learner(const struct view_tape *t, size_t i)
{
	return &t->learner[i];
}

/* The clock of another epoch began anew: what passed before it is not known. */
static double passed(const struct view_tape *t, uint64_t epoch, double since)
{
	double s = epoch == t->epoch ? t->seconds - since : t->seconds;

	return s > 0 ? s : 0;
}

double view_tape_lost(const struct view_tape *t, const char *learner)
{
	const struct view_tape_learner *l = find_learner(t, learner);

	return l && l->lost_at >= 0 ? l->silent + passed(t, l->lost_epoch, l->lost_at) : -1;
}

bool view_tape_answered(const struct view_tape *t, uint64_t round, const char *learner)
{
	const struct answer *a = find_answer(find_round(t, round), learner);

	return a && !a->refused;
}

uint64_t view_tape_lines(const struct view_tape *t)
{
	return t->lines;
}

double view_tape_open_for(const struct view_tape *t, uint64_t round)
{
	const struct open_round *r = find_round(t, round);

	return r ? passed(t, r->epoch, r->called) : -1;
}

struct books *view_tape_books(struct view_tape *t)
{
	return t->books;
}

void view_tape_report(const struct view_tape *t, struct view *v)
{
	size_t n = t->intervals < LATELY ? (size_t)t->intervals : LATELY;
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += t->interval[i];
	v->loss = t->loss;
	v->losses = t->losses;
	v->tape_lines = t->lines;
	v->merges = t->merges;
	v->refusals = t->refusals;
	v->late = t->late;
	v->achieved = n ? sum / (double)n : 0;
}
