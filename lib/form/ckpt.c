#include "form/ckpt.h"

#include <inttypes.h>
#include <string.h>

#include "base/finite.h"

static int take(float *to, const struct frame_slice *s, const struct tensor *t)
{
	struct finite f = { 0 };

	if (!s->value)
		return err_set(ERR_DATA, "tensor '%s' is of type %s, not f32", t->name,
			dtype_name(t->dtype));
	if (s->rest)
		for (uint32_t i = 0; i < s->n; i++)
			to[i] = s->value[i] + s->rest[i];
	else
		memcpy(to, s->value, s->n * sizeof *to);
	finite_look(&f, to, s->n);
	if (f.odd)
		return err_set(ERR_DATA, "tensor '%s': element %" PRIu64 " is not finite", t->name, s->first + f.first);
	return 0;
}

int ckpt_read(struct frame_reader *r, float *value)
{
	const struct tensors *ts = &frame_header(r)->tensors;
	struct frame_slice s;
	int rc, bad;

	while ((rc = frame_next(r, &s)) > 0) {
		if ((bad = take(value, &s, &ts->v[s.tensor])) < 0)
			return err_at(bad, "%s", frame_name(r));
		value += s.n; /* slices come in order, and none is left out */
	}
	return rc;
}

int ckpt_load(struct frame_reader *r, struct frame_scratch *scratch, float *value)
{
	const struct tensors *ts = &frame_header(r)->tensors;
	struct frame_slice s;
	int rc = frame_seekable(r);

	for (uint32_t t = 0; t < ts->n && rc == 0; t++)
		for (uint32_t i = 0; i < frame_slices(r, t) && rc == 0; i++) {
			if ((rc = frame_slice_at(r, scratch, t, i, &s)) < 0)
				return rc;
			if ((rc = take(value, &s, &ts->v[t])) < 0)
				err_at(rc, "%s", frame_name(r));
			value += s.n;
		}
	return rc;
}

int ckpt_write(struct frame_writer *w, const struct tensors *table, const float *value)
{
	int rc = 0;

	for (size_t i = 0; i < table->n && rc == 0; i++) {
		rc = frame_write(w, value, NULL, (size_t)table->v[i].count);
		value += table->v[i].count;
	}
	return rc;
}
