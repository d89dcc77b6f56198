#include "round/policy.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "round/pace.h"

#define NEWEST 0.2     /* share of the newest sample in a moving average */
#define SURPRISE 4     /* a sample counts as no more than this many times what is usual */
#define TOO_LATE 0.75  /* of H, behind a mark: the next mark is skipped as may be needed ... */
#define NO_SOONER 0.25 /* ... to lie this part of H ahead */
#define SHARE 0.75     /* of the pace's share of the slots that a round keeps while a call waits for one */
#define CLOSE 1e-6     /* steps that make no difference: rounding */

enum { INVITED = 1, ANSWERED = 2, REFUSED = 4 }; /* a learner in the open round of a fragment */

struct learner {
	double seen;
	bool alive, idle;
	bool mute; /* let a round of the end pass without an answer: not waited for again */
};
struct round { /* of a fragment: its schedule, and the round that is open for it, if there is one */
	double due;      /* by the clock: when it is to be merged next */
	double merged;   /* by the clock: last time; negative: ago, or never */
	bool ever;       /* merged in this life: `merged` is exact */
	size_t busy;     /* learners alive with steps since the newest base */
	size_t unsure;   /* learners alive that may yet have */
	bool final;      /* the end: merged once more */

	bool open, merging, all, resumed, last; /* last: called at the end */
	bool sampled;    /* its quorum is in the average */
	uint64_t number;
	unsigned redrawn;
	double called, called_steps, quorum, merge_at;
	size_t answers, refused, waiting;
};
struct call { /* the one decided last; round 0: none */
	uint64_t round;
	unsigned fragment;
	bool all, again;
	size_t n;
};

struct policy {
	struct policy_conf c;
	double opened, now, finished;
	bool closing, over;
	uint64_t next_round;

	struct pace pace;
	struct learner *learner;         /* (n) */
	size_t n, room;
	uint64_t *since;                 /* (n, P) */
	unsigned char *flag;             /* (n, P) */
	unsigned *drawn, *list;          /* (room) who may be invited; who is */
	size_t alive;
	double enough_from;              /* since when K are alive */
	double next_expiry;              /* no lease ends before */

	struct round *round;             /* (P) */
	unsigned *open;                  /* (opens) fragments, in order of round */
	size_t opens;
	struct call call;

	double step, quorum, sync;       /* xi */
	double lag;                      /* steps from call to merge */

	double intervals, interval_steps;
	double first_call, open_seconds; /* first_call negative: none */
	double stall_from, stall;
};

/* ---- opening ---- */

static bool sensible(const struct policy_conf *c)
{
	return c->fragments && c->interval && c->interval <= (uint64_t)1 << 53 && c->overlap &&
	       c->quorum && c->grace >= 0 && isfinite(c->grace) && c->lease > 0;
}

/* Where fragment f stands between marks of H: (f + 1) H / P, by the clock. */
static double phase(const struct policy *p, unsigned f)
{
	return (double)p->c.interval * (f + 1.0) / p->c.fragments;
}

int policy_open(struct policy **out, const struct policy_conf *c, uint64_t first_round, double now)
{
	struct policy *p;

	*out = NULL;
	if (!sensible(c) || !first_round || !isfinite(now))
		return err_set(ERR_USAGE, "policy: fragments, interval, overlap, quorum, lease and rounds "
					  "are at least 1");
	if (!(p = calloc(1, sizeof *p)))
		return err_nomem();
	*p = (struct policy){ .c = *c, .opened = now, .now = now, .next_round = first_round,
		.enough_from = now, .next_expiry = HUGE_VAL, .first_call = -1, .stall_from = now,
		.lag = fmin(c->overlap, (double)c->interval) };
	p->round = calloc(c->fragments, sizeof *p->round);
	p->open = calloc(c->fragments, sizeof *p->open);
	if (!p->round || !p->open) {
		policy_close(p);
		return err_nomem();
	}
	for (unsigned f = 0; f < c->fragments; f++)
		p->round[f].due = phase(p, f);
	*out = p;
	return 0;
}

void policy_close(struct policy *p)
{
	if (!p)
		return;
	pace_release(&p->pace);
	free(p->learner);
	free(p->since);
	free(p->flag);
	free(p->drawn);
	free(p->list);
	free(p->round);
	free(p->open);
	free(p);
}

static int resize(void *array, size_t n, size_t bytes)
{
	void **v = array, *more = realloc(*v, n * bytes);

	if (!more)
		return err_nomem();
	*v = more;
	return 0;
}

static int make_room(struct policy *p, size_t n)
{
	size_t room = p->room ? p->room : 8, P = p->c.fragments;
	int rc;

	while (room < n)
		room *= 2;
	if (room == p->room)
		return 0;
	if ((rc = resize(&p->learner, room, sizeof *p->learner)) < 0 ||
		(rc = resize(&p->since, room, P * sizeof *p->since)) < 0 ||
		(rc = resize(&p->flag, room, P * sizeof *p->flag)) < 0 ||
		(rc = resize(&p->drawn, room, sizeof *p->drawn)) < 0 ||
		(rc = resize(&p->list, room, sizeof *p->list)) < 0)
		return rc;
	p->room = room;
	return 0;
}

/* Learner i is known from now on. */
static int know(struct policy *p, unsigned i)
{
	const size_t P = p->c.fragments;
	int rc;

	if (i < p->n)
		return 0;
	if ((rc = make_room(p, (size_t)i + 1)) < 0 || (rc = pace_grow(&p->pace, (size_t)i + 1)) < 0)
		return rc;
	for (; p->n <= i; p->n++) {
		p->learner[p->n] = (struct learner){ 0 };
		memset(p->since + p->n * P, 0, P * sizeof *p->since);
		memset(p->flag + p->n * P, 0, P);
	}
	return 0;
}

/* ---- who is waited for: sums over learners, kept up to date as each changes ---- */

static bool waited_for(const struct policy *p, size_t i, unsigned f)
{
	const struct learner *l = &p->learner[i];
	const struct round *r = &p->round[f];
	const size_t at = i * p->c.fragments + f;
	const unsigned flag = p->flag[at];

	return r->open && l->alive && !l->mute && (r->all || flag & INVITED) &&
	       !(flag & (ANSWERED | REFUSED)) && !(l->idle && p->since[at] == 0);
}

static void add(size_t *sum, bool one, int sign)
{
	if (one)
		*sum = sign > 0 ? *sum + 1 : *sum - 1;
}

/* Takes learner i out of all sums (sign -1), to change it and put it back (+1). */
static void account(struct policy *p, size_t i, int sign)
{
	const struct learner *l = &p->learner[i];
	const uint64_t *since = p->since + i * p->c.fragments;

	if (!l->alive || l->mute)
		return;
	for (unsigned f = 0; f < p->c.fragments; f++) {
		bool has = since[f] && since[f] != POLICY_OLD_BASE;

		add(&p->round[f].busy, has, sign);
		add(&p->round[f].unsure, !has && (!l->idle || since[f]), sign);
		add(&p->round[f].waiting, waited_for(p, i, f), sign);
	}
}

/* After the round of f has opened, ended, or taken in more learners. */
static void count_waiting(struct policy *p, unsigned f)
{
	p->round[f].waiting = 0;
	for (size_t i = 0; i < p->n; i++)
		p->round[f].waiting += waited_for(p, i, f);
}

/* ---- time ---- */

static void stall_until(struct policy *p, double t)
{
	if (p->alive >= p->c.quorum && !p->closing)
		p->stall = fmax(p->stall, t - p->stall_from);
}

static void set_alive(struct policy *p, size_t i, bool alive)
{
	if (p->learner[i].alive == alive)
		return;
	account(p, i, -1);
	p->learner[i].alive = alive;
	p->learner[i].mute = false;
	account(p, i, 1);
	p->alive = alive ? p->alive + 1 : p->alive - 1;
	if (!alive)
		pace_drop(&p->pace, i);
	else if (p->alive == p->c.quorum)
		p->enough_from = p->stall_from = p->now;
}

/* When the lease of the one ended with whom K were alive. */
static double quorum_ended(struct policy *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->learner[i].alive)
			p->pace.scratch[n++] = p->learner[i].seen + p->c.lease;
	return pace_select(p->pace.scratch, n, n - p->c.quorum);
}

static void expire(struct policy *p)
{
	if (p->alive >= p->c.quorum)
		stall_until(p, fmin(p->now, quorum_ended(p)));
	p->next_expiry = HUGE_VAL;
	for (size_t i = 0; i < p->n; i++) {
		struct learner *l = &p->learner[i];

		if (l->alive && l->seen + p->c.lease <= p->now)
			set_alive(p, i, false);
		else if (l->alive)
			p->next_expiry = fmin(p->next_expiry, l->seen + p->c.lease);
	}
}

static void advance(struct policy *p, double now)
{
	if (!(now > p->now))
		return;
	if (p->first_call >= 0)
		p->open_seconds += (double)p->opens * (now - p->now);
	p->now = now;
	if (p->alive && now >= p->next_expiry)
		expire(p);
	stall_until(p, now);
}

/* The clock comes to now. */
static void go(struct policy *p)
{
	pace_go(&p->pace, p->now, fmax((double)p->c.interval, 16));
	if (p->step <= 0)
		p->step = p->pace.step_seconds;
}

static void average(double *x, double sample)
{
	*x = *x > 0 ? *x + NEWEST * (sample - *x) : sample;
}

/* ---- events ---- */

int policy_beat(struct policy *p, double now, const struct policy_beat *b)
{
	const size_t P = p->c.fragments;
	struct learner *l;
	int rc;

	if ((rc = know(p, b->learner)) < 0)
		return rc;
	advance(p, now);
	set_alive(p, b->learner, !b->gone);
	l = &p->learner[b->learner];
	account(p, b->learner, -1);
	l->seen = p->now;
	l->idle = b->idle;
	memcpy(p->since + b->learner * P, b->since, P * sizeof *b->since);
	account(p, b->learner, 1);
	if (l->alive)
		p->next_expiry = fmin(p->next_expiry, p->now + p->c.lease);
	pace_beat(&p->pace, p->now, b->learner, b->steps, b->step_seconds, l->alive && !l->idle);
	return 0;
}

static struct round *find(const struct policy *p, uint64_t round)
{
	for (size_t i = 0; i < p->opens; i++)
		if (p->round[p->open[i]].number == round)
			return &p->round[p->open[i]];
	return NULL;
}

static unsigned fragment_of(const struct policy *p, const struct round *r)
{
	return (unsigned)(r - p->round);
}

/* Whether it has its quorum, after answers or K have changed. */
static void look_for_quorum(struct policy *p, struct round *r)
{
	if (r->answers < p->c.quorum)
		r->quorum = r->merge_at = -1;
	else if (r->quorum < 0)
		r->quorum = p->now;
}

int policy_answer(struct policy *p, double now, uint64_t round, unsigned learner)
{
	struct round *r;
	unsigned char *flag;
	int rc;

	if ((rc = know(p, learner)) < 0)
		return rc;
	advance(p, now);
	if (!(r = find(p, round)) || r->merging)
		return 0;
	flag = &p->flag[(size_t)learner * p->c.fragments + fragment_of(p, r)];
	if (*flag & (ANSWERED | REFUSED) || !(r->all || *flag & INVITED))
		return 0;
	r->waiting -= waited_for(p, learner, fragment_of(p, r));
	*flag |= ANSWERED;
	r->answers++;
	look_for_quorum(p, r);
	return 1;
}

bool policy_refused(struct policy *p, double now, uint64_t round, unsigned learner)
{
	struct round *r = find(p, round);
	unsigned char *flag;

	advance(p, now);
	if (!r || learner >= p->n)
		return false;
	flag = &p->flag[(size_t)learner * p->c.fragments + fragment_of(p, r)];
	r->waiting -= waited_for(p, learner, fragment_of(p, r));
	r->answers -= *flag & ANSWERED ? 1 : 0;
	r->refused += *flag & REFUSED ? 0 : 1;
	*flag = (unsigned char)((*flag | REFUSED) & ~ANSWERED);
	if (r->answers >= p->c.quorum || (p->closing && r->answers))
		return true;
	look_for_quorum(p, r);
	r->merging = false;
	return false;
}

void policy_finish(struct policy *p, double now)
{
	advance(p, now);
	if (p->closing)
		return;
	p->closing = true;
	p->finished = p->now;
}

void policy_reconf(struct policy *p, const struct policy_conf *c)
{
	struct policy_conf want = *c;

	want.fragments = p->c.fragments;
	want.once = p->c.once;
	if (!sensible(&want))
		return;
	p->c = want;
	p->next_expiry = p->now; /* the lease may be another */
	p->lag = fmin(p->lag, (double)want.interval);
	for (unsigned f = 0; f < want.fragments; f++) {
		p->round[f].due = fmin(p->round[f].due, p->pace.steps + (double)want.interval);
		if (p->round[f].open)
			look_for_quorum(p, &p->round[f]);
	}
}

/* ---- rounds ---- */

static void open_round(struct policy *p, unsigned f, uint64_t number, bool all)
{
	struct round *r = &p->round[f];
	size_t at = p->opens++;

	for (size_t i = 0; i < p->n; i++)
		p->flag[i * p->c.fragments + f] = 0;
	*r = (struct round){ .due = r->due, .merged = r->merged, .ever = r->ever, .busy = r->busy,
		.unsure = r->unsure, .final = r->final, .open = true, .all = all, .last = p->closing,
		.number = number, .called = p->now, .called_steps = p->pace.steps, .quorum = -1,
		.merge_at = -1 };
	for (; at > 0 && p->round[p->open[at - 1]].number > number; at--)
		p->open[at] = p->open[at - 1];
	p->open[at] = f;
	if (number >= p->next_round)
		p->next_round = number + 1;
	if (p->first_call < 0)
		p->first_call = p->now;
}

static void invite(struct policy *p, unsigned f, const unsigned *invited, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p->flag[invited[i] * (size_t)p->c.fragments + f] |= INVITED;
	count_waiting(p, f);
}

static void close_round(struct policy *p, struct round *r)
{
	size_t at = 0;

	while (p->open[at] != fragment_of(p, r))
		at++;
	memmove(p->open + at, p->open + at + 1, (--p->opens - at) * sizeof *p->open);
	r->final = r->last;
	r->open = r->merging = false;
	r->waiting = 0;
}

/* The mark for the next merge of a fragment: H on, or where the clock has passed that, the first that
 * leaves the learners some time. */
static void next_due(struct policy *p, struct round *r)
{
	const double H = (double)p->c.interval, from = phase(p, fragment_of(p, r));
	const double want = p->pace.steps - r->due > TOO_LATE * H
		? ceil((p->pace.steps + NO_SOONER * H - from) / H)
		: floor((r->due + H - from) / H + 0.5);

	r->due = from + want * H;
}

int policy_called(struct policy *p, double now, uint64_t round)
{
	const struct call call = p->call;

	advance(p, now);
	p->call.round = 0;
	if (!round || round != call.round)
		return err_set(ERR_DATA, "round %" PRIu64 " was not to be called", round);
	if (p->step > 0 && p->pace.step_seconds > 0)
		average(&p->step, p->pace.step_seconds);
	if (call.again) {
		p->round[call.fragment].redrawn++;
	} else {
		go(p);
		open_round(p, call.fragment, round, call.all);
	}
	invite(p, call.fragment, p->list, call.n);
	return 0;
}

int policy_resume(struct policy *p, double now, uint64_t round, unsigned fragment,
	const unsigned *invited, size_t n)
{
	int rc;

	if (fragment >= p->c.fragments || !round || p->round[fragment].open || find(p, round))
		return err_set(ERR_DATA, "round %" PRIu64 " for fragment %u can't be open", round, fragment);
	for (size_t i = 0; invited && i < n; i++)
		if ((rc = know(p, invited[i])) < 0)
			return rc;
	advance(p, now);
	open_round(p, fragment, round, !invited);
	p->round[fragment].resumed = true;
	invite(p, fragment, invited, invited ? n : 0);
	return 0;
}

static void old_base(struct policy *p, unsigned f)
{
	for (size_t i = 0; i < p->n; i++) {
		account(p, i, -1);
		p->since[i * p->c.fragments + f] = POLICY_OLD_BASE;
		account(p, i, 1);
	}
}

void policy_merged(struct policy *p, double now, uint64_t round, double seconds)
{
	struct round *r = find(p, round);

	advance(p, now);
	if (!r)
		return;
	go(p);
	stall_until(p, p->now);
	p->stall_from = p->now;
	if (r->ever) {
		p->interval_steps += p->pace.steps - r->merged;
		p->intervals++;
	}
	if (!r->resumed)
		p->lag += NEWEST * (fmin(p->pace.steps - r->called_steps, (double)p->c.interval) - p->lag);
	if (isfinite(seconds) && seconds >= 0)
		average(&p->sync, seconds);
	r->merged = p->pace.steps;
	r->ever = true;
	next_due(p, r);
	close_round(p, r);
	old_base(p, fragment_of(p, r));
}

void policy_abandoned(struct policy *p, double now, uint64_t round)
{
	struct round *r = find(p, round);

	advance(p, now);
	if (!r)
		return;
	go(p);
	r->due = fmax(r->due, p->pace.steps);
	next_due(p, r);
	close_round(p, r);
}

void policy_history(struct policy *p, unsigned fragment, double ago)
{
	if (fragment >= p->c.fragments || !isfinite(ago))
		return;
	p->round[fragment].merged = p->pace.steps - ago;
	p->round[fragment].due = p->round[fragment].merged + (double)p->c.interval;
}

void policy_recall(struct policy *p, const struct policy_times *t)
{
	p->step = isfinite(t->step) ? fmax(t->step, 0) : 0;
	p->quorum = isfinite(t->quorum) ? fmax(t->quorum, 0) : 0;
	p->sync = isfinite(t->sync) ? fmax(t->sync, 0) : 0;
}

/* ---- when to merge ---- */

static void average_quorum(struct policy *p, struct round *r)
{
	double sample = fmax(0, r->quorum - fmax(r->called, p->enough_from));
	double usual = fmax(p->quorum, p->c.overlap * p->step);

	if (!r->sampled && !r->resumed)
		average(&p->quorum, usual > 0 ? fmin(sample, SURPRISE * usual) : sample);
	r->sampled = true;
}

static void give_grace(struct policy *p, struct round *r)
{
	struct policy_times t;

	if (r->quorum < 0 || r->merge_at >= 0)
		return;
	average_quorum(p, r);
	policy_times(p, &t);
	r->merge_at = r->quorum + (p->c.once ? 0 : t.window);
}

/* When a round that has its quorum may be ended for a call that waits: see the header. */
static double share_ends(const struct policy *p, const struct round *r)
{
	double steps = SHARE * p->c.overlap * (double)p->c.interval / p->c.fragments;

	return r->called + steps * p->step - p->sync;
}

static bool is_due(const struct policy *p, const struct round *r)
{
	return !r->open && p->pace.steps + CLOSE >= r->due - p->lag;
}

/* The fragment to call next: of those that are due the one that is longest, or P. */
static unsigned most_due(const struct policy *p)
{
	unsigned best = p->c.fragments;

	for (unsigned f = 0; f < p->c.fragments; f++)
		if (is_due(p, &p->round[f]) && (best == p->c.fragments || p->round[f].due < p->round[best].due))
			best = f;
	return best;
}

/* All slots are taken, and a call waits for one. */
static bool starved(const struct policy *p)
{
	if (p->c.once || p->opens < p->c.overlap || p->alive < p->c.quorum)
		return false;
	for (size_t i = 0; i < p->opens; i++)
		if (p->round[p->open[i]].merging)
			return false; /* one will be free soon */
	return most_due(p) < p->c.fragments;
}

static struct round *to_merge(struct policy *p)
{
	bool tight = starved(p);

	for (size_t i = 0; i < p->opens; i++) {
		struct round *r = &p->round[p->open[i]];

		if (r->merging || r->quorum < 0)
			continue;
		if (p->now >= r->merge_at || r->waiting == 0 || (tight && p->now >= share_ends(p, r)))
			return r;
	}
	return NULL;
}

/* ---- who is called ---- */

/* Learners alive that are not invited to the open round of f (to: for a new one), ascending in p->drawn. */
static size_t candidates(struct policy *p, unsigned f, bool again)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->learner[i].alive && !(again && p->flag[i * p->c.fragments + f] & INVITED))
			p->drawn[n++] = (unsigned)i;
	return n;
}

static int ascending(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

/* The first k of p->drawn (n) become a random subset, from seed, round and how often it was drawn. */
static void draw(struct policy *p, uint64_t round, unsigned times, size_t n, size_t k)
{
	struct rng rng;

	rng_init(&rng, p->c.seed ^ rng_stream("invite"), round);
	rng.counter = (uint64_t)times << 32;
	for (size_t i = 0; i < k; i++) {
		size_t j = i + (size_t)rng_below(&rng, n - i);
		unsigned t = p->drawn[i];

		p->drawn[i] = p->drawn[j];
		p->drawn[j] = t;
	}
}

static size_t invite_size(const struct policy *p)
{
	return p->c.invite > p->c.quorum ? p->c.invite : p->c.quorum;
}

/* p->list becomes who was invited, with k of the n drawn. */
static size_t make_list(struct policy *p, unsigned f, bool again, size_t k)
{
	size_t m = 0;

	for (size_t i = 0; again && i < p->n; i++)
		if (p->flag[i * p->c.fragments + f] & INVITED)
			p->list[m++] = (unsigned)i;
	memcpy(p->list + m, p->drawn, k * sizeof *p->drawn);
	qsort(p->list, m + k, sizeof *p->list, ascending);
	return m + k;
}

static void decide_call(struct policy *p, unsigned f)
{
	size_t n, k;

	p->call = (struct call){ .round = p->next_round, .fragment = f, .all = true };
	if (p->c.invite == 0 || p->closing || p->alive < p->c.quorum)
		return;
	n = candidates(p, f, false);
	k = n < invite_size(p) ? n : invite_size(p);
	draw(p, p->next_round, 0, n, k);
	p->call.all = false;
	p->call.n = make_list(p, f, false, k);
}

/* Can this round not get its quorum from those that are invited and alive? */
static bool short_of(const struct policy *p, const struct round *r)
{
	return !r->merging && r->quorum < 0 && r->answers + r->waiting < p->c.quorum;
}

/* A round whose list must grow, if there is one: its call. */
static bool decide_again(struct policy *p)
{
	for (size_t i = 0; i < p->opens; i++) {
		struct round *r = &p->round[p->open[i]];
		size_t n, k, have = r->answers + r->waiting;

		if (r->all || !short_of(p, r) || !(n = candidates(p, p->open[i], true)))
			continue;
		k = invite_size(p) > have ? invite_size(p) - have : 1;
		k = k < n ? k : n;
		draw(p, r->number, r->redrawn + 1, n, k);
		p->call = (struct call){ .round = r->number, .fragment = p->open[i], .again = true };
		p->call.n = make_list(p, p->open[i], true, k);
		return true;
	}
	return false;
}

/* A round that nobody alive can answer any more, after answers were refused. */
static struct round *hopeless(struct policy *p)
{
	for (size_t i = 0; i < p->opens; i++) {
		struct round *r = &p->round[p->open[i]];

		if (short_of(p, r) && r->refused && r->waiting == 0)
			return r;
	}
	return NULL;
}

static bool decide_new(struct policy *p)
{
	unsigned f;

	if (!p->c.once && (p->opens >= p->c.overlap || p->alive < p->c.quorum))
		return false;
	if ((f = most_due(p)) == p->c.fragments)
		return false;
	decide_call(p, f);
	return true;
}

/* ---- the end ---- */

/* Until then everybody alive is waited for. */
static double closing_until(const struct policy *p)
{
	return p->c.once ? p->opened : p->finished + p->c.lease;
}

static double patience_ends(const struct policy *p, const struct round *r)
{
	return fmax(closing_until(p), r->called + p->c.lease);
}

static bool ends(const struct policy *p, const struct round *r)
{
	if (r->merging)
		return false;
	if (p->c.once)
		return r->answers >= p->c.quorum;
	if (r->waiting)
		return p->now >= patience_ends(p, r);
	return r->answers >= p->c.quorum || p->now >= closing_until(p);
}

/* Those that let the round pass are not waited for again. */
static void give_up_on(struct policy *p, unsigned f)
{
	for (size_t i = 0; p->round[f].waiting && i < p->n; i++)
		if (waited_for(p, i, f)) {
			account(p, i, -1);
			p->learner[i].mute = true;
		}
}

static struct round *to_end(struct policy *p)
{
	for (size_t i = 0; i < p->opens; i++)
		if (ends(p, &p->round[p->open[i]])) {
			if (!p->c.once)
				give_up_on(p, p->open[i]);
			return &p->round[p->open[i]];
		}
	return NULL;
}

static bool decide_last(struct policy *p)
{
	for (unsigned f = 0; f < p->c.fragments; f++) {
		const struct round *r = &p->round[f];

		if (r->open || r->final || !r->busy || (!p->c.once && p->opens >= p->c.overlap))
			continue;
		decide_call(p, f);
		return true;
	}
	return false;
}

static bool is_over(const struct policy *p)
{
	bool late = p->now >= closing_until(p);

	if (p->opens || (!p->alive && !late))
		return false;
	for (unsigned f = 0; f < p->c.fragments; f++) {
		const struct round *r = &p->round[f];

		if (!r->final && (r->busy || (r->unsure && !late)))
			return false;
	}
	return true;
}

/* ---- what to do ---- */

static void say_round(struct policy_step *s, enum policy_act act, const struct policy *p, struct round *r)
{
	s->act = act;
	s->round = r->number;
	s->fragment = fragment_of(p, r);
	r->merging = act == POLICY_MERGE;
}

static void say_call(struct policy_step *s, const struct policy *p)
{
	s->act = POLICY_CALL;
	s->round = p->call.round;
	s->fragment = p->call.fragment;
	s->invited = p->call.all ? NULL : p->list;
	s->n = p->call.n;
	s->again = p->call.again;
}

static void earlier(double *t, double at, double now)
{
	if (at > now && at < *t)
		*t = at;
}

/* When the clock will be where the next fragment is due, as things go. */
static double next_call(const struct policy *p)
{
	double left = HUGE_VAL;

	if (p->alive < p->c.quorum || p->pace.step_seconds <= 0)
		return HUGE_VAL;
	for (unsigned f = 0; f < p->c.fragments; f++)
		if (!p->round[f].open && !is_due(p, &p->round[f]))
			left = fmin(left, p->round[f].due - p->lag - p->pace.steps);
	/* Not at every instant when extrapolation has come to its end. */
	return p->now + fmax(left, 0.0625) * p->pace.step_seconds;
}

static double wake(const struct policy *p)
{
	double t = HUGE_VAL;
	bool tight = !p->closing && starved(p);

	for (size_t i = 0; i < p->opens; i++) {
		const struct round *r = &p->round[p->open[i]];

		if (r->merging)
			continue;
		if (p->closing)
			earlier(&t, patience_ends(p, r), p->now);
		else if (r->quorum >= 0)
			earlier(&t, tight ? fmin(r->merge_at, share_ends(p, r)) : r->merge_at, p->now);
	}
	if (p->alive)
		earlier(&t, p->next_expiry, p->now);
	if (p->closing)
		earlier(&t, closing_until(p), p->now);
	else
		earlier(&t, next_call(p), p->now);
	return t;
}

int policy_next(struct policy *p, double now, struct policy_step *s)
{
	struct round *r;

	advance(p, now);
	go(p);
	*s = (struct policy_step){ .act = POLICY_WAIT };
	p->call.round = 0;
	for (size_t i = 0; i < p->opens; i++)
		give_grace(p, &p->round[p->open[i]]);
	if (p->over || (p->closing && is_over(p))) {
		p->over = true;
		s->act = POLICY_DONE;
	} else if ((r = p->closing ? to_end(p) : to_merge(p))) {
		say_round(s, r->answers ? POLICY_MERGE : POLICY_ABANDON, p, r);
	} else if (p->closing ? decide_last(p) : decide_again(p)) {
		say_call(s, p);
	} else if (!p->closing && (r = hopeless(p))) {
		say_round(s, POLICY_ABANDON, p, r);
	} else if (!p->closing && decide_new(p)) {
		say_call(s, p);
	} else {
		s->until = wake(p);
	}
	return 0;
}

/* ---- what can be seen ---- */

void policy_times(const struct policy *p, struct policy_times *t)
{
	t->step = p->step;
	t->quorum = p->quorum;
	t->sync = p->sync;
	t->slack = p->step > 0 ? p->c.overlap * p->step - p->quorum - p->sync : 0;
	t->window = p->c.grace * fmax(0, t->slack);
}

size_t policy_open_rounds(const struct policy *p)
{
	return p->opens;
}

void policy_round_at(const struct policy *p, size_t i, struct policy_round *out)
{
	const struct round *r = &p->round[p->open[i]];

	*out = (struct policy_round){ .round = r->number, .fragment = p->open[i], .called = r->called,
		.quorum = r->quorum, .merge_at = r->merge_at, .waited = r->waiting, .answers = r->answers,
		.refused = r->refused, .merging = r->merging };
	for (size_t j = 0; j < p->n; j++)
		out->invited += p->learner[j].alive &&
				(r->all || p->flag[j * p->c.fragments + p->open[i]] & INVITED);
}

static unsigned flag_of(const struct policy *p, uint64_t round, unsigned learner)
{
	const struct round *r = find(p, round);

	if (!r)
		return 0;
	return (r->all ? INVITED : 0) |
	       (learner < p->n ? p->flag[(size_t)learner * p->c.fragments + fragment_of(p, r)] : 0);
}

bool policy_invited(const struct policy *p, uint64_t round, unsigned learner)
{
	return flag_of(p, round, learner) & INVITED;
}

bool policy_has_answer(const struct policy *p, uint64_t round, unsigned learner)
{
	return flag_of(p, round, learner) & ANSWERED;
}

bool policy_alive(const struct policy *p, double now, unsigned learner)
{
	return learner < p->n && p->learner[learner].alive && now < p->learner[learner].seen + p->c.lease;
}

size_t policy_alive_count(const struct policy *p, double now)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += policy_alive(p, now, (unsigned)i);
	return n;
}

double policy_steps(const struct policy *p)
{
	return p->pace.steps;
}

double policy_steps_since(const struct policy *p, unsigned fragment)
{
	return p->pace.steps - p->round[fragment].merged;
}

double policy_achieved_interval(const struct policy *p)
{
	return p->intervals > 0 ? p->interval_steps / p->intervals : 0;
}

double policy_mean_overlap(const struct policy *p)
{
	return p->first_call >= 0 && p->now > p->first_call ? p->open_seconds / (p->now - p->first_call) : 0;
}

double policy_longest_stall(const struct policy *p)
{
	return p->stall;
}
