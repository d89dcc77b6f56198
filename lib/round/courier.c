#include "round/courier.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "round/courier_inside.h"
#include "round/rundir.h"

#define NICE 5              /* steps below the training threads */
#define POLL_LEAST 0.01     /* seconds between looks at the head: part of an inner step, within these */
#define POLL_MOST 0.1
#define POLL_PART 8
#define BEAT_LEAST 0.25     /* after an answer */
#define BEAT_MOST 1.0
#define MANIFEST_EVERY 5.0
#define TIDY_EVERY 2.0
#define COMPLAIN_EVERY 10.0

double courier_now(const struct courier *c)
{
	return clock_now(&c->clock);
}

void courier_say(struct courier *c, bool warning, const char *text)
{
	pthread_mutex_lock(&c->lock);
	desk_say(&c->desk, warning, text);
	pthread_mutex_unlock(&c->lock);
}

void courier_complain(struct courier *c, const char *what)
{
	double now = courier_now(c);
	char text[ERR_TEXT];

	if (c->complained > 0 && now - c->complained < COMPLAIN_EVERY)
		return;
	c->complained = now;
	snprintf(text, sizeof text, "%.800s: %s", err_text(), what);
	courier_say(c, true, text);
}

void courier_end(struct courier *c, int code)
{
	struct err_note note;

	err_save(&note, code);
	pthread_mutex_lock(&c->lock);
	if (c->desk.end.code == 0)
		c->desk.end = note;
	pthread_cond_broadcast(&c->settled);
	pthread_mutex_unlock(&c->lock);
}

/* ---- opening and closing ---- */

static void new_nonce(char out[17])
{
	uint64_t random[1] = { 0 };

	if (getrandom(random, sizeof random, 0) < 0)
		random[0] = (uint64_t)time(NULL) << 32 ^ (uint64_t)getpid();
	sig_hex(out, (const uint8_t *)random, sizeof random);
}

static int open_locks(struct courier *c)
{
	pthread_condattr_t attr;
	bool good = pthread_mutex_init(&c->lock, NULL) == 0 && pthread_condattr_init(&attr) == 0;

	if (!good)
		return err_nomem();
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	good = pthread_cond_init(&c->wake, &attr) == 0 && pthread_cond_init(&c->settled, &attr) == 0;
	pthread_condattr_destroy(&attr);
	return good ? 0 : err_nomem();
}

static void sign_beat(const struct courier *c, struct beat *b)
{
	memcpy(b->run, c->conf.about.run, sizeof b->run);
	memcpy(b->learner, c->conf.about.learner, sizeof b->learner);
	memcpy(b->nonce, c->mine.nonce, sizeof b->nonce);
}

static int open_buffers(struct courier *c, const struct tensors *layout)
{
	unsigned n = c->cut->n;
	int rc;

	c->not_before = calloc(n, sizeof *c->not_before);
	c->tidied = calloc(n, sizeof *c->tidied);
	c->tidied_version = calloc(n, sizeof *c->tidied_version);
	if (!c->not_before || !c->tidied || !c->tidied_version)
		return err_nomem();
	if ((rc = desk_open(&c->desk, c->cut, layout, c->conf.optimizer)) < 0)
		return rc;
	if ((rc = beat_init(&c->mine, n)) < 0)
		return rc;
	if ((rc = frame_scratch_new(&c->frames)) < 0)
		return rc;
	new_nonce(c->mine.nonce);
	sign_beat(c, &c->mine);
	sign_beat(c, &c->desk.state.books);
	memcpy(c->desk.state.shard, c->conf.about.shard, sizeof c->desk.state.shard);
	c->desk.state.context = c->conf.about.context;
	c->desk.target_steps = c->manifest->target_steps;
	return 0;
}

int courier_open(struct courier **out, const struct courier_conf *conf, struct manifest *manifest,
	struct trust *user, const struct key *key, const struct fragments *cut,
	const struct tensors *layout, const struct replica *replica, struct clock clock)
{
	struct courier *c = calloc(1, sizeof *c);
	int rc;

	if (!c)
		return err_nomem();
	*c = (struct courier){ .conf = *conf, .manifest = manifest, .user = user, .key = key,
		.cut = cut, .replica = replica, .clock = clock };
	rc = open_locks(c);
	if (rc == 0)
		rc = courier_trusts(c);
	if (rc == 0)
		rc = open_buffers(c, layout);
	if (rc < 0) {
		courier_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

static void stop_thread(struct courier *c)
{
	if (!c->running)
		return;
	pthread_mutex_lock(&c->lock);
	c->quit = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	c->running = false;
}

void courier_close(struct courier *c)
{
	if (!c)
		return;
	stop_thread(c);
	trust_release(&c->learners);
	trust_release(&c->syncers);
	desk_close(&c->desk);
	beat_release(&c->mine);
	buf_release(&c->head);
	buf_release(&c->beat);
	buf_release(&c->scratch);
	frame_scratch_free(c->frames);
	free(c->not_before);
	free(c->tidied);
	free(c->tidied_version);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->wake);
	pthread_cond_destroy(&c->settled);
	free(c);
}

void courier_incarnate(struct courier *c, uint64_t incarnation)
{
	c->conf.incarnation = incarnation;
}

const struct trust *courier_learners(const struct courier *c)
{
	return &c->learners;
}

/* ---- the thread ---- */

/* What little it does must not hold up the threads that train. Counted from them: behind a learner of high
 * priority it would never have its turn. */
static void step_back(void)
{
#ifdef __linux__
	const id_t self = (id_t)gettid();
	int own;

	(void)pthread_setname_np(pthread_self(), "courier"); /* in ps and top */
	errno = 0;
	own = getpriority(PRIO_PROCESS, self);
	if (errno == 0)
		(void)!setpriority(PRIO_PROCESS, self, own + NICE);
#endif
}

/* A call that is seen just after a boundary is answered a whole step later, and then perhaps too late. */
static double pause_of(const struct courier *c)
{
	double part = c->mine.step_seconds / POLL_PART;

	return part < POLL_LEAST ? POLL_LEAST : part > POLL_MOST ? POLL_MOST : part;
}

static bool due(struct courier *c, double *last, double every)
{
	double now = courier_now(c);

	if (*last > 0 && now - *last < every)
		return false;
	*last = now;
	return true;
}

static void beat_if_due(struct courier *c)
{
	double since = courier_now(c) - c->beat_at;

	if (since < (c->beaten ? BEAT_LEAST : BEAT_MOST))
		return;
	if (courier_write_beat(c, false) == 0 || c->superseded)
		return;
	courier_complain(c, "no sign of life, training goes on");
	if (rundir_there() < 0 && !c->gone) {
		c->gone = true;
		courier_end(c, ERR_DATA);
	}
}

static void go_round(struct courier *c)
{
	courier_send_answers(c);
	if (courier_poll(c) < 0)
		courier_complain(c, "ignored");
	courier_stage(c);
	courier_send_answers(c);
	beat_if_due(c);
	courier_write_state(c);
	courier_write_rows(c);
	if (due(c, &c->manifest_at, MANIFEST_EVERY))
		courier_refresh(c);
	if (due(c, &c->tidy_at, TIDY_EVERY))
		courier_tidy(c);
}

static struct timespec in_seconds(double seconds)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += (time_t)seconds;
	t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

/* False when it is to end. */
static bool rest(struct courier *c)
{
	const struct timespec until = in_seconds(pause_of(c));
	bool go_on;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (rc == 0 && !c->nudged && !c->quit)
		rc = pthread_cond_timedwait(&c->wake, &c->lock, &until);
	c->nudged = false;
	go_on = !c->quit;
	pthread_mutex_unlock(&c->lock);
	return go_on;
}

static double processor_seconds(void)
{
	struct timespec t = { 0 };

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *run(void *ctx)
{
	struct courier *c = ctx;

	step_back();
	do
		go_round(c);
	while (rest(c));
	courier_write_rows(c);
	if (!c->superseded && !c->gone && courier_write_beat(c, true) < 0 && !c->superseded)
		courier_complain(c, "left without a word");
	c->work.seconds = processor_seconds();
	return NULL;
}

/* Signals are for the training thread. */
static int start_thread(struct courier *c)
{
	sigset_t all, before;
	int e;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	e = pthread_create(&c->thread, NULL, run, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e) {
		errno = e;
		return err_sys("cannot start a thread");
	}
	c->running = true;
	return 0;
}

int courier_start(struct courier *c)
{
	int rc = courier_write_beat(c, false);

	return rc < 0 ? rc : start_thread(c);
}

/* ---- the training thread ---- */

struct desk *courier_desk(struct courier *c)
{
	return &c->desk;
}

bool courier_enter(struct courier *c)
{
	return pthread_mutex_trylock(&c->lock) == 0;
}

void courier_leave(struct courier *c, bool posted)
{
	if (posted) {
		c->nudged = true;
		pthread_cond_signal(&c->wake);
	}
	pthread_mutex_unlock(&c->lock);
}

void courier_wait(struct courier *c, double seconds)
{
	const struct timespec until = in_seconds(seconds);

	pthread_mutex_lock(&c->lock);
	(void)pthread_cond_timedwait(&c->settled, &c->lock, &until);
	pthread_mutex_unlock(&c->lock);
}

void courier_told(const struct courier *c, struct courier_work *w)
{
	*w = c->work;
}

/* With the lock held. */
static void until_settled(struct courier *c)
{
	while (desk_busy(&c->desk) && c->desk.end.code != ERR_BUSY) {
		c->nudged = true;
		pthread_cond_signal(&c->wake);
		pthread_cond_wait(&c->settled, &c->lock);
	}
}

int courier_finish(struct courier *c, struct replica *r, const struct trainer *t)
{
	struct desk *d = &c->desk;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	until_settled(c);
	d->mute = true; /* no more answers */
	d->saving = DESK_NONE;
	desk_exchange(d, r, c->conf.about.learner, 0);
	if (t && d->end.code != ERR_BUSY && desk_post_state(d, r, t)) {
		until_settled(c);
		if (d->saving == DESK_FAILED)
			rc = err_restore(&d->saved);
	}
	pthread_mutex_unlock(&c->lock);
	stop_thread(c);
	return rc;
}
