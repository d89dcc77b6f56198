/* Types, and the writing half of safetensors.h. */
#include "form/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "form/codec.h"
#include "form/half.h"
#include "form/safetensors_type.h"
#include "io/fd.h"

const struct safetensors_kind safetensors_kinds[SAFETENSORS_KINDS] = {
	[SAFETENSORS_F32] = { "F32", 4, DTYPE_F32, ENC_F32 },
	[SAFETENSORS_BF16] = { "BF16", 2, DTYPE_F32, ENC_BF16 },
	[SAFETENSORS_F16] = { "F16", 2, DTYPE_F32, ENC_F32 },
	[SAFETENSORS_U8] = { "U8", 1, DTYPE_U8, ENC_PLAIN },
	[SAFETENSORS_U16] = { "U16", 2, DTYPE_U16, ENC_PLAIN },
	[SAFETENSORS_U32] = { "U32", 4, DTYPE_U32, ENC_PLAIN },
};

const char *safetensors_type_name(enum safetensors_type t)
{
	return safetensors_kinds[t].name;
}

size_t safetensors_size(enum safetensors_type t)
{
	return safetensors_kinds[t].size;
}

int safetensors_float_type(enum safetensors_type *out, const char *text)
{
	static const char *const names[] = { [SAFETENSORS_F32] = "f32", [SAFETENSORS_BF16] = "bf16",
		[SAFETENSORS_F16] = "f16" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(text, names[i]) == 0) {
			*out = (enum safetensors_type)i;
			return 0;
		}
	return err_set(ERR_USAGE, "'%s' is not f32, bf16 or f16", text);
}

enum safetensors_type safetensors_type_of(const struct tensor *t)
{
	switch (t->dtype) {
	case DTYPE_U8: return SAFETENSORS_U8;
	case DTYPE_U16: return SAFETENSORS_U16;
	case DTYPE_U32: return SAFETENSORS_U32;
	case DTYPE_F32: break;
	}
	return t->enc == ENC_BF16 ? SAFETENSORS_BF16 : SAFETENSORS_F32;
}

void safetensors_release(struct safetensors *s)
{
	tensors_release(&s->tensors);
	conf_release(&s->metadata);
	free(s->part);
	free(s->work);
	*s = (struct safetensors){ 0 };
}

int safetensors_add(struct safetensors *s, const struct tensor *t, enum safetensors_type type)
{
	const size_t cap = s->tensors.cap;
	int rc = tensors_push(&s->tensors, t);

	if (rc == 0 && s->tensors.cap != cap) {
		struct safetensors_part *part = realloc(s->part, s->tensors.cap * sizeof *part);

		if (!part) {
			s->tensors.n--;
			s->tensors.cap = cap; /* so that the next one tries again */
			return err_nomem();
		}
		s->part = part;
	}
	if (rc == 0)
		s->part[s->tensors.n - 1] = (struct safetensors_part){ type, 0 };
	return rc;
}

uint64_t safetensors_bytes(const struct safetensors *s)
{
	uint64_t bytes = 0;

	for (size_t t = 0; t < s->tensors.n; t++)
		bytes += s->tensors.v[t].count * safetensors_kinds[s->part[t].type].size;
	return bytes;
}

static int put_metadata(const struct safetensors *s, struct buf *out)
{
	int rc = buf_str(out, "\"__metadata__\":{");

	for (size_t i = 0; i < s->metadata.n && rc == 0; i++) {
		if (i)
			rc = buf_str(out, ",");
		if (rc == 0)
			rc = json_text(out, s->metadata.v[i].key);
		if (rc == 0)
			rc = buf_str(out, ":");
		if (rc == 0)
			rc = json_text(out, s->metadata.v[i].value);
	}
	return rc == 0 ? buf_str(out, "}") : rc;
}

static int put_tensor(const struct tensor *t, struct safetensors_part *part, uint64_t *at, struct buf *out)
{
	const uint64_t end = *at + t->count * safetensors_kinds[part->type].size;
	int rc = json_text(out, t->name);

	if (rc == 0)
		rc = buf_fmt(out, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_kinds[part->type].name);
	for (unsigned i = 0; i < t->rank && rc == 0; i++)
		rc = buf_fmt(out, "%s%" PRIu64, i ? "," : "", t->dim[i]);
	if (rc == 0)
		rc = buf_fmt(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *at, end);
	part->begin = *at;
	*at = end;
	return rc;
}

static int put_text(struct safetensors *s, struct buf *out)
{
	uint64_t at = 0;
	int rc = buf_str(out, "{");

	if (rc == 0 && s->metadata.n)
		rc = put_metadata(s, out);
	for (size_t t = 0; t < s->tensors.n && rc == 0; t++) {
		if (t || s->metadata.n)
			rc = buf_str(out, ",");
		if (rc == 0)
			rc = put_tensor(&s->tensors.v[t], &s->part[t], &at, out);
	}
	return rc == 0 ? buf_str(out, "}") : rc;
}

int safetensors_header(struct safetensors *s, struct buf *out)
{
	const size_t start = out->len;
	uint8_t length[8] = { 0 };
	size_t n;
	int rc = buf_add(out, length, sizeof length);

	if (rc == 0)
		rc = put_text(s, out);
	while (rc == 0 && (out->len - start) % 8 != 0)
		rc = buf_str(out, " ");
	if (rc < 0)
		return rc;
	n = out->len - start;
	if (n - sizeof length > SAFETENSORS_HEADER)
		return err_set(ERR_DATA, "%zu tensors need a header of %zu bytes: the format's limit is %d",
			s->tensors.n, n - sizeof length, SAFETENSORS_HEADER);
	le64_put(length, n - sizeof length);
	memcpy(out->data + start, length, sizeof length);
	for (size_t t = 0; t < s->tensors.n; t++)
		s->part[t].begin += n;
	return 0;
}

/* ---- values ---- */

#define PIECE 8192 /* elements turned into bytes at a time */

static int too_large(enum safetensors_type type, const float *value, uint64_t at, size_t i)
{
	return err_set(ERR_DATA, "element %" PRIu64 " is %g, too large for %s", at + i, (double)value[i],
		type == SAFETENSORS_F16 ? "f16" : "bf16");
}

static int put_piece(int fd, enum safetensors_type type, uint64_t at, const float *value, size_t n)
{
	static const struct tensor plain = { .dtype = DTYPE_U32, .enc = ENC_PLAIN };
	uint8_t bytes[4 * PIECE];
	size_t first = 0, lost = 0;

	if (type == SAFETENSORS_F32)
		codec_order(&plain, bytes, value, n);
	else if (type == SAFETENSORS_F16)
		lost = half_f16_put(bytes, value, n, &first);
	else
		lost = half_bf16_put(bytes, value, n, &first);
	if (lost)
		return too_large(type, value, at, first);
	return fd_write(fd, bytes, n * safetensors_kinds[type].size);
}

int safetensors_put(int fd, enum safetensors_type type, uint64_t first, const float *value, size_t n)
{
	int rc = 0;

	for (size_t at = 0, part; at < n && rc == 0; at += part) {
		part = n - at < PIECE ? n - at : PIECE;
		rc = put_piece(fd, type, first + at, value + at, part);
	}
	return rc;
}
