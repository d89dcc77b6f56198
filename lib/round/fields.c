#include "round/fields.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "form/key.h"

static int write_field(const void *from, const struct field *f, struct conf *to)
{
	uint64_t whole = 0;
	unsigned number;
	double real;

	switch (f->type) {
	case FIELD_U64:
		memcpy(&whole, from, sizeof whole);
		return conf_set_u64(to, f->key, whole);
	case FIELD_UNSIGNED:
		memcpy(&number, from, sizeof number);
		return conf_set_u64(to, f->key, number);
	case FIELD_F64:
		memcpy(&real, from, sizeof real);
		return conf_set_f64(to, f->key, isfinite(real) ? real : 0);
	case FIELD_HEX:
	case FIELD_NAME:
		break;
	}
	return conf_set(to, f->key, from);
}

int fields_write(const void *from, const struct field *f, size_t n, struct conf *to)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = write_field((const char *)from + f[i].offset, &f[i], to);
	return rc;
}

static bool in_range(const void *of, const struct field *f)
{
	uint64_t whole;
	unsigned number;
	double real;

	switch (f->type) {
	case FIELD_U64:
		memcpy(&whole, of, sizeof whole);
		return whole >= (uint64_t)f->min && whole <= (uint64_t)f->max;
	case FIELD_UNSIGNED:
		memcpy(&number, of, sizeof number);
		return number >= (uint64_t)f->min && number <= (uint64_t)f->max;
	case FIELD_F64:
		memcpy(&real, of, sizeof real);
		return real >= f->min && real <= f->max;
	case FIELD_HEX:
	case FIELD_NAME:
		break;
	}
	return true;
}

int fields_check(const void *of, const struct field *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!in_range((const char *)of + f[i].offset, &f[i]))
			return err_set(ERR_DATA, "%s is not between %.15g and %.15g", f[i].key, f[i].min,
				f[i].max);
	return 0;
}

static int read_text(char *to, const struct field *f, const char *text)
{
	size_t digits = (size_t)f->max;

	if (f->type == FIELD_NAME) {
		if (key_name_check(f->key, text) < 0)
			return ERR_DATA; /* the sentence is right; but nobody typed it */
		memcpy(to, text, strlen(text) + 1);
		return 0;
	}
	if (strlen(text) != digits || strspn(text, "0123456789abcdef") != digits)
		return err_set(ERR_DATA, "key '%s' is not %zu hex digits", f->key, digits);
	memcpy(to, text, digits + 1);
	return 0;
}

static int read_field(void *to, const struct field *f, const struct conf *from)
{
	const char *text = conf_get(from, f->key);
	uint64_t whole;
	unsigned number;
	int rc;

	if (!text)
		return err_set(ERR_DATA, "key '%s' is missing", f->key);
	if (f->type == FIELD_HEX || f->type == FIELD_NAME)
		return read_text(to, f, text);
	if (f->type == FIELD_F64) {
		rc = conf_f64(from, f->key, f->min, f->max, to);
		return rc < 0 ? rc : 0;
	}
	rc = conf_u64(from, f->key, (uint64_t)f->min, (uint64_t)f->max, &whole);
	if (rc < 0)
		return rc;
	number = (unsigned)whole;
	if (f->type == FIELD_UNSIGNED)
		memcpy(to, &number, sizeof number);
	else
		memcpy(to, &whole, sizeof whole);
	return 0;
}

int fields_read(void *to, const struct field *f, size_t n, const struct conf *from)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = read_field((char *)to + f[i].offset, &f[i], from);
	return rc;
}

int fields_kind(const struct conf *from, enum kind kind)
{
	const char *text = conf_get(from, "kind");

	return text && strcmp(text, kind_name(kind)) == 0 ? 0 : err_set(ERR_DATA, "not a %s", kind_name(kind));
}

int fields_word(const struct conf *from, const char *key, const char *const *words, size_t n)
{
	const char *text = conf_get(from, key);
	char all[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		if (text && strcmp(text, words[i]) == 0)
			return (int)i;
		used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
			i == 0 ? "" : i + 1 < n ? ", " : " or ", words[i]);
		used = used < sizeof all ? used : sizeof all - 1;
	}
	return err_set(ERR_DATA, "key '%s' is not %s", key, all);
}

int fields_line(char *line, size_t size, const struct conf *from, const char *key)
{
	const char *text = conf_get(from, key);

	if (!text)
		return err_set(ERR_DATA, "key '%s' is missing", key);
	if (strlen(text) >= size)
		return err_set(ERR_DATA, "key '%s' is too long", key);
	memcpy(line, text, strlen(text) + 1);
	return 0;
}

int fields_words(char *line, char *word[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t length = strcspn(line, " ");

		word[i] = line;
		if (length == 0 || (line[length] == ' ') != (i + 1 < n))
			return err_set(ERR_DATA, "not %zu words", n);
		if (line[length])
			line[length++] = '\0';
		line += length;
	}
	return 0;
}

int fields_count(const char *word, uint64_t *out)
{
	int rc = num_u64(word, out);

	if (rc == 0 && (double)*out >= FIELD_COUNT)
		rc = err_set(ERR_DATA, "%s is more than can be", word);
	return rc;
}

char *fields_next(char **rest)
{
	char *word = *rest, *blank;

	if (!word)
		return NULL;
	blank = strchr(word, ' ');
	*rest = blank ? blank + 1 : NULL;
	if (blank)
		*blank = '\0';
	return word;
}
