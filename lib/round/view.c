#include "round/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "form/card.h"
#include "io/place.h"
#include "round/rundir.h"
#include "round/tape.h"
#include "round/view_tape.h"

#define LEARNERS_MAX 100000 /* entries of learner/ */
#define LOOK_AGAIN 0.1      /* seconds */

/* Of one whose life is watched. */
struct watch {
	double changed; /* when its counter did, or when it was first read */
	bool seen;      /* to change */
};
struct pulse {
	char name[KEY_NAME + 1];
	struct watch watch;
};
struct view_memory {
	const struct trust *user;
	struct trust syncers, learners;
	uint64_t serial; /* of the manifest those are from */
	struct clock clock;
	double now;
	bool read; /* before */
	uint64_t lines; /* of the tape, */
	double grown;   /* and since when there are as many */
	struct watch head;
	struct pulse *pulse; /* as view.learner */
	struct view_tape *tape;
};

const char *view_life_name(enum view_life life)
{
	static const char *const names[] = { "unknown", "alive", "silent", "gone", "absent" };

	return names[life];
}

/* ---- what is not to be read, and whose seals count ---- */

static void trouble(struct view *v, char *why, size_t cap)
{
	if (v->trouble++ == 0)
		snprintf(v->trouble_why, sizeof v->trouble_why, "%s", err_text());
	if (why)
		snprintf(why, cap, "%s", err_text());
}

static int load_trust(struct view *v)
{
	struct view_memory *m = v->memory;
	int rc;

	if (m->serial == v->manifest.serial)
		return 0;
	trust_release(&m->syncers);
	trust_release(&m->learners);
	m->syncers = m->learners = (struct trust){ 0 };
	rc = manifest_trust(&v->manifest, ROLE_SYNCER, m->user, NULL, &m->syncers);
	if (rc == 0)
		rc = manifest_trust(&v->manifest, ROLE_LEARNER, m->user, NULL, &m->learners);
	if (rc == 0)
		m->serial = v->manifest.serial;
	return rc;
}

/* ---- lives ---- */

static enum view_life judge(const struct view *v, struct watch *w, bool changed, double *silent)
{
	const struct view_memory *m = v->memory;

	if (changed) {
		w->seen = m->read;
		w->changed = m->now;
	}
	*silent = m->now - w->changed;
	if (*silent > v->manifest.lease)
		return VIEW_SILENT;
	return w->seen ? VIEW_ALIVE : VIEW_UNKNOWN;
}

/* ---- the head ---- */

/* A run whose head was removed, or not copied along, has a tape still. */
static bool is_headless(const struct view *v)
{
	uint64_t epoch = 0;

	return !v->head.fragment && v->head_trouble.code == 0 && tape_newest(&epoch) == 0 && epoch > 0;
}

static int read_head(struct view *v)
{
	struct view_memory *m = v->memory;
	struct head head = { 0 };
	int rc = head_load(&head, v->manifest.meta.run, v->manifest.fragments, &m->syncers);
	bool changed = false;

	err_save(&v->head_trouble, rc < 0 ? rc : 0);
	if (rc < 0)
		trouble(v, NULL, 0);
	if (rc > 0 && (!v->head.fragment || head_newer(&head, &v->head))) {
		head_release(&v->head);
		v->head = head;
		head = (struct head){ 0 };
		changed = true;
	}
	head_release(&head);
	v->headless = is_headless(v);
	v->syncer = judge(v, &m->head, changed || !m->read, &v->syncer_silent);
	if (!v->head.fragment)
		v->syncer = rc < 0 ? VIEW_UNKNOWN : VIEW_ABSENT;
	else if (v->head.phase == PHASE_DONE)
		v->syncer = VIEW_GONE;
	return rc == ERR_NOMEM ? rc : 0;
}

/* ---- learners ---- */

static int compare(const void *name, const void *learner)
{
	return strcmp(name, ((const struct view_learner *)learner)->name);
}

static struct view_learner *find(const struct view *v, const char *name)
{
	return v->learners ? bsearch(name, v->learner, v->learners, sizeof *v->learner, compare) : NULL;
}

static int add_learner(struct view *v, const char *name)
{
	struct view_memory *m = v->memory;
	struct view_learner *l = realloc(v->learner, (v->learners + 1) * sizeof *l);
	struct pulse *p;
	size_t at = v->learners;

	if (l)
		v->learner = l;
	p = realloc(m->pulse, (v->learners + 1) * sizeof *p);
	if (p)
		m->pulse = p;
	if (!l || !p)
		return err_nomem();
	while (at > 0 && strcmp(l[at - 1].name, name) > 0)
		at--;
	memmove(l + at + 1, l + at, (v->learners - at) * sizeof *l);
	memmove(p + at + 1, p + at, (v->learners - at) * sizeof *p);
	l[at] = (struct view_learner){ .life = VIEW_ABSENT, .lost = -1 };
	p[at] = (struct pulse){ .watch = { .changed = m->now } };
	snprintf(l[at].name, sizeof l[at].name, "%s", name);
	snprintf(p[at].name, sizeof p[at].name, "%s", name);
	v->learners++;
	return 0;
}

static bool is_name(void *ctx, const char *name)
{
	(void)ctx;
	return key_name_check("learner", name) == 0;
}

/* Whoever has a directory or is on the tape. */
static int find_learners(struct view *v)
{
	char **names = NULL;
	size_t n = 0;
	bool more = false;
	int rc = place_list_dirs(&names, &n, "learner", LEARNERS_MAX, &more, is_name, NULL);

	if (rc < 0)
		trouble(v, NULL, 0);
	rc = rc == ERR_NOMEM ? rc : 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (!find(v, names[i]))
			rc = add_learner(v, names[i]);
	place_list_free(names, n);
	for (size_t i = 0; rc == 0 && i < view_tape_learners(v->memory->tape); i++)
		if (!find(v, view_tape_learner(v->memory->tape, i)->name))
			rc = add_learner(v, view_tape_learner(v->memory->tape, i)->name);
	return rc;
}

static bool newer(const struct beat *a, const struct beat *b)
{
	if (a->incarnation != b->incarnation)
		return a->incarnation > b->incarnation;
	return a->counter > b->counter;
}

static int read_beat(struct view *v, struct view_learner *l, struct beat *beat)
{
	char path[RUNDIR_PATH];
	struct header h = { 0 };
	int rc = card_read(&h, NULL, rundir_beat(path, l->name), &v->memory->learners);

	if (rc == 1 && (rc = beat_read(beat, &h, v->manifest.fragments)) < 0)
		rc = err_at(rc, "%s", path);
	if (rc == 0 && beat->fragment &&
	    (strcmp(beat->run, v->manifest.meta.run) != 0 || strcmp(beat->learner, l->name) != 0))
		rc = err_set(ERR_AUTH, "%s: is of learner '%s' of run %s", path, beat->learner, beat->run);
	header_release(&h);
	return rc;
}

static void describe(const struct view *v, struct view_learner *l)
{
	const struct beat *b = &l->beat;

	l->answered = 0;
	for (unsigned p = 0; p < b->fragments; p++)
		if (b->fragment[p].round > l->answered)
			l->answered = b->fragment[p].round;
	l->stale = v->head.fragment && v->head.step > b->step ? v->head.step - b->step : 0;
	l->rate = l->life == VIEW_ALIVE && b->state == BEAT_RUNNING ? b->tokens_per_s : 0;
}

static int read_learner(struct view *v, size_t i)
{
	struct view_learner *l = &v->learner[i];
	struct watch *w = &v->memory->pulse[i].watch;
	struct beat beat = { .fragments = 0 };
	bool changed = false;
	int rc = read_beat(v, l, &beat);

	l->trouble[0] = '\0';
	if (rc < 0)
		trouble(v, l->trouble, sizeof l->trouble);
	if (rc == 0 && beat.fragment && (!l->beat.fragment || newer(&beat, &l->beat))) {
		changed = true;
		beat_release(&l->beat);
		l->beat = beat;
		beat = (struct beat){ .fragments = 0 };
	}
	beat_release(&beat);
	l->life = judge(v, w, changed, &l->silent);
	l->lost = view_tape_lost(v->memory->tape, l->name);
	if (l->life == VIEW_UNKNOWN && l->lost >= 0)
		l->life = VIEW_SILENT;
	if (!l->beat.fragment)
		l->life = VIEW_ABSENT;
	else if (l->beat.state == BEAT_GONE)
		l->life = VIEW_GONE;
	describe(v, l);
	return rc == ERR_NOMEM ? rc : 0;
}

static int read_learners(struct view *v)
{
	struct books *books = view_tape_books(v->memory->tape);
	int rc = find_learners(v);

	for (size_t i = 0; rc == 0 && i < v->learners; i++)
		rc = read_learner(v, i);
	for (size_t i = 0; rc == 0 && i < v->learners; i++)
		if (v->learner[i].beat.fragment)
			rc = books_beat(books, &v->learner[i].beat);
	for (size_t i = 0; rc == 0 && i < books_learners(books); i++) {
		struct books_learner b;
		struct view_learner *l;

		rc = books_learner(books, i, &b);
		l = rc == 0 ? find(v, b.name) : NULL;
		if (l)
			l->books = b;
	}
	return rc;
}

/* ---- open rounds ---- */

static void free_calls(struct view *v)
{
	for (size_t i = 0; i < v->calls; i++) {
		free(v->call[i].invited);
		free(v->call[i].answered);
	}
	free(v->call);
	v->call = NULL;
	v->calls = 0;
}

static bool has_answered(const struct view *v, const struct head_call *c, const struct view_learner *l)
{
	return (l->beat.fragment && l->beat.fragment[c->fragment].round >= c->round) ||
		view_tape_answered(v->memory->tape, c->round, l->name);
}

static double open_for(const struct view *v, uint64_t round)
{
	double told = view_tape_open_for(v->memory->tape, round);

	return told < 0 ? told : told + v->memory->now - v->memory->grown;
}

static int make_call(struct view *v, const struct head_call *c)
{
	struct view_call *call = &v->call[v->calls++];

	*call = (struct view_call){ .round = c->round, .version = c->version, .fragment = c->fragment,
				    .open = open_for(v, c->round) };
	call->invited = calloc(v->learners + 1, sizeof *call->invited);
	call->answered = calloc(v->learners + 1, sizeof *call->answered);
	if (!call->invited || !call->answered)
		return err_nomem();
	for (size_t i = 0; i < v->learners; i++) {
		call->invited[i] = head_invites(c, v->learner[i].name);
		call->answered[i] = has_answered(v, c, &v->learner[i]);
		call->invitations += call->invited[i];
		call->answers += call->answered[i];
	}
	return 0;
}

static int make_calls(struct view *v)
{
	int rc = 0;

	free_calls(v);
	v->call = calloc(v->head.calls + 1, sizeof *v->call);
	if (!v->call)
		return err_nomem();
	for (size_t i = 0; rc == 0 && i < v->head.calls; i++)
		rc = make_call(v, &v->head.call[i]);
	return rc;
}

/* ---- all together ---- */

/* The head tells of beats that the syncer had read before it merged: those that are there now, and answers, tell
 * more, but not of learners whose directory is gone. */
static double trained(const struct view *v)
{
	double sum = 0;

	for (size_t i = 0; i < v->learners; i++)
		sum += v->learner[i].books.trained;
	return fmax(sum, fmax((double)v->head.trained, (double)v->head.tokens));
}

static void sum_up(struct view *v)
{
	v->tokens_per_s = 0;
	for (size_t i = 0; i < v->learners; i++)
		v->tokens_per_s += v->learner[i].rate;
	v->trained = trained(v);
	v->goodput = v->head.fragment && v->trained > 0 ? (double)v->head.tokens / v->trained : -1;
}

static int read_tape(struct view *v)
{
	struct view_memory *m = v->memory;
	int rc = view_tape_read(m->tape, v->head.fragment ? v->head.epoch : 0);

	if (!m->read || m->lines != view_tape_lines(m->tape))
		m->grown = m->now;
	m->lines = view_tape_lines(m->tape);
	if (rc < 0) {
		v->loss = NULL;
		v->losses = 0;
	}
	return rc;
}

static int read_manifest(struct view *v)
{
	int rc = manifest_refresh(&v->manifest, v->memory->user);

	if (rc < 0)
		trouble(v, NULL, 0);
	return rc == ERR_NOMEM ? rc : load_trust(v);
}

int view_read(struct view *v)
{
	struct view_memory *m = v->memory;
	int rc;

	m->now = clock_now(&m->clock);
	v->room = place_room();
	v->trouble = 0;
	v->trouble_why[0] = '\0';
	rc = read_manifest(v);
	if (rc == 0)
		rc = read_head(v);
	if (rc == 0)
		rc = read_tape(v);
	if (rc == 0)
		rc = read_learners(v);
	if (rc == 0)
		rc = make_calls(v);
	if (rc < 0)
		return rc;
	view_tape_report(m->tape, v);
	sum_up(v);
	m->read = true;
	return 0;
}

int view_open(struct view **out, const struct trust *user, struct clock clock)
{
	struct view *v = calloc(1, sizeof *v);
	struct view_memory *m = calloc(1, sizeof *m);
	int rc = v && m ? 0 : err_nomem();

	*out = NULL;
	if (rc < 0) {
		free(v);
		free(m);
		return rc;
	}
	v->memory = m;
	m->user = user;
	m->clock = clock;
	m->serial = UINT64_MAX;
	rc = manifest_load(&v->manifest, user);
	if (rc == 0)
		rc = fragments_cut(&v->fragments, &v->manifest.layout, v->manifest.fragments);
	if (rc == 0)
		rc = view_tape_open(&m->tape, v->manifest.meta.run, &v->fragments);
	if (rc < 0) {
		view_close(v);
		return rc;
	}
	*out = v;
	return 0;
}

void view_close(struct view *v)
{
	if (!v)
		return;
	free_calls(v);
	for (size_t i = 0; i < v->learners; i++)
		beat_release(&v->learner[i].beat);
	free(v->learner);
	head_release(&v->head);
	view_tape_close(v->memory->tape);
	trust_release(&v->memory->syncers);
	trust_release(&v->memory->learners);
	free(v->memory->pulse);
	free(v->memory);
	fragments_release(&v->fragments);
	manifest_release(&v->manifest);
	free(v);
}

bool view_begun(const struct view *v)
{
	return v->head.fragment || v->head_trouble.code < 0 || v->headless;
}

bool view_over(const struct view *v)
{
	return v->head.fragment && v->head.phase == PHASE_DONE;
}

static bool settled(const struct view *v)
{
	bool known = view_over(v) || v->syncer != VIEW_UNKNOWN;

	for (size_t i = 0; i < v->learners; i++)
		known = known && (view_over(v) || v->learner[i].life != VIEW_UNKNOWN);
	return known;
}

int view_look(struct view *v, double seconds)
{
	const struct timespec pause = { .tv_nsec = (long)(LOOK_AGAIN * 1e9) };
	const struct clock *clock = &v->memory->clock;
	double begin = clock_now(clock);
	int rc;

	while ((rc = view_read(v)) == 0 && !settled(v) && clock_now(clock) - begin < seconds)
		nanosleep(&pause, NULL);
	return rc;
}

bool view_full(const struct view *v)
{
	uint64_t largest = 0;

	for (unsigned i = 0; i < v->fragments.n; i++)
		largest = v->fragments.v[i].elems > largest ? v->fragments.v[i].elems : largest;
	return v->room / sizeof(float) < largest;
}

const char *view_phase_name(const struct view *v)
{
	if (v->head.fragment)
		return phase_name(v->head.phase);
	if (v->head_trouble.code < 0)
		return "unreadable";
	return v->headless ? "no head" : "not begun";
}

size_t view_alive(const struct view *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->learners; i++)
		n += v->learner[i].life == VIEW_ALIVE;
	return n;
}

const struct view_learner *view_learner(const struct view *v, const char *name)
{
	return find(v, name);
}
