#include "form/jsondoc.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/say.h"

/* A struct jsondoc is jansson's json_t under our name; its functions that only look take it
 * without const. */
static json_t *inside(const struct jsondoc *v)
{
	return (json_t *)(uintptr_t)v;
}

static struct jsondoc *outside(json_t *v)
{
	return (struct jsondoc *)v;
}

/* The library's sentence, which may quote the document. */
static int refuse(const json_error_t *e)
{
	char shown[4 * JSON_ERROR_TEXT_LENGTH];

	if (json_error_code(e) == json_error_out_of_memory)
		return err_nomem();
	say_escape(shown, sizeof shown, e->text);
	return err_set(ERR_DATA, "not JSON as it should be: line %d, column %d: %s", e->line, e->column, shown);
}

int jsondoc_parse(struct jsondoc **out, const char *text, size_t n)
{
	json_error_t e;
	json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);

	*out = outside(v);
	return v ? 0 : refuse(&e);
}

void jsondoc_free(struct jsondoc *doc)
{
	json_decref(inside(doc));
}

/* ---- one member at a time ---- */

struct scan {
	const char *text;
	size_t n, at, limit;
};

static int here(const struct scan *s, const char *what)
{
	return err_set(ERR_DATA, "not JSON as it should be: byte %zu: %s", s->at, what);
}

/* The next byte that is no blank, not yet taken; 0 at the end. */
static char peek(struct scan *s)
{
	while (s->at < s->n && memchr(" \t\r\n", s->text[s->at], 4))
		s->at++;
	return s->at < s->n ? s->text[s->at] : '\0';
}

static int expect(struct scan *s, char c, const char *what)
{
	if (peek(s) != c)
		return here(s, what);
	s->at++;
	return 0;
}

/* One value, of which no more than `limit` bytes are looked at. */
static int take_value(struct scan *s, json_t **out)
{
	const size_t left = s->n - s->at, most = left < s->limit ? left : s->limit;
	char shown[4 * JSON_ERROR_TEXT_LENGTH];
	json_error_t e;

	*out = json_loadb(s->text + s->at, most,
		JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &e);
	if (*out) {
		s->at += (size_t)e.position;
		return 0;
	}
	if (json_error_code(&e) == json_error_out_of_memory)
		return err_nomem();
	if (json_error_code(&e) == json_error_premature_end_of_input && most < left)
		return err_set(ERR_DATA, "not JSON as it should be: byte %zu: a value longer than %zu bytes",
			s->at, s->limit);
	say_escape(shown, sizeof shown, e.text);
	return err_set(ERR_DATA, "not JSON as it should be: byte %zu: %s",
		s->at + (e.position > 0 ? (size_t)e.position : 0), shown);
}

static int take_member(struct scan *s, jsondoc_taker *take, void *ctx)
{
	json_t *key = NULL, *value = NULL;
	int rc = peek(s) == '"' ? take_value(s, &key) : here(s, "a key in quotes expected");

	if (rc == 0)
		rc = expect(s, ':', "':' expected");
	if (rc == 0)
		rc = peek(s) ? take_value(s, &value) : here(s, "a value expected");
	if (rc == 0)
		rc = take(ctx, json_string_value(key), outside(value));
	json_decref(key);
	json_decref(value);
	return rc;
}

int jsondoc_members(const char *text, size_t n, size_t limit, jsondoc_taker *take, void *ctx)
{
	struct scan s = { text, n, 0, limit };
	int rc = expect(&s, '{', "an object expected");

	if (rc == 0 && peek(&s) == '}')
		s.at++;
	else
		for (bool more = true; rc == 0 && more;) {
			rc = take_member(&s, take, ctx);
			more = peek(&s) == ',';
			if (rc == 0 && more)
				s.at++;
			else if (rc == 0)
				rc = expect(&s, '}', "',' or '}' expected");
		}
	if (rc == 0 && (peek(&s), s.at < s.n))
		rc = here(&s, "something follows the object");
	return rc;
}

/* ---- looking ---- */

bool jsondoc_is_object(const struct jsondoc *v)
{
	return json_is_object(inside(v));
}

bool jsondoc_is_array(const struct jsondoc *v)
{
	return json_is_array(inside(v));
}

bool jsondoc_is_null(const struct jsondoc *v)
{
	return json_is_null(inside(v));
}

const struct jsondoc *jsondoc_get(const struct jsondoc *v, const char *key)
{
	return outside(json_object_get(inside(v), key));
}

int jsondoc_each(const struct jsondoc *v, jsondoc_taker *take, void *ctx)
{
	json_t *object = inside(v), *value;
	const char *key;
	int rc;

	json_object_foreach (object, key, value)
		if ((rc = take(ctx, key, outside(value))) < 0)
			return rc;
	return 0;
}

size_t jsondoc_size(const struct jsondoc *v)
{
	return json_is_object(inside(v)) ? json_object_size(inside(v)) : json_array_size(inside(v));
}

const struct jsondoc *jsondoc_at(const struct jsondoc *v, size_t i)
{
	return outside(json_array_get(inside(v), i));
}

bool jsondoc_u64(const struct jsondoc *v, uint64_t *out)
{
	if (!json_is_integer(inside(v)) || json_integer_value(inside(v)) < 0)
		return false;
	*out = (uint64_t)json_integer_value(inside(v));
	return true;
}

bool jsondoc_f64(const struct jsondoc *v, double *out)
{
	if (!json_is_number(inside(v)))
		return false;
	*out = json_number_value(inside(v));
	return true;
}

bool jsondoc_bool(const struct jsondoc *v, bool *out)
{
	if (!json_is_boolean(inside(v)))
		return false;
	*out = json_is_true(inside(v));
	return true;
}

const char *jsondoc_text(const struct jsondoc *v)
{
	return json_string_value(inside(v));
}

/* Shortened by the caller's `cap`; the text of a large value is not made first. */
struct shown {
	char *out;
	size_t n, cap;
};

static int add_shown(const char *text, size_t n, void *ctx)
{
	struct shown *s = ctx;
	const size_t room = s->cap - 1 - s->n, part = n < room ? n : room;

	memcpy(s->out + s->n, text, part);
	s->n += part;
	return part == n ? 0 : -1;
}

void jsondoc_show(char *out, size_t cap, const struct jsondoc *v)
{
	struct shown s = { out, 0, cap };
	const bool whole = v && json_dump_callback(inside(v), add_shown, &s,
		JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(10)) == 0;

	if (!whole && s.n + 3 < cap)
		s.n += 3;
	out[s.n] = '\0';
	if (!whole && s.n >= 3)
		memcpy(out + s.n - 3, "...", 3);
}
