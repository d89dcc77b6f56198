#include "form/key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/atomic.h"
#include "io/dir.h"
#include "io/fd.h"
#include "io/lock.h"
#include "io/output.h"

#define PUBLIC_TAG "dl-key-1"
#define SECRET_TAG "dl-secret-1"
#define SECRET_LIMIT 4096
#define PUBLIC_LIMIT ((size_t)1 << 20)
#define LINE_LIMIT 255

int key_name_check(const char *what, const char *name)
{
	static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(name);
	char shown[80];

	if (n && n <= KEY_NAME && strspn(name, good) == n && name[0] != '.' && name[0] != '-')
		return 0;
	say_escape(shown, sizeof shown, name);
	return err_set(ERR_USAGE,
		       "%s '%s': a name is 1 to %d of A-Z a-z 0-9 . _ - and starts with none of . -",
		       what, shown, KEY_NAME);
}

/* ---- where ---- */

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int key_config_path(struct buf *out)
{
	const char *base = environment("XDG_CONFIG_HOME"), *home = environment("HOME");

	buf_clear(out);
	if (base && base[0] == '/') /* a relative one is to be ignored, says its specification */
		return buf_fmt(out, "%s/dl", base);
	if (home)
		return buf_fmt(out, "%s/.config/dl", home);
	return err_set(ERR_IO, "no place for keys: neither HOME nor XDG_CONFIG_HOME is set");
}

/* Made (0700) when missing. */
static int make_config(struct buf *out)
{
	int rc = key_config_path(out);

	return rc < 0 ? rc : dir_make(out->data, 0700);
}

/* ---- text ---- */

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int refuse_tag(const char *tag, const char *want)
{
	char shown[40];

	if (strcmp(tag, PUBLIC_TAG) == 0)
		return err_set(ERR_DATA, "a public key, where a secret key belongs");
	if (strcmp(tag, SECRET_TAG) == 0)
		return err_set(ERR_DATA, "a secret key, where a public key belongs");
	say_escape(shown, sizeof shown, tag);
	return err_set(ERR_DATA, "starts with '%s', not with '%s'", shown, want);
}

/* "TAG BASE64 NAME" of 32 bytes, blanks and line ends around it ignored. */
static int parse_words(const char *tag, uint8_t bytes[32], char name[KEY_NAME + 1],
		       const char *line, size_t n)
{
	char text[LINE_LIMIT + 1], first[32] = "", code[64], extra[2];
	int words, rc;

	while (n && blank(line[n - 1]))
		n--;
	if (n > LINE_LIMIT || memchr(line, '\0', n) || memchr(line, '\n', n))
		return err_set(ERR_DATA, "not a key: one line, '%s BASE64 NAME'", tag);
	memcpy(text, line, n);
	text[n] = '\0';
	words = sscanf(text, "%31s %63s %64s %1s", first, code, name, extra);
	if (words < 1)
		rc = err_set(ERR_DATA, "is empty");
	else if (strcmp(first, tag) != 0)
		rc = refuse_tag(first, tag);
	else if (words != 3)
		rc = err_set(ERR_DATA, "not a key: one line, '%s BASE64 NAME'", tag);
	else if ((rc = sig_unbase64(bytes, 32, code)) == 0 && key_name_check("key", name) < 0)
		rc = ERR_DATA;
	sig_wipe(text, sizeof text);
	sig_wipe(code, sizeof code);
	return rc;
}

int key_parse(struct key *k, const char *line, size_t n)
{
	uint8_t seed[SIG_SEED];
	int rc = parse_words(SECRET_TAG, seed, k->name, line, n);

	if (rc == 0)
		rc = sig_init();
	if (rc == 0)
		rc = sig_from_seed(&k->secret, seed);
	sig_wipe(seed, sizeof seed);
	return rc;
}

int key_pub_parse(struct key_pub *p, const char *line, size_t n)
{
	static const struct sig_public zero;
	int rc = parse_words(PUBLIC_TAG, p->pub.b, p->name, line, n);

	if (rc == 0 && memcmp(&p->pub, &zero, sizeof zero) == 0)
		rc = err_set(ERR_DATA, "the key is all zeros");
	return rc;
}

static int format_line(struct buf *out, const char *tag, const uint8_t bytes[32], const char *name)
{
	char code[64];
	int rc;

	sig_base64(code, sizeof code, bytes, 32);
	rc = buf_fmt(out, "%s %s %s\n", tag, code, name);
	sig_wipe(code, sizeof code);
	return rc;
}

int key_pub_text(const struct key_pub *p, struct buf *out)
{
	return format_line(out, PUBLIC_TAG, p->pub.b, p->name);
}

void key_public(struct key_pub *p, const struct key *k)
{
	p->pub = k->secret.pub;
	memcpy(p->name, k->name, sizeof p->name);
}

void key_wipe(struct key *k)
{
	sig_wipe(k, sizeof *k);
}

/* ---- reading ---- */

static int check_mode(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys("stat");
	if (S_ISREG(st.st_mode) && (st.st_mode & 077))
		return err_set(ERR_DATA, "others may read this secret key: chmod 600 it, "
			       "or make a new one if they had the chance");
	return 0;
}

int key_load(struct key *k, const char *path)
{
	struct buf text = BUF_INIT;
	int fd, rc = fd_open_in(path, &fd);

	if (rc < 0)
		return rc;
	rc = check_mode(fd);
	if (rc == 0)
		rc = buf_reserve(&text, SECRET_LIMIT); /* at once: growing would leave copies behind */
	if (rc == 0)
		rc = fd_slurp(fd, SECRET_LIMIT / 2, &text);
	if (rc == 0)
		rc = key_parse(k, text.data, text.len);
	if (text.data)
		sig_wipe(text.data, text.cap);
	buf_release(&text);
	close(fd);
	if (rc < 0)
		key_wipe(k);
	return rc < 0 ? err_at(rc, "%s", fd_name(path)) : 0;
}

static bool to_skip(const char *line, size_t n)
{
	while (n && blank(*line)) {
		line++;
		n--;
	}
	return n == 0 || *line == '#';
}

static int parse_pubs(struct key_pub **v, size_t *n, const struct buf *text)
{
	const char *end = text->data + text->len, *next;
	int line = 1;

	for (const char *at = text->data; at < end; at = next, line++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((stop ? stop : end) - at);
		struct key_pub *more;
		int rc;

		next = stop ? stop + 1 : end;
		if (to_skip(at, length))
			continue;
		more = realloc(*v, (*n + 1) * sizeof *more);
		if (!more)
			return err_nomem();
		*v = more;
		rc = key_pub_parse(&more[*n], at, length);
		if (rc < 0)
			return err_at(rc, "line %d", line);
		++*n;
	}
	return *n ? 0 : err_set(ERR_DATA, "no key in it");
}

int key_load_pubs(struct key_pub **v, size_t *n, const char *path)
{
	struct buf text = BUF_INIT;
	int fd, rc = fd_open_in(path, &fd);

	*v = NULL;
	*n = 0;
	if (rc < 0)
		return rc;
	rc = fd_slurp(fd, PUBLIC_LIMIT, &text);
	if (rc == 0)
		rc = parse_pubs(v, n, &text);
	buf_release(&text);
	close(fd);
	if (rc < 0) {
		free(*v);
		*v = NULL;
		return err_at(rc, "%s", fd_name(path));
	}
	return 0;
}

int key_load_pub(struct key_pub *p, const char *path)
{
	struct key_pub *v;
	size_t n;
	int rc = key_load_pubs(&v, &n, path);

	if (rc < 0)
		return rc;
	if (n == 1)
		*p = v[0];
	else
		rc = err_set(ERR_DATA, "%s: %zu keys, where one belongs", fd_name(path), n);
	free(v);
	return rc;
}

/* ---- making ---- */

/* "HOST-1f3a": the digits are of the fingerprint, for clusters where every host has one name. */
static void name_after_host(char name[KEY_NAME + 1], const struct sig_public *pub)
{
	char host[256] = "", print[33];

	if (gethostname(host, sizeof host - 1) < 0)
		host[0] = '\0';
	host[strcspn(host, ".")] = '\0';
	if (key_name_check("host", host) < 0)
		memcpy(host, "key", sizeof "key");
	sig_fingerprint(print, pub);
	snprintf(name, KEY_NAME + 1, "%.32s-%.4s", host, print);
}

static int write_line(const char *stem, const char *suffix, mode_t mode, const struct buf *line,
		      int (*commit)(struct atomic *a))
{
	struct buf path = BUF_INIT;
	int rc = buf_fmt(&path, "%s%s", stem, suffix);

	if (rc == 0)
		rc = atomic_put(path.data, mode, line->data, line->len, commit);
	buf_release(&path);
	return rc;
}

/* STEM.key; what `commit` returns. */
static int write_secret(const struct key *k, const char *stem, int (*commit)(struct atomic *a))
{
	struct buf line = BUF_INIT;
	int rc = buf_reserve(&line, SECRET_LIMIT);

	if (rc == 0)
		rc = format_line(&line, SECRET_TAG, k->secret.seed, k->name);
	if (rc == 0)
		rc = write_line(stem, ".key", 0600, &line, commit);
	if (line.data)
		sig_wipe(line.data, line.cap);
	buf_release(&line);
	return rc;
}

static int write_public(const struct key *k, const char *stem)
{
	struct buf line = BUF_INIT;
	struct key_pub pub;
	int rc;

	key_public(&pub, k);
	rc = key_pub_text(&pub, &line);
	if (rc == 0)
		rc = write_line(stem, ".pub", 0644, &line, atomic_commit);
	buf_release(&line);
	return rc;
}

/* The secret first: its name is what two programs at the same time contend for. name NULL: the
 * host's. 1: there is one already, and commit does not replace it. */
static int generate(const char *stem, const char *name, int (*commit)(struct atomic *a),
		    struct say *say)
{
	struct key k;
	char print[33];
	int rc = sig_generate(&k.secret);

	if (rc < 0)
		return rc;
	if (name)
		snprintf(k.name, sizeof k.name, "%s", name);
	else
		name_after_host(k.name, &k.secret.pub);
	rc = write_secret(&k, stem, commit);
	if (rc == 0)
		rc = write_public(&k, stem);
	if (rc == 0) {
		sig_fingerprint(print, &k.secret.pub);
		say_note(say, "made %s.key: %s %s", stem, k.name, print);
	}
	key_wipe(&k);
	return rc;
}

int key_generate(const char *stem, struct say *say)
{
	const char *slash = strrchr(stem, '/'), *name = slash ? slash + 1 : stem;
	struct buf pub = BUF_INIT;
	int rc = key_name_check("key", name);

	if (rc == 0)
		rc = buf_fmt(&pub, "%s.pub", stem);
	if (rc == 0 && access(pub.data, F_OK) == 0) /* perhaps the only copy of somebody else's */
		rc = err_set(ERR_IO, "%s is there already", pub.data);
	buf_release(&pub);
	if (rc == 0)
		rc = generate(stem, name, atomic_commit_new, say);
	return rc == 1 ? err_set(ERR_IO, "%s.key is there already", stem) : rc;
}

/* CONFIG/default, its directory made if need be. */
static int default_stem(struct buf *stem)
{
	int rc = make_config(stem);

	return rc < 0 ? rc : buf_str(stem, "/default");
}

int key_generate_default(struct say *say)
{
	struct buf stem = BUF_INIT;
	int rc = default_stem(&stem);

	if (rc == 0)
		rc = generate(stem.data, NULL, atomic_commit_new, say);
	buf_release(&stem);
	return rc < 0 ? err_at(rc, "cannot make a key") : rc;
}

/* Copies STEM.key, if there is one, to STEM.old-FINGERPRINT8.key, and makes the .pub of that. */
static int keep_old(const char *stem)
{
	struct buf path = BUF_INIT;
	struct key old;
	char print[33];
	int rc = buf_fmt(&path, "%s.key", stem);

	if (rc < 0 || (access(path.data, F_OK) < 0 && errno == ENOENT)) {
		buf_release(&path);
		return rc;
	}
	rc = key_load(&old, path.data);
	if (rc == 0) {
		sig_fingerprint(print, &old.secret.pub);
		buf_clear(&path);
		rc = buf_fmt(&path, "%s.old-%.8s", stem, print);
	}
	if (rc == 0)
		rc = write_secret(&old, path.data, atomic_commit_new);
	if (rc >= 0)
		rc = write_public(&old, path.data);
	key_wipe(&old);
	buf_release(&path);
	return rc;
}

int key_replace_default(struct say *say)
{
	struct lock lock = LOCK_INIT; /* the new key of another process must not be lost */
	struct buf stem = BUF_INIT;
	int rc = default_stem(&stem);

	if (rc == 0)
		rc = lock_take(&lock, stem.data);
	if (rc == 0)
		rc = keep_old(stem.data);
	if (rc == 0)
		rc = generate(stem.data, NULL, atomic_commit, say);
	lock_release(&lock);
	buf_release(&stem);
	return rc < 0 ? err_at(rc, "cannot replace the key") : 0;
}

/* The file of the signing key. 1: named; 0: the default, perhaps not there; ERR_IO: nothing says where. */
static int signing_file(struct buf *out, const char *path)
{
	int rc;

	if (!path)
		path = environment("DL_KEY");
	if (path) {
		rc = buf_str(out, path);
		return rc < 0 ? rc : 1;
	}
	rc = key_config_path(out);
	return rc < 0 ? rc : buf_str(out, "/default.key");
}

/* Is the key's public half in STEM.pub? */
static bool is_published(const struct key *k, const char *stem)
{
	struct buf path = BUF_INIT;
	struct key_pub *v = NULL;
	size_t n = 0;
	bool is = false;

	if (buf_fmt(&path, "%s.pub", stem) == 0 && key_load_pubs(&v, &n, path.data) == 0)
		for (size_t i = 0; i < n; i++)
			is = is || memcmp(&v[i].pub, &k->secret.pub, sizeof k->secret.pub) == 0;
	free(v);
	buf_release(&path);
	return is;
}

/* Whoever was killed between STEM.key and STEM.pub left the public half of the key before, perhaps a stolen one. It is
 * written again under the lock of those who replace keys; where that can't be, nobody is kept from working. */
static void mend_public(const struct key *k, const char *secret)
{
	struct lock lock = LOCK_INIT;
	struct buf stem = BUF_INIT;
	struct key now;

	if (buf_fmt(&stem, "%.*s", (int)(strlen(secret) - strlen(".key")), secret) == 0 &&
		!is_published(k, stem.data) && lock_take(&lock, stem.data) == 0 && key_load(&now, secret) == 0) {
		if (!is_published(&now, stem.data))
			(void)write_public(&now, stem.data);
		key_wipe(&now);
	}
	lock_release(&lock);
	buf_release(&stem);
}

int key_have(struct key *k, const char *path)
{
	struct buf file = BUF_INIT;
	int named = signing_file(&file, path), rc = named;

	if (named == ERR_IO) {
		rc = 0;
	} else if (named == 1 || (named == 0 && (access(file.data, F_OK) == 0 || errno != ENOENT))) {
		rc = key_load(k, file.data);
		if (rc == 0 && named == 0)
			mend_public(k, file.data);
		rc = rc < 0 ? rc : 1;
	}
	buf_release(&file);
	return rc;
}

int key_apart(const char *path, const char *output)
{
	struct buf file = BUF_INIT;
	int rc;

	if (!output || strcmp(output, "-") == 0)
		return 0;
	rc = signing_file(&file, path);
	if (rc == ERR_IO)
		rc = 0;
	else if (rc >= 0)
		rc = output_apart(output, "the output", file.data, "the key");
	buf_release(&file);
	return rc;
}

int key_find(struct key *k, const char *path, struct say *say)
{
	int rc = key_have(k, path);

	if (rc == 0 && (rc = key_generate_default(say)) >= 0)
		rc = key_have(k, path);
	if (rc == 0)
		rc = err_set(ERR_IO, "the key that was made just now is gone");
	return rc < 0 ? rc : 0;
}
