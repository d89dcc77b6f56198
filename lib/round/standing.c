/* standing - by which manifest a syncer works, and whether it is the syncer still. */
#include <inttypes.h>

#include "round/rundir.h"
#include "round/syncing.h"

#define CHECK 1.0 /* seconds between looks at manifest and epoch */

int standing_trust(struct syncer *s)
{
	struct trust makers = { 0 }, learners = { 0 };
	int rc = trust_judge(s->c.user, &s->c.manifest->owner, NULL);

	if (rc < 0)
		return err_at(rc, RUNDIR_MANIFEST);
	rc = manifest_trust(s->c.manifest, ROLE_SYNCER, s->c.user, s->c.key, &makers);
	if (rc == 0)
		rc = manifest_trust(s->c.manifest, ROLE_LEARNER, s->c.user, NULL, &learners);
	if (rc < 0) {
		trust_release(&makers);
		return rc;
	}
	trust_release(&s->makers);
	trust_release(&s->learners);
	s->makers = makers;
	s->learners = learners;
	return 0;
}

void standing_policy(struct policy_conf *c, const struct syncer *s)
{
	const struct manifest *m = s->c.manifest;

	*c = (struct policy_conf){ .fragments = m->fragments, .interval = m->interval, .overlap = m->overlap,
		.quorum = m->quorum, .grace = m->grace, .invite = m->invite, .seed = m->meta.seed,
		.lease = m->lease, .once = s->c.once };
}

int standing_tell(struct syncer *s)
{
	int rc;

	tape_begin(s->tape, syncer_seconds(s), "manifest");
	tape_put_u64(s->tape, "serial", s->c.manifest->serial);
	if ((rc = tape_end(s->tape, false)) == 0)
		s->serial = s->c.manifest->serial;
	return rc;
}

/* What lies there does not count, and is told once; the one that did goes on to count. */
static void keep_manifest(struct syncer *s, int rc)
{
	if (s->manifest_trouble.code != rc)
		say_warn(s->c.say, "%s: manifest %" PRIu64 " counts as before", err_text(),
			s->c.manifest->serial);
	err_save(&s->manifest_trouble, rc);
}

/* What a new manifest changes. Where that fails half-way, all of it is done again. */
static int obey_manifest(struct syncer *s)
{
	struct policy_conf rules;
	int rc;

	if ((rc = standing_trust(s)) < 0) {
		s->hopeless = rc == ERR_AUTH; /* this syncer is not of the run any more */
		return rc;
	}
	if (s->serial != s->c.manifest->serial && (rc = standing_tell(s)) < 0)
		return rc;
	s->dirty = true;
	standing_policy(&rules, s);
	policy_reconf(s->policy, &rules);
	if ((rc = listen_drop_revoked(s)) < 0)
		return rc;
	s->obeyed = s->c.manifest->serial;
	say_note(s->c.say, "manifest %" PRIu64 " counts from now on", s->obeyed);
	return 0;
}

static int refresh_manifest(struct syncer *s)
{
	int rc = manifest_refresh(s->c.manifest, s->c.user);

	if (rc == ERR_NOMEM)
		return rc;
	if (rc < 0)
		keep_manifest(s, rc);
	else
		s->manifest_trouble.code = 0;
	return s->obeyed == s->c.manifest->serial ? 0 : obey_manifest(s);
}

int standing_serial(struct syncer *s, uint64_t known)
{
	int rc = known > s->c.manifest->serial ? manifest_refresh(s->c.manifest, s->c.user) : 0;

	if (rc > 0)
		rc = standing_trust(s);
	if (rc < 0 || known <= s->c.manifest->serial)
		return rc;
	return err_set(ERR_AUTH, "%s: is of serial %" PRIu64 ", and the run has seen %" PRIu64
		": rolled back, or not here yet: bring back the newest", RUNDIR_MANIFEST, s->c.manifest->serial,
		known);
}

int standing_revoked(struct syncer *s)
{
	int rc = trust_refresh(s->c.user);

	s->revoking |= rc > 0;
	if (rc < 0 || !s->revoking)
		return rc;
	if ((rc = standing_trust(s)) < 0) {
		s->hopeless = rc == ERR_AUTH;
		return rc;
	}
	if ((rc = listen_drop_revoked(s)) < 0)
		return rc;
	s->revoking = false;
	s->dirty = true;
	say_note(s->c.say, "what was revoked here just now counts no more");
	return 0;
}

int standing_check(struct syncer *s)
{
	int rc = standing_revoked(s);

	if (rc < 0)
		return rc;
	if (syncer_now(s) < s->check_due)
		return 0;
	s->check_due = syncer_now(s) + CHECK;
	if ((rc = epoch_check(s->epoch.number, syncer_run_id(s), &s->makers)) < 0)
		return rc;
	return refresh_manifest(s);
}
