#include "form/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNTS 24
#define MARK (8 + SIG_DIGEST)

void entry_put(uint8_t out[LEDGER_ENTRY], const struct entry *e)
{
	le32_put(out, e->tensor);
	le32_put(out + 4, e->count);
	le64_put(out + 8, e->first);
	le64_put(out + 16, e->offset);
	memcpy(out + 24, e->h.b, SIG_DIGEST);
}

static void digest_get(digest *d, struct cursor *c)
{
	const uint8_t *at = cursor_take(c, SIG_DIGEST);

	if (at)
		memcpy(d->b, at, SIG_DIGEST);
}

struct entry entry_get(struct cursor *c)
{
	struct entry e = { .tensor = cursor_u32(c) };

	e.count = cursor_u32(c);
	e.first = cursor_u64(c);
	e.offset = cursor_u64(c);
	digest_get(&e.h, c);
	return e;
}

int progress_add(struct progress *p, const struct tensors *ts, uint32_t tensor, uint64_t first,
	uint64_t count)
{
	const struct tensor *t;

	if (p->tensor >= ts->n)
		return err_set(ERR_DATA, "more values than the header announces");
	t = &ts->v[p->tensor];
	if (tensor != p->tensor || first != p->first)
		return err_set(ERR_DATA,
			"tensor %" PRIu32 " from element %" PRIu64 ", where tensor %" PRIu32
			" from element %" PRIu64 " should be",
			tensor, first, p->tensor, p->first);
	if (count == 0 || count > t->count - first)
		return err_set(ERR_DATA,
			"%" PRIu64 " elements of tensor '%s', which has %" PRIu64 " left", count,
			t->name, t->count - first);
	p->first += count;
	if (p->first == t->count)
		*p = (struct progress){ tensor + 1, 0 };
	return 0;
}

void ledger_release(struct ledger *l)
{
	free(l->marks);
	*l = (struct ledger){ 0 };
}

int ledger_mark(struct ledger *l, enum chain_kind kind, uint64_t offset, const digest *h)
{
	size_t n = (size_t)(l->headers + l->indexes);

	if (n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 4;
		struct mark *marks = realloc(l->marks, cap * sizeof *marks);

		if (!marks)
			return err_nomem();
		l->marks = marks;
		l->cap = cap;
	}
	l->marks[n] = (struct mark){ offset, *h };
	*(kind == CHAIN_HEADER ? &l->headers : &l->indexes) += 1;
	return 0;
}

int ledger_put(const struct ledger *l, struct buf *out)
{
	size_t n = (size_t)(l->headers + l->indexes);
	uint8_t counts[COUNTS], mark[MARK];
	int rc;

	le64_put(counts, l->headers);
	le64_put(counts + 8, l->data);
	le64_put(counts + 16, l->indexes);
	rc = buf_add(out, counts, sizeof counts);
	for (size_t i = 0; i < n && rc == 0; i++) {
		le64_put(mark, l->marks[i].offset);
		memcpy(mark + 8, l->marks[i].h.b, SIG_DIGEST);
		rc = buf_add(out, mark, sizeof mark);
	}
	return rc;
}

int ledger_get(struct ledger *l, const uint8_t *bytes, size_t n)
{
	struct cursor c = cursor_over(bytes, n);
	uint64_t headers = cursor_u64(&c), data = cursor_u64(&c), indexes = cursor_u64(&c);
	size_t marks = cursor_left(&c) / MARK;
	int rc = 0;

	if (c.bad || cursor_left(&c) % MARK != 0 || headers == 0 || headers > marks ||
		indexes != marks - headers)
		return err_set(ERR_DATA, "final frame: counts of frames do not add up");
	for (size_t i = 0; i < marks && rc == 0; i++) {
		struct mark m = { .offset = cursor_u64(&c) };

		digest_get(&m.h, &c);
		rc = ledger_mark(l, i < headers ? CHAIN_HEADER : CHAIN_INDEX, m.offset, &m.h);
	}
	l->data = data;
	return rc;
}
