#include "round/checkpoint.h"

#include <inttypes.h>

#include "form/ckpt.h"
#include "round/run.h"

static int read_header(struct checkpoint *c, const struct header *h)
{
	int rc;

	if ((rc = meta_read(&c->meta, h)) < 0)
		return rc;
	if ((rc = meta_want(&c->meta, KIND_CHECKPOINT)) < 0)
		return rc;
	return run_conf_read(&c->model, &c->train, h);
}

int checkpoint_open(struct checkpoint *c, const struct frame_reader *r)
{
	int rc = read_header(c, frame_header(r));

	return rc < 0 ? err_at(rc, "%s", frame_name(r)) : 0;
}

int checkpoint_load(struct model **out, struct checkpoint *c, struct frame_reader *r,
	enum model_use use, struct pool *pool)
{
	struct model *m;
	int rc;

	if (c->train.context > c->model.context)
		return err_set(ERR_USAGE,
			"%s: a context of %" PRIu64 " tokens is longer than the model's %" PRIu32,
			frame_name(r), c->train.context, c->model.context);
	if ((rc = model_open(&m, &c->model, (int)c->train.context, use, pool)) < 0)
		return rc;
	rc = ckpt_read(r, model_params(m));
	if (rc == 0)
		rc = frame_id(r, &c->id);
	if (rc < 0) {
		model_close(m);
		return rc;
	}
	*out = m;
	return 0;
}
