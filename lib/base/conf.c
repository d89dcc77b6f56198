#include "base/conf.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/say.h"

#define ITEMS 4096 /* a lookup walks all of them: more is not a configuration */

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool key_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

static bool control(char c)
{
	return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

static struct conf_item *find(const struct conf *c, const char *key)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].key, key) == 0)
			return &c->v[i];
	return NULL;
}

void conf_release(struct conf *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].key);
		free(c->v[i].value);
	}
	free(c->v);
	*c = (struct conf){ 0 };
}

static int append(struct conf *c, const char *key, size_t key_n, const char *value, size_t value_n,
		  int line)
{
	struct conf_item item = { .line = line };

	if (c->n == ITEMS)
		return err_set(ERR_DATA, "more than %d keys", ITEMS);
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 16;
		struct conf_item *v = realloc(c->v, cap * sizeof *v);

		if (!v)
			return err_nomem();
		c->v = v;
		c->cap = cap;
	}
	item.key = strndup(key, key_n);
	item.value = strndup(value, value_n);
	if (!item.key || !item.value) {
		free(item.key);
		free(item.value);
		return err_nomem();
	}
	c->v[c->n++] = item;
	return 0;
}

/* Where the text of a line ends: before a comment, and before the blanks in front of it. */
static size_t line_length(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] == '#' && (i == 0 || blank(s[i - 1]))) {
			n = i;
			break;
		}
	while (n && blank(s[n - 1]))
		n--;
	return n;
}

static int parse_line(struct conf *c, const char *s, size_t n, int line)
{
	size_t key_n = 0, at = 0;
	char key[CONF_KEY + 1], shown[80];

	for (size_t i = 0; i < n; i++)
		if (control(s[i]))
			return err_set(ERR_DATA, "line %d: control character 0x%02x", line,
				       (unsigned char)s[i]);
	n = line_length(s, n);
	while (at < n && blank(s[at]))
		at++;
	s += at;
	n -= at;
	if (n == 0)
		return 0;
	while (key_n < n && key_char(s[key_n]))
		key_n++;
	at = key_n;
	if (key_n == 0 || key_n > CONF_KEY || (at < n && !blank(s[at]) && s[at] != '=')) {
		snprintf(key, sizeof key, "%.*s", (int)(n < CONF_KEY ? n : CONF_KEY), s);
		key[strcspn(key, " \t=")] = '\0';
		say_escape(shown, sizeof shown, key);
		return err_set(ERR_DATA, "line %d: '%s' is not a key", line, shown);
	}
	snprintf(key, sizeof key, "%.*s", (int)key_n, s);
	while (at < n && blank(s[at]))
		at++;
	if (at < n && s[at] == '=')
		at++;
	while (at < n && blank(s[at]))
		at++;
	if (at == n)
		return err_set(ERR_DATA, "line %d: key '%s' has no value", line, key);
	if (s[at] == '=' || s[at] == '#') /* written again it would be read as something else */
		return err_set(ERR_DATA, "line %d: value of '%s' begins with '%c'", line, key, s[at]);
	if (find(c, key))
		return err_set(ERR_DATA, "line %d: key '%s' given twice", line, key);
	return append(c, s, key_n, s + at, n - at, line);
}

int conf_parse(struct conf *c, const char *text, size_t n)
{
	const char *end, *next;
	int rc;

	if (n == 0) /* text may be NULL */
		return 0;
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		n -= 3;
	}
	end = text + n;
	for (int line = 1; text < end; line++, text = next) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length;

		next = stop ? stop + 1 : end;
		length = (size_t)((stop ? stop : end) - text);
		if (length && text[length - 1] == '\r')
			length--;
		rc = parse_line(c, text, length, line);
		if (rc < 0)
			return rc;
	}
	return 0;
}

const char *conf_get(const struct conf *c, const char *key)
{
	const struct conf_item *item = find(c, key);

	return item ? item->value : NULL;
}

/* Would key and value come back from conf_format and conf_parse as they are? */
static int check_pair(const char *key, const char *value)
{
	size_t n = strlen(value), key_n = 0;
	bool good;

	while (key_char(key[key_n]))
		key_n++;
	good = key_n > 0 && key_n <= CONF_KEY && key[key_n] == '\0' && n > 0 &&
	       !blank(value[0]) && value[0] != '=' && value[0] != '#' && line_length(value, n) == n;
	for (size_t i = 0; good && i < n; i++)
		good = !control(value[i]);
	return good ? 0 : err_set(ERR_DATA, "key '%s' cannot have this value", key);
}

int conf_set(struct conf *c, const char *key, const char *value)
{
	struct conf_item *item = find(c, key);
	int rc = check_pair(key, value);
	char *copy;

	if (rc < 0)
		return rc;
	if (!item)
		return append(c, key, strlen(key), value, strlen(value), 0);
	copy = strdup(value);
	if (!copy)
		return err_nomem();
	free(item->value);
	item->value = copy;
	item->line = 0;
	return 0;
}

int conf_set_u64(struct conf *c, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, value);
	return conf_set(c, key, text);
}

int conf_set_f64(struct conf *c, const char *key, double value)
{
	char text[32];

	num_f64_text(text, value);
	return conf_set(c, key, text);
}

void conf_unset(struct conf *c, const char *key)
{
	struct conf_item *item = find(c, key);

	if (!item)
		return;
	free(item->key);
	free(item->value);
	c->n--;
	memmove(item, item + 1, (size_t)(&c->v[c->n] - item) * sizeof *item);
}

/* Puts where the item was written before the sentence. */
static int at_item(const struct conf_item *item, int code)
{
	code = err_at(code, "%s", item->key);
	return item->line ? err_at(code, "line %d", item->line) : code;
}

int conf_u64(const struct conf *c, const char *key, uint64_t min, uint64_t max, uint64_t *out)
{
	const struct conf_item *item = find(c, key);
	uint64_t x;

	if (!item)
		return 0;
	if (num_u64(item->value, &x) < 0)
		return at_item(item, ERR_DATA);
	if (x < min || x > max) {
		err_set(ERR_DATA, "%" PRIu64 " is not within %" PRIu64 " to %" PRIu64, x, min, max);
		return at_item(item, ERR_DATA);
	}
	*out = x;
	return 1;
}

int conf_f64(const struct conf *c, const char *key, double min, double max, double *out)
{
	const struct conf_item *item = find(c, key);
	char low[32], high[32];
	double x;

	if (!item)
		return 0;
	if (num_f64(item->value, &x) < 0)
		return at_item(item, ERR_DATA);
	if (x < min || x > max) {
		num_f64_text(low, min);
		num_f64_text(high, max);
		err_set(ERR_DATA, "%s is not within %s to %s", item->value, low, high);
		return at_item(item, ERR_DATA);
	}
	*out = x;
	return 1;
}

int conf_bool(const struct conf *c, const char *key, int *out)
{
	static const char *const words[] = { "no", "yes", "false", "true", "0", "1" };
	const struct conf_item *item = find(c, key);
	char shown[80];

	if (!item)
		return 0;
	for (int i = 0; i < 6; i++)
		if (strcmp(item->value, words[i]) == 0) {
			*out = i & 1;
			return 1;
		}
	say_escape(shown, sizeof shown, item->value);
	err_set(ERR_DATA, "'%s' is neither yes nor no", shown);
	return at_item(item, ERR_DATA);
}

static bool listed(const char *word, const char *const *list)
{
	while (*list && strcmp(*list, word) != 0)
		list++;
	return *list != NULL;
}

int conf_known(const struct conf *c, const char *const *known)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct conf_item *item = &c->v[i];
		const char *near;

		if (listed(item->key, known))
			continue;
		near = conf_nearest(item->key, known);
		if (near)
			err_set(ERR_DATA, "unknown key '%s', did you mean '%s'?", item->key, near);
		else
			err_set(ERR_DATA, "unknown key '%s'", item->key);
		return item->line ? err_at(ERR_DATA, "line %d", item->line) : ERR_DATA;
	}
	return 0;
}

int conf_format(const struct conf *c, struct buf *out)
{
	for (size_t i = 0; i < c->n; i++) {
		int rc = buf_fmt(out, "%s %s\n", c->v[i].key, c->v[i].value);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Insertions, deletions and replacements that turn a into b; both at most CONF_KEY long. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[CONF_KEY + 1];
	unsigned n = (unsigned)strlen(b);

	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		unsigned corner = row[0];

		row[0] = i + 1;
		for (unsigned j = 0; j < n; j++) {
			unsigned replaced = corner + (a[i] != b[j]);

			corner = row[j + 1];
			row[j + 1] = least(replaced, least(corner, row[j]) + 1);
		}
	}
	return row[n];
}

/* "steps" in "decay_steps"; NULL when several are as good. */
static const char *containing(const char *word, const char *const *candidates)
{
	const char *found = NULL;

	if (strlen(word) < 4)
		return NULL;
	for (; *candidates; candidates++)
		if (strstr(*candidates, word)) {
			if (found)
				return NULL;
			found = *candidates;
		}
	return found;
}

const char *conf_nearest(const char *word, const char *const *candidates)
{
	size_t n = strlen(word);
	const char *best = containing(word, candidates);
	unsigned nearest = n < 4 || best ? 2 : 3; /* this far is no longer near */

	for (; n <= CONF_KEY && *candidates; candidates++) {
		unsigned d;

		if (strlen(*candidates) > CONF_KEY)
			continue;
		d = distance(word, *candidates);
		if (d < nearest && d < n) {
			nearest = d;
			best = *candidates;
		}
	}
	return best;
}
