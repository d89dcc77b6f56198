#include "round/tape_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/say.h"
#include "round/fields.h"

#define KIND_MAX 15
#define KEY_MAX 32

/* ---- where it is ---- */

int tape_directory(int *dir)
{
	*dir = open("syncer", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*dir >= 0)
		return 1;
	return errno == ENOENT ? 0 : err_sys("syncer");
}

/* NFS may answer ESTALE for a name that leads to a file again the next time. */
static int open_patiently(int dir, const char *name, int flags)
{
	int fd, tries = 3;

	do
		fd = openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
	while (fd < 0 && (errno == EINTR || (errno == ESTALE && --tries > 0)));
	return fd;
}

int tape_file(int dir, uint64_t epoch, int flags, int *fd)
{
	struct stat st;
	char name[32];
	int rc = 1;

	snprintf(name, sizeof name, "tape.%" PRIu64, epoch);
	*fd = open_patiently(dir, name, flags);
	if (*fd < 0)
		return errno == ENOENT ? 0 : err_sys("syncer/%s", name);
	if (fstat(*fd, &st) < 0)
		rc = err_sys("syncer/%s", name);
	else if (!S_ISREG(st.st_mode))
		rc = err_set(ERR_DATA, "syncer/%s: not a regular file", name);
	if (rc < 0) {
		close(*fd);
		*fd = -1;
	}
	return rc;
}

/* ---- its letters ---- */

static bool word_good(const char *s, size_t limit, const char *beyond)
{
	size_t n = 0;

	while ((s[n] >= 'a' && s[n] <= 'z') || (s[n] && strchr(beyond, s[n])))
		n++;
	return n > 0 && n <= limit && s[n] == '\0';
}

bool tape_kind_good(const char *kind)
{
	return word_good(kind, KIND_MAX, "");
}

bool tape_key_good(const char *key)
{
	return word_good(key, KEY_MAX, "0123456789_");
}

static bool plain(char c)
{
	return c > ' ' && c < 0x7f && c != '%';
}

int tape_escape(struct buf *out, const char *value)
{
	int rc = 0;

	while (*value && rc == 0) {
		size_t n = 0;

		while (plain(value[n]))
			n++;
		rc = buf_add(out, value, n);
		value += n;
		if (*value && rc == 0)
			rc = buf_fmt(out, "%%%02X", (unsigned char)*value++);
	}
	return rc;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place; false for an escape that is none, and for a NUL. */
static bool unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		int high, low;

		if (*s != '%') {
			*to++ = *s;
			continue;
		}
		high = hex_digit(s[1]);
		low = high < 0 ? -1 : hex_digit(s[2]);
		if (low < 0 || high + low == 0)
			return false;
		*to++ = (char)(16 * high + low);
		s += 2;
	}
	*to = '\0';
	return true;
}

/* ---- the chain ---- */

void tape_start(digest *out, const char *run)
{
	static const char tag[] = "dl-tape-1";
	struct sig_hash h;

	sig_hash_init(&h);
	sig_hash_add(&h, tag, sizeof tag - 1);
	sig_hash_add(&h, run, strlen(run));
	sig_hash_end(&h, out);
}

void tape_chain(digest *hash, const digest *before, const char *text, size_t n)
{
	struct sig_hash h;

	sig_hash_init(&h);
	sig_hash_add(&h, before->b, sizeof before->b);
	sig_hash_add(&h, text, n);
	sig_hash_end(&h, hash);
}

/* ---- taking a line apart ---- */

uint64_t tape_number(const char *text, size_t n)
{
	uint64_t x = 0;
	size_t i = 0;

	if (n == 0 || text[0] == '0')
		return 0;
	for (; i < n && i < 19 && text[i] >= '0' && text[i] <= '9'; i++)
		x = 10 * x + (uint64_t)(text[i] - '0');
	return i < n && text[i] == ' ' ? x : 0;
}

/* What stands where another thing should. */
static int not_so(const char *what, const char *text)
{
	char shown[120], cut[24];

	snprintf(cut, sizeof cut, "%s", text);
	say_escape(shown, sizeof shown, cut);
	return err_set(ERR_AUTH, "'%s' is no %s", shown, what);
}

static int check_hash(struct tape_line *l, const char *text, size_t n, const digest *before)
{
	char want[TAPE_HASH + 1];

	if (n < TAPE_HASH + 2 || text[n - TAPE_HASH - 1] != ' ')
		return err_set(ERR_AUTH, "no hash at its end");
	tape_chain(&l->hash, before, text, n - TAPE_HASH - 1);
	sig_hex(want, l->hash.b, TAPE_HASH / 2);
	if (memcmp(want, text + n - TAPE_HASH, TAPE_HASH) != 0)
		return err_set(ERR_AUTH, "hash does not match: the line was altered, or one before it");
	return 0;
}

static int parse_field(struct tape_line *l, char *word)
{
	char *equals = strchr(word, '=');

	if (equals)
		*equals = '\0';
	if (!equals || !tape_key_good(word))
		return not_so("KEY=VALUE", word);
	if (!unescape(equals + 1))
		return err_set(ERR_AUTH, "%s: bad escape", word);
	for (size_t i = 0; i < l->fields; i++)
		if (strcmp(l->field[i].key, word) == 0)
			return err_set(ERR_AUTH, "%s given twice", word);
	if (l->fields == TAPE_FIELDS)
		return err_set(ERR_AUTH, "more than %d fields", TAPE_FIELDS);
	l->field[l->fields++] = (struct tape_field){ word, equals + 1 };
	return 0;
}

static int parse_words(struct tape_line *l, char *rest)
{
	char *word = fields_next(&rest);
	int rc = 0;

	word = fields_next(&rest); /* the number is known */
	if (!word || num_f64(word, &l->seconds) < 0 || !(l->seconds >= 0))
		return not_so("number of seconds", word ? word : "");
	word = fields_next(&rest);
	if (!word || !tape_kind_good(word))
		return not_so("kind of line", word ? word : "");
	l->kind = word;
	while (rc == 0 && (word = fields_next(&rest)))
		rc = parse_field(l, word);
	return rc;
}

int tape_parse(struct tape_line *l, char *text, size_t n, uint64_t number, const digest *hash)
{
	int rc;

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return err_set(ERR_AUTH, "byte 0x%02x, which no line has", (unsigned char)text[i]);
	l->number = tape_number(text, n);
	if (l->number == 0)
		return not_so("number of a line", text);
	if (l->number != number + 1)
		return err_set(ERR_AUTH, "has number %" PRIu64, l->number);
	rc = check_hash(l, text, n, hash);
	l->fields = 0;
	if (rc < 0)
		return rc;
	text[n - TAPE_HASH - 1] = '\0';
	return parse_words(l, text);
}

/* ---- looking into it ---- */

static const char *find(const struct tape_line *l, const char *key)
{
	for (size_t i = 0; i < l->fields; i++)
		if (strcmp(l->field[i].key, key) == 0)
			return l->field[i].value;
	return NULL;
}

const char *tape_text(const struct tape_line *l, const char *key)
{
	const char *value = find(l, key);

	return value ? value : "";
}

uint64_t tape_u64(const struct tape_line *l, const char *key)
{
	const char *value = find(l, key);
	uint64_t x;

	return value && num_u64(value, &x) == 0 ? x : 0;
}

double tape_f64(const struct tape_line *l, const char *key)
{
	const char *value = find(l, key);
	double x;

	return value && num_f64(value, &x) == 0 ? x : 0;
}

int tape_id(const struct tape_line *l, const char *key, digest *id)
{
	int rc = sig_unhex(id->b, sizeof id->b, tape_text(l, key));

	return rc < 0 ? err_at(rc, "%s", key) : 0;
}

/* ---- the answers of a merge ---- */

int tape_answer_add(struct buf *out, const struct tape_answer *a)
{
	char id[2 * SIG_DIGEST + 1], share[32], norm[32];

	sig_hex(id, a->id.b, sizeof a->id.b);
	num_f64_text(share, a->share);
	num_f64_text(norm, a->norm);
	return buf_fmt(out, "%s%s:%s:%s:%s", out->len ? "," : "", a->learner, id, share, norm);
}

/* Up to the separator, which is passed over; false when that does not fit. */
static bool take_part(char *to, size_t cap, const char **at, char end)
{
	size_t n = 0;

	while ((*at)[n] && (*at)[n] != end && (*at)[n] != ':' && (*at)[n] != ',')
		n++;
	if (n == 0 || n >= cap || ((*at)[n] != end && !(end == ',' && (*at)[n] == '\0')))
		return false;
	memcpy(to, *at, n);
	to[n] = '\0';
	*at += n + ((*at)[n] != '\0');
	return true;
}

int tape_answer_next(struct tape_answer *a, const char **at)
{
	char id[2 * SIG_DIGEST + 1], share[32], norm[32];

	if (**at == '\0')
		return 0;
	if (!take_part(a->learner, sizeof a->learner, at, ':') || !take_part(id, sizeof id, at, ':') ||
		!take_part(share, sizeof share, at, ':') || !take_part(norm, sizeof norm, at, ',') ||
		key_name_check("learner", a->learner) < 0 ||
		sig_unhex(a->id.b, sizeof a->id.b, id) < 0 || num_f64(share, &a->share) < 0 ||
		num_f64(norm, &a->norm) < 0)
		return err_set(ERR_DATA, "answers: not LEARNER:ID:SHARE:NORM,...");
	return 1;
}
