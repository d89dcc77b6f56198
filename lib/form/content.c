#include "form/content.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "form/codec.h"

#define RUN 1024 /* elements brought into order at a time */

void content_init(struct content *c, const struct tensors *ts)
{
	c->tensors = ts;
	c->rest = false;
	sig_hash_init(&c->values);
	sig_hash_init(&c->rests);
}

static void add_title(struct content *c, const struct tensor *t)
{
	char shape[96], line[TENSOR_NAME + 128];
	size_t n;

	tensor_shape_text(t, shape);
	snprintf(line, sizeof line, "%s %s %s\n", t->name, dtype_name(t->dtype), shape);
	n = strlen(line);
	sig_hash_add(&c->values, line, n);
	sig_hash_add(&c->rests, line, n);
}

static void add_elements(struct sig_hash *h, const struct tensor *t, const void *elements, size_t n)
{
	size_t size = dtype_size(t->dtype);
	uint8_t bytes[RUN * sizeof(uint32_t)];

	for (size_t at = 0, m; at < n; at += m) {
		m = n - at < RUN ? n - at : RUN;
		codec_order(t, bytes, (const uint8_t *)elements + at * size, m);
		sig_hash_add(h, bytes, m * size);
	}
}

void content_add(struct content *c, const struct frame_slice *s)
{
	const struct tensor *t = &c->tensors->v[s->tensor];

	if (s->first == 0)
		add_title(c, t);
	add_elements(&c->values, t, s->value ? (const void *)s->value : s->elements, s->n);
	if (!s->rest)
		return;
	add_elements(&c->rests, t, s->rest, s->n);
	for (uint32_t k = 0; k < s->n && !c->rest; k++)
		c->rest = s->rest[k] != 0;
}

void content_end(struct content *c, digest *out)
{
	uint8_t both[2 * SIG_DIGEST];
	digest rests;

	sig_hash_end(&c->values, out);
	sig_hash_end(&c->rests, &rests);
	if (!c->rest)
		return;
	memcpy(both, out->b, SIG_DIGEST);
	memcpy(both + SIG_DIGEST, rests.b, SIG_DIGEST);
	sig_digest(out, both, sizeof both);
}

int content_read(digest *out, struct frame_reader *r, int (*stop)(void))
{
	struct frame_slice s;
	struct content sum;
	int rc;

	content_init(&sum, &frame_header(r)->tensors);
	while ((rc = frame_next(r, &s)) > 0) {
		if (stop && stop())
			return err_set(ERR_IO, "%s: interrupted", frame_name(r));
		content_add(&sum, &s);
	}
	content_end(&sum, out);
	return rc;
}
