#include "form/vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "form/sig.h"
#include "io/dir.h"
#include "io/fd.h"
#include "io/output.h"

void vocab_release(struct vocab *v)
{
	buf_release(&v->bytes);
	free(v->v);
	*v = (struct vocab){ .n = 0 };
}

/* ---- protocol buffers ---- */

/* A field of a message: its number, and a whole number or a stretch of bytes. */
struct field {
	uint64_t number;
	enum wire { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 5 } wire;
	uint64_t value;
	const uint8_t *bytes; /* value of them, for WIRE_BYTES */
};

static uint64_t take_varint(struct cursor *c)
{
	uint64_t value = 0;

	for (int shift = 0; shift < 64; shift += 7) {
		const uint8_t b = cursor_u8(c);

		value |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return value;
	}
	c->bad = true;
	return 0;
}

/* 1 and the next field; 0 at the end of the message; ERR_DATA. */
static int next_field(struct field *f, struct cursor *c)
{
	uint64_t tag;

	if (cursor_left(c) == 0)
		return 0;
	tag = take_varint(c);
	*f = (struct field){ .number = tag >> 3, .wire = (enum wire)(tag & 7) };
	switch (f->wire) {
	case WIRE_VARINT: f->value = take_varint(c); break;
	case WIRE_FIXED64: f->value = cursor_u64(c); break;
	case WIRE_FIXED32: f->value = cursor_u32(c); break;
	case WIRE_BYTES:
		f->value = take_varint(c);
		if (f->value > cursor_left(c))
			c->bad = true;
		else
			f->bytes = cursor_take(c, (size_t)f->value);
		break;
	default: return err_set(ERR_DATA, "not a SentencePiece model");
	}
	return c->bad ? err_set(ERR_DATA, "not a SentencePiece model, or cut short") : 1;
}

static struct cursor inside(const struct field *f)
{
	return cursor_over(f->bytes, (size_t)f->value);
}

/* ---- a SentencePiece model ---- */

static uint32_t place_of(const struct vocab *v, const struct field *f)
{
	return (uint32_t)(f->bytes - (const uint8_t *)v->bytes.data);
}

/* As the trainer writes it: <0x0A>. */
static bool names_byte(const char *text, size_t n)
{
	static const char digits[] = "0123456789ABCDEF";

	return n == 6 && memcmp(text, "<0x", 3) == 0 && memchr(digits, text[3], 16) && memchr(digits, text[4], 16) &&
		text[5] == '>';
}

static int check_piece(const struct vocab *v, const struct piece *p)
{
	const char *text = v->bytes.data + p->at;

	if (p->n == 0)
		return err_set(ERR_DATA, "piece %zu is empty", v->n);
	if (memchr(text, '\0', p->n))
		return err_set(ERR_DATA, "piece %zu has a NUL", v->n);
	if (!isfinite(p->score))
		return err_set(ERR_DATA, "piece %zu: its score is not finite", v->n);
	if (p->type < PIECE_NORMAL || p->type > PIECE_BYTE)
		return err_set(ERR_DATA, "piece %zu is of unknown type %d", v->n, (int)p->type);
	if (p->type == PIECE_BYTE && !names_byte(text, p->n))
		return err_set(ERR_DATA, "piece %zu stands for a byte, and is not named <0x00> to <0xFF>", v->n);
	return 0;
}

static int push_piece(struct vocab *v, const struct piece *p)
{
	int rc = check_piece(v, p);

	if (rc == 0 && v->n == VOCAB_MOST)
		rc = err_set(ERR_DATA, "more than %zu pieces", VOCAB_MOST);
	if (rc == 0 && v->n == v->cap) {
		size_t cap = v->cap ? 2 * v->cap : 512;
		struct piece *more = realloc(v->v, cap * sizeof *more);

		if (!more)
			return err_nomem();
		v->v = more;
		v->cap = cap;
	}
	if (rc == 0)
		v->v[v->n++] = *p;
	return rc;
}

static int read_piece(struct vocab *v, struct cursor c)
{
	struct piece p = { .type = PIECE_NORMAL };
	struct field f;
	int rc;

	while ((rc = next_field(&f, &c)) > 0)
		if (f.number == 1 && f.wire == WIRE_BYTES) {
			p.at = place_of(v, &f);
			p.n = (uint32_t)f.value;
		} else if (f.number == 2 && f.wire == WIRE_FIXED32) {
			p.score = float_from((uint32_t)f.value);
		} else if (f.number == 3 && f.wire == WIRE_VARINT) {
			p.type = f.value <= PIECE_BYTE ? (enum piece_type)f.value : 0;
		}
	return rc < 0 ? rc : push_piece(v, &p);
}

static int read_trainer(struct vocab *v, struct cursor c)
{
	struct field f;
	int rc;

	while ((rc = next_field(&f, &c)) > 0) {
		const int32_t id = (int32_t)(uint32_t)f.value;

		if (f.wire != WIRE_VARINT)
			continue;
		switch (f.number) {
		case 3: v->kind = f.value <= VOCAB_CHAR ? (enum vocab_kind)f.value : 0; break;
		case 24: v->suffix = f.value != 0; break;
		case 40: v->unk = id; break;
		case 41: v->bos = id; break;
		case 42: v->eos = id; break;
		case 43: v->pad = id; break;
		}
	}
	return rc;
}

static int read_normalizer(struct vocab *v, struct cursor c)
{
	struct field f;
	int rc;

	while ((rc = next_field(&f, &c)) > 0)
		if (f.number == 2 && f.wire == WIRE_BYTES) {
			v->charsmap = place_of(v, &f);
			v->charsmap_n = (uint32_t)f.value;
		} else if (f.number == 3 && f.wire == WIRE_VARINT) {
			v->dummy_prefix = f.value != 0;
		} else if (f.number == 4 && f.wire == WIRE_VARINT) {
			v->squeeze = f.value != 0;
		}
	return rc;
}

static int read_model(struct vocab *v)
{
	struct cursor c = cursor_over(v->bytes.data, v->bytes.len);
	struct field f;
	int rc;

	*v = (struct vocab){ .bytes = v->bytes, .kind = VOCAB_UNIGRAM, .unk = 0, .bos = 1, .eos = 2, .pad = -1,
		.dummy_prefix = true, .squeeze = true };
	while ((rc = next_field(&f, &c)) > 0) {
		if (f.wire != WIRE_BYTES)
			continue;
		if (f.number == 1)
			rc = read_piece(v, inside(&f));
		else if (f.number == 2)
			rc = read_trainer(v, inside(&f));
		else if (f.number == 3)
			rc = read_normalizer(v, inside(&f));
		if (rc < 0)
			break;
	}
	return rc;
}

/* ---- checks ---- */

struct named { const char *text; uint32_t n, id; };

static int by_text(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	const int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);

	if (order)
		return order;
	return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : (x->id > y->id) - (x->id < y->id);
}

static int check_unique(const struct vocab *v)
{
	struct named *all = malloc(v->n * sizeof *all);
	int rc = 0;

	if (!all)
		return err_nomem();
	for (size_t i = 0; i < v->n; i++)
		all[i] = (struct named){ v->bytes.data + v->v[i].at, v->v[i].n, (uint32_t)i };
	qsort(all, v->n, sizeof *all, by_text);
	for (size_t i = 1; rc == 0 && i < v->n; i++)
		if (all[i].n == all[i - 1].n && memcmp(all[i].text, all[i - 1].text, all[i].n) == 0)
			rc = err_set(ERR_DATA, "pieces %" PRIu32 " and %" PRIu32 " are the same", all[i - 1].id,
				all[i].id);
	free(all);
	return rc;
}

/* What the trainer did not make is not there, whatever the default id is. */
static void check_special(const struct vocab *v, int32_t *id, enum piece_type type)
{
	if (*id < 0 || (size_t)*id >= v->n || v->v[*id].type != type)
		*id = -1;
}

/* A table, its length before it, and text behind it. */
static int check_rules(const struct vocab *v)
{
	const uint8_t *rules = (const uint8_t *)v->bytes.data + v->charsmap;

	if (v->charsmap_n == 0 || (v->charsmap_n >= 4 && le32_get(rules) <= v->charsmap_n - 4))
		return 0;
	return err_set(ERR_DATA, "its rules of normalisation are not whole");
}

static int check(struct vocab *v)
{
	int rc;

	if (v->n == 0)
		return err_set(ERR_DATA, "no pieces: not a SentencePiece model");
	if (v->kind < VOCAB_UNIGRAM || v->kind > VOCAB_CHAR)
		return err_set(ERR_DATA, "a SentencePiece model of an unknown kind");
	check_special(v, &v->unk, PIECE_UNKNOWN);
	check_special(v, &v->bos, PIECE_CONTROL);
	check_special(v, &v->eos, PIECE_CONTROL);
	check_special(v, &v->pad, PIECE_CONTROL);
	rc = check_rules(v);
	return rc < 0 ? rc : check_unique(v);
}

static int parse_bytes(struct vocab *v)
{
	int rc = read_model(v);

	return rc < 0 ? rc : check(v);
}

int vocab_parse(struct vocab *v, const char *bytes, size_t n)
{
	int rc;

	if (n > VOCAB_FILE)
		return err_set(ERR_DATA, "longer than %zu bytes", VOCAB_FILE);
	rc = buf_add(&v->bytes, bytes, n);
	if (rc == 0)
		rc = parse_bytes(v);
	if (rc < 0)
		vocab_release(v);
	return rc;
}

static int load(struct vocab *v, const char *path)
{
	int fd, rc = fd_open_in(path, &fd);

	if (rc < 0)
		return rc;
	rc = fd_slurp(fd, VOCAB_FILE, &v->bytes);
	close(fd);
	if (rc == 0)
		rc = parse_bytes(v);
	if (rc < 0)
		vocab_release(v);
	return rc < 0 ? err_at(rc, "%s", fd_name(path)) : 0;
}

/* What there is to read under a path; the caller frees it. */
static int file_of(char **file, const char *path)
{
	if (asprintf(file, "%s%s", path, dir_is(path) ? "/tokenizer.model" : "") < 0)
		*file = NULL;
	return *file ? 0 : err_nomem();
}

int vocab_load(struct vocab *v, const char *path)
{
	char *file;
	int rc = file_of(&file, path);

	if (rc == 0)
		rc = load(v, file);
	free(file);
	return rc;
}

int vocab_apart(const char *output, const char *arg)
{
	char *file = NULL;
	int rc = arg ? file_of(&file, arg) : 0;

	if (rc == 0)
		rc = output_apart(output, "the output", file, "an input");
	free(file);
	return rc;
}

/* ---- digests ---- */

void vocab_digest(char out[VOCAB_DIGEST], const struct vocab *v)
{
	static const char title[] = "dl vocabulary 1\n";
	struct sig_hash h;
	digest d;

	sig_hash_init(&h);
	sig_hash_add(&h, title, sizeof title - 1);
	for (size_t i = 0; i < v->n; i++) {
		uint8_t length[8];

		le64_put(length, v->v[i].n);
		sig_hash_add(&h, length, sizeof length);
		sig_hash_add(&h, v->bytes.data + v->v[i].at, v->v[i].n);
	}
	sig_hash_end(&h, &d);
	sig_hex(out, d.b, sizeof d.b);
}

static bool is_digest(const char *text)
{
	return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

int vocab_identify(char out[VOCAB_DIGEST], uint32_t *n, const char *arg)
{
	struct vocab v = { .n = 0 };
	int rc;

	*n = 0;
	if (is_digest(arg)) {
		memcpy(out, arg, VOCAB_DIGEST);
		return 0;
	}
	rc = vocab_load(&v, arg);
	if (rc == 0) {
		*n = (uint32_t)v.n;
		vocab_digest(out, &v);
	}
	vocab_release(&v);
	return rc;
}

int vocab_digest_check(const char *what, const char *hex)
{
	if (!is_digest(hex))
		return err_set(ERR_DATA, "%s is not 64 hex digits", what);
	return 0;
}

int vocab_fits(const char *a, uint32_t a_n, const char *b, uint32_t b_n)
{
	const bool known = *a && *b;

	if (known && strcmp(a, b) != 0)
		return err_set(ERR_DATA,
			"made with another vocabulary than the model: %.16s, the model's is %.16s", a, b);
	if (known ? a_n > b_n : a_n != b_n)
		return err_set(ERR_DATA, "vocabulary of %" PRIu32 ", the model's is %" PRIu32
			" (dl-data --vocab, dl-model(5))", a_n, b_n);
	return 0;
}
