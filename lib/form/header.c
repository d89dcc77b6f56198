#include "form/header.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/num.h"

#define TENSOR_LINE 320 /* longest tensor line: name, type, four dimensions, encoding */

void header_release(struct header *h)
{
	conf_release(&h->keys);
	tensors_release(&h->tensors);
}

int header_copy(struct header *to, const struct header *from)
{
	for (size_t i = 0; i < from->keys.n; i++) {
		int rc = conf_set(&to->keys, from->keys.v[i].key, from->keys.v[i].value);

		if (rc < 0)
			return rc;
	}
	return tensors_copy(&to->tensors, &from->tensors);
}

int header_version(const char *text, size_t n)
{
	char line[40], *value = line + sizeof "format";
	const char *end = memchr(text, '\n', n < sizeof line ? n : sizeof line);
	uint64_t format;

	if (!end)
		return err_set(ERR_DATA, "header does not begin with its format");
	memcpy(line, text, (size_t)(end - text));
	line[end - text] = '\0';
	if (strncmp(line, "format ", sizeof "format") != 0 || num_u64(value, &format) < 0 ||
		format == 0)
		return err_set(ERR_DATA, "header does not begin with its format");
	if (format > HEADER_FORMAT)
		return err_set(ERR_DATA,
			"format %" PRIu64
			", made by newer programs than these, which read up to format %d",
			format, HEADER_FORMAT);
	return 0;
}

/* Integers are stored as they are, floats in one of the encodings for floats. */
static bool fits(const struct tensor *t)
{
	return (t->dtype == DTYPE_F32) == (t->enc != ENC_PLAIN);
}

/* The n words of `line`, which is cut up; false when there are fewer or more. */
static bool words(char *line, const char *word[], int n)
{
	int got = 0;

	for (char *p = strtok_r(line, " ", &line); p; p = strtok_r(NULL, " ", &line)) {
		if (got == n)
			return false;
		word[got++] = p;
	}
	return got == n;
}

static int parse_tensor(struct tensors *ts, const char *text, size_t n)
{
	struct tensor t = { .rank = 0 };
	char line[TENSOR_LINE];
	const char *word[5];
	int rc;

	if (n >= sizeof line)
		return err_set(ERR_DATA, "tensor line of %zu characters", n);
	memcpy(line, text, n);
	line[n] = '\0';
	if (memchr(line, '\0', n) || !words(line, word, 5))
		return err_set(ERR_DATA, "not a tensor line");
	if (strlen(word[1]) >= sizeof t.name)
		return err_set(ERR_DATA, "tensor name is longer than %d characters", TENSOR_NAME);
	memcpy(t.name, word[1], strlen(word[1]) + 1);
	if ((rc = dtype_parse(word[2], &t.dtype)) < 0 ||
		(rc = tensor_shape_parse(&t, word[3])) < 0 ||
		(rc = encoding_parse(word[4], &t.enc)) < 0 || (rc = tensors_push(ts, &t)) < 0)
		return rc;
	return fits(&t) ? 0 : err_set(ERR_DATA, "type %s with encoding %s", word[2], word[4]);
}

static bool is_tensor(const char *line, size_t n)
{
	return n >= 7 && memcmp(line, "tensor ", 7) == 0;
}

/* Tensors into the table; every other line into `rest`, an empty one for each that was taken out,
 * so that the numbers of lines stay right. */
static int sort_lines(struct tensors *ts, struct buf *rest, const char *text, size_t n)
{
	const char *end = text + n, *next;
	int rc = 0;

	for (int line = 1; text < end && rc == 0; line++, text = next) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((stop ? stop : end) - text);

		next = text + length + (stop != NULL);
		if (is_tensor(text, length)) {
			if ((rc = parse_tensor(ts, text, length)) < 0)
				return err_at(rc, "line %d", line);
			length = 0;
		}
		if (line > 1)
			rc = buf_add(rest, text, length);
		if (rc == 0)
			rc = buf_add(rest, "\n", 1);
	}
	return rc;
}

/* These begin lines of their own sort and are never keys. */
static int check_reserved(const struct conf *keys)
{
	const char *key = conf_get(keys, "format") ? "format" : "tensor";

	return conf_get(keys, key) ? err_set(ERR_DATA, "'%s' is not a key", key) : 0;
}

int header_parse(struct header *h, const char *text, size_t n)
{
	struct buf rest = BUF_INIT;
	int rc;

	if ((rc = header_version(text, n)) < 0)
		return rc;
	if (n > HEADER_BYTES)
		return err_set(ERR_DATA, "header of %zu bytes, limit is %zu", n, HEADER_BYTES);
	if ((rc = sort_lines(&h->tensors, &rest, text, n)) < 0 ||
		(rc = conf_parse(&h->keys, rest.data ? rest.data : "", rest.len)) < 0 ||
		(rc = check_reserved(&h->keys)) < 0)
		goto out;
	rc = tensors_unique(&h->tensors);
out:
	buf_release(&rest);
	return rc;
}

static int format_tensor(const struct tensor *t, struct buf *out)
{
	char shape[96];

	if (!fits(t))
		return err_set(ERR_DATA, "tensor '%s': type %s with encoding %s", t->name,
			dtype_name(t->dtype), encoding_name(t->enc));
	tensor_shape_text(t, shape);
	return buf_fmt(out, "tensor %s %s %s %s\n", t->name, dtype_name(t->dtype), shape,
		encoding_name(t->enc));
}

int header_format(const struct header *h, struct buf *out)
{
	size_t start = out->len;
	int rc;

	if ((rc = check_reserved(&h->keys)) < 0 || (rc = tensors_unique(&h->tensors)) < 0 ||
		(rc = buf_fmt(out, "format %d\n", HEADER_FORMAT)) < 0 ||
		(rc = conf_format(&h->keys, out)) < 0)
		return rc;
	for (size_t i = 0; i < h->tensors.n; i++)
		if ((rc = format_tensor(&h->tensors.v[i], out)) < 0)
			return rc;
	if (out->len - start > HEADER_BYTES)
		return err_set(ERR_DATA, "header of %zu bytes, limit is %zu", out->len - start,
			HEADER_BYTES);
	return 0;
}
