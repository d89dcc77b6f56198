/* manifest_who - who may be what by a manifest, and how that changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "round/manifest.h"

/* ---- whose seals count ---- */

/* What the user calls the owner; any name will do. */
static void name_owner(struct key_pub *to, const struct manifest *m, const struct trust *user)
{
	const char *name = "owner";

	to->pub = m->owner;
	if (user && trust_judge(user, &m->owner, &name) < 0)
		name = "owner";
	snprintf(to->name, sizeof to->name, "%s", name);
}

static int put_members(struct trust *t, const struct manifest *m, enum role role,
	const struct sig_public *own)
{
	int rc = 0;

	for (const struct member *a = m->member; rc == 0 && a < m->member + m->members; a++)
		if (a->revoked)
			rc = trust_bar(t, &a->key.pub);
	for (const struct member *a = m->member; rc == 0 && a < m->member + m->members; a++)
		if (!a->revoked && (a->roles & (unsigned)role))
			rc = trust_put(t, &a->key,
				own && memcmp(own, &a->key.pub, sizeof *own) == 0);
	return rc;
}

static int check_own(const struct trust *t, const struct key *own, enum role role)
{
	char print[33];

	for (size_t i = 0; i < t->n; i++)
		if (memcmp(&t->v[i].key.pub, &own->secret.pub, sizeof own->secret.pub) == 0 &&
			!t->v[i].revoked)
			return 0;
	sig_fingerprint(print, &own->secret.pub);
	if (trust_revoked(t, &own->secret.pub))
		return err_set(ERR_AUTH, "your key '%s' (%s) is revoked in this run", own->name, print);
	return err_set(ERR_AUTH, "your key '%s' (%s) is no %s of this run "
		"(here: dl-key show >FILE.pub; its owner: dl-key admit -r RUN --as %s FILE.pub)",
		own->name, print, role_name(role), role_name(role));
}

int manifest_trust(const struct manifest *m, enum role role, const struct trust *user,
	const struct key *own, struct trust *t)
{
	const struct sig_public *pub = own ? &own->secret.pub : NULL;
	struct key_pub owner;
	int rc;

	*t = (struct trust){ 0 };
	name_owner(&owner, m, user);
	rc = user ? trust_bar_all(t, user) : 0;
	if (rc == 0) /* members first: their names are the run's, the owner's is only this user's */
		rc = put_members(t, m, role, pub);
	if (rc == 0)
		rc = trust_put(t, &owner, pub && memcmp(pub, &m->owner, sizeof *pub) == 0);
	if (rc == 0 && own)
		rc = check_own(t, own, role);
	if (rc < 0)
		trust_release(t);
	return rc;
}

/* ---- admitting and revoking ---- */

static struct member *find_key(const struct manifest *m, const struct sig_public *pub)
{
	for (struct member *a = m->member; a < m->member + m->members; a++)
		if (memcmp(&a->key.pub, pub, sizeof *pub) == 0)
			return a;
	return NULL;
}

static struct member *find_name(const struct manifest *m, const char *name)
{
	for (struct member *a = m->member; a < m->member + m->members; a++)
		if (!a->revoked && strcmp(a->key.name, name) == 0)
			return a;
	return NULL;
}

const struct member *manifest_member(const struct manifest *m, const char *name)
{
	return find_name(m, name);
}

int manifest_admit(struct manifest *m, const struct key_pub *key, unsigned roles)
{
	struct member *known = find_key(m, &key->pub), *named = find_name(m, key->name);
	char print[33];
	int rc = key_name_check("member", key->name);

	if (rc < 0)
		return rc;
	sig_fingerprint(print, &key->pub);
	if (memcmp(&key->pub, &m->owner, sizeof m->owner) == 0)
		return 1; /* may be anything */
	if (known && known->revoked)
		return err_set(ERR_AUTH, "the key %s of '%s' is revoked in this run, for good: "
			"admit another one", print, known->key.name);
	if (known && strcmp(known->key.name, key->name) != 0)
		return err_set(ERR_DATA, "the key %s takes part already, as '%s'", print, known->key.name);
	if (named && named != known)
		return err_set(ERR_DATA, "another key takes part as '%s': revoke that one first, or give "
			"the new one its own name (--name)", key->name);
	if (known && known->roles == roles)
		return 1;
	if (known) {
		known->roles = roles;
		return 0;
	}
	return manifest_add_member(m, &(struct member){ .key = *key, .roles = roles });
}

static int unknown(const struct manifest *m, const char *who)
{
	const char *near, **names = calloc(m->members + 1, sizeof *names);
	char shown[80];
	size_t n = 0;

	if (!names)
		return err_nomem();
	for (size_t i = 0; i < m->members; i++)
		if (!m->member[i].revoked)
			names[n++] = m->member[i].key.name;
	near = conf_nearest(who, names);
	say_escape(shown, sizeof shown, who);
	free(names);
	return err_set(ERR_DATA, "nobody takes part as '%s'%s%s%s", shown, near ? ", did you mean '" : "",
		near ? near : "", near ? "'?" : "");
}

int manifest_revoke(struct manifest *m, const char *who)
{
	struct member *found = find_name(m, who);
	char print[33];

	sig_fingerprint(print, &m->owner);
	if (strcasecmp(print, who) == 0)
		return err_set(ERR_DATA, "that is the owner's key, which a run cannot be without");
	for (struct member *a = m->member; !found && a < m->member + m->members; a++) {
		sig_fingerprint(print, &a->key.pub);
		if (strcasecmp(print, who) == 0 || (a->revoked && strcmp(a->key.name, who) == 0))
			found = a;
	}
	if (!found)
		return unknown(m, who);
	if (found->revoked)
		return 1;
	found->revoked = true;
	return 0;
}
