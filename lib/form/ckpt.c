#include "form/ckpt.h"

#include <inttypes.h>
#include <math.h>

static int take(float *to, const struct frame_slice *s, const struct tensor *t)
{
	if (!s->value)
		return err_set(ERR_DATA, "tensor '%s' is of type %s, not f32", t->name,
			dtype_name(t->dtype));
	for (uint32_t i = 0; i < s->n; i++) {
		to[i] = s->rest ? s->value[i] + s->rest[i] : s->value[i];
		if (!isfinite(to[i]))
			return err_set(ERR_DATA, "tensor '%s': element %" PRIu64 " is not finite",
				t->name, s->first + i);
	}
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

int ckpt_write(struct frame_writer *w, const struct tensors *table, const float *value)
{
	int rc = 0;

	for (size_t i = 0; i < table->n && rc == 0; i++) {
		rc = frame_write(w, value, NULL, (size_t)table->v[i].count);
		value += table->v[i].count;
	}
	return rc;
}
