#include "base/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/say.h"

static const struct {
	const char *name;
	size_t size;
} dtypes[] = {
	[DTYPE_F32] = { "f32", 4 },
	[DTYPE_U8] = { "u8", 1 },
	[DTYPE_U16] = { "u16", 2 },
	[DTYPE_U32] = { "u32", 4 },
};
static const char *const encodings[] = {
	[ENC_PLAIN] = "raw",
	[ENC_F32] = "f32",
	[ENC_F32R] = "f32r",
	[ENC_BF16] = "bf16",
};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static int unknown(const char *what, const char *text)
{
	char shown[80];

	say_escape(shown, sizeof shown, text);
	return err_set(ERR_DATA, "unknown %s '%s'", what, shown);
}

const char *dtype_name(enum dtype d)
{
	return dtypes[d].name;
}

size_t dtype_size(enum dtype d)
{
	return dtypes[d].size;
}

int dtype_parse(const char *text, enum dtype *out)
{
	for (size_t i = 0; i < COUNT(dtypes); i++)
		if (strcmp(text, dtypes[i].name) == 0) {
			*out = (enum dtype)i;
			return 0;
		}
	return unknown("element type", text);
}

const char *encoding_name(enum encoding e)
{
	return encodings[e];
}

int encoding_parse(const char *text, enum encoding *out)
{
	for (size_t i = 0; i < COUNT(encodings); i++)
		if (strcmp(text, encodings[i]) == 0) {
			*out = (enum encoding)i;
			return 0;
		}
	return unknown("encoding", text);
}

static bool name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

static int check_name(const struct tensor *t)
{
	const char *p = t->name;
	char shown[80];

	if (memchr(t->name, '\0', sizeof t->name) == NULL)
		return err_set(ERR_DATA, "tensor name is longer than %d characters", TENSOR_NAME);
	while (name_char(*p))
		p++;
	if (*p == '\0' && p > t->name && t->name[0] != '.' && t->name[0] != '-')
		return 0;
	say_escape(shown, sizeof shown, t->name);
	return err_set(ERR_DATA, "'%s' is not a tensor name", shown);
}

int tensor_check(struct tensor *t)
{
	uint64_t count = 1;
	int rc = check_name(t);

	if (rc < 0)
		return rc;
	if (t->rank > TENSOR_RANK)
		return err_set(ERR_DATA, "tensor '%s': %u dimensions, limit is %d", t->name,
			       t->rank, TENSOR_RANK);
	for (unsigned i = 0; i < t->rank; i++) {
		if (t->dim[i] == 0)
			return err_set(ERR_DATA, "tensor '%s': dimension %u is zero", t->name, i);
		if (t->dim[i] > TENSOR_COUNT / count)
			return err_set(ERR_DATA, "tensor '%s': more than 2^48 elements", t->name);
		count *= t->dim[i];
	}
	t->count = count;
	return 0;
}

void tensor_shape_text(const struct tensor *t, char out[96])
{
	size_t n = 0;

	snprintf(out, 96, "scalar");
	for (unsigned i = 0; i < t->rank && i < TENSOR_RANK; i++)
		n += (size_t)snprintf(out + n, 96 - n, i ? "x%" PRIu64 : "%" PRIu64, t->dim[i]);
}

int tensor_shape_parse(struct tensor *t, const char *text)
{
	char one[24], shown[80];
	unsigned rank = 0;

	t->rank = 0;
	if (strcmp(text, "scalar") == 0)
		return 0;
	say_escape(shown, sizeof shown, text);
	for (const char *p = text;; rank++) {
		size_t n = strcspn(p, "x");

		if (rank == TENSOR_RANK)
			return err_set(ERR_DATA, "shape '%s' has more than %d dimensions", shown,
				       TENSOR_RANK);
		snprintf(one, sizeof one, "%.*s", n < sizeof one ? (int)n : (int)sizeof one, p);
		if (n >= sizeof one || num_u64(one, &t->dim[rank]) < 0)
			return err_set(ERR_DATA, "'%s' is not a shape", shown);
		if (p[n] == '\0')
			break;
		p += n + 1;
	}
	t->rank = rank + 1;
	return 0;
}

void tensors_release(struct tensors *ts)
{
	free(ts->v);
	*ts = (struct tensors){ 0 };
}

int tensors_push(struct tensors *ts, const struct tensor *t)
{
	struct tensor copy = *t;
	int rc = tensor_check(&copy);

	if (rc < 0)
		return rc;
	if (ts->n == TENSOR_TABLE)
		return err_set(ERR_DATA, "more than %d tensors", TENSOR_TABLE);
	if (ts->n == ts->cap) {
		size_t cap = ts->cap ? ts->cap * 2 : 16;
		struct tensor *v = realloc(ts->v, cap * sizeof *v);

		if (!v)
			return err_nomem();
		ts->v = v;
		ts->cap = cap;
	}
	ts->v[ts->n++] = copy;
	return 0;
}

int tensors_copy(struct tensors *to, const struct tensors *from)
{
	struct tensor *v = NULL;

	if (from->n) {
		v = malloc(from->n * sizeof *v);
		if (!v)
			return err_nomem();
		memcpy(v, from->v, from->n * sizeof *v);
	}
	*to = (struct tensors){ v, from->n, from->n };
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct tensor *const *x = a, *const *y = b;
	int order = strcmp((*x)->name, (*y)->name);

	return order ? order : (*x > *y) - (*x < *y);
}

int tensors_unique(const struct tensors *ts)
{
	const struct tensor **sorted, *twice = NULL;

	if (ts->n < 2)
		return 0;
	sorted = malloc(ts->n * sizeof *sorted);
	if (!sorted)
		return err_nomem();
	for (size_t i = 0; i < ts->n; i++)
		sorted[i] = &ts->v[i];
	qsort(sorted, ts->n, sizeof *sorted, by_name);
	for (size_t i = 1; i < ts->n; i++)
		if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0 &&
		    (!twice || sorted[i] < twice))
			twice = sorted[i];
	free(sorted);
	return twice ? err_set(ERR_DATA, "tensor '%s' occurs twice", twice->name) : 0;
}

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
	return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

int tensors_same(const struct tensors *want, const struct tensors *have)
{
	char shape_w[96], shape_h[96];

	for (size_t i = 0; i < want->n && i < have->n; i++) {
		const struct tensor *w = &want->v[i], *h = &have->v[i];

		if (strcmp(w->name, h->name) != 0)
			return err_set(ERR_DATA, "tensor %zu is '%s', not '%s'", i, h->name,
				       w->name);
		if (w->dtype != h->dtype)
			return err_set(ERR_DATA, "tensor '%s' is of type %s, not %s", w->name,
				       dtype_name(h->dtype), dtype_name(w->dtype));
		if (!same_shape(w, h)) {
			tensor_shape_text(w, shape_w);
			tensor_shape_text(h, shape_h);
			return err_set(ERR_DATA, "tensor '%s' has shape %s, not %s", w->name,
				       shape_h, shape_w);
		}
	}
	if (want->n != have->n)
		return err_set(ERR_DATA, "%zu tensors, not %zu", have->n, want->n);
	return 0;
}

uint64_t tensors_total(const struct tensors *ts)
{
	uint64_t total = 0;

	for (size_t i = 0; i < ts->n; i++)
		total += ts->v[i].count;
	return total;
}
