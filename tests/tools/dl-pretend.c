/*
 * dl-pretend - learners of a run directory that train nothing: they count steps by the clock, beat, and
 * answer calls with small random values. For tests with many learners, or with bad ones.
 *
 *     dl-pretend -r RUN [-i NAME] [-m M] [--rate X] [--slow N] [--tokens N] [--fault LIST] [--seed N]
 *                [--for TIME] [--goes-on] [-k KEY] [-T PATH] [-v]
 *
 *     -i NAME      one learner of this name; with -m M, M of them: NAME0, NAME1, ...
 *     --rate X     inner steps a second of each (100)
 *     --slow N     the first makes a step where the others make N (1)
 *     --tokens N   tokens a step (64)
 *     --scale X    size of the values (1e-3)
 *     --fault KIND:CHANCE,...  what is wrong with an answer, drawn for each of them:
 *         nan      a value is not a number         huge     all are a million times larger
 *         torn     half a file, for good           slowly   the file grows in place for half a second
 *         mute     never given                     tardy    given half a second late
 *         old      says it is of the incarnation before
 *         again    the answer before, under the new name
 *         other    says it is of another learner
 *         leap     says it is millions of steps ahead of everybody
 *         vast     says it has trained millions of times more tokens
 *     --for TIME   leaves, with a last beat, after TIME; SIGTERM does the same at any time
 *     --goes-on    does not stop when the run is done
 *
 * The model's size does not matter; memory is a few numbers for each learner and fragment. It keeps the books
 * that a learner keeps, in its beat, and goes on from its beat and its deltas when it is started again, with
 * the work under way if it left tidily; adoption is as by `overwrite`. Exit status 0 when the run is done,
 * or it left as told.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/opt.h"
#include "base/rng.h"
#include "base/say.h"
#include "form/card.h"
#include "form/frame.h"
#include "io/fd.h"
#include "io/place.h"
#include "io/wake.h"
#include "round/beat.h"
#include "round/fragment.h"
#include "round/head.h"
#include "round/manifest.h"
#include "round/rundir.h"

#define TURN 0.02      /* seconds */
#define HEAD 0.05      /* between looks at the head */
#define BEAT 0.5
#define LATE 0.5
#define FAR ((uint64_t)1 << 40)

enum fault { NONE, NAN_VALUE, HUGE_VALUES, TORN, SLOWLY, MUTE, TARDY, OLD, AGAIN, OTHER, LEAP, VAST, FAULTS };
static const char *const fault_names[FAULTS] = { "none", "nan", "huge", "torn", "slowly", "mute", "tardy",
	"old", "again", "other", "leap", "vast" };

static struct {
	const char *run, *name, *fault, *key, *trust;
	double rate, lasting, scale;
	uint64_t m, slow, tokens, seed;
	bool goes_on, verbose;
} o = { .name = "p", .rate = 100, .scale = 1e-3, .slow = 1, .tokens = 64, .seed = 1 };
static const struct opt table[] = {
	{ 'r', "run", OPT_TEXT, &o.run, "RUN", "run directory" },
	{ 'i', "name", OPT_TEXT, &o.name, "NAME", "learner" },
	{ 'm', "learners", OPT_U64, &o.m, "M", "so many", 1, 100000 },
	{ 0, "rate", OPT_F64, &o.rate, "X", "steps a second", 1e-3, 1e9 },
	{ 0, "slow", OPT_U64, &o.slow, "N", "how much slower the first is", 1, 1e9 },
	{ 0, "tokens", OPT_U64, &o.tokens, "N", "tokens a step", 1, 1e9 },
	{ 0, "scale", OPT_F64, &o.scale, "X", "size of the values", 0, 1e30 },
	{ 0, "fault", OPT_TEXT, &o.fault, "LIST", "KIND:CHANCE,..." },
	{ 0, "seed", OPT_U64, &o.seed, "N", "of values and faults", 0, 1e18 },
	{ 0, "for", OPT_SECONDS, &o.lasting, "TIME", "leave after" },
	{ 0, "goes-on", OPT_FLAG, &o.goes_on, NULL, "when the run is done, too" },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "key" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say each answer" },
	OPT_END
};
static const char *const synopsis[] = { "dl-pretend -r RUN [OPTIONS]", NULL };
static const struct opt_prog prog = { "dl-pretend", "Pretends to be learners.", synopsis, table };
static struct say say;
static double chance[FAULTS];

struct learner {
	struct beat beat;
	double began, beat_due;
	uint64_t first;          /* steps of the lives before */
	uint64_t *at;            /* (fragments) own steps when it answered last */
	digest *base;            /* (fragments) */
	bool dirty, tidy;        /* tidy: its last life ended with a last beat */
	struct rng rng;
	/* an answer that is given late */
	struct buf tardy;
	char tardy_path[RUNDIR_PATH];
	double tardy_until;
};
struct pretend {
	struct key key;
	struct trust user, makers;
	struct manifest manifest;
	struct fragments fragments;
	struct head head;
	bool headed;
	digest head_bytes;
	struct learner *v;
	size_t n;
	struct clock clock;
};

static void die(int rc)
{
	exit(say_error(&say, rc));
}

static void must(int rc)
{
	if (rc < 0)
		die(rc);
}

static double now(const struct pretend *p)
{
	return clock_now(&p->clock);
}

/* ---- the head ---- */

static void look_at_head(struct pretend *p)
{
	struct header h = { .keys = { 0 } };
	struct buf bytes = BUF_INIT;
	struct sig_public signer;
	struct head head = { 0 };
	digest d;

	if (place_read(RUNDIR_HEAD, CARD_BYTES, &bytes) > 0) {
		sig_digest(&d, bytes.data, bytes.len);
		if (memcmp(&d, &p->head_bytes, sizeof d) != 0 &&
			card_parse(&h, &signer, bytes.data, bytes.len, RUNDIR_HEAD, &p->makers) == 0 &&
			head_read(&head, &h, p->fragments.n) == 0 && (!p->headed || head_newer(&head, &p->head))) {
			head_release(&p->head);
			p->head = head;
			head = (struct head){ 0 };
			p->headed = true;
		}
		p->head_bytes = d;
	}
	head_release(&head);
	header_release(&h);
	buf_release(&bytes);
}

/* Versions 0, for who comes before any syncer. */
static void first_versions(struct pretend *p, struct learner *l)
{
	for (unsigned f = 0; f < p->fragments.n; f++) {
		struct frame_reader *r = NULL;
		char path[RUNDIR_PATH];
		int fd;

		if (place_open(rundir_fragment(path, f, 0), &fd) <= 0)
			continue;
		must(frame_open(&r, fd, path, &p->makers, NULL));
		must(frame_seekable(r));
		must(frame_id(r, &l->base[f]));
		frame_reader_free(r);
		close(fd);
	}
}

/* ---- a learner's beginning ---- */

static void read_beat(struct pretend *p, struct learner *l)
{
	struct header h = { .keys = { 0 } };
	struct buf bytes = BUF_INIT;
	struct sig_public signer;
	struct beat b = { .fragment = NULL };
	char path[RUNDIR_PATH];

	if (place_read(rundir_beat(path, l->beat.learner), CARD_BYTES, &bytes) > 0 &&
		card_parse(&h, &signer, bytes.data, bytes.len, path, NULL) == 0 &&
		beat_read(&b, &h, p->fragments.n) == 0) {
		l->beat.incarnation = b.incarnation;
		l->beat.trained = b.trained;
		l->beat.steps = b.steps;
		l->beat.step = b.step;
		memcpy(l->beat.fragment, b.fragment, b.fragments * sizeof *b.fragment);
		l->tidy = b.state == BEAT_GONE;
	}
	beat_release(&b);
	header_release(&h);
	buf_release(&bytes);
}

static void read_delta(struct learner *l, const char *name)
{
	struct frame_reader *r = NULL;
	struct meta m;
	char path[RUNDIR_PATH];
	unsigned f;
	uint64_t round;
	int fd;

	if (!rundir_delta_parse(name, &f, &round) || f >= l->beat.fragments ||
		place_open(rundir_delta(path, l->beat.learner, f, round), &fd) <= 0)
		return;
	if (frame_open(&r, fd, path, NULL, NULL) == 0 && frame_seekable(r) == 0 &&
		meta_read(&m, frame_header(r)) == 0) {
		struct beat_fragment *b = &l->beat.fragment[f];

		if (m.trained > l->beat.trained)
			l->beat.trained = m.trained;
		if (m.answered > b->answered)
			b->answered = m.answered;
		if (round > b->round)
			b->round = round;
	}
	frame_reader_free(r);
	close(fd);
}

/* What was under way when the life before ended is lost, unless it left tidily. */
static void start_learner(struct pretend *p, struct learner *l, size_t i)
{
	char dir[RUNDIR_PATH], **names;
	uint8_t nonce[8];
	size_t n;
	bool more;

	must(beat_init(&l->beat, p->fragments.n));
	snprintf(l->beat.learner, sizeof l->beat.learner, o.m ? "%s%zu" : "%s", o.name, i);
	memcpy(l->beat.run, p->manifest.meta.run, sizeof l->beat.run);
	l->at = calloc(p->fragments.n, sizeof *l->at);
	l->base = calloc(p->fragments.n, sizeof *l->base);
	if (!l->at || !l->base)
		die(err_nomem());
	read_beat(p, l);
	snprintf(dir, sizeof dir, "learner/%s", l->beat.learner);
	must(place_list(&names, &n, dir, 100000, &more));
	for (size_t k = 0; k < n; k++)
		read_delta(l, names[k]);
	place_list_free(names, n);
	for (unsigned f = 0; f < p->fragments.n; f++) {
		struct beat_fragment *b = &l->beat.fragment[f];

		if (l->tidy && b->answered + b->lost + b->tokens == l->beat.trained)
			continue;
		b->lost = l->beat.trained - b->answered;
		b->steps = b->tokens = b->version = 0;
	}
	first_versions(p, l);
	if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
		die(err_sys("getrandom"));
	sig_hex(l->beat.nonce, nonce, sizeof nonce);
	l->beat.incarnation++;
	l->first = l->beat.steps;
	l->began = now(p);
	rng_init(&l->rng, o.seed, rng_stream(l->beat.learner) + l->beat.incarnation);
}

/* ---- beats ---- */

static void send_beat(struct pretend *p, struct learner *l)
{
	struct header h = { .keys = { 0 } };
	struct buf bytes = BUF_INIT;
	char path[RUNDIR_PATH];
	int rc;

	l->beat.counter++;
	l->beat.epoch = p->head.epoch;
	l->beat.serial = p->manifest.serial;
	must(beat_write(&l->beat, &h));
	must(card_seal(&bytes, &h, &p->key.secret, NULL));
	rc = place_make(rundir_beat(path, l->beat.learner));
	if (rc == 0)
		rc = place_put(path, bytes.data, bytes.len, true);
	if (rc < 0)
		say_warn(&say, "%s", err_text());
	l->beat_due = now(p) + BEAT;
	l->dirty = false;
	header_release(&h);
	buf_release(&bytes);
}

/* ---- answers ---- */

static enum fault draw_fault(struct learner *l)
{
	double x = rng_unit(&l->rng);

	for (int k = 1; k < FAULTS; k++) {
		if (x < chance[k])
			return (enum fault)k;
		x -= chance[k];
	}
	return NONE;
}

static void answer_header(struct header *h, struct pretend *p, struct learner *l, const struct head_call *c,
	enum fault fault)
{
	const struct beat_fragment *b = &l->beat.fragment[c->fragment];
	struct meta m = { .kind = KIND_DELTA, .round = c->round, .version = c->version, .step = l->beat.step,
		.steps = b->steps, .tokens = b->tokens, .trained = l->beat.trained,
		.answered = b->answered + b->tokens, .incarnation = l->beat.incarnation - (fault == OLD),
		.loss_first = 3, .loss_last = 2, .loss_mean = 2.5, .cursor = l->beat.steps, .context = 8 };

	memcpy(m.run, p->manifest.meta.run, sizeof m.run);
	memcpy(m.model, p->manifest.meta.model, sizeof m.model);
	memcpy(m.learner, l->beat.learner, sizeof m.learner);
	if (fault == OTHER)
		snprintf(m.learner, sizeof m.learner, "nobody");
	memset(m.shard, '5', 64);
	if (fault == LEAP)
		m.step += FAR;
	if (fault == VAST) {
		m.tokens += FAR;
		m.trained += FAR;
	}
	sig_hex(m.base, l->base[c->fragment].b, SIG_DIGEST);
	rundir_fragment_name(m.fragment, c->fragment);
	must(meta_write(&m, h));
	must(tensors_copy(&h->tensors, &p->fragments.v[c->fragment].layout));
}

static void write_values(struct frame_writer *w, const struct tensors *ts, struct learner *l, enum fault fault)
{
	static float v[FRAME_ELEMS];
	double scale = o.scale * (fault == HUGE_VALUES ? 1e6 : 1);

	for (size_t t = 0; t < ts->n; t++)
		for (uint64_t at = 0, n; at < ts->v[t].count; at += n) {
			n = ts->v[t].count - at < FRAME_ELEMS ? ts->v[t].count - at : FRAME_ELEMS;
			for (uint64_t i = 0; i < n; i++)
				v[i] = (float)(scale * (rng_unit(&l->rng) - 0.5));
			if (fault == NAN_VALUE && at == 0 && t == 0)
				v[0] = 0.0f / 0.0f * 1.0f;
			must(frame_write(w, v, NULL, n));
		}
}

/* The whole file in memory. */
static void make_answer(struct buf *out, struct pretend *p, struct learner *l, const struct head_call *c,
	enum fault fault)
{
	struct frame_writer *w = NULL;
	struct header h = { .keys = { 0 } };
	int fd;

	must(fd_temporary(&fd));
	answer_header(&h, p, l, c, fault);
	must(frame_create(&w, fd, &h, &p->key.secret, NULL));
	write_values(w, &p->fragments.v[c->fragment].layout, l, fault);
	must(frame_finish(w, NULL));
	frame_writer_free(w);
	header_release(&h);
	if (lseek(fd, 0, SEEK_SET) < 0)
		die(err_sys("temporary file"));
	must(fd_slurp(fd, (size_t)1 << 30, out));
	close(fd);
}

/* In place, as a slow copy would: half, and after a while the rest or nothing. */
static int grow_file(const char *path, const struct buf *b, bool rest)
{
	FILE *f = fopen(path, "w");
	const struct timespec half = { 0, 500000000 };

	if (!f)
		return err_sys("%s", path);
	fwrite(b->data, 1, b->len / 2, f);
	fflush(f);
	if (rest) {
		nanosleep(&half, NULL);
		fwrite(b->data + b->len / 2, 1, b->len - b->len / 2, f);
	}
	fclose(f);
	return 0;
}

static int give(struct learner *l, const struct head_call *c, struct buf *bytes, enum fault fault)
{
	char path[RUNDIR_PATH], before[RUNDIR_PATH];

	rundir_delta(path, l->beat.learner, c->fragment, c->round);
	rundir_delta(before, l->beat.learner, c->fragment, l->beat.fragment[c->fragment].round);
	if (fault == TORN || fault == SLOWLY)
		return grow_file(path, bytes, fault == SLOWLY);
	if (fault == TARDY) {
		memcpy(l->tardy_path, path, sizeof path);
		l->tardy = *bytes;
		*bytes = (struct buf)BUF_INIT;
		return 0;
	}
	if (fault == AGAIN && l->beat.fragment[c->fragment].round) {
		buf_clear(bytes);
		if (place_read(before, (size_t)1 << 30, bytes) < 0)
			return ERR_IO;
	}
	return place_put(path, bytes->data, bytes->len, true);
}

static void answer(struct pretend *p, struct learner *l, const struct head_call *c)
{
	struct beat_fragment *b = &l->beat.fragment[c->fragment];
	enum fault fault = draw_fault(l);
	struct buf bytes = BUF_INIT;

	if (fault == TARDY && l->tardy.len)
		fault = NONE;
	if (fault != MUTE) {
		make_answer(&bytes, p, l, c, fault);
		if (give(l, c, &bytes, fault) < 0) {
			say_warn(&say, "%s", err_text());
			buf_release(&bytes);
			return;
		}
		l->tardy_until = now(p) + LATE;
		b->answered += b->tokens;
		b->tokens = b->steps = 0;
		l->at[c->fragment] = l->beat.steps;
	}
	buf_release(&bytes);
	b->round = c->round;
	l->dirty = true;
	say_note(&say, "%s answers round %" PRIu64 " (%s)", l->beat.learner, c->round, fault_names[fault]);
}

/* ---- turns ---- */

static void adopt(struct pretend *p, struct learner *l, unsigned f)
{
	const struct head_fragment *h = &p->head.fragment[f];
	struct beat_fragment *b = &l->beat.fragment[f];
	uint64_t step = h->step;

	if (h->version == b->version) {
		l->base[f] = h->id;
		return;
	}
	if (b->round == h->round && b->round)
		step += l->beat.steps - l->at[f];
	else if (l->beat.step > step)
		step = l->beat.step;
	l->beat.step = step;
	l->base[f] = h->id;
	b->version = h->version;
	b->lost += b->tokens;
	b->tokens = b->steps = 0;
}

static void train(struct pretend *p, struct learner *l, size_t i)
{
	double rate = i == 0 ? o.rate / (double)o.slow : o.rate;
	uint64_t want = l->first + (uint64_t)((now(p) - l->began) * rate), n;

	l->beat.state = BEAT_RUNNING;
	l->beat.step_seconds = 1 / rate;
	l->beat.tokens_per_s = rate * (double)o.tokens;
	l->beat.loss = 2.5;
	if (p->headed && p->head.phase != PHASE_RUNNING) {
		l->beat.state = BEAT_IDLE;
		l->first = l->beat.steps;
		l->began = now(p);
		return;
	}
	n = want - l->beat.steps;
	l->beat.steps += n;
	l->beat.step += n;
	l->beat.trained += n * o.tokens;
	for (unsigned f = 0; f < p->fragments.n; f++) {
		l->beat.fragment[f].steps += n;
		l->beat.fragment[f].tokens += n * o.tokens;
	}
}

static void answer_calls(struct pretend *p, struct learner *l)
{
	for (size_t k = 0; k < p->head.calls; k++) {
		const struct head_call *c = &p->head.call[k];
		const struct beat_fragment *b = &l->beat.fragment[c->fragment];

		if (b->version == c->version && b->steps > 0 && b->round < c->round &&
			head_invites(c, l->beat.learner))
			answer(p, l, c);
	}
}

/* Although the round may be over. */
static void give_tardy(struct pretend *p, struct learner *l)
{
	if (!l->tardy.len || now(p) < l->tardy_until)
		return;
	if (place_put(l->tardy_path, l->tardy.data, l->tardy.len, true) < 0)
		say_warn(&say, "%s", err_text());
	buf_release(&l->tardy);
}

static void turn(struct pretend *p, struct learner *l, size_t i)
{
	enum beat_state before = l->beat.state;

	train(p, l, i);
	for (unsigned f = 0; f < p->fragments.n && p->headed; f++)
		adopt(p, l, f);
	if (p->headed)
		answer_calls(p, l);
	give_tardy(p, l);
	if (l->dirty || l->beat.state != before || now(p) >= l->beat_due)
		send_beat(p, l);
}

static bool over(const struct pretend *p, double began)
{
	return wake_requested() || (o.lasting > 0 && now(p) - began >= o.lasting) ||
	       (!o.goes_on && p->headed && p->head.phase == PHASE_DONE);
}

static void live(struct pretend *p)
{
	const struct timespec pause = { 0, (long)(TURN * 1e9) };
	double began = now(p), head_due = 0;

	while (!over(p, began)) {
		if (now(p) >= head_due) {
			look_at_head(p);
			head_due = now(p) + HEAD;
		}
		for (size_t i = 0; i < p->n; i++)
			turn(p, &p->v[i], i);
		nanosleep(&pause, NULL);
	}
	for (size_t i = 0; i < p->n; i++) {
		p->v[i].beat.state = BEAT_GONE;
		send_beat(p, &p->v[i]);
	}
}

static void release(struct pretend *p)
{
	for (size_t i = 0; i < p->n; i++) {
		beat_release(&p->v[i].beat);
		buf_release(&p->v[i].tardy);
		free(p->v[i].at);
		free(p->v[i].base);
	}
	free(p->v);
	head_release(&p->head);
	fragments_release(&p->fragments);
	trust_release(&p->makers);
	trust_release(&p->user);
	manifest_release(&p->manifest);
	key_wipe(&p->key);
}

static void parse_faults(void)
{
	char *list = strdup(o.fault ? o.fault : ""), *rest = list, *one;

	while ((one = strsep(&rest, ",")) && *one) {
		char *colon = strchr(one, ':');
		int k = 1;

		if (colon)
			*colon = '\0';
		while (k < FAULTS && strcmp(one, fault_names[k]) != 0)
			k++;
		if (k == FAULTS)
			die(err_set(ERR_USAGE, "no fault is called '%s'", one));
		chance[k] = colon ? strtod(colon + 1, NULL) : 1;
	}
	free(list);
}

int main(int argc, char **argv)
{
	struct pretend p = { .clock = clock_monotonic() };
	char **words;
	int n, rc = opt_parse(&prog, argc, argv, &words, &n);

	say_init(&say, prog.name, false, o.verbose);
	if (rc > 0)
		return 0;
	must(rc);
	if (!o.run)
		die(err_set(ERR_USAGE, "-r is missing"));
	parse_faults();
	must(wake_catch());
	must(trust_signer(&p.key, o.key, o.trust, &say));
	must(trust_load(&p.user, o.trust, &p.key));
	must(rundir_enter(o.run));
	must(manifest_load(&p.manifest, &p.user));
	must(manifest_trust(&p.manifest, ROLE_SYNCER, &p.user, NULL, &p.makers));
	must(fragments_cut(&p.fragments, &p.manifest.layout, p.manifest.fragments));
	p.n = o.m ? o.m : 1;
	if (!(p.v = calloc(p.n, sizeof *p.v)))
		die(err_nomem());
	for (size_t i = 0; i < p.n; i++)
		start_learner(&p, &p.v[i], i);
	live(&p);
	release(&p);
	return 0;
}
