/*
 * dl-key - make a key pair, print a public key or fingerprint, trust, forget or revoke a key, here or in a
 * run
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/opt.h"
#include "base/say.h"
#include "form/trust.h"
#include "io/fd.h"
#include "io/lock.h"
#include "round/audit.h"
#include "round/manifest.h"
#include "round/rundir.h"

#define PATIENCE 10.0   /* seconds until a list that others change is in use for too long */
#define PAUSE 10000000L /* nanoseconds between tries */

static struct {
	const char *output, *name, *key, *trust, *run, *as;
	bool replace, fingerprint, json, quiet, verbose;
	bool output_given, replace_given, name_given, fingerprint_given, json_given, run_given, as_given;
} o = { .as = "learner" };

static const struct opt table[] = {
	{ 'o', "output", OPT_TEXT, &o.output, "NAME", "gen: write NAME.key and NAME.pub",
	  .given = &o.output_given },
	{ 0, "replace", OPT_FLAG, &o.replace, NULL, "gen: make a new own key, keep the old one beside it",
	  .given = &o.replace_given },
	{ 'f', "fingerprint", OPT_FLAG, &o.fingerprint, NULL, "show: print the fingerprint",
	  .given = &o.fingerprint_given },
	{ 'n', "name", OPT_TEXT, &o.name, "NAME", "trust, admit: call the key NAME",
	  .given = &o.name_given },
	{ 'r', "run", OPT_TEXT, &o.run, "RUN", "admit, revoke, list: in a run directory",
	  .given = &o.run_given },
	{ 0, "as", OPT_TEXT, &o.as, "ROLE", "admit: as learner (the default), syncer or both",
	  .given = &o.as_given },
	{ 0, "json", OPT_FLAG, &o.json, NULL, "list: print a JSON object a line", .given = &o.json_given },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "own secret key, instead of $DL_KEY or the default" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL, "say errors only" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say what was done" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-key gen [--replace | -o NAME]",
	"dl-key show [-f] [FILE]",
	"dl-key trust [-n NAME] FILE...",
	"dl-key forget NAME...",
	"dl-key revoke NAME...",
	"dl-key list [--json]",
	"dl-key admit -r RUN [--as ROLE] [-n NAME] FILE...",
	"dl-key revoke -r RUN NAME...",
	"dl-key list -r RUN [--json]",
	NULL
};
static const struct opt_prog prog = {
	"dl-key", "Makes and shows keys; keeps the lists of those trusted, or part of a run.",
	synopsis, table
};
static struct say say;

static int generate(char **words, int n)
{
	int rc;

	(void)words;
	(void)n;
	if (o.output && o.replace)
		return err_set(ERR_USAGE, "--replace is for one's own key, not with --output");
	if (o.output)
		return key_generate(o.output, &say);
	rc = o.replace ? key_replace_default(&say) : key_generate_default(&say);
	return rc == 1 ? err_set(ERR_IO, "you have a key already: dl-key show prints it, "
				 "dl-key gen --replace makes another") : rc;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Own key, a public key, or the public half of a secret one. */
static int load_shown(struct key_pub *pub, const char *path)
{
	struct key key;
	int rc;

	if (path && !ends_with(path, ".key"))
		return key_load_pub(pub, path);
	rc = path ? key_load(&key, path) : key_find(&key, o.key, &say);
	if (rc == 0)
		key_public(pub, &key);
	key_wipe(&key);
	return rc;
}

static int show(char **words, int n)
{
	struct buf line = BUF_INIT;
	char print[TRUST_PRINT];
	struct key_pub pub;
	int rc = load_shown(&pub, n ? words[0] : NULL);

	if (rc == 0)
		rc = key_pub_text(&pub, &line);
	if (rc == 0 && o.fingerprint) {
		sig_fingerprint(print, &pub.pub);
		puts(print);
	} else if (rc == 0) {
		fputs(line.data, stdout);
	}
	buf_release(&line);
	return rc;
}

static int trust_file(const char *dir, const char *path, const struct key *own)
{
	struct key_pub *v;
	char print[TRUST_PRINT];
	size_t n;
	int rc = key_load_pubs(&v, &n, path);

	if (rc == 0 && o.name && n > 1)
		rc = err_set(ERR_USAGE, "--name is for one key, '%s' has %zu", fd_name(path), n);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (o.name)
			snprintf(v[i].name, sizeof v[i].name, "%s", o.name);
		rc = trust_add(dir, &v[i], own);
		sig_fingerprint(print, &v[i].pub);
		if (rc < 0)
			rc = err_at(rc, "%s", fd_name(path));
		else
			say_note(&say, "%s: %s %s", rc ? "trusted already" : "trusted", v[i].name, print);
		rc = rc < 0 ? rc : 0;
	}
	free(v);
	return rc;
}

static int trust(char **words, int n)
{
	struct buf dir = BUF_INIT;
	struct key own;
	int rc = o.name ? key_name_check("key", o.name) : 0;

	if (rc == 0 && o.name && n > 1)
		rc = err_set(ERR_USAGE, "--name is for one key, not for %d files", n);
	if (rc == 0)
		rc = trust_where(&dir, o.trust);
	if (rc == 0)
		rc = key_find(&own, o.key, &say);
	for (int i = 0; rc == 0 && i < n; i++)
		rc = trust_file(dir.data, words[i], &own);
	key_wipe(&own);
	buf_release(&dir);
	return rc;
}

/* Others may change the same list just now: each in turn. False when that takes too long. `since`: of the first try, 0
 * before. */
static bool next_try(double *since)
{
	static const struct timespec pause = { .tv_nsec = PAUSE };
	double now = clock_seconds();

	if (*since <= 0)
		*since = now;
	return now - *since < PATIENCE && nanosleep(&pause, NULL) == 0;
}

/* ---- in a run ---- */

/* A run whose manifest is being changed by its owner. */
struct change {
	struct key owner;
	struct trust trust;
	struct manifest manifest;
	struct lock lock;
	bool changed;
};

static int lock_manifest(struct change *c)
{
	double since = 0;
	int rc;

	do
		rc = lock_take(&c->lock, RUNDIR_MANIFEST);
	while (rc == ERR_BUSY && next_try(&since));
	return rc;
}

static int change_begin(struct change *c)
{
	int rc;

	*c = (struct change){ .lock = LOCK_INIT };
	if ((rc = trust_signer(&c->owner, o.key, o.trust, &say)) < 0 ||
		(rc = trust_load(&c->trust, o.trust, &c->owner)) < 0 ||
		(rc = rundir_enter(o.run)) < 0 || (rc = lock_manifest(c)) < 0)
		return rc;
	if ((rc = manifest_load(&c->manifest, &c->trust)) == 0)
		rc = audit_serial(&c->manifest, &c->trust);
	return rc < 0 ? err_at(rc, "%s", o.run) : 0;
}

/* All of it or nothing. */
static int change_end(struct change *c, int rc)
{
	if (rc == 0 && c->changed && (rc = manifest_publish(&c->manifest, &c->owner)) == 0)
		say_note(&say, "%s: its manifest has serial %" PRIu64 " now", o.run, c->manifest.serial);
	lock_release(&c->lock);
	manifest_release(&c->manifest);
	trust_release(&c->trust);
	key_wipe(&c->owner);
	return rc;
}

static int admit_key(struct change *c, const struct key_pub *key, unsigned roles)
{
	char print[TRUST_PRINT];
	int rc = trust_welcome(&c->trust, key);

	if (rc == 0)
		rc = manifest_admit(&c->manifest, key, roles);
	if (rc < 0)
		return rc;
	c->changed |= rc == 0;
	sig_fingerprint(print, &key->pub);
	say_note(&say, "%s as %s: %s %s", rc ? "admitted already" : "admitted", role_name(roles), key->name,
		print);
	return 0;
}

/* The keys of all the files; those that come from standard input, too. */
struct keys {
	struct key_pub *v;
	size_t n;
};

static int keys_add(struct keys *k, const char *path)
{
	struct key_pub *v, *all;
	size_t n;
	int rc = key_load_pubs(&v, &n, path);

	if (rc < 0)
		return rc;
	all = realloc(k->v, (k->n + n) * sizeof *all);
	if (all) {
		k->v = all;
		memcpy(all + k->n, v, n * sizeof *v);
		k->n += n;
	}
	free(v);
	return all ? 0 : err_nomem();
}

static int admit_keys(const struct keys *k, unsigned roles)
{
	struct change c;
	int rc = change_begin(&c);

	for (size_t i = 0; rc == 0 && i < k->n; i++)
		rc = admit_key(&c, &k->v[i], roles);
	return change_end(&c, rc);
}

static int admit(char **words, int n)
{
	struct keys k = { 0 };
	unsigned roles;
	int rc = o.name ? key_name_check("key", o.name) : 0;

	if (!o.run)
		return err_set(ERR_USAGE, "'admit' is for a run directory: give it with -r (dl-key trust is for "
				"yourself)");
	if (rc == 0 && role_parse(o.as, &roles) < 0)
		rc = err_at(ERR_USAGE, "option --as");
	for (int i = 0; rc == 0 && i < n; i++)
		rc = keys_add(&k, words[i]);
	if (rc == 0 && o.name && k.n > 1)
		rc = err_set(ERR_USAGE, "--name is for one key, not for %zu", k.n);
	if (rc == 0 && o.name)
		snprintf(k.v[0].name, sizeof k.v[0].name, "%s", o.name);
	if (rc == 0)
		rc = admit_keys(&k, roles);
	free(k.v);
	return rc;
}

static int revoke_in_run(char **words, int n)
{
	struct change c;
	int rc = change_begin(&c);

	for (int i = 0; rc == 0 && i < n; i++) {
		int again = manifest_revoke(&c.manifest, words[i]);

		rc = again < 0 ? again : 0;
		c.changed |= again == 0;
		if (rc == 0)
			say_note(&say, "%s: %s", again ? "revoked already" : "revoked", words[i]);
	}
	return change_end(&c, rc);
}

/* One who takes part, or did. */
static void list_member(const char *name, const struct sig_public *key, const char *role, bool revoked)
{
	char print[TRUST_PRINT], code[64];

	sig_fingerprint(print, key);
	sig_base64(code, sizeof code, key->b, sizeof key->b);
	if (o.json)
		printf("{\"name\":\"%s\",\"fingerprint\":\"%s\",\"key\":\"%s\",\"role\":\"%s\",\"state\":\"%s\"}\n",
			name, print, code, role, revoked ? "revoked" : "admitted");
	else
		printf("%-16s  %s  %s\n", name, print, revoked ? "revoked" : role);
}

static int list_run(void)
{
	struct manifest m = { 0 };
	struct trust t = { 0 };
	const char *owner = "owner";
	int rc = trust_reader(&t, o.key, o.trust);

	if (rc == 0)
		rc = rundir_enter(o.run);
	if (rc == 0 && (rc = manifest_load(&m, &t)) < 0)
		rc = err_at(rc, "%s", o.run);
	if (rc == 0)
		rc = trust_judge(&t, &m.owner, &owner);
	if (rc == 0 && !o.json)
		printf("%-16s  %-32s  ROLE\n", "NAME", "FINGERPRINT");
	if (rc == 0)
		list_member(owner, &m.owner, "owner", false);
	for (size_t i = 0; rc == 0 && i < m.members; i++) {
		const struct member *a = &m.member[i];

		list_member(a->key.name, &a->key.pub, a->roles ? role_name(a->roles) : "", a->revoked);
	}
	manifest_release(&m);
	trust_release(&t);
	return rc;
}

/* ---- here ---- */

static int revoke_one(const char *dir, const char *who, const struct key *own)
{
	double since = 0;
	int rc;

	do
		rc = trust_revoke(dir, who, own);
	while (rc == ERR_BUSY && next_try(&since));
	if (rc == 1)
		say_warn(&say, "%s is your own key: what is signed with it is refused from now on", who);
	return rc < 0 ? rc : 0;
}

static int revoke(char **words, int n)
{
	struct buf dir = BUF_INIT;
	struct key own;
	bool have;
	int rc;

	if (o.run)
		return revoke_in_run(words, n);
	have = key_have(&own, o.key) > 0; /* one that can't be read must not keep others from being revoked */
	rc = trust_where(&dir, o.trust);
	for (int i = 0; rc == 0 && i < n; i++)
		rc = revoke_one(dir.data, words[i], have ? &own : NULL);
	key_wipe(&own);
	buf_release(&dir);
	return rc;
}

static int forget(char **words, int n)
{
	struct buf dir = BUF_INIT;
	int rc = trust_where(&dir, o.trust);

	for (int i = 0; rc == 0 && i < n; i++)
		rc = trust_forget(dir.data, words[i]);
	buf_release(&dir);
	return rc;
}

/* A key as the list shows it: of one that was revoked and then replaced, forgotten, or never trusted, only
 * the line in `revoked` is left. */
struct shown {
	const char *name;
	char print[TRUST_PRINT];
	const struct sig_public *key; /* NULL: not kept */
	const char *state;
};

static void show_entry(struct shown *s, const struct trust_entry *e)
{
	*s = (struct shown){ .name = e->key.name, .key = &e->key.pub,
		.state = e->revoked ? "revoked" : e->own ? "own" : "trusted" };
	sig_fingerprint(s->print, &e->key.pub);
}

static bool is_shown(const struct shown *v, size_t n, const char *print)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].print, print) == 0)
			return true;
	return false;
}

static void show_revocation(struct shown *s, const struct revocation *r)
{
	*s = (struct shown){ .name = r->name, .state = "revoked" };
	memcpy(s->print, r->print, sizeof s->print);
}

/* All that t knows, each key once. */
static size_t show_all(struct shown *v, const struct trust *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		show_entry(&v[n++], &t->v[i]);
	for (size_t i = 0; i < t->revoked_n; i++)
		if (!is_shown(v, n, t->revoked[i].print))
			show_revocation(&v[n++], &t->revoked[i]);
	return n;
}

static void list_text(const struct shown *v, size_t n)
{
	int width = 4;

	for (size_t i = 0; i < n; i++)
		if ((int)strlen(v[i].name) > width)
			width = (int)strlen(v[i].name);
	printf("%-*s  %-32s  STATE\n", width, "NAME", "FINGERPRINT");
	for (size_t i = 0; i < n; i++)
		printf("%-*s  %s  %s\n", width, v[i].name[0] ? v[i].name : "-", v[i].print, v[i].state);
}

/* One object a line. Names and digits only: nothing in it needs escaping. */
static void list_json(const struct shown *v, size_t n)
{
	char code[64];

	for (size_t i = 0; i < n; i++) {
		const char *mark = v[i].name[0] ? "\"" : "", *name = v[i].name[0] ? v[i].name : "null";

		printf("{\"name\":%s%s%s,\"fingerprint\":\"%s\",", mark, name, mark, v[i].print);
		if (v[i].key) {
			sig_base64(code, sizeof code, v[i].key->b, sizeof v[i].key->b);
			printf("\"key\":\"%s\",", code);
		} else {
			printf("\"key\":null,");
		}
		printf("\"state\":\"%s\"}\n", v[i].state);
	}
}

static int list_trust(const struct trust *t)
{
	struct shown *v = calloc(t->n + t->revoked_n + 1, sizeof *v);
	size_t n;

	if (!v)
		return err_nomem();
	n = show_all(v, t);
	if (o.json)
		list_json(v, n);
	else
		list_text(v, n);
	free(v);
	return 0;
}

static int list(char **words, int n)
{
	struct trust t;
	struct key own;
	int rc;

	(void)words;
	(void)n;
	if (o.run)
		return list_run();
	rc = key_find(&own, o.key, &say);
	if (rc == 0)
		rc = trust_load(&t, o.trust, &own);
	key_wipe(&own);
	if (rc < 0)
		return rc;
	rc = list_trust(&t);
	trust_release(&t);
	return rc;
}

static const struct command {
	const char *name;
	int (*run)(char **words, int n);
	int least, most;   /* words after the name */
	const bool *takes[3]; /* the options that are not for all */
} commands[] = {
	{ "gen", generate, 0, 0, { &o.output_given, &o.replace_given } },
	{ "show", show, 0, 1, { &o.fingerprint_given } },
	{ "trust", trust, 1, INT_MAX, { &o.name_given } },
	{ "forget", forget, 1, INT_MAX, { NULL } },
	{ "revoke", revoke, 1, INT_MAX, { &o.run_given } },
	{ "list", list, 0, 0, { &o.json_given, &o.run_given } },
	{ "admit", admit, 1, INT_MAX, { &o.run_given, &o.as_given, &o.name_given } },
};
#define COMMANDS (sizeof commands / sizeof commands[0])

/* No option is accepted and then ignored. */
static int check_options(const struct command *c)
{
	static const struct { const bool *given; const char *name; } special[] = {
		{ &o.output_given, "--output" }, { &o.replace_given, "--replace" },
		{ &o.fingerprint_given, "--fingerprint" }, { &o.name_given, "--name" },
		{ &o.json_given, "--json" }, { &o.run_given, "--run" }, { &o.as_given, "--as" },
	};

	for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
		if (*special[i].given && c->takes[0] != special[i].given &&
			c->takes[1] != special[i].given && c->takes[2] != special[i].given)
			return err_set(ERR_USAGE, "option %s is not for '%s'", special[i].name, c->name);
	return 0;
}

static int run(char **words, int n)
{
	char shown[80];
	int rc;

	if (n == 0)
		return err_set(ERR_USAGE, "what to do? gen, show, trust, forget, revoke, list or admit; see -h");
	for (const struct command *c = commands; c < commands + COMMANDS; c++) {
		if (strcmp(words[0], c->name) != 0)
			continue;
		rc = check_options(c);
		if (rc < 0)
			return rc;
		if (n - 1 < c->least)
			return err_set(ERR_USAGE, "'%s' needs to know which: see -h", c->name);
		if (n - 1 > c->most) {
			say_escape(shown, sizeof shown, words[c->most + 1]);
			return err_set(ERR_USAGE, "'%s' has no use for '%s'", c->name, shown);
		}
		return c->run(words + 1, n - 1);
	}
	say_escape(shown, sizeof shown, words[0]);
	return err_set(ERR_USAGE, "'%s' is none of gen, show, trust, forget, revoke, list and admit", shown);
}

int main(int argc, char **argv)
{
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	say_init(&say, prog.name, o.quiet, o.verbose);
	if (rc == 0)
		rc = run(words, n);
	if (rc == 0)
		rc = fd_close_output();
	return rc < 0 ? say_error(&say, rc) : 0;
}
