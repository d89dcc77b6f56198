#include "round/roster.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "form/card.h"
#include "io/place.h"
#include "round/fields.h"
#include "round/guard.h"
#include "round/rundir.h"

#define LOOK 0.25       /* seconds between looks at one learner's beat */
#define LOOK_LOST 1     /* of one that is lost or gone */
#define SCAN 1.5        /* seconds between listings, */
#define SCAN_SHARE 30   /* and so many times what the last one took */
#define SCAN_NAMES 256  /* unknown names that are looked into at once */
#define TOLD_MOST 256   /* things that are said of names that don't count */

void roster_init(struct roster *r, unsigned fragments)
{
	*r = (struct roster){ .fragments = fragments };
}

static void free_learner(struct roster_learner *l)
{
	if (!l)
		return;
	beat_release(&l->beat);
	free(l->covered);
	free(l->shown);
	free(l);
}

void roster_release(struct roster *r)
{
	for (size_t i = 0; i < r->n; i++)
		free_learner(r->v[i]);
	free(r->v);
	free(r->order);
	free(r->told);
	*r = (struct roster){ .n = 0 };
}

/* Where in r->order the name is, or would be. */
static size_t place_of(const struct roster *r, const char *name)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(r->v[r->order[mid]]->name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

long roster_find(const struct roster *r, const char *name)
{
	size_t at = place_of(r, name);

	if (at == r->n || strcmp(r->v[r->order[at]]->name, name) != 0)
		return -1;
	return (long)r->order[at];
}

static int grow(struct roster *r)
{
	size_t cap = r->cap ? 2 * r->cap : 16;
	struct roster_learner **v;
	size_t *order;

	if (r->n < r->cap)
		return 0;
	v = realloc(r->v, cap * sizeof *v);
	if (v)
		r->v = v;
	order = realloc(r->order, cap * sizeof *order);
	if (order)
		r->order = order;
	if (!v || !order)
		return err_nomem();
	r->cap = cap;
	return 0;
}

int roster_add(struct roster *r, size_t *out, const char *name, const struct sig_public *key)
{
	struct roster_learner *l;
	size_t at = place_of(r, name);
	int rc = grow(r);

	if (rc < 0)
		return rc;
	if (!(l = calloc(1, sizeof *l)) || !(l->covered = calloc(r->fragments, sizeof *l->covered)) ||
		!(l->shown = calloc(r->fragments, sizeof *l->shown))) {
		free_learner(l);
		return err_nomem();
	}
	memcpy(l->name, name, strlen(name) + 1);
	l->key = *key;
	l->born = UINT64_MAX;
	memmove(r->order + at + 1, r->order + at, (r->n - at) * sizeof *r->order);
	r->order[at] = r->n;
	r->v[r->n] = l;
	*out = r->n++;
	return 0;
}

/* ---- beats ---- */

static bool same_key(const struct sig_public *a, const struct sig_public *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* Is it a sound one for that name? key: whose name it is, NULL while that is open. */
static int judge(const struct beat *b, const char *name, const struct sig_public *signer,
	const struct sig_public *key, const struct roster_rules *rules)
{
	char print[33];
	int rc = trust_judge(rules->trust, signer, NULL);

	if (rc < 0)
		return rc;
	if (strcmp(b->run, rules->run) != 0)
		return err_set(ERR_AUTH, "of another run, %.16s", b->run);
	if (strcmp(b->learner, name) != 0)
		return err_set(ERR_AUTH, "of another learner, '%s'", b->learner);
	if (key ? same_key(key, signer) : guard_owns(name, signer, rules->trust))
		return 0;
	sig_fingerprint(print, signer);
	return err_set(ERR_AUTH, "signed by %s, and the name '%s' is another's", print, name);
}

/* The beat in these bytes, if it is one that counts for this name. */
static int parse(struct beat *b, struct sig_public *signer, const struct buf *bytes, const char *path,
	const char *name, const struct sig_public *key, unsigned fragments,
	const struct roster_rules *rules)
{
	struct header h = { .keys = { 0 } };
	int rc = card_parse(&h, signer, bytes->data, bytes->len, path, NULL);

	if (rc == 0 && (rc = beat_read(b, &h, fragments)) == 0)
		rc = judge(b, name, signer, key, rules);
	if (rc < 0 && strncmp(err_text(), path, strlen(path)) != 0)
		err_at(rc, "%s", path);
	header_release(&h);
	return rc;
}

/* 1 and new bytes, 0 when the file is not there or as it was. */
static int read_bytes(struct buf *bytes, digest *last, const char *path)
{
	digest d;
	int rc = place_read(path, CARD_BYTES, bytes);

	if (rc <= 0)
		return rc;
	sig_digest(&d, bytes->data, bytes->len);
	if (memcmp(&d, last, sizeof d) == 0)
		return 0;
	*last = d;
	return 1;
}

static bool newer(const struct beat *b, const struct roster_learner *l)
{
	if (b->incarnation < l->told)
		return false;
	if (!l->seen || b->incarnation != l->beat.incarnation)
		return !l->seen || b->incarnation > l->beat.incarnation;
	return strcmp(b->nonce, l->beat.nonce) == 0 && b->counter > l->beat.counter;
}

static void take(struct roster_learner *l, struct beat *b, double now)
{
	beat_release(&l->beat);
	l->beat = *b;
	*b = (struct beat){ .fragment = NULL };
	l->seen = true;
	l->times++;
	l->heard = now;
	l->warned = false;
	if (l->beat.trained > l->trained)
		l->trained = l->beat.trained;
}

/* What is wrong with a file is told, once, and passed over. */
static int bad_beat(struct roster_learner *l, int rc, const struct roster_rules *rules)
{
	if (rc == ERR_NOMEM)
		return rc;
	if (!l->warned)
		say_warn(rules->say, "%s", err_text());
	l->warned = true;
	return 0;
}

int roster_look(struct roster *r, size_t i, double now, const struct roster_rules *rules)
{
	struct roster_learner *l = r->v[i];
	struct buf bytes = BUF_INIT;
	struct beat b = { .fragment = NULL };
	struct sig_public signer;
	char path[RUNDIR_PATH];
	int rc;

	if (now < l->look)
		return 0;
	l->look = now + (l->lost || l->gone ? LOOK_LOST : LOOK);
	rc = read_bytes(&bytes, &l->bytes, rundir_beat(path, l->name));
	if (rc > 0 && (rc = parse(&b, &signer, &bytes, path, l->name, &l->key, r->fragments, rules)) == 0) {
		rc = newer(&b, l);
		if (rc)
			take(l, &b, now);
	}
	if (rc < 0)
		rc = bad_beat(l, rc, rules);
	beat_release(&b);
	buf_release(&bytes);
	return rc;
}

/* ---- names ---- */

struct listing {
	const struct roster *r;
	size_t at; /* unknown names so far */
};

static bool unknown(void *ctx, const char *name)
{
	struct listing *l = ctx;

	if (key_name_check("learner", name) < 0 || roster_find(l->r, name) >= 0)
		return false;
	return l->at++ >= l->r->skip;
}

/* An admitted key that floods the run with names gets no further than this. */
static int count_names(const struct roster *r, const struct sig_public *signer, const struct roster_rules *rules)
{
	char print[33];
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += same_key(&r->v[i]->key, signer);
	if (n < ROSTER_NAMES || same_key(signer, rules->owner))
		return 0;
	sig_fingerprint(print, signer);
	return err_set(ERR_AUTH, "learner/: the key %s has %d names in this run: no more of them count", print,
		ROSTER_NAMES);
}

/* What is wrong with a name is said once, however often it is listed. */
static void tell_once(struct roster *r, struct say *say)
{
	digest d, *more;

	sig_digest(&d, err_text(), strlen(err_text()));
	for (size_t i = 0; i < r->tolds; i++)
		if (memcmp(&r->told[i], &d, sizeof d) == 0)
			return;
	if (r->tolds == TOLD_MOST || !(more = realloc(r->told, (r->tolds + 1) * sizeof *more)))
		return;
	r->told = more;
	more[r->tolds++] = d;
	say_note(say, "%s", err_text());
}

/* 1 and the beat of an unknown name, when there is one that counts; 0 when there is none. */
static int read_new(struct beat *b, struct sig_public *signer, digest *bytes, const struct roster *r, const char *name,
	const struct roster_rules *rules)
{
	struct buf text = BUF_INIT;
	char path[RUNDIR_PATH];
	int rc = read_bytes(&text, bytes, rundir_beat(path, name));

	if (rc > 0 && (rc = parse(b, signer, &text, path, name, NULL, r->fragments, rules)) == 0 &&
		(rc = count_names(r, signer, rules)) == 0)
		rc = 1;
	buf_release(&text);
	return rc;
}

/* 1 when a beat that counts is there, and the learner is added. */
static int try_name(struct roster *r, const char *name, double now, const struct roster_rules *rules)
{
	struct beat b = { .fragment = NULL };
	struct sig_public signer;
	digest bytes = { { 0 } };
	size_t i;
	int rc = read_new(&b, &signer, &bytes, r, name, rules);

	if (rc > 0 && (rc = roster_add(r, &i, name, &signer)) == 0) {
		take(r->v[i], &b, now);
		r->v[i]->bytes = bytes;
		r->v[i]->look = now + LOOK;
		rc = 1;
	} else if (rc < 0 && rc != ERR_NOMEM) {
		tell_once(r, rules->say);
		rc = 0;
	}
	beat_release(&b);
	return rc;
}

int roster_scan(struct roster *r, double now, const struct roster_rules *rules)
{
	struct listing l = { r, 0 };
	double began = clock_seconds(), pause;
	char **names;
	size_t n;
	bool more;
	int rc, found = 0;

	if (now < r->scan)
		return 0;
	if ((rc = place_list_dirs(&names, &n, "learner", SCAN_NAMES, &more, unknown, &l)) < 0)
		return rc;
	r->skip = more ? r->skip + SCAN_NAMES : 0;
	for (size_t i = 0; i < n && rc >= 0; i++) {
		rc = try_name(r, names[i], now, rules);
		found += rc > 0;
	}
	place_list_free(names, n);
	pause = SCAN_SHARE * (clock_seconds() - began);
	r->scan = now + (pause > SCAN ? pause : SCAN);
	return rc < 0 ? rc : found;
}

static void add(uint64_t *sum, uint64_t n)
{
	*sum = n > FIELD_MOST - *sum ? FIELD_MOST : *sum + n;
}

uint64_t roster_trained(const struct roster *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->n; i++)
		add(&sum, r->v[i]->trained);
	return sum;
}

uint64_t roster_shown(const struct roster *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct roster_learner *l = r->v[i];
		uint64_t most = 0;

		for (unsigned p = 0; p < r->fragments; p++)
			most = l->shown[p] > most ? l->shown[p] : most;
		add(&sum, most < l->trained ? most : l->trained);
	}
	return sum;
}
