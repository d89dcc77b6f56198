/* The writing half of gguf.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "form/gguf.h"
#include "io/fd.h"

#define FLUSH 65536   /* text of the header held back */
#define PORTION 65536 /* values encoded at a time, or one row */
#define HEAD 24       /* magic, version and the two counts */

enum value { /* types of values, as the format numbers them */
	VALUE_U8 = 0, VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_TEXT = 8,
	VALUE_ARRAY = 9
};
static const uint32_t type_number[GGUF_TYPES] = { 0, 1, 30, 8 };

/* A tensor of the table. */
struct place {
	char name[GGUF_NAME + 1]; /* for messages */
	enum gguf_type type;
	uint64_t row, rows; /* values of a row; rows */
	uint64_t offset;    /* of the data */
};

struct gguf_writer {
	int fd;
	struct buf text;     /* of the header, not written yet */
	uint64_t keys;
	uint64_t items;      /* of the array under way, still to come */
	struct place *v;
	size_t n, cap;
	uint64_t size;       /* of the data */
	uint64_t data;       /* where they begin; 0: the table is not complete */
	uint64_t left;       /* rows still to come */
	uint8_t *bytes;      /* encoded rows */
	size_t bytes_cap;
};

int gguf_create(struct gguf_writer **out, int fd)
{
	static const uint8_t head[HEAD] = { 'G', 'G', 'U', 'F', GGUF_VERSION };
	struct gguf_writer *w = calloc(1, sizeof *w);
	int rc;

	if (!w)
		return err_nomem();
	w->fd = fd;
	rc = buf_add(&w->text, head, sizeof head);
	if (rc < 0) {
		gguf_writer_free(w);
		return rc;
	}
	*out = w;
	return 0;
}

void gguf_writer_free(struct gguf_writer *w)
{
	if (!w)
		return;
	buf_release(&w->text);
	free(w->v);
	free(w->bytes);
	free(w);
}

/* ---- keys ---- */

static int flush(struct gguf_writer *w)
{
	int rc = fd_write(w->fd, w->text.data, w->text.len);

	buf_clear(&w->text);
	return rc;
}

static int add(struct gguf_writer *w, const void *bytes, size_t n)
{
	int rc = buf_add(&w->text, bytes, n);

	return rc < 0 || w->text.len < FLUSH || w->data ? rc : flush(w);
}

static int add_u32(struct gguf_writer *w, uint32_t value)
{
	uint8_t b[4];

	le32_put(b, value);
	return add(w, b, sizeof b);
}

static int add_u64(struct gguf_writer *w, uint64_t value)
{
	uint8_t b[8];

	le64_put(b, value);
	return add(w, b, sizeof b);
}

static int add_text(struct gguf_writer *w, const char *bytes, size_t n)
{
	int rc = add_u64(w, n);

	return rc < 0 ? rc : add(w, bytes, n);
}

static int begin_key(struct gguf_writer *w, const char *key, enum value type)
{
	int rc;

	if (w->items || w->n)
		return err_set(ERR_USAGE, "key '%s' out of its place", key);
	w->keys++;
	rc = add_text(w, key, strlen(key));
	return rc < 0 ? rc : add_u32(w, type);
}

int gguf_put_text(struct gguf_writer *w, const char *key, const char *text)
{
	int rc = begin_key(w, key, VALUE_TEXT);

	return rc < 0 ? rc : add_text(w, text, strlen(text));
}

int gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
	int rc = begin_key(w, key, VALUE_U32);

	return rc < 0 ? rc : add_u32(w, value);
}

int gguf_put_f32(struct gguf_writer *w, const char *key, float value)
{
	int rc = begin_key(w, key, VALUE_F32);

	return rc < 0 ? rc : add_u32(w, float_bits(value));
}

int gguf_put_bool(struct gguf_writer *w, const char *key, bool value)
{
	const uint8_t b = value;
	int rc = begin_key(w, key, VALUE_BOOL);

	return rc < 0 ? rc : add(w, &b, 1);
}

int gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_item kind, uint64_t n)
{
	static const enum value type[] = { [GGUF_ITEM_U8] = VALUE_U8, [GGUF_ITEM_I32] = VALUE_I32,
		[GGUF_ITEM_F32] = VALUE_F32, [GGUF_ITEM_TEXT] = VALUE_TEXT };
	int rc = begin_key(w, key, VALUE_ARRAY);

	if (rc == 0)
		rc = add_u32(w, type[kind]);
	if (rc == 0)
		rc = add_u64(w, n);
	w->items = n;
	return rc;
}

static int take_items(struct gguf_writer *w, uint64_t n)
{
	if (w->items < n)
		return err_set(ERR_USAGE, "an array has more items than were announced");
	w->items -= n;
	return 0;
}

int gguf_item_i32(struct gguf_writer *w, int32_t value)
{
	int rc = take_items(w, 1);

	return rc < 0 ? rc : add_u32(w, (uint32_t)value);
}

int gguf_item_f32(struct gguf_writer *w, float value)
{
	int rc = take_items(w, 1);

	return rc < 0 ? rc : add_u32(w, float_bits(value));
}

int gguf_item_text(struct gguf_writer *w, const char *bytes, size_t n)
{
	int rc = take_items(w, 1);

	return rc < 0 ? rc : add_text(w, bytes, n);
}

int gguf_item_bytes(struct gguf_writer *w, const void *bytes, size_t n)
{
	int rc = take_items(w, n);

	return rc < 0 ? rc : add(w, bytes, n);
}

/* ---- the table: held back as a list, since its length stands before it ---- */

static int grow(struct gguf_writer *w)
{
	size_t cap = w->cap ? 2 * w->cap : 64;
	struct place *v;

	if (w->n < w->cap)
		return 0;
	v = realloc(w->v, cap * sizeof *v);
	if (!v)
		return err_nomem();
	w->v = v;
	w->cap = cap;
	return 0;
}

static uint64_t align(uint64_t n)
{
	return (n + GGUF_ALIGN - 1) / GGUF_ALIGN * GGUF_ALIGN;
}

static int check_tensor(const struct gguf_writer *w, const struct tensor *t, enum gguf_type type, uint64_t row)
{
	if (w->items || w->data)
		return err_set(ERR_USAGE, "tensor '%s' out of its place", t->name);
	if (strlen(t->name) > GGUF_NAME)
		return err_set(ERR_DATA, "tensor '%s': its name is longer than %d characters", t->name,
			GGUF_NAME);
	if (row > GGUF_ROW)
		return err_set(ERR_DATA, "tensor '%s': rows of more than 2^24 values", t->name);
	if (type == GGUF_Q8_0 && row % GGUF_BLOCK)
		return err_set(ERR_DATA, "tensor '%s': rows of %" PRIu64 " values are not blocks of %d",
			t->name, row, GGUF_BLOCK);
	return 0;
}

int gguf_put_tensor(struct gguf_writer *w, const struct tensor *t, enum gguf_type type)
{
	const uint64_t row = t->rank ? t->dim[t->rank - 1] : 1;
	int rc = check_tensor(w, t, type, row);
	struct place *p;

	if (rc < 0 || (rc = grow(w)) < 0)
		return rc;
	p = &w->v[w->n++];
	*p = (struct place){ .type = type, .row = row, .rows = t->count / row, .offset = w->size };
	memcpy(p->name, t->name, strlen(t->name) + 1);
	w->size = align(w->size + p->rows * gguf_row_bytes(type, row));
	w->left += p->rows;
	rc = add_text(w, t->name, strlen(t->name));
	if (rc == 0)
		rc = add_u32(w, t->rank);
	for (unsigned i = t->rank; rc == 0 && i > 0; i--)
		rc = add_u64(w, t->dim[i - 1]);
	if (rc == 0)
		rc = add_u32(w, type_number[type]);
	return rc < 0 ? rc : add_u64(w, p->offset);
}

/* What the header says of itself, and the length of the file. */
static int complete_table(struct gguf_writer *w)
{
	static const uint8_t zeros[GGUF_ALIGN];
	uint8_t counts[16];
	off_t at;
	int rc = w->items ? err_set(ERR_USAGE, "an array has fewer items than were announced") : flush(w);

	if (rc < 0)
		return rc;
	at = lseek(w->fd, 0, SEEK_CUR);
	if (at < 0)
		return err_sys("seek");
	w->data = align((uint64_t)at);
	rc = fd_write(w->fd, zeros, (size_t)(w->data - (uint64_t)at));
	le64_put(counts, w->n);
	le64_put(counts + 8, w->keys);
	if (rc == 0)
		rc = fd_write_at(w->fd, counts, sizeof counts, 8);
	if (rc == 0 && ftruncate(w->fd, (off_t)(w->data + w->size)) < 0)
		rc = err_sys("write");
	return rc;
}

/* ---- rows ---- */

static int need_bytes(struct gguf_writer *w, uint64_t n)
{
	uint8_t *bytes;

	if (n <= w->bytes_cap)
		return 0;
	bytes = realloc(w->bytes, n);
	if (!bytes)
		return err_nomem();
	w->bytes = bytes;
	w->bytes_cap = n;
	return 0;
}

int gguf_write_rows(struct gguf_writer *w, size_t t, uint64_t row, const float *value, size_t n)
{
	const struct place *p = &w->v[t];
	const uint64_t row_bytes = gguf_row_bytes(p->type, p->row);
	const size_t most = p->row < PORTION ? (size_t)(PORTION / p->row) : 1;
	int rc = w->data ? 0 : complete_table(w);

	if (rc == 0 && (row > p->rows || n > p->rows - row || n > w->left))
		rc = err_set(ERR_USAGE, "tensor '%s' has no rows %" PRIu64 " to %" PRIu64, p->name, row,
			row + n);
	w->left -= rc == 0 ? n : 0;
	for (size_t m; rc == 0 && n; n -= m, row += m, value += m * p->row) {
		m = n < most ? n : most;
		rc = need_bytes(w, m * row_bytes);
		if (rc == 0 && (rc = gguf_encode(p->type, w->bytes, value, m * (size_t)p->row)) < 0)
			return err_at(rc, "tensor '%s': row %" PRIu64, p->name, row);
		if (rc == 0)
			rc = fd_write_at(w->fd, w->bytes, m * row_bytes, w->data + p->offset + row * row_bytes);
	}
	return rc;
}

int gguf_finish(struct gguf_writer *w)
{
	if (w->left)
		return err_set(ERR_DATA, "%" PRIu64 " rows are missing", w->left);
	return w->data ? 0 : complete_table(w);
}
