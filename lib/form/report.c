#include "form/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/json.h"
#include "base/say.h"
#include "form/meta.h"

void report_release(struct report *r)
{
	buf_release(&r->out);
}

/* ---- pieces; each does nothing once something has failed ---- */

static ERR_PRINTF(2, 3) void put(struct report *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (r->rc == 0)
		r->rc = buf_vfmt(&r->out, fmt, ap);
	va_end(ap);
}

/* Text from a file or a user: a string of JSON, or harmless for a terminal. */
static void put_text(struct report *r, const char *s)
{
	size_t cap = 4 * strlen(s) + 1;

	if (r->rc == 0)
		r->rc = r->json ? json_text(&r->out, s) : buf_reserve(&r->out, cap);
	if (r->rc < 0 || r->json)
		return;
	say_escape(r->out.data + r->out.len, cap, s);
	r->out.len += strlen(r->out.data + r->out.len);
}

/* The value of a key of a header: numbers are numbers in JSON. */
static void put_value(struct report *r, const char *key, const char *s)
{
	if (!r->json || meta_is_text(key))
		put_text(r, s);
	else if (r->rc == 0)
		r->rc = json_value(&r->out, s);
}

/* A line "key   value", or a pair "key":"value". */
static void put_pair(struct report *r, const char *key, const char *value)
{
	if (r->json) {
		put_text(r, key);
		put(r, ":");
		put_text(r, value);
	} else {
		put(r, "  %-*s ", r->key, key);
		put_text(r, value);
		put(r, "\n");
	}
}

static void put_digest(struct report *r, const char *key, const digest *d)
{
	char hex[2 * SIG_DIGEST + 1];

	sig_hex(hex, d->b, SIG_DIGEST);
	put_pair(r, key, hex);
	put(r, r->json ? "," : "");
}

/* A number in a column, a dash where there is none; or the member of an object. */
static void put_number(struct report *r, const char *key, double x)
{
	if (r->json) {
		put(r, ",\"%s\":", key);
		if (r->rc == 0)
			r->rc = json_f64(&r->out, x);
	} else if (isnan(x)) {
		put(r, " %12s", "-");
	} else {
		put(r, " %12.6g", x);
	}
}

static void put_count(struct report *r, const char *key, uint64_t n)
{
	if (r->json)
		put(r, ",\"%s\":%" PRIu64, key, n);
	else
		put(r, " %12" PRIu64, n);
}

/* Separates the members of a list in JSON. */
static void put_next(struct report *r)
{
	if (r->json && r->started)
		put(r, ",");
	r->started = true;
}

/* A key of the header, as put_pair. */
static void put_key(struct report *r, const char *key, const char *value)
{
	put_next(r);
	if (!r->json) {
		put_pair(r, key, value);
		return;
	}
	put_text(r, key);
	put(r, ":");
	put_value(r, key, value);
}

/* The first columns of a line, or the first members of an object. */
static void put_tensor(struct report *r, const struct tensor *t)
{
	char shape[96];

	put_next(r);
	if (!r->json) {
		tensor_shape_text(t, shape);
		put(r, "  %-*s %*s %5s", r->name, t->name, r->shape, shape, encoding_name(t->enc));
		return;
	}
	put(r, "{\"name\":\"%s\",\"dtype\":\"%s\",\"shape\":[", t->name, dtype_name(t->dtype));
	for (unsigned i = 0; i < t->rank; i++)
		put(r, i ? ",%" PRIu64 : "%" PRIu64, t->dim[i]);
	put(r, "],\"encoding\":\"%s\"", encoding_name(t->enc));
}

static void put_titles(struct report *r, const char *const *titles)
{
	put(r, "\n  %-*s %*s %5s", r->name, "tensor", r->shape, "shape", "as");
	for (; *titles; titles++)
		put(r, " %12s", *titles);
	put(r, "\n");
}

static void measure_keys(struct report *r, const struct conf *keys)
{
	if (r->key < (int)strlen("identity"))
		r->key = (int)strlen("identity");
	for (size_t i = 0; i < keys->n; i++)
		if ((int)strlen(keys->v[i].key) > r->key)
			r->key = (int)strlen(keys->v[i].key);
}

static void measure(struct report *r, const struct tensors *ts)
{
	r->name = (int)strlen("tensor");
	r->shape = (int)strlen("shape");
	for (size_t i = 0; i < ts->n; i++) {
		char shape[96];
		int name = (int)strlen(ts->v[i].name);

		tensor_shape_text(&ts->v[i], shape);
		r->name = name > r->name ? name : r->name;
		r->shape = (int)strlen(shape) > r->shape ? (int)strlen(shape) : r->shape;
	}
}

/* ---- one file ---- */

static void head_text(struct report *r, const struct frame_reader *f, const char *print,
	const char *signer, bool revoked)
{
	static const char *const titles[] = { "min", "max", "mean", "norm", "not finite", NULL };
	const struct header *h = frame_header(f);

	put_text(r, frame_name(f));
	put(r, "\n");
	for (size_t i = 0; i < h->keys.n; i++)
		put_key(r, h->keys.v[i].key, h->keys.v[i].value);
	put(r, "  %-*s %s (", r->key, "signer", print);
	put_text(r, signer ? signer : revoked ? "revoked" : "not trusted");
	put(r, ")\n  %-*s %zu, %" PRIu64 " elements\n", r->key, "tensors", h->tensors.n,
		tensors_total(&h->tensors));
	if (h->tensors.n > 0)
		put_titles(r, titles);
}

static void head_json(struct report *r, const struct frame_reader *f, const char *print,
	const char *signer, bool revoked)
{
	const struct header *h = frame_header(f);

	put(r, "{");
	put_pair(r, "file", frame_name(f));
	put(r, ",\"format\":%d,\"signer\":{\"fingerprint\":\"%s\",\"name\":", HEADER_FORMAT, print);
	if (signer)
		put_text(r, signer);
	else
		put(r, "null");
	put(r, ",\"trusted\":%s,\"revoked\":%s},\"header\":{", signer ? "true" : "false",
		revoked ? "true" : "false");
	for (size_t i = 0; i < h->keys.n; i++)
		put_key(r, h->keys.v[i].key, h->keys.v[i].value);
	put(r, "},\"tensors\":[");
}

int report_head(struct report *r, const struct frame_reader *f, const char *signer, bool revoked)
{
	char print[33];

	sig_fingerprint(print, frame_signer(f));
	r->key = 0;
	measure_keys(r, &frame_header(f)->keys);
	measure(r, &frame_header(f)->tensors);
	r->started = false;
	(r->json ? head_json : head_text)(r, f, print, signer, revoked);
	r->started = false;
	return r->rc;
}

int report_tensor(struct report *r, const struct tensor *t, const struct tally *y)
{
	bool none = y->n == y->strange;
	bool ids =
		t->dtype != DTYPE_F32 && !r->json; /* a mean of token ids tells a person nothing */

	put_tensor(r, t);
	put_number(r, "min", none ? NAN : y->min);
	put_number(r, "max", none ? NAN : y->max);
	put_number(r, "mean", ids ? NAN : tally_mean(y));
	put_number(r, "norm", ids ? NAN : tally_norm(y));
	put_count(r, "nonfinite", y->strange);
	put(r, r->json ? "}" : "\n");
	return r->rc;
}

int report_end(struct report *r, const struct frame_reader *f, const digest *content)
{
	digest id;
	int rc = frame_id(f, &id);

	if (rc < 0)
		return rc;
	put(r, r->json ? "]," : "\n");
	put_digest(r, "identity", &id);
	put_digest(r, "content", content);
	if (r->json)
		put(r, "\"bytes\":%" PRIu64 "}\n", frame_bytes(f));
	else
		put(r, "  %-*s %" PRIu64 "\n", r->key, "bytes", frame_bytes(f));
	return r->rc;
}

/* ---- the difference of two ---- */

/* One of two values, or that there is none. */
static void put_side(struct report *r, const char *key, const char *value)
{
	if (value)
		put_value(r, key, value);
	else
		put(r, r->json ? "null" : "-");
}

static void diff_key(struct report *r, const char *key, const char *a, const char *b)
{
	if (a && b && strcmp(a, b) == 0)
		return;
	put_next(r);
	if (r->json)
		put_text(r, key);
	else
		put(r, "  %-*s", r->key, key);
	put(r, r->json ? ":[" : " ");
	put_side(r, key, a);
	put(r, r->json ? "," : " | ");
	put_side(r, key, b);
	put(r, r->json ? "]" : "\n");
}

static void diff_keys(struct report *r, const struct conf *a, const struct conf *b)
{
	r->started = false;
	for (size_t i = 0; i < a->n; i++)
		diff_key(r, a->v[i].key, a->v[i].value, conf_get(b, a->v[i].key));
	for (size_t i = 0; i < b->n; i++)
		if (!conf_get(a, b->v[i].key))
			diff_key(r, b->v[i].key, NULL, b->v[i].value);
	r->started = false;
}

int report_diff_head(struct report *r, const struct frame_reader *a, const struct frame_reader *b)
{
	static const char *const titles[] = { "differ", "max |a-b|", "|a-b|", "cosine",
		"not finite", NULL };
	const struct header *x = frame_header(a), *y = frame_header(b);

	r->key = 0;
	measure_keys(r, &x->keys);
	measure_keys(r, &y->keys);
	measure(r, &x->tensors);
	if (r->json) {
		put(r, "{");
		put_pair(r, "a", frame_name(a));
		put(r, ",");
		put_pair(r, "b", frame_name(b));
		put(r, ",\"header\":{");
		diff_keys(r, &x->keys, &y->keys);
		put(r, "},\"tensors\":[");
	} else {
		put_text(r, frame_name(a));
		put(r, " | ");
		put_text(r, frame_name(b));
		put(r, "\n");
		diff_keys(r, &x->keys, &y->keys);
		put_titles(r, titles);
	}
	return r->rc;
}

static void put_contrast(struct report *r, const struct contrast *c)
{
	put_count(r, "differ", c->differ);
	put_number(r, "max", c->max);
	put_number(r, "norm", contrast_norm(c));
	put_number(r, "cosine", contrast_cosine(c));
	put_count(r, "nonfinite", c->strange);
	put(r, r->json ? "}" : "\n");
}

int report_diff_tensor(struct report *r, const struct tensor *t, const struct contrast *c)
{
	put_tensor(r, t);
	put_contrast(r, c);
	return r->rc;
}

int report_diff_end(struct report *r, size_t differ, size_t n, const struct contrast *all)
{
	if (r->json)
		put(r, "],\"all\":{\"elements\":%" PRIu64, all->n);
	else
		put(r, "  %-*s %*s %5s", r->name, "all", r->shape, "", "");
	put_contrast(r, all);
	if (r->json)
		put(r, ",\"equal\":%s}\n", differ ? "false" : "true");
	else if (differ)
		put(r, "\n  %zu of %zu tensors differ\n", differ, n);
	else
		put(r, "\n  all values are equal\n");
	return r->rc;
}
