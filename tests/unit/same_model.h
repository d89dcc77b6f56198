/* same_model - do two configurations of a model agree in every key? */
#ifndef SAME_MODEL_H
#define SAME_MODEL_H

#include <string.h>

#include "math/model_conf.h"

static inline int model_text(struct buf *out, const struct model_conf *c)
{
	struct conf conf = { 0 };
	int rc = model_conf_write(c, &conf);

	if (rc == 0)
		rc = conf_format(&conf, out);
	conf_release(&conf);
	return rc;
}

static inline bool same_model(const struct model_conf *a, const struct model_conf *b)
{
	struct buf x = BUF_INIT, y = BUF_INIT;
	bool same = model_text(&x, a) == 0 && model_text(&y, b) == 0 && strcmp(x.data, y.data) == 0;

	buf_release(&x);
	buf_release(&y);
	return same;
}

#endif
