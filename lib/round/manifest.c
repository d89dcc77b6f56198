#include "round/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/num.h"
#include "base/say.h"
#include "form/card.h"
#include "io/place.h"
#include "round/fields.h"
#include "round/fragment.h"
#include "round/run.h"
#include "round/rundir.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define LINE 192 /* longest line of a member: role, key, name */

#define AT(key, type, name, least, most) { key, type, offsetof(struct manifest, name), least, most }
static const struct field fields[] = {
	AT("serial", FIELD_U64, serial, 1, FIELD_COUNT),
	AT("fragments", FIELD_UNSIGNED, fragments, 1, FRAGMENT_MAX),
	AT("interval", FIELD_U64, interval, 1, 1e9),
	AT("overlap", FIELD_UNSIGNED, overlap, 1, 1e6),
	AT("quorum", FIELD_UNSIGNED, quorum, 1, 1e6),
	AT("invite", FIELD_UNSIGNED, invite, 0, 1e6),
	AT("grace", FIELD_F64, grace, 0, 1e6),
	AT("outer_lr", FIELD_F64, outer.eta, 0, 100),
	AT("momentum", FIELD_F64, outer.mu, 0, 0.9999),
	AT("outlier", FIELD_F64, outlier, 0, 1e300),
	AT("target_steps", FIELD_U64, target_steps, 0, 1e15),
	AT("target_tokens", FIELD_U64, target_tokens, 0, 1e15),
	AT("checkpoint_every", FIELD_U64, checkpoint_every, 0, 1e15),
	AT("keep", FIELD_U64, keep, 0, 1e9),
	AT("lease", FIELD_F64, lease, 0.1, 1e6),
};

/* ---- words ---- */

int adopt_parse(const char *text, struct adopt_rule *out)
{
	char shown[80];

	*out = (struct adopt_rule){ ADOPT_OVERWRITE, 0 };
	if (strcmp(text, "overwrite") == 0)
		return 0;
	if (strcmp(text, "rebase") == 0) {
		out->how = ADOPT_REBASE;
		return 0;
	}
	if (strncmp(text, "mix:", 4) == 0 && num_f64(text + 4, &out->mix) == 0 && out->mix >= 0 &&
		out->mix <= 1) {
		out->how = ADOPT_MIX;
		return 0;
	}
	say_escape(shown, sizeof shown, text);
	return err_set(ERR_DATA, "'%s' is not overwrite, rebase or mix:A with A from 0 to 1", shown);
}

void adopt_text(char out[48], const struct adopt_rule *a)
{
	char number[32];

	num_f64_text(number, a->mix);
	if (a->how == ADOPT_MIX)
		snprintf(out, 48, "mix:%s", number);
	else
		snprintf(out, 48, "%s", a->how == ADOPT_REBASE ? "rebase" : "overwrite");
}

static const char *const roles_text[] = {
	[ROLE_LEARNER] = "learner",
	[ROLE_SYNCER] = "syncer",
	[ROLE_LEARNER | ROLE_SYNCER] = "both",
};

const char *role_name(unsigned roles)
{
	return roles_text[roles];
}

int role_parse(const char *text, unsigned *roles)
{
	char shown[80];

	for (unsigned i = 1; i < COUNT(roles_text); i++)
		if (strcmp(text, roles_text[i]) == 0) {
			*roles = i;
			return 0;
		}
	say_escape(shown, sizeof shown, text);
	return err_set(ERR_DATA, "'%s' is not learner, syncer or both", shown);
}

/* ---- making ---- */

void manifest_defaults(struct manifest *m)
{
	m->fragments = m->layout.n && m->layout.n < 24 ? (unsigned)m->layout.n : 24;
	m->interval = 24;
	m->overlap = 2;
	m->quorum = 1;
	m->grace = 1;
	m->rule = MERGE_RDA;
	m->experts = MERGE_BY_TOKENS;
	m->outer = (struct merge_outer){ .eta = 0.7, .mu = 0.9 };
	m->outlier = 100;
	m->adopt = (struct adopt_rule){ ADOPT_REBASE, 0 };
	m->delta = ENC_F32;
	m->lease = 30;
	m->keep = 2;
}

void manifest_release(struct manifest *m)
{
	tensors_release(&m->layout);
	free(m->member);
	*m = (struct manifest){ 0 };
}

/* As run_id, and no two runs are alike, or answers of one could be those of another. */
static int make_id(char out[33], const struct manifest *m)
{
	struct buf text = BUF_INIT;
	char plain[33];
	digest d;
	int rc = run_id(plain, m->meta.model, &m->train, m->meta.seed, m->meta.label);

	if (rc == 0)
		rc = buf_fmt(&text, "dl run directory 1\nrun %s\nnonce %s\n", plain, m->nonce);
	if (rc == 0) {
		sig_digest(&d, text.data, text.len);
		sig_hex(out, d.b, 16);
	}
	buf_release(&text);
	return rc;
}

int manifest_identify(struct manifest *m)
{
	uint8_t nonce[16];

	if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
		return err_sys("no random numbers");
	sig_hex(m->nonce, nonce, sizeof nonce);
	return make_id(m->meta.run, m);
}

/* ---- checking ---- */

static int check_members(const struct manifest *m)
{
	for (size_t i = 0; i < m->members; i++) {
		const struct member *a = &m->member[i];

		if (memcmp(&a->key.pub, &m->owner, sizeof m->owner) == 0)
			return err_set(ERR_DATA, "member '%s' has the owner's key", a->key.name);
		for (const struct member *b = m->member; b < a; b++) {
			if (memcmp(&a->key.pub, &b->key.pub, sizeof a->key.pub) == 0)
				return err_set(ERR_DATA, "members '%s' and '%s' have one key", b->key.name,
					a->key.name);
			if (!a->revoked && !b->revoked && strcmp(a->key.name, b->key.name) == 0)
				return err_set(ERR_DATA, "two members are called '%s'", a->key.name);
		}
	}
	return 0;
}

int manifest_check(const struct manifest *m)
{
	int rc = fields_check(m, fields, COUNT(fields));

	if (rc < 0)
		return rc;
	if (m->fragments > m->layout.n)
		return err_set(ERR_DATA, "%u fragments, and the model has only %zu tensors", m->fragments,
			m->layout.n);
	if (m->invite && m->invite < m->quorum)
		return err_set(ERR_DATA, "of %u learners invited to a round there is never a quorum of %u",
			m->invite, m->quorum);
	if (m->delta == ENC_PLAIN)
		return err_set(ERR_DATA, "deltas are f32r, f32 or bf16");
	if (m->members > MANIFEST_MEMBERS)
		return err_set(ERR_DATA, "more than %d members", MANIFEST_MEMBERS);
	return check_members(m);
}

/* ---- writing ---- */

static int write_member(struct conf *to, const struct member *m, size_t number)
{
	char key[32], line[LINE], code[SIG_BASE64(SIG_PUBLIC)];

	sig_base64(code, sizeof code, m->key.pub.b, sizeof m->key.pub.b);
	snprintf(key, sizeof key, "%s.%zu", m->revoked ? "revoked" : "member", number);
	snprintf(line, sizeof line, "%s%s%s %s", m->revoked ? "" : role_name(m->roles),
		m->revoked ? "" : " ", code, m->key.name);
	return conf_set(to, key, line);
}

static int write_members(const struct manifest *m, struct conf *to)
{
	size_t number[2] = { 0, 0 };
	int rc = 0;

	for (size_t i = 0; i < m->members && rc == 0; i++)
		rc = write_member(to, &m->member[i], number[m->member[i].revoked]++);
	return rc;
}

static int write_words(const struct manifest *m, struct conf *to)
{
	char adopt[48];
	int rc;

	adopt_text(adopt, &m->adopt);
	if ((rc = conf_set(to, "nonce", m->nonce)) < 0 ||
		(rc = conf_set(to, "rule", merge_rule_name(m->rule))) < 0 ||
		(rc = conf_set(to, "expert_weights", merge_experts_name(m->experts))) < 0 ||
		(rc = conf_set(to, "adopt", adopt)) < 0)
		return rc;
	return conf_set(to, "delta", encoding_name(m->delta));
}

int manifest_write(const struct manifest *m, struct header *h)
{
	struct meta meta = m->meta;
	int rc = manifest_check(m);

	meta.kind = KIND_MANIFEST;
	if (rc == 0)
		rc = meta_write(&meta, h);
	if (rc == 0)
		rc = fields_write(m, fields, COUNT(fields), &h->keys);
	if (rc == 0)
		rc = write_words(m, &h->keys);
	if (rc == 0)
		rc = run_conf_write(&m->model, &m->train, h);
	return rc < 0 ? rc : write_members(m, &h->keys);
}

/* ---- reading ---- */

int manifest_add_member(struct manifest *m, const struct member *member)
{
	struct member *v;

	if (m->members == MANIFEST_MEMBERS)
		return err_set(ERR_DATA, "more than %d members", MANIFEST_MEMBERS);
	v = realloc(m->member, (m->members + 1) * sizeof *v);
	if (!v)
		return err_nomem();
	m->member = v;
	v[m->members++] = *member;
	return 0;
}

static int read_member(struct member *to, const char *text, bool revoked)
{
	char line[LINE], *word[3];
	size_t n = revoked ? 2 : 3;
	int rc;

	*to = (struct member){ .revoked = revoked };
	if (strlen(text) >= sizeof line)
		return err_set(ERR_DATA, "too long");
	memcpy(line, text, strlen(text) + 1);
	if ((rc = fields_words(line, word, n)) < 0 ||
		(!revoked && (rc = role_parse(word[0], &to->roles)) < 0) ||
		(rc = sig_unbase64(to->key.pub.b, sizeof to->key.pub.b, word[n - 2])) < 0)
		return rc;
	if (key_name_check("member", word[n - 1]) < 0)
		return ERR_DATA;
	memcpy(to->key.name, word[n - 1], strlen(word[n - 1]) + 1);
	return 0;
}

static int read_members(struct manifest *m, const struct conf *from, bool revoked)
{
	struct member member;
	const char *text;
	char key[32];
	int rc = 0;

	for (size_t i = 0; rc == 0; i++) {
		snprintf(key, sizeof key, "%s.%zu", revoked ? "revoked" : "member", i);
		if (!(text = conf_get(from, key)))
			return 0;
		if ((rc = read_member(&member, text, revoked)) < 0)
			rc = err_at(rc, "key '%s'", key);
		else
			rc = manifest_add_member(m, &member);
	}
	return rc;
}

/* "" for a key that is not there, which no word is. */
static const char *text_of(const struct conf *from, const char *key)
{
	const char *text = conf_get(from, key);

	return text ? text : "";
}

static int read_words(struct manifest *m, const struct conf *from)
{
	static const struct field nonce = { "nonce", FIELD_HEX, offsetof(struct manifest, nonce), 0, 32 };
	int rc;

	if ((rc = fields_read(m, &nonce, 1, from)) < 0)
		return rc;
	if ((rc = merge_rule_parse(text_of(from, "rule"), &m->rule)) < 0)
		return err_at(rc, "key 'rule'");
	if (conf_get(from, "expert_weights") &&
		(rc = merge_experts_parse(text_of(from, "expert_weights"), &m->experts)) < 0)
		return err_at(rc, "key 'expert_weights'");
	if ((rc = adopt_parse(text_of(from, "adopt"), &m->adopt)) < 0)
		return err_at(rc, "key 'adopt'");
	if ((rc = encoding_parse(text_of(from, "delta"), &m->delta)) < 0)
		return err_at(rc, "key 'delta'");
	return 0;
}

/* Model digest and run id are what the rest leads to. */
static int check_ids(const struct manifest *m)
{
	char model[65], run[33];
	int rc = run_model_digest(model, &m->model, &m->layout);

	if (rc == 0 && strcmp(model, m->meta.model) != 0)
		rc = err_set(ERR_DATA, "the model digest is not that of its configuration");
	if (rc == 0)
		rc = make_id(run, m);
	if (rc == 0 && strcmp(run, m->meta.run) != 0)
		rc = err_set(ERR_DATA, "the run id is not that of its configuration");
	return rc;
}

static int read_all(struct manifest *m, const struct header *h)
{
	int rc;

	if ((rc = meta_read(&m->meta, h)) < 0 || (rc = meta_want(&m->meta, KIND_MANIFEST)) < 0 ||
		(rc = run_conf_parse(&m->model, &m->train, h)) < 0 ||
		(rc = model_layout(&m->model, &m->layout)) < 0 ||
		(rc = fields_read(m, fields, COUNT(fields), &h->keys)) < 0 ||
		(rc = read_words(m, &h->keys)) < 0 ||
		(rc = read_members(m, &h->keys, false)) < 0 ||
		(rc = read_members(m, &h->keys, true)) < 0 || (rc = manifest_check(m)) < 0)
		return rc;
	return check_ids(m);
}

int manifest_read(struct manifest *m, const struct header *h, const struct sig_public *owner)
{
	int rc;

	*m = (struct manifest){ .owner = *owner };
	rc = read_all(m, h);
	if (rc < 0)
		manifest_release(m);
	return rc;
}

/* ---- the file ---- */

static int read_bytes(struct buf *bytes, digest *seen)
{
	int rc = place_read(RUNDIR_MANIFEST, CARD_BYTES, bytes);

	if (rc == 0)
		return err_set(ERR_IO, "%s: is gone", RUNDIR_MANIFEST);
	if (rc > 0)
		sig_digest(seen, bytes->data, bytes->len);
	return rc < 0 ? rc : 0;
}

static int parse(struct manifest *m, const struct buf *bytes, const struct trust *user)
{
	struct sig_public owner;
	struct header h = { 0 };
	int rc = card_parse(&h, &owner, bytes->data, bytes->len, RUNDIR_MANIFEST, user);

	*m = (struct manifest){ 0 };
	if (rc == 0 && (rc = manifest_read(m, &h, &owner)) < 0)
		rc = err_at(rc, "%s", RUNDIR_MANIFEST);
	header_release(&h);
	return rc;
}

int manifest_load(struct manifest *m, const struct trust *user)
{
	struct buf bytes = BUF_INIT;
	digest seen;
	int rc = read_bytes(&bytes, &seen);

	*m = (struct manifest){ 0 };
	if (rc == 0)
		rc = parse(m, &bytes, user);
	if (rc == 0)
		m->seen = seen;
	buf_release(&bytes);
	return rc;
}

/* May `next` take the place of m? */
static int check_successor(const struct manifest *m, const struct manifest *next)
{
	if (strcmp(next->meta.run, m->meta.run) != 0)
		return err_set(ERR_AUTH, "%s: is that of another run now, %.16s", RUNDIR_MANIFEST,
			next->meta.run);
	if (memcmp(&next->owner, &m->owner, sizeof m->owner) != 0)
		return err_set(ERR_AUTH, "%s: is sealed by another owner now", RUNDIR_MANIFEST);
	if (next->fragments != m->fragments)
		return err_set(ERR_DATA, "%s: a run cannot change its number of fragments", RUNDIR_MANIFEST);
	return 0;
}

/* 1: next took the place of m. */
static int succeed(struct manifest *m, struct manifest *next)
{
	const digest seen = m->seen;

	if (next->serial <= m->serial)
		return err_set(ERR_AUTH, "%s: is of serial %" PRIu64 ", where %" PRIu64 " counts: rolled back",
			RUNDIR_MANIFEST, next->serial, m->serial);
	manifest_release(m);
	*m = *next;
	m->seen = seen;
	*next = (struct manifest){ 0 };
	return 1;
}

int manifest_refresh(struct manifest *m, const struct trust *user)
{
	struct manifest next = { 0 };
	struct buf bytes = BUF_INIT;
	digest seen;
	int rc = read_bytes(&bytes, &seen);

	if (rc == 0 && memcmp(&seen, &m->seen, sizeof seen) == 0)
		goto out;
	if (rc == 0)
		rc = parse(&next, &bytes, user);
	if (rc == 0)
		rc = check_successor(m, &next);
	if (rc == 0) {
		m->seen = seen; /* an old one need not be looked at again either */
		rc = succeed(m, &next);
	}
out:
	manifest_release(&next);
	buf_release(&bytes);
	return rc;
}

int manifest_publish(struct manifest *m, const struct key *owner)
{
	struct header h = { 0 };
	struct buf bytes = BUF_INIT;
	char print[33];
	int rc = 0;

	if (memcmp(&owner->secret.pub, &m->owner, sizeof m->owner) != 0) {
		sig_fingerprint(print, &m->owner);
		return err_set(ERR_AUTH, "only the owner of the run may change who takes part, with the key "
				"%s, not '%s'", print, owner->name);
	}
	m->serial++;
	rc = manifest_write(m, &h);
	if (rc == 0)
		rc = card_seal(&bytes, &h, &owner->secret, NULL);
	if (rc == 0)
		rc = place_put(RUNDIR_MANIFEST, bytes.data, bytes.len, false);
	if (rc == 0)
		sig_digest(&m->seen, bytes.data, bytes.len);
	else
		m->serial--;
	header_release(&h);
	buf_release(&bytes);
	return rc;
}
