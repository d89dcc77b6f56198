/* The reading half of safetensors.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/say.h"
#include "form/codec.h"
#include "form/half.h"
#include "form/jsondoc.h"
#include "form/safetensors_type.h"
#include "io/fd.h"

#define MEMBER ((size_t)2 << 20) /* longest entry of the header: metadata may be long */
#define WORK 16384 /* elements widened at a time */
#define STEP ((size_t)1 << 20) /* of a stream's header, before more memory is taken */

/* ---- the header: each entry ---- */

struct entries {
	struct safetensors *s;
	uint64_t *end; /* (cap): in the data, of each tensor */
	size_t cap;
	bool described; /* metadata has been seen */
};

/* Can a line of a sealed file's header hold it? */
static bool is_line(const char *text)
{
	const size_t n = strlen(text);

	if (n == 0 || n > 4096 || strchr("= #", text[0]) || text[n - 1] == ' ')
		return false;
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~' || text[i] == '#')
			return false;
	return true;
}

static bool is_key(const char *key)
{
	const size_t n = strlen(key);

	return n > 0 && n <= CONF_KEY && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == n;
}

static int take_note(void *ctx, const char *key, const struct jsondoc *value)
{
	struct safetensors *s = ctx;
	const char *text = jsondoc_text(value);

	if (!text)
		return err_set(ERR_DATA, "__metadata__: something that is not text");
	return is_key(key) && is_line(text) && s->metadata.n < 1024 ? conf_set(&s->metadata, key, text) : 0;
}

static int take_metadata(struct entries *e, const struct jsondoc *value)
{
	if (e->described)
		return err_set(ERR_DATA, "__metadata__ is there twice");
	if (!jsondoc_is_object(value))
		return err_set(ERR_DATA, "__metadata__ is not an object");
	e->described = true;
	return jsondoc_each(value, take_note, e->s);
}

static int read_name(struct tensor *t, const char *name)
{
	char shown[4 * TENSOR_NAME];

	say_escape(shown, sizeof shown, name);
	if (strlen(name) > TENSOR_NAME)
		return err_set(ERR_DATA, "tensor '%.40s...': a name of %zu characters, limit is %d", shown,
			strlen(name), TENSOR_NAME);
	if (strstr(name, ".."))
		return err_set(ERR_DATA, "'%s' is not a tensor name", shown);
	snprintf(t->name, sizeof t->name, "%s", name);
	return tensor_check(t); /* the name, as of a scalar: from here on it can be printed */
}

static int read_type(struct tensor *t, enum safetensors_type *type, const struct jsondoc *value)
{
	const char *text = jsondoc_text(jsondoc_get(value, "dtype"));
	char shown[64];

	if (!text)
		return err_set(ERR_DATA, "tensor '%s' has no dtype", t->name);
	for (size_t i = 0; i < SAFETENSORS_KINDS; i++)
		if (strcmp(text, safetensors_kinds[i].name) == 0) {
			*type = (enum safetensors_type)i;
			t->dtype = safetensors_kinds[i].dtype;
			t->enc = safetensors_kinds[i].enc;
			return 0;
		}
	say_escape(shown, sizeof shown, text);
	return err_set(ERR_DATA, "tensor '%s' is of type %s: only F32, BF16, F16, U8, U16 and U32 can be read",
		t->name, shown);
}

static int read_shape(struct tensor *t, const struct jsondoc *value)
{
	const struct jsondoc *shape = jsondoc_get(value, "shape");
	const size_t rank = jsondoc_size(shape);

	if (!jsondoc_is_array(shape))
		return err_set(ERR_DATA, "tensor '%s' has no shape", t->name);
	if (rank > TENSOR_RANK)
		return err_set(ERR_DATA, "tensor '%s': %zu dimensions, limit is %d", t->name, rank, TENSOR_RANK);
	t->rank = (unsigned)rank;
	for (unsigned i = 0; i < rank; i++)
		if (!jsondoc_u64(jsondoc_at(shape, i), &t->dim[i]))
			return err_set(ERR_DATA, "tensor '%s': dimension %u of its shape is no size", t->name, i);
	return 0;
}

static int read_offsets(uint64_t at[2], const struct tensor *t, enum safetensors_type type,
	const struct jsondoc *value)
{
	const struct jsondoc *offsets = jsondoc_get(value, "data_offsets");

	if (jsondoc_size(offsets) != 2 || !jsondoc_u64(jsondoc_at(offsets, 0), &at[0]) ||
		!jsondoc_u64(jsondoc_at(offsets, 1), &at[1]))
		return err_set(ERR_DATA, "tensor '%s': data_offsets are not two sizes", t->name);
	if (at[0] > at[1])
		return err_set(ERR_DATA, "tensor '%s': data_offsets %" PRIu64 " to %" PRIu64 " run backwards",
			t->name, at[0], at[1]);
	if (at[1] - at[0] != t->count * safetensors_kinds[type].size)
		return err_set(ERR_DATA, "tensor '%s': data_offsets give it %" PRIu64 " bytes, its shape %" PRIu64,
			t->name, at[1] - at[0], t->count * safetensors_kinds[type].size);
	return 0;
}

static int add_entry(struct entries *e, const struct tensor *t, enum safetensors_type type,
	const uint64_t at[2])
{
	int rc = safetensors_add(e->s, t, type);

	if (rc < 0)
		return rc;
	if (e->cap < e->s->tensors.cap) {
		uint64_t *end = realloc(e->end, e->s->tensors.cap * sizeof *end);

		if (!end)
			return err_nomem();
		e->end = end;
		e->cap = e->s->tensors.cap;
	}
	e->s->part[e->s->tensors.n - 1].begin = at[0];
	e->end[e->s->tensors.n - 1] = at[1];
	return 0;
}

static int take_entry(void *ctx, const char *name, const struct jsondoc *value)
{
	struct entries *e = ctx;
	enum safetensors_type type = SAFETENSORS_F32;
	struct tensor t = { 0 };
	uint64_t at[2];
	int rc;

	if (strcmp(name, "__metadata__") == 0)
		return take_metadata(e, value);
	if ((rc = read_name(&t, name)) < 0 || (rc = read_type(&t, &type, value)) < 0 ||
		(rc = read_shape(&t, value)) < 0 || (rc = tensor_check(&t)) < 0 ||
		(rc = read_offsets(at, &t, type, value)) < 0)
		return rc;
	return add_entry(e, &t, type, at);
}

/* ---- the header: all of it ---- */

struct placed { /* one tensor, while they are brought into the order of the data */
	uint64_t begin, end;
	size_t t;
};

static int by_place(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
				    : (x->end > y->end) - (x->end < y->end);
}

/* In the order of the data they touch, from the first byte to the last. */
static int check_places(const struct safetensors *s, const struct placed *p, uint64_t data)
{
	uint64_t at = 0;

	for (size_t i = 0; i < s->tensors.n; i++) {
		const char *name = s->tensors.v[p[i].t].name;

		if (p[i].begin < at)
			return err_set(ERR_DATA, "tensors '%s' and '%s' overlap",
				s->tensors.v[p[i - 1].t].name, name);
		if (p[i].begin > at)
			return err_set(ERR_DATA, "%" PRIu64 " bytes before tensor '%s' belong to none",
				p[i].begin - at, name);
		if (p[i].end > data)
			return err_set(ERR_DATA, "tensor '%s' ends %" PRIu64 " bytes behind the end of the file",
				name, p[i].end - data);
		at = p[i].end;
	}
	if (data != UINT64_MAX && at != data)
		return err_set(ERR_DATA, "%" PRIu64 " bytes at the end belong to no tensor", data - at);
	return 0;
}

/* Table and parts as p has them; the table is replaced by a new one, the parts are set. */
static int reorder(struct safetensors *s, const struct placed *p)
{
	const size_t n = s->tensors.n;
	struct tensor *v = malloc((n ? n : 1) * sizeof *v);
	struct safetensors_part *part = malloc((n ? n : 1) * sizeof *part);

	if (!v || !part) {
		free(v);
		free(part);
		return err_nomem();
	}
	for (size_t i = 0; i < n; i++) {
		v[i] = s->tensors.v[p[i].t];
		part[i] = s->part[p[i].t];
	}
	free(s->tensors.v);
	free(s->part);
	s->tensors = (struct tensors){ v, n, n };
	s->part = part;
	return 0;
}

static int place(struct safetensors *s, const uint64_t *end, uint64_t data)
{
	const size_t n = s->tensors.n;
	struct placed *p = malloc((n ? n : 1) * sizeof *p);
	int rc;

	if (!p)
		return err_nomem();
	for (size_t t = 0; t < n; t++)
		p[t] = (struct placed){ s->part[t].begin, end[t], t };
	qsort(p, n, sizeof *p, by_place);
	rc = check_places(s, p, data);
	if (rc == 0)
		rc = reorder(s, p);
	free(p);
	return rc;
}

int safetensors_parse(struct safetensors *s, const char *header, size_t n, uint64_t data)
{
	struct entries e = { .s = s };
	int rc = jsondoc_members(header, n, MEMBER, take_entry, &e);

	if (rc == 0 && s->tensors.n == 0)
		rc = err_set(ERR_DATA, "no tensors");
	if (rc == 0)
		rc = tensors_unique(&s->tensors);
	if (rc == 0)
		rc = place(s, e.end, data);
	free(e.end);
	return rc < 0 ? err_at(rc, "header") : 0;
}

/* Does a header of so many bytes seem to be there? Only of a file that can be looked into. */
static bool seems_there(int fd, uint64_t n)
{
	char first = 0, last = 0;

	return fd_read_at(fd, &first, 1, 8) == 1 && fd_read_at(fd, &last, 1, 7 + n) == 1 && first == '{' &&
		(last == '}' || last == ' ');
}

static uint64_t swapped(uint64_t v)
{
	uint8_t bytes[8], turned[8];

	le64_put(bytes, v);
	for (int i = 0; i < 8; i++)
		turned[i] = bytes[7 - i];
	return le64_get(turned);
}

/* size: of the file, UINT64_MAX when not known. */
static int check_length(int fd, uint64_t n, uint64_t size)
{
	const uint64_t left = size - 8, other = swapped(n);

	if (n > 1 && n <= left && n <= SAFETENSORS_HEADER)
		return 0;
	if (other > 1 && other <= left && size != UINT64_MAX && seems_there(fd, other))
		return err_set(ERR_DATA, "header length %" PRIu64 " makes sense in the other byte order only: "
			"not a safetensors file, or not written as the format has it", n);
	if (n < 2)
		return err_set(ERR_DATA, "header length is %" PRIu64 ": not a safetensors file", n);
	if (n > left)
		return err_set(ERR_DATA, "header length %" PRIu64 " is more than the %" PRIu64
			" bytes that follow: cut short, or not a safetensors file", n, left);
	return err_set(ERR_DATA, "header length %" PRIu64 " is more than the format's limit of %d", n,
		SAFETENSORS_HEADER);
}

/* The text of a header. Memory grows with what is really there. */
static int read_text(int fd, uint64_t n, struct buf *text)
{
	int rc;

	while (text->len < n) {
		size_t part = n - text->len < STEP ? (size_t)(n - text->len) : STEP;
		ssize_t got;

		if ((rc = buf_reserve(text, part)) < 0)
			return rc;
		if ((got = fd_read(fd, text->data + text->len, part)) < 0)
			return (int)got;
		text->len += (size_t)got;
		if ((size_t)got < part)
			return err_set(ERR_DATA, "cut short: ends within its header");
	}
	return 0;
}

int safetensors_open(struct safetensors *s, int fd)
{
	struct buf text = BUF_INIT;
	uint64_t size = UINT64_MAX, n;
	uint8_t length[8];
	ssize_t got;
	int rc;

	*s = (struct safetensors){ .fd = fd };
	s->regular = fd_regular(fd, &size);
	if ((got = fd_read(fd, length, sizeof length)) < 0)
		return (int)got;
	if (got < 8)
		return err_set(ERR_DATA, "%zd bytes are no safetensors file", got);
	n = le64_get(length);
	if (s->regular && size < 8) /* changed meanwhile */
		size = 8;
	rc = check_length(fd, n, size);
	if (rc == 0)
		rc = read_text(fd, n, &text);
	if (rc == 0)
		rc = safetensors_parse(s, text.data, text.len, s->regular ? size - 8 - n : UINT64_MAX);
	buf_release(&text);
	for (size_t t = 0; rc == 0 && t < s->tensors.n; t++)
		s->part[t].begin += 8 + n;
	s->at = 8 + n;
	return rc;
}

/* ---- values ---- */

static int read_at(struct safetensors *s, void *to, size_t bytes, uint64_t at)
{
	ssize_t got;

	if (!s->regular && at != s->at)
		return err_set(ERR_IO, "a stream cannot be read out of order");
	got = s->regular ? fd_read_at(s->fd, to, bytes, at) : fd_read(s->fd, to, bytes);
	if (got < 0)
		return (int)got;
	s->at = at + (uint64_t)got;
	return (size_t)got == bytes ? 0 : err_set(ERR_DATA, "cut short: ends within its data");
}

int safetensors_integers(struct safetensors *s, size_t t, uint64_t first, void *out, size_t n)
{
	const struct safetensors_part *p = &s->part[t];
	const size_t size = safetensors_kinds[p->type].size;

	return read_at(s, out, n * size, p->begin + first * size);
}

/* n <= WORK */
static int read_floats(struct safetensors *s, const struct safetensors_part *p, uint64_t first, float *out,
	size_t n)
{
	static const struct tensor plain = { .dtype = DTYPE_U32, .enc = ENC_PLAIN };
	const size_t size = safetensors_kinds[p->type].size;
	int rc = read_at(s, s->work, n * size, p->begin + first * size);

	if (rc < 0)
		return rc;
	if (p->type == SAFETENSORS_F32)
		codec_order(&plain, out, s->work, n);
	else if (p->type == SAFETENSORS_F16)
		half_f16_get(out, s->work, n);
	else
		half_bf16_get(out, s->work, n);
	return 0;
}

int safetensors_floats(struct safetensors *s, size_t t, uint64_t first, float *out, size_t n)
{
	int rc = 0;

	if (!s->work && !(s->work = malloc(4 * WORK)))
		return err_nomem();
	for (size_t at = 0, part; at < n && rc == 0; at += part) {
		part = n - at < WORK ? n - at : WORK;
		rc = read_floats(s, &s->part[t], first + at, out + at, part);
	}
	return rc;
}

int safetensors_end(struct safetensors *s)
{
	char more;
	ssize_t got = s->regular ? 0 : fd_read(s->fd, &more, 1);

	if (got < 0)
		return (int)got;
	return got == 0 ? 0 : err_set(ERR_DATA, "goes on after its last tensor");
}
