#include "round/roster.h"

#include "small_rundir.h"

static struct small_rundir d;
static struct key stranger = { .name = "stranger" };

static void beat(const char *place, const char *name, uint64_t incarnation, char nonce, uint64_t counter,
	const struct key *key)
{
	struct beat b;
	struct header h = { 0 };
	char path[RUNDIR_PATH];

	CHECK(beat_init(&b, SMALL_P) == 0);
	memcpy(b.run, d.manifest.meta.run, sizeof b.run);
	snprintf(b.learner, sizeof b.learner, "%s", name);
	memset(b.nonce, nonce, 16);
	b.incarnation = incarnation;
	b.counter = counter;
	b.trained = 10 * counter;
	for (unsigned p = 0; p < SMALL_P; p++)
		b.fragment[p].tokens = b.trained;
	CHECK(beat_write(&b, &h) == 0 && place_make(rundir_beat(path, place)) == 0);
	small_rundir_card(&h, key, path);
	header_release(&h);
	beat_release(&b);
}

/* What comes of looking at learner 0 again. */
static int look(struct roster *r, double now)
{
	struct roster_rules rules = { d.manifest.meta.run, &d.base.trust, &d.manifest.owner, NULL };

	return roster_look(r, 0, now, &rules);
}

static int scan(struct roster *r, double now)
{
	struct roster_rules rules = { d.manifest.meta.run, &d.base.trust, &d.manifest.owner, NULL };

	return roster_scan(r, now, &rules);
}

static void newer_beats_count(struct roster *r)
{
	const struct key *own = &d.base.key;

	beat("ann", "ann", 1, '1', 5, own);
	CHECK(scan(r, 0) == 1 && r->n == 1 && r->v[0]->beat.counter == 5 && roster_find(r, "ann") == 0);
	CHECK(look(r, 10) == 0);
	beat("ann", "ann", 1, '1', 6, own);
	CHECK(look(r, 10.1) == 0); /* not so soon */
	CHECK(look(r, 11) == 1 && r->v[0]->heard == 11 && roster_trained(r) == 60);
	beat("ann", "ann", 1, '1', 4, own); /* an old one, brought back */
	CHECK(look(r, 12) == 0);
	beat("ann", "ann", 1, '2', 9, own); /* another process that says it is the same */
	CHECK(look(r, 13) == 0);
	beat("ann", "ann", 2, '2', 1, own);
	CHECK(look(r, 14) == 1 && r->v[0]->beat.incarnation == 2);
	beat("ann", "ann", 1, '1', 99, own); /* the process before */
	CHECK(look(r, 15) == 0 && r->v[0]->beat.counter == 1);
	CHECK(roster_trained(r) == 60);
}

static void other_keys_do_not(struct roster *r)
{
	const struct trust_entry two[2] = { d.base.own, { .key = { stranger.secret.pub, "stranger" } } };
	struct trust both = { .v = (struct trust_entry *)(uintptr_t)two, .n = 2 };
	struct roster_rules rules = { d.manifest.meta.run, &both, &d.manifest.owner, NULL };

	beat("ann", "ann", 3, '3', 1, &stranger);
	CHECK(look(r, 20) == 0);
	CHECK(roster_look(r, 0, 21, &rules) == 0); /* trusted, but the name is not his */
	beat("bob", "ann", 1, '1', 1, &d.base.key); /* in another's place */
	beat("stranger", "stranger", 1, '1', 1, &d.base.key);
	CHECK(roster_scan(r, 30, &rules) == 0 && r->n == 1);
	beat("bob", "bob", 1, '1', 1, &stranger); /* a name that nobody has */
	CHECK(roster_scan(r, 60, &rules) == 1 && roster_find(r, "bob") == 1);
}

/* A listing looks into a bounded number of unknown names, and in time into all of them. */
static void many_names(struct roster *r)
{
	char name[32];
	double now = 100;

	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof name, "learner/junk%d/x", i);
		CHECK(place_make(name) == 0);
	}
	beat("zoe", "zoe", 1, '1', 1, &d.base.key);
	for (int i = 0; i < 4 && roster_find(r, "zoe") < 0; i++, now += 100)
		CHECK(scan(r, now) >= 0);
	CHECK(roster_find(r, "zoe") >= 0 && roster_find(r, "junk5") < 0);
}

/* Another key than the owner's gets so many names and no more. */
static void a_flood_of_names(struct roster *r)
{
	const struct trust_entry two[2] = { d.base.own, { .key = { stranger.secret.pub, "stranger" } } };
	struct trust both = { .v = (struct trust_entry *)(uintptr_t)two, .n = 2 };
	struct roster_rules rules = { d.manifest.meta.run, &both, &d.manifest.owner, NULL };
	const size_t before = r->n;
	char name[32];
	double now = 1000;

	for (int i = 0; i < ROSTER_NAMES + 20; i++) { /* bob is the first of his */
		snprintf(name, sizeof name, "flood%d", i);
		beat(name, name, 1, '1', 1, &stranger);
	}
	beat("zora", "zora", 1, '1', 1, &d.base.key);
	for (int i = 0; i < 20; i++, now += 100)
		CHECK(roster_scan(r, now, &rules) >= 0);
	CHECK(r->n == before + ROSTER_NAMES - 1 + 1 && roster_find(r, "zora") >= 0);
	CHECK(r->tolds > 0);
}

/* What answers show bounds what a beat says. */
static void lies_about_tokens(void)
{
	struct roster r;
	size_t i;

	roster_init(&r, SMALL_P);
	CHECK(roster_add(&r, &i, "ann", &d.base.key.secret.pub) == 0);
	r.v[i]->trained = 1000;
	CHECK(roster_trained(&r) == 1000 && roster_shown(&r) == 0);
	r.v[i]->shown[0] = 300;
	r.v[i]->shown[1] = 400;
	CHECK(roster_shown(&r) == 400);
	r.v[i]->shown[1] = 4000;
	CHECK(roster_shown(&r) == 1000);
	roster_release(&r);
}

int main(void)
{
	struct roster r;

	small_rundir_make(&d);
	CHECK(sig_generate(&stranger.secret) == 0);
	roster_init(&r, SMALL_P);
	CHECK(scan(&r, 0) == 0);
	r.scan = 0;
	newer_beats_count(&r);
	other_keys_do_not(&r);
	many_names(&r);
	a_flood_of_names(&r);
	lies_about_tokens();
	roster_release(&r);
	small_rundir_remove(&d);
	return unit_done("roster");
}
