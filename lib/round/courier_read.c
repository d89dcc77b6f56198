#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "form/card.h"
#include "form/ckpt.h"
#include "io/place.h"
#include "round/courier_inside.h"
#include "round/merging.h"
#include "round/rundir.h"

#define RETRY_MISSING 0.1 /* seconds: a file that is not there yet, or no more */
#define RETRY_BAD 2.0     /* one that is no good */

/* ---- who is believed ---- */

/* 8 digits of a key's fingerprint and '-' begin a default name: that of another key is not ours. */
static int check_name(const struct courier *c)
{
	const char *name = c->conf.about.learner;
	const struct member *m = manifest_member(c->manifest, name);
	const struct sig_public *own = &c->key->secret.pub;
	char print[33];

	if (m && memcmp(&m->key.pub, own, sizeof *own) != 0)
		return err_set(ERR_AUTH, "the name '%s' belongs to another key: choose one with -i", name);
	for (size_t i = 0; i < c->learners.n; i++) {
		sig_fingerprint(print, &c->learners.v[i].key.pub);
		if (strncmp(name, print, 8) == 0 && name[8] == '-' &&
			memcmp(&c->learners.v[i].key.pub, own, sizeof *own) != 0)
			return err_set(ERR_AUTH, "the name '%s' is one of another key's: choose one with -i",
				name);
	}
	return 0;
}

int courier_trusts(struct courier *c)
{
	struct trust learners = { 0 }, syncers = { 0 };
	int rc = trust_judge(c->user, &c->manifest->owner, NULL);

	if (rc < 0)
		return err_at(rc, RUNDIR_MANIFEST);
	if ((rc = manifest_trust(c->manifest, ROLE_LEARNER, c->user, c->key, &learners)) < 0)
		return rc;
	if ((rc = manifest_trust(c->manifest, ROLE_SYNCER, c->user, NULL, &syncers)) < 0) {
		trust_release(&learners);
		return rc;
	}
	trust_release(&c->learners);
	trust_release(&c->syncers);
	c->learners = learners;
	c->syncers = syncers;
	return check_name(c);
}

static void post_targets(struct courier *c)
{
	pthread_mutex_lock(&c->lock);
	c->desk.target_steps = c->manifest->target_steps;
	pthread_mutex_unlock(&c->lock);
}

/* Keys that the user has revoked by now count no more. False: the learner is to end, or the list can't be read, and
 * nothing new is believed meanwhile. */
static bool heed_revoked(struct courier *c)
{
	int rc;

	if (c->desk.end.code)
		return false;
	if ((rc = trust_refresh(c->user)) < 0)
		courier_complain(c, "no news is taken");
	else if (rc > 0 && (rc = courier_trusts(c)) < 0)
		courier_end(c, rc);
	return rc >= 0;
}

int courier_refresh(struct courier *c)
{
	char text[64];
	int rc;

	if (!heed_revoked(c))
		return 0;
	rc = manifest_refresh(c->manifest, c->user);
	if (rc < 0)
		courier_complain(c, "the manifest is kept as it was");
	if (rc != 1)
		return 0;
	if ((rc = courier_trusts(c)) < 0) {
		courier_end(c, rc);
		return 0;
	}
	post_targets(c);
	snprintf(text, sizeof text, "manifest of serial %" PRIu64, c->manifest->serial);
	courier_say(c, false, text);
	return 1;
}

/* ---- the head ---- */

static int parse_head(struct courier *c, struct head *out)
{
	return head_parse(out, c->head.data, c->head.len, c->conf.about.run, c->cut->n, &c->syncers);
}

/* A head knows a serial: a manifest below it is an old one. */
static void check_serial(struct courier *c, uint64_t serial)
{
	char text[160];

	if (serial > c->manifest->serial)
		courier_refresh(c);
	if (serial <= c->manifest->serial || serial <= c->old_serial)
		return;
	snprintf(text, sizeof text,
		"manifest: serial %" PRIu64 ", the head knows %" PRIu64
		": rolled back, or not here yet: going on with what is known",
		c->manifest->serial, serial);
	courier_say(c, true, text);
	c->old_serial = serial;
}

static int take_head(struct courier *c)
{
	struct head next = { 0 }, old;
	bool had = c->desk.headed;
	int rc = parse_head(c, &next);

	if (rc == ERR_AUTH && courier_refresh(c) == 1) /* of a syncer that is new here */
		rc = parse_head(c, &next);
	if (rc < 0)
		return rc;
	if (had && !head_newer(&next, &c->desk.head)) {
		head_release(&next);
		return 0;
	}
	pthread_mutex_lock(&c->lock);
	old = c->desk.head;
	c->desk.head = next;
	c->desk.headed = true;
	c->desk.heads++;
	pthread_mutex_unlock(&c->lock);
	c->work.heads++;
	if (had)
		head_release(&old);
	check_serial(c, c->desk.head.serial);
	return 1;
}

int courier_poll(struct courier *c)
{
	struct buf swap;
	int rc;

	buf_clear(&c->scratch);
	if ((rc = place_read(RUNDIR_HEAD, CARD_BYTES, &c->scratch)) <= 0)
		return rc;
	if (c->scratch.len == c->head.len && memcmp(c->scratch.data, c->head.data, c->head.len) == 0)
		return 0;
	if (!heed_revoked(c))
		return 0;
	swap = c->head;
	c->head = c->scratch;
	c->scratch = swap;
	return take_head(c);
}

/* ---- fragments ---- */

static int check_fragment(const struct courier *c, const struct frame_reader *r, struct meta *m,
	unsigned p, uint64_t version)
{
	const struct header *h = frame_header(r);
	char name[5];
	int rc = meta_read(m, h);

	if (rc == 0)
		rc = meta_want(m, KIND_FRAGMENT);
	if (rc < 0)
		return rc;
	if (strcmp(m->run, c->conf.about.run) != 0 || strcmp(m->model, c->conf.about.model) != 0)
		return err_set(ERR_AUTH, "is of another run");
	if (strcmp(m->fragment, rundir_fragment_name(name, p)) != 0 || m->version != version)
		return err_set(ERR_AUTH, "is version %" PRIu64 " of fragment %s", m->version, m->fragment);
	return tensors_same(&c->cut->v[p].layout, &h->tensors);
}

static int read_fragment(const struct courier *c, struct frame_reader *r, unsigned p, uint64_t version,
	const digest *id, float *value, struct replica_version *out, bool together)
{
	struct meta m;
	int rc = check_fragment(c, r, &m, p, version);

	if (rc < 0)
		return err_at(rc, "%s", frame_name(r));
	/* Threads share the work of a stream; alone it is less work to have one seal verified for all. */
	if ((rc = together ? ckpt_read(r, value) : ckpt_load(r, c->frames, value)) < 0)
		return rc;
	*out = (struct replica_version){ .version = version, .round = m.round, .step = m.step };
	out->counted = head_lists(conf_get(&frame_header(r)->keys, MERGING_ANSWERS), c->conf.about.learner,
		&out->answers);
	if ((rc = frame_id(r, &out->id)) < 0)
		return rc;
	if (id && memcmp(id, &out->id, sizeof *id) != 0)
		return err_set(ERR_DATA, "%s: is another one than the head tells", frame_name(r));
	return 1;
}

int courier_fetch(struct courier *c, unsigned p, uint64_t version, const digest *id, float *value,
	struct replica_version *out, struct pool *pool)
{
	char path[RUNDIR_PATH];
	struct frame_reader *r = NULL;
	int fd, rc = place_open(rundir_fragment(path, p, version), &fd);

	if (rc <= 0)
		return rc;
	rc = frame_open(&r, fd, path, &c->syncers, pool);
	if (rc == 0)
		rc = read_fragment(c, r, p, version, id, value, out, pool != NULL);
	frame_reader_free(r);
	close(fd);
	return rc;
}

/* A file may be gone, or be another one, because the head has moved on: it is read again before the next
 * try. */
static void stage_one(struct courier *c, unsigned p, const struct head_fragment *f)
{
	struct replica_version v = { 0 };
	struct desk_slot *slot;
	double wait;
	int rc;

	pthread_mutex_lock(&c->lock);
	slot = desk_slot_for(&c->desk, p, f->version, &f->id);
	pthread_mutex_unlock(&c->lock);
	if (!slot)
		return;
	rc = courier_fetch(c, p, f->version, &f->id, slot->value, &v, NULL);
	c->work.versions += rc == 1;
	wait = rc == 0 ? RETRY_MISSING : RETRY_BAD;
	if (rc < 0)
		courier_complain(c, "tried again");
	c->not_before[p] = rc == 1 ? 0 : courier_now(c) + wait;
	pthread_mutex_lock(&c->lock);
	slot->version = v;
	slot->state = rc == 1 ? DESK_READY : DESK_EMPTY;
	pthread_mutex_unlock(&c->lock);
}

void courier_stage(struct courier *c)
{
	for (unsigned p = 0; c->desk.headed && p < c->cut->n; p++)
		if (c->not_before[p] == 0 || courier_now(c) >= c->not_before[p])
			stage_one(c, p, &c->desk.head.fragment[p]);
}
