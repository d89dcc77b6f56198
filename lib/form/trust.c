#include "form/trust.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/say.h"
#include "io/atomic.h"
#include "io/dir.h"
#include "io/fd.h"
#include "io/lock.h"

#define REVOKED_LIMIT ((size_t)1 << 20)

void trust_release(struct trust *t)
{
	free(t->v);
	free(t->revoked);
	for (size_t i = 0; i < t->lists; i++)
		free(t->list[i].path);
	*t = (struct trust){ 0 };
}

static int push(struct trust *t, const struct key_pub *key, bool own)
{
	struct trust_entry *v = realloc(t->v, (t->n + 1) * sizeof *v);

	if (!v)
		return err_nomem();
	t->v = v;
	v[t->n++] = (struct trust_entry){ .key = *key, .own = own };
	return 0;
}

static int push_own(struct trust *t, const struct key *own)
{
	struct key_pub self;

	key_public(&self, own);
	return push(t, &self, true);
}

static bool same_key(const struct sig_public *a, const struct sig_public *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

static bool is_revoked(const struct trust *t, const char *print)
{
	for (size_t i = 0; i < t->revoked_n; i++)
		if (strcmp(t->revoked[i].print, print) == 0)
			return true;
	return false;
}

static int push_revoked(struct trust *t, const struct revocation *r)
{
	struct revocation *v = realloc(t->revoked, (t->revoked_n + 1) * sizeof *v);

	if (!v)
		return err_nomem();
	t->revoked = v;
	v[t->revoked_n++] = *r;
	return 0;
}

/* ---- DIR/revoked ---- */

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* A comment that is nothing but a name is what trust_revoke writes; other words are for people only. */
static void parse_name(char name[KEY_NAME + 1], const char *comment, size_t n)
{
	while (n && (*comment == '#' || blank(*comment))) {
		comment++;
		n--;
	}
	name[0] = '\0';
	if (n > KEY_NAME)
		return;
	memcpy(name, comment, n);
	name[n] = '\0';
	if (key_name_check("key", name) < 0)
		name[0] = '\0';
}

/* Adds the fingerprint at the beginning of a line, if there is one. */
static int parse_revoked_line(struct trust *t, const char *line, size_t n)
{
	uint8_t bytes[(TRUST_PRINT - 1) / 2];
	char word[TRUST_PRINT];
	struct revocation r;
	size_t length = 0, at;

	while (n && blank(line[n - 1]))
		n--;
	if (n == 0 || line[0] == '#')
		return 0;
	while (length < n && !blank(line[length]))
		length++;
	for (at = length; at < n && blank(line[at]);)
		at++;
	if (length != sizeof word - 1 || (at < n && line[at] != '#'))
		return err_set(ERR_DATA, "not a fingerprint of %zu hex digits", sizeof word - 1);
	memcpy(word, line, length);
	word[length] = '\0';
	if (sig_unhex(bytes, sizeof bytes, word) < 0)
		return err_set(ERR_DATA, "not a fingerprint of %zu hex digits", sizeof word - 1);
	sig_hex(r.print, bytes, sizeof bytes); /* lower case now */
	parse_name(r.name, line + at, n - at);
	return push_revoked(t, &r);
}

int trust_parse_revoked(struct trust *t, const char *text, size_t n)
{
	const char *end = text + n, *next;
	int line = 1;

	for (const char *at = text; at < end; at = next, line++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		int rc;

		next = stop ? stop + 1 : end;
		rc = parse_revoked_line(t, at, (size_t)((stop ? stop : end) - at));
		if (rc < 0)
			return err_at(rc, "line %d", line);
	}
	return 0;
}

/* The text of DIR/revoked, empty when there is none. Only its absence is one: anything else that
 * keeps it from being read must not bring a revoked key back. */
static int read_revoked(const char *path, struct buf *text)
{
	struct stat st;
	int fd, rc;

	if (lstat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys("%s", path);
	rc = fd_open_in(path, &fd);
	if (rc < 0)
		return rc;
	rc = fd_slurp(fd, REVOKED_LIMIT, text);
	close(fd);
	return rc < 0 ? err_at(rc, "%s", path) : 0;
}

/* By its bytes: times and sizes of a file on a server may be old ones, and may be the same of two. */
static void see(digest *seen, const struct buf *text)
{
	sig_digest(seen, text->len ? text->data : "", text->len);
}

/* To be read again by a process that has gone elsewhere. */
static int remember(struct trust *t, const char *path, const struct buf *text)
{
	struct trust_list *l = &t->list[t->lists];
	char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);

	if (path[0] != '/' && !here)
		return err_sys("the current directory");
	if (asprintf(&l->path, "%s%s%s", here ? here : "", here ? "/" : "", path) < 0)
		l->path = NULL;
	free(here);
	if (!l->path)
		return err_nomem();
	see(&l->seen, text);
	t->lists++;
	return 0;
}

static int load_revoked(struct trust *t, const char *dir)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	int rc = buf_fmt(&path, "%s/revoked", dir);

	if (rc == 0)
		rc = read_revoked(path.data, &text);
	if (rc == 0 && (rc = trust_parse_revoked(t, text.data, text.len)) < 0)
		rc = err_at(rc, "%s", path.data);
	if (rc == 0)
		rc = remember(t, path.data, &text);
	buf_release(&path);
	buf_release(&text);
	return rc;
}

/* ---- DIR/NAME.pub ---- */

static int is_pub(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return e->d_name[0] != '.' && n > 4 && strcmp(e->d_name + n - 4, ".pub") == 0;
}

static int load_entry(struct trust *t, const char *dir, const char *file)
{
	struct buf path = BUF_INIT;
	struct key_pub key;
	struct stat st;
	char name[256];
	int rc = buf_fmt(&path, "%s/%s", dir, file);

	snprintf(name, sizeof name, "%.*s", (int)strlen(file) - 4, file);
	if (rc == 0 && stat(path.data, &st) == 0 && S_ISREG(st.st_mode)) {
		rc = key_load_pub(&key, path.data);
		if (rc == 0 && key_name_check("key", name) < 0)
			rc = err_at(ERR_DATA, "%s", path.data);
		if (rc == 0) {
			memcpy(key.name, name, strlen(name) + 1);
			rc = push(t, &key, false);
		}
	}
	buf_release(&path);
	return rc;
}

static int load_entries(struct trust *t, const char *dir)
{
	struct dirent **list;
	int n = scandir(dir, &list, is_pub, alphasort), rc = 0;

	if (n < 0)
		return err_sys("%s", dir);
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			rc = load_entry(t, dir, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return rc;
}

/* A directory that may not be there yet. */
static int load_directory(struct trust *t, const char *dir)
{
	struct stat st;
	int rc;

	if (lstat(dir, &st) < 0 && errno == ENOENT)
		return 0;
	rc = load_entries(t, dir);
	return rc < 0 ? rc : load_revoked(t, dir);
}

static int load_file(struct trust *t, const char *path)
{
	struct key_pub *v;
	size_t n;
	int rc = key_load_pubs(&v, &n, path);

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = push(t, &v[i], false);
	free(v);
	return rc;
}

static int load_given(struct trust *t, const char *path)
{
	return dir_is(path) ? load_directory(t, path) : load_file(t, path);
}

static const char *given_path(const char *path)
{
	const char *env = getenv("DL_TRUST");

	return path ? path : env && *env ? env : NULL;
}

/* CONFIG/trust; without a home there is none, and nothing in it to respect. */
static int load_user(struct trust *t, bool entries)
{
	struct buf dir = BUF_INIT;
	int rc = 0;

	if (key_config_path(&dir) == 0) {
		rc = buf_str(&dir, "/trust");
		if (rc == 0)
			rc = entries ? load_directory(t, dir.data) : load_revoked(t, dir.data);
	}
	buf_release(&dir);
	return rc;
}

int trust_load(struct trust *t, const char *path, const struct key *own)
{
	char print[TRUST_PRINT];
	int rc = 0;

	*t = (struct trust){ 0 };
	path = given_path(path);
	if (path)
		rc = load_given(t, path);
	if (rc == 0)
		rc = load_user(t, !path);
	if (rc == 0 && own)
		rc = push_own(t, own);
	for (size_t i = 0; rc == 0 && i < t->n; i++) {
		sig_fingerprint(print, &t->v[i].key.pub);
		t->v[i].revoked = is_revoked(t, print);
	}
	if (rc < 0)
		trust_release(t);
	return rc;
}

int trust_reader(struct trust *t, const char *key, const char *path)
{
	struct key own;
	int rc;

	*t = (struct trust){ 0 };
	if ((rc = key_have(&own, key)) < 0)
		return rc;
	rc = trust_load(t, path, rc ? &own : NULL);
	key_wipe(&own);
	return rc;
}

/* Only what is revoked. */
static int load_all_revoked(struct trust *t, const char *path)
{
	int rc = 0;

	path = given_path(path);
	if (path && dir_is(path))
		rc = load_revoked(t, path);
	return rc < 0 ? rc : load_user(t, false);
}

int trust_signer(struct key *k, const char *key, const char *path, struct say *say)
{
	struct trust t = { 0 };
	char print[TRUST_PRINT];
	int rc = key_find(k, key, say);

	if (rc < 0)
		return rc;
	rc = load_all_revoked(&t, path);
	sig_fingerprint(print, &k->secret.pub);
	if (rc == 0 && is_revoked(&t, print))
		rc = err_set(ERR_AUTH, "your own key '%s' (%s) is revoked: sign with another one (-k), "
			     "or make a new one: dl-key gen --replace", k->name, print);
	trust_release(&t);
	if (rc < 0)
		key_wipe(k);
	return rc;
}

/* ---- by hand ---- */

int trust_put(struct trust *t, const struct key_pub *key, bool own)
{
	int rc = push(t, key, own);

	if (rc == 0)
		t->v[t->n - 1].revoked = trust_revoked(t, &key->pub);
	return rc;
}

static int bar(struct trust *t, const struct revocation *r)
{
	if (is_revoked(t, r->print))
		return 0;
	if (push_revoked(t, r) < 0)
		return ERR_NOMEM;
	for (size_t i = 0; i < t->n; i++)
		t->v[i].revoked = trust_revoked(t, &t->v[i].key.pub);
	return 0;
}

int trust_bar(struct trust *t, const struct sig_public *key)
{
	struct revocation r = { .name = "" };

	sig_fingerprint(r.print, key);
	return bar(t, &r);
}

int trust_bar_all(struct trust *t, const struct trust *from)
{
	int rc = 0;

	for (size_t i = 0; i < from->revoked_n && rc == 0; i++)
		rc = bar(t, &from->revoked[i]);
	return rc;
}

static int read_again(struct trust *t, struct trust_list *l)
{
	struct trust now = { 0 };
	struct buf text = BUF_INIT;
	digest seen;
	int rc = read_revoked(l->path, &text);

	see(&seen, &text);
	if (rc == 0 && memcmp(&seen, &l->seen, sizeof seen) != 0) {
		if ((rc = trust_parse_revoked(&now, text.data, text.len)) < 0)
			rc = err_at(rc, "%s", l->path);
		else if ((rc = trust_bar_all(t, &now)) == 0)
			l->seen = seen;
	}
	trust_release(&now);
	buf_release(&text);
	return rc;
}

int trust_refresh(struct trust *t)
{
	size_t had = t->revoked_n;
	int rc = 0;

	for (size_t i = 0; i < t->lists && rc == 0; i++)
		rc = read_again(t, &t->list[i]);
	return rc < 0 ? rc : t->revoked_n > had;
}

/* ---- asking ---- */

static const struct trust_entry *find_key(const struct trust *t, const struct sig_public *pub)
{
	for (size_t i = 0; i < t->n; i++)
		if (same_key(&t->v[i].key.pub, pub))
			return &t->v[i];
	return NULL;
}

int trust_judge(const struct trust *t, const struct sig_public *signer, const char **name)
{
	const struct trust_entry *found = find_key(t, signer);
	char print[TRUST_PRINT];

	sig_fingerprint(print, signer);
	if (is_revoked(t, print))
		return err_set(ERR_AUTH, "signed by %s%s%s, which is revoked", print,
			       found ? " " : "", found ? found->key.name : "");
	if (!found)
		return err_set(ERR_AUTH, "signed by %s, which is not trusted "
			       "(there: dl-key show >FILE.pub; here: dl-key trust FILE.pub)", print);
	if (name)
		*name = found->key.name;
	return 0;
}

bool trust_revoked(const struct trust *t, const struct sig_public *signer)
{
	char print[TRUST_PRINT];

	sig_fingerprint(print, signer);
	return is_revoked(t, print);
}

int trust_welcome(const struct trust *t, const struct key_pub *key)
{
	char print[TRUST_PRINT];

	sig_fingerprint(print, &key->pub);
	if (!is_revoked(t, print))
		return 0;
	return err_set(ERR_AUTH, "the key %s of '%s' is revoked here: "
		       "take it out of the file 'revoked' to trust it again", print, key->name);
}

static const struct trust_entry *find_name(const struct trust *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->v[i].key.name, name) == 0)
			return &t->v[i];
	return NULL;
}

const struct sig_public *trust_named(const struct trust *t, const char *name)
{
	const struct trust_entry *e = find_name(t, name);

	return e && !e->revoked ? &e->key.pub : NULL;
}

/* ---- changing ---- */

int trust_where(struct buf *dir, const char *path)
{
	int rc;

	path = given_path(path);
	if (path) {
		buf_clear(dir);
		return buf_str(dir, path);
	}
	rc = key_config_path(dir);
	return rc < 0 ? rc : buf_str(dir, "/trust");
}

/* 1: it is there, under the name that *key has now. 0: it may be added, *replace when over a revoked
 * one. */
static int may_add(const struct trust *t, struct key_pub *key, bool *replace)
{
	const struct trust_entry *known = find_key(t, &key->pub), *have = find_name(t, key->name);
	char print[TRUST_PRINT];

	*replace = false;
	if (trust_welcome(t, key) < 0)
		return ERR_AUTH;
	if (known) {
		*key = known->key;
		return 1;
	}
	if (!have || have->own)
		return 0;
	sig_fingerprint(print, &have->key.pub);
	*replace = is_revoked(t, print);
	if (*replace)
		return 0;
	return err_set(ERR_DATA, "another key (%s) is called '%s' here: revoke that one first, or give "
		       "the new one its own name (--name)", print, key->name);
}

static int write_entry(const char *dir, const struct key_pub *key, bool replace)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	int rc = buf_fmt(&path, "%s/%s.pub", dir, key->name);

	if (rc == 0)
		rc = key_pub_text(key, &text);
	if (rc == 0)
		rc = atomic_put(path.data, 0644, text.data, text.len,
				replace ? atomic_commit : atomic_commit_new);
	if (rc == 1)
		rc = err_set(ERR_BUSY, "%s: appeared just now: try again", path.data);
	buf_release(&path);
	buf_release(&text);
	return rc;
}

int trust_add(const char *dir, struct key_pub *key, const struct key *own)
{
	struct trust t = { 0 };
	bool replace = false;
	int rc = key_name_check("key", key->name);

	if (rc == 0)
		rc = dir_make(dir, 0700);
	if (rc == 0)
		rc = load_directory(&t, dir);
	if (rc == 0 && own)
		rc = push_own(&t, own);
	if (rc == 0)
		rc = may_add(&t, key, &replace);
	if (rc == 0)
		rc = write_entry(dir, key, replace);
	trust_release(&t);
	return rc;
}

static int unknown(const struct trust *t, const char *who)
{
	const char *near, **names = calloc(t->n + 1, sizeof *names);
	char shown[80];

	if (!names)
		return err_nomem();
	for (size_t i = 0; i < t->n; i++)
		names[i] = t->v[i].key.name;
	near = conf_nearest(who, names);
	say_escape(shown, sizeof shown, who);
	free(names);
	return err_set(ERR_DATA, "no key is called '%s' here%s%s%s", shown,
		       near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Is it called `who` here, or is that its fingerprint? */
static bool goes_by(const struct trust_entry *e, const char *who)
{
	char print[TRUST_PRINT];

	sig_fingerprint(print, &e->key.pub);
	return strcmp(e->key.name, who) == 0 || strcasecmp(print, who) == 0;
}

static int remove_entry(const char *dir, const char *name)
{
	struct buf path = BUF_INIT;
	int rc = buf_fmt(&path, "%s/%s.pub", dir, name);

	if (rc == 0 && unlink(path.data) < 0 && errno != ENOENT)
		rc = err_sys("%s", path.data);
	buf_release(&path);
	return rc;
}

int trust_forget(const char *dir, const char *who)
{
	struct trust t = { 0 };
	size_t found = 0;
	int rc = load_directory(&t, dir);

	for (size_t i = 0; rc == 0 && i < t.n; i++)
		if (goes_by(&t.v[i], who)) {
			found++;
			rc = remove_entry(dir, t.v[i].key.name);
		}
	if (rc == 0 && found == 0)
		rc = unknown(&t, who);
	trust_release(&t);
	return rc;
}

/* The one that `who` means: of a name, the key that is not revoked yet. */
static const struct trust_entry *find_who(const struct trust *t, const char *who)
{
	const struct trust_entry *found = NULL;

	for (size_t i = 0; i < t->n; i++)
		if (goes_by(&t->v[i], who) && (!found || trust_revoked(t, &found->key.pub)))
			found = &t->v[i];
	return found;
}

/* What is to be revoked: a key known in t, or digits given as such. */
static int resolve(const struct trust *t, const char *who, const struct key *own, struct revocation *r,
		   bool *is_own)
{
	const struct trust_entry *e = find_who(t, who);
	uint8_t bytes[(TRUST_PRINT - 1) / 2];

	*r = (struct revocation){ .name = "" };
	*is_own = e && own && same_key(&e->key.pub, &own->secret.pub);
	if (e) {
		sig_fingerprint(r->print, &e->key.pub);
		memcpy(r->name, e->key.name, sizeof r->name);
		return 0;
	}
	if (sig_unhex(bytes, sizeof bytes, who) == 0) {
		sig_hex(r->print, bytes, sizeof bytes);
		return 0;
	}
	return unknown(t, who);
}

/* Rewrites DIR/revoked with one more line; the caller holds its lock. The name is for people, who see it
 * in the list when the key is in no other place. */
static int append_revoked(const char *path, const struct revocation *r)
{
	struct buf text = BUF_INIT;
	int rc = read_revoked(path, &text);

	if (rc == 0 && text.len && text.data[text.len - 1] != '\n')
		rc = buf_str(&text, "\n");
	if (rc == 0)
		rc = buf_fmt(&text, "%s%s%s\n", r->print, r->name[0] ? " # " : "", r->name);
	if (rc == 0)
		rc = atomic_put(path, 0644, text.data, text.len, atomic_commit);
	buf_release(&text);
	return rc;
}

int trust_revoke(const char *dir, const char *who, const struct key *own)
{
	struct lock lock = LOCK_INIT;
	struct buf path = BUF_INIT;
	struct trust t = { 0 };
	struct revocation r;
	bool is_own = false;
	int rc = dir_make(dir, 0700);

	if (rc == 0)
		rc = buf_fmt(&path, "%s/revoked", dir);
	if (rc == 0)
		rc = lock_take(&lock, path.data);
	if (rc == 0)
		rc = load_directory(&t, dir);
	if (rc == 0 && own)
		rc = push_own(&t, own);
	if (rc == 0)
		rc = resolve(&t, who, own, &r, &is_own);
	if (rc == 0 && !is_revoked(&t, r.print))
		rc = append_revoked(path.data, &r);
	lock_release(&lock);
	trust_release(&t);
	buf_release(&path);
	return rc < 0 ? rc : is_own;
}
