#include "gguf_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/say.h"
#include "form/half.h"
#include "io/fd.h"

#define PORTION 65536      /* bytes read at a time */
#define KEYS 4096          /* most keys, which are looked through one by one, */
#define KEY_LENGTH 65535   /* and their longest name: as the format has it */
#define LENGTH ((uint64_t)1 << 30) /* longest text and array */
#define ALIGN_MOST ((uint64_t)1 << 30)
#define DEPTH 4            /* arrays within arrays */

enum value {
	VALUE_U8, VALUE_I8, VALUE_U16, VALUE_I16, VALUE_U32, VALUE_I32, VALUE_F32, VALUE_BOOL, VALUE_TEXT,
	VALUE_ARRAY, VALUE_U64, VALUE_I64, VALUE_F64, VALUES
};
static const uint8_t value_bytes[VALUES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

struct key {
	char *name;
	enum value type;
	uint64_t at; /* of the value in the file */
};

struct gguf {
	int fd;
	char *name;
	uint64_t size;
	struct key *keys;
	size_t n_keys;
	struct gguf_tensor *v;
	size_t n;
	const struct gguf_tensor **by_name;
};

/* Reads the header byte after byte, never beyond the file. */
struct source {
	int fd;
	uint64_t at, size;       /* of the next byte; of the file */
	uint64_t from;           /* of the first byte of the buffer */
	size_t have;
	uint8_t bytes[PORTION];
};

static int cut_short(void)
{
	return err_set(ERR_DATA, "cut short: it ends within its header");
}

static int take(struct source *s, void *to, uint64_t n)
{
	uint8_t *out = to;

	if (n > s->size - s->at)
		return cut_short();
	while (n) {
		uint64_t skip = s->at - s->from, m;

		if (skip >= s->have) {
			ssize_t got = fd_read_at(s->fd, s->bytes, PORTION, s->at);

			if (got <= 0)
				return got < 0 ? (int)got : cut_short();
			s->from = s->at;
			s->have = (size_t)got;
			skip = 0;
		}
		m = n < s->have - skip ? n : s->have - skip;
		memcpy(out, s->bytes + skip, m);
		out += m;
		s->at += m;
		n -= m;
	}
	return 0;
}

static int skip(struct source *s, uint64_t n)
{
	if (n > s->size - s->at)
		return cut_short();
	s->at += n;
	return 0;
}

static int take_u32(struct source *s, uint32_t *out)
{
	uint8_t b[4];
	int rc = take(s, b, sizeof b);

	*out = rc < 0 ? 0 : le32_get(b);
	return rc;
}

static int take_u64(struct source *s, uint64_t *out)
{
	uint8_t b[8];
	int rc = take(s, b, sizeof b);

	*out = rc < 0 ? 0 : le64_get(b);
	return rc;
}

/* A name of at most `most` bytes, and a NUL. */
static int take_name(struct source *s, char *out, uint64_t most, const char *what)
{
	uint64_t n;
	int rc = take_u64(s, &n);

	if (rc == 0 && (n == 0 || n > most))
		rc = err_set(ERR_DATA, "a %s of %" PRIu64 " bytes, limit is %" PRIu64, what, n, most);
	if (rc == 0)
		rc = take(s, out, n);
	if (rc == 0)
		out[n] = '\0';
	if (rc == 0 && strlen(out) != n)
		rc = err_set(ERR_DATA, "a %s with a NUL", what);
	return rc;
}

static int skip_text(struct source *s)
{
	uint64_t n;
	int rc = take_u64(s, &n);

	return rc < 0 ? rc : skip(s, n);
}

static int take_type(struct source *s, enum value *out)
{
	uint32_t type;
	int rc = take_u32(s, &type);

	if (rc == 0 && type >= VALUES)
		rc = err_set(ERR_DATA, "unknown type of value %" PRIu32, type);
	*out = rc < 0 ? VALUE_U8 : (enum value)type;
	return rc;
}

static int skip_value(struct source *s, enum value type, int depth);

/* Every item takes at least a byte: a length that the file cannot hold is found before it is walked. */
static int skip_array(struct source *s, int depth)
{
	enum value type;
	uint64_t n;
	int rc = take_type(s, &type);

	if (rc == 0)
		rc = take_u64(s, &n);
	if (rc < 0)
		return rc;
	if (depth == DEPTH)
		return err_set(ERR_DATA, "arrays within arrays, more than %d deep", DEPTH);
	if (n > LENGTH || n > s->size - s->at)
		return err_set(ERR_DATA, "an array of %" PRIu64 " items, more than the file can hold", n);
	if (value_bytes[type])
		return skip(s, n * value_bytes[type]);
	for (; rc == 0 && n; n--)
		rc = skip_value(s, type, depth + 1);
	return rc;
}

static int skip_value(struct source *s, enum value type, int depth)
{
	if (type == VALUE_TEXT)
		return skip_text(s);
	return type == VALUE_ARRAY ? skip_array(s, depth) : skip(s, value_bytes[type]);
}

/* ---- keys ---- */

static const struct key *find_key(const struct gguf *g, const char *name)
{
	for (size_t i = 0; i < g->n_keys; i++)
		if (strcmp(g->keys[i].name, name) == 0)
			return &g->keys[i];
	return NULL;
}

static int read_key(struct gguf *g, struct source *s, struct buf *name)
{
	struct key *k = &g->keys[g->n_keys];
	char shown[120];
	int rc = take_name(s, name->data, KEY_LENGTH, "key");

	if (rc == 0)
		rc = take_type(s, &k->type);
	if (rc < 0)
		return rc;
	k->at = s->at;
	say_escape(shown, sizeof shown, name->data);
	if (find_key(g, name->data))
		return err_set(ERR_DATA, "key '%s' is given twice", shown);
	if ((rc = skip_value(s, k->type, 0)) < 0)
		return err_at(rc, "key '%s'", shown);
	k->name = strdup(name->data);
	if (!k->name)
		return err_nomem();
	g->n_keys++;
	return 0;
}

static int read_keys(struct gguf *g, struct source *s, uint64_t n)
{
	struct buf name = BUF_INIT;
	int rc;

	/* the shortest key has a name of one byte and a value of one */
	if (n > KEYS || n > (s->size - s->at) / 14)
		return err_set(ERR_DATA, "%" PRIu64 " keys, more than the file can hold", n);
	g->keys = calloc(n ? n : 1, sizeof *g->keys);
	if (!g->keys)
		return err_nomem();
	rc = buf_reserve(&name, KEY_LENGTH + 1);
	for (; rc == 0 && n; n--)
		rc = read_key(g, s, &name);
	buf_release(&name);
	return rc;
}

/* ---- the table ---- */

static int take_tensor_type(struct source *s, struct gguf_tensor *t)
{
	static const uint32_t number[GGUF_TYPES] = { 0, 1, 30, 8 };
	uint32_t type;
	int rc = take_u32(s, &type);

	for (int i = 0; rc == 0 && i < GGUF_TYPES; i++)
		if (number[i] == type) {
			t->type = (enum gguf_type)i;
			return 0;
		}
	return rc < 0 ? rc : err_set(ERR_DATA, "type number %" PRIu32 " is none that is read here", type);
}

static int take_shape(struct source *s, struct tensor *t)
{
	uint32_t rank;
	int rc = take_u32(s, &rank);

	if (rc == 0 && (rank == 0 || rank > TENSOR_RANK))
		rc = err_set(ERR_DATA, "%" PRIu32 " dimensions: 1 to %d", rank, TENSOR_RANK);
	for (uint32_t i = 0; rc == 0 && i < rank; i++)
		rc = take_u64(s, &t->dim[rank - 1 - i]);
	t->rank = rc < 0 ? 0 : rank;
	return rc;
}

static uint64_t rows_of(const struct tensor *t)
{
	return t->count / t->dim[t->rank - 1];
}

static int check_place(const struct gguf_tensor *t, uint64_t align, uint64_t left)
{
	const uint64_t row = t->shape.dim[t->shape.rank - 1];

	if (row > GGUF_ROW)
		return err_set(ERR_DATA, "rows of %" PRIu64 " values, limit is 2^24", row);
	if (t->type == GGUF_Q8_0 && row % GGUF_BLOCK)
		return err_set(ERR_DATA, "rows of %" PRIu64 " values are not blocks of %d", row, GGUF_BLOCK);
	if (t->offset % align)
		return err_set(ERR_DATA, "begins at %" PRIu64 ", no multiple of %" PRIu64, t->offset, align);
	/* count <= 2^48 values: no product wraps */
	if (t->offset > left || rows_of(&t->shape) * gguf_row_bytes(t->type, row) > left - t->offset)
		return err_set(ERR_DATA, "lies outside of the file");
	return 0;
}

static int read_tensor(struct gguf_tensor *t, struct source *s)
{
	char shown[4 * GGUF_NAME + 1];
	int rc = take_name(s, t->shape.name, GGUF_NAME, "name of a tensor");

	if (rc < 0)
		return rc;
	rc = take_shape(s, &t->shape);
	if (rc == 0)
		rc = take_tensor_type(s, t);
	if (rc == 0)
		rc = take_u64(s, &t->offset);
	if (rc == 0)
		return tensor_check(&t->shape);
	say_escape(shown, sizeof shown, t->shape.name);
	return err_at(rc, "tensor '%s'", shown);
}

static int by_name(const void *a, const void *b)
{
	const struct gguf_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->shape.name, (*y)->shape.name);
}

static int by_offset(const void *a, const void *b)
{
	const struct gguf_tensor *const *x = a, *const *y = b;

	return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

static uint64_t bytes_of(const struct gguf_tensor *t)
{
	return rows_of(&t->shape) * gguf_row_bytes(t->type, t->shape.dim[t->shape.rank - 1]);
}

/* Are names and places their own? Leaves the list sorted by name. */
static int check_table(struct gguf *g)
{
	const struct gguf_tensor **v = g->by_name;

	for (size_t i = 0; i < g->n; i++)
		v[i] = &g->v[i];
	qsort(v, g->n, sizeof(const struct gguf_tensor *), by_offset);
	for (size_t i = 1; i < g->n; i++)
		if (v[i]->offset - v[i - 1]->offset < bytes_of(v[i - 1]))
			return err_set(ERR_DATA, "tensor '%s' overlaps '%s'", v[i]->shape.name,
				v[i - 1]->shape.name);
	qsort(v, g->n, sizeof(const struct gguf_tensor *), by_name);
	for (size_t i = 1; i < g->n; i++)
		if (strcmp(v[i]->shape.name, v[i - 1]->shape.name) == 0)
			return err_set(ERR_DATA, "tensor '%s' is there twice", v[i]->shape.name);
	return 0;
}

static int read_align(const struct gguf *g, uint64_t *align)
{
	int rc = gguf_get_u64(g, "general.alignment", align);

	if (rc == 0)
		*align = GGUF_ALIGN;
	if (rc >= 0 && (*align == 0 || *align > ALIGN_MOST || (*align & (*align - 1))))
		return err_set(ERR_DATA, "an alignment of %" PRIu64 " makes no sense", *align);
	return rc < 0 ? rc : 0;
}

static int read_table(struct gguf *g, struct source *s, uint64_t n)
{
	uint64_t align, data;
	int rc = read_align(g, &align);

	/* the shortest entry: a name of one byte, one dimension */
	if (rc == 0 && (n > TENSOR_TABLE || n > (s->size - s->at) / 33))
		rc = err_set(ERR_DATA, "%" PRIu64 " tensors, more than the file can hold", n);
	if (rc < 0)
		return rc;
	g->v = calloc(n ? n : 1, sizeof *g->v);
	g->by_name = calloc(n ? n : 1, sizeof *g->by_name);
	if (!g->v || !g->by_name)
		return err_nomem();
	for (; rc == 0 && g->n < n; g->n += rc == 0)
		rc = read_tensor(&g->v[g->n], s);
	data = (s->at + align - 1) / align * align;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct gguf_tensor *t = &g->v[i];

		rc = data > s->size ? cut_short() : check_place(t, align, s->size - data);
		if (rc < 0)
			return err_at(rc, "tensor '%s'", t->shape.name);
		t->offset += data;
	}
	return rc < 0 ? rc : check_table(g);
}

static int read_head(struct gguf *g, struct source *s)
{
	uint32_t magic, version;
	uint64_t tensors, keys;
	int rc = take_u32(s, &magic);

	if (rc < 0 || magic != 0x46554747)
		return err_set(ERR_DATA, "not a gguf file");
	rc = take_u32(s, &version);
	if (rc == 0 && (version & 0xffff) == 0 && version)
		rc = err_set(ERR_DATA, "written for machines of the other byte order");
	if (rc == 0 && version != GGUF_VERSION)
		rc = err_set(ERR_DATA, "gguf of version %" PRIu32 ", not %d", version, GGUF_VERSION);
	if (rc == 0)
		rc = take_u64(s, &tensors);
	if (rc == 0)
		rc = take_u64(s, &keys);
	if (rc == 0)
		rc = read_keys(g, s, keys);
	return rc < 0 ? rc : read_table(g, s, tensors);
}

int gguf_open(struct gguf **out, int fd, const char *name)
{
	struct gguf *g = calloc(1, sizeof *g);
	struct source *s = calloc(1, sizeof *s);
	int rc = g && s && (g->name = strdup(name)) ? 0 : err_nomem();

	if (rc == 0 && !fd_regular(fd, &g->size))
		rc = err_set(ERR_IO, "not a regular file");
	if (rc == 0) {
		g->fd = s->fd = fd;
		s->size = g->size;
		rc = read_head(g, s);
	}
	free(s);
	if (rc < 0) {
		gguf_close(g);
		return err_at(rc, "%s", name);
	}
	*out = g;
	return 0;
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_keys; i++)
		free(g->keys[i].name);
	free(g->keys);
	free(g->v);
	free(g->by_name);
	free(g->name);
	free(g);
}

/* ---- what is in it ---- */

size_t gguf_tensors(const struct gguf *g)
{
	return g->n;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, size_t i)
{
	return &g->v[i];
}

const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name)
{
	size_t low = 0, high = g->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, g->by_name[middle]->shape.name);

		if (order == 0)
			return g->by_name[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

size_t gguf_keys(const struct gguf *g)
{
	return g->n_keys;
}

const char *gguf_key(const struct gguf *g, size_t i)
{
	return g->keys[i].name;
}

static int wrong_type(const struct gguf *g, const char *key, const char *want)
{
	return err_set(ERR_DATA, "%s: key '%s' is not %s", g->name, key, want);
}

static int load(const struct gguf *g, uint8_t *to, size_t n, uint64_t at)
{
	ssize_t got = fd_read_at(g->fd, to, n, at);

	if (got < 0)
		return err_at((int)got, "%s", g->name);
	return (size_t)got == n ? 0 : err_set(ERR_DATA, "%s: became shorter while it was read", g->name);
}

/* The value of a plain type, in the first of 8 bytes, zeros behind it. */
static int load_value(const struct gguf *g, const struct key *k, uint8_t b[8])
{
	memset(b, 0, 8);
	return load(g, b, value_bytes[k->type], k->at);
}

int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out)
{
	const struct key *k = find_key(g, key);
	bool is_signed;
	uint8_t b[8];
	int rc;

	if (!k)
		return 0;
	is_signed = k->type == VALUE_I8 || k->type == VALUE_I16 || k->type == VALUE_I32 || k->type == VALUE_I64;
	if (!is_signed && k->type != VALUE_U8 && k->type != VALUE_U16 && k->type != VALUE_U32 &&
	    k->type != VALUE_U64)
		return wrong_type(g, key, "a whole number");
	if ((rc = load_value(g, k, b)) < 0)
		return rc;
	if (is_signed && b[value_bytes[k->type] - 1] >> 7)
		return wrong_type(g, key, "zero or more");
	*out = le64_get(b);
	return 1;
}

int gguf_get_f64(const struct gguf *g, const char *key, double *out)
{
	const struct key *k = find_key(g, key);
	uint8_t b[8];
	int rc;

	if (!k)
		return 0;
	if (k->type != VALUE_F32 && k->type != VALUE_F64)
		return wrong_type(g, key, "a real number");
	if ((rc = load_value(g, k, b)) < 0)
		return rc;
	*out = k->type == VALUE_F32 ? (double)float_from(le32_get(b)) : double_from(le64_get(b));
	return 1;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out)
{
	const struct key *k = find_key(g, key);
	uint8_t b[8];
	int rc;

	if (!k)
		return 0;
	if (k->type != VALUE_BOOL)
		return wrong_type(g, key, "true or false");
	if ((rc = load_value(g, k, b)) < 0)
		return rc;
	*out = b[0] != 0;
	return 1;
}

int gguf_get_text(const struct gguf *g, const char *key, char *out, size_t cap)
{
	const struct key *k = find_key(g, key);
	uint8_t length[8];
	uint64_t n;
	char *text;
	int rc;

	if (!k)
		return 0;
	if (k->type != VALUE_TEXT)
		return wrong_type(g, key, "text");
	if ((rc = load(g, length, sizeof length, k->at)) < 0)
		return rc;
	n = le64_get(length) < cap ? le64_get(length) : cap;
	text = calloc(1, n + 1);
	if (!text)
		return err_nomem();
	rc = load(g, (uint8_t *)text, n, k->at + 8);
	if (rc == 0)
		say_escape(out, cap, text);
	free(text);
	return rc < 0 ? rc : 1;
}

int gguf_get_count(const struct gguf *g, const char *key, uint64_t *out)
{
	const struct key *k = find_key(g, key);
	uint8_t length[8];
	int rc;

	if (!k)
		return 0;
	if (k->type != VALUE_ARRAY)
		return wrong_type(g, key, "an array");
	rc = load(g, length, sizeof length, k->at + 4);
	*out = rc < 0 ? 0 : le64_get(length);
	return rc < 0 ? rc : 1;
}

static void decode_blocks(float *out, const uint8_t *in, size_t n)
{
	for (size_t at = 0; at < n; at += GGUF_BLOCK, in += gguf_row_bytes(GGUF_Q8_0, GGUF_BLOCK)) {
		float scale;

		half_f16_get(&scale, in, 1);
		for (int i = 0; i < GGUF_BLOCK; i++)
			out[at + (size_t)i] = scale * (float)(int8_t)in[2 + i];
	}
}

void gguf_decode(enum gguf_type t, float *out, const uint8_t *in, size_t n)
{
	switch (t) {
	case GGUF_F32:
		for (size_t i = 0; i < n; i++)
			out[i] = float_from(le32_get(in + 4 * i));
		break;
	case GGUF_F16: half_f16_get(out, in, n); break;
	case GGUF_BF16: half_bf16_get(out, in, n); break;
	default: decode_blocks(out, in, n);
	}
}

int gguf_read_rows(const struct gguf *g, const struct gguf_tensor *t, uint64_t row, float *out, size_t n)
{
	const uint64_t width = t->shape.dim[t->shape.rank - 1], bytes = gguf_row_bytes(t->type, width);
	uint8_t *buffer;
	int rc = 0;

	if (row > rows_of(&t->shape) || n > rows_of(&t->shape) - row)
		return err_set(ERR_USAGE, "tensor '%s' has no rows %" PRIu64 " to %" PRIu64, t->shape.name, row,
			row + n);
	buffer = malloc(bytes);
	if (!buffer)
		return err_nomem();
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = load(g, buffer, bytes, t->offset + (row + i) * bytes);
		if (rc == 0)
			gguf_decode(t->type, out + i * width, buffer, width);
	}
	free(buffer);
	return rc;
}
