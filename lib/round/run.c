#include "round/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "form/sig.h"

/* What a configuration's keys begin with in a header, so that they never meet those of meta.h. */
#define PREFIX "conf."

/* The configuration as text, then the table without its encodings, which say how and not what. */
static int describe(const struct model_conf *c, const struct tensors *layout, struct buf *out)
{
	struct conf keys = { 0 };
	char shape[96];
	int rc = model_conf_write(c, &keys);

	if (rc == 0)
		rc = conf_format(&keys, out);
	for (size_t i = 0; rc == 0 && i < layout->n; i++) {
		const struct tensor *t = &layout->v[i];

		tensor_shape_text(t, shape);
		rc = buf_fmt(out, "tensor %s %s %s\n", t->name, dtype_name(t->dtype), shape);
	}
	conf_release(&keys);
	return rc;
}

int run_model_digest(char out[65], const struct model_conf *c, const struct tensors *layout)
{
	struct buf text = BUF_INIT;
	digest d;
	int rc = buf_str(&text, "dl model 1\n");

	if (rc == 0)
		rc = describe(c, layout, &text);
	if (rc == 0) {
		sig_digest(&d, text.data, text.len);
		sig_hex(out, d.b, sizeof d.b);
	}
	buf_release(&text);
	return rc;
}

int run_id(char out[33], const char *model_digest, const struct train_conf *train, uint64_t seed,
	const char *label)
{
	struct buf text = BUF_INIT;
	struct conf keys = { 0 };
	digest d;
	int rc = train_conf_write(train, &keys);

	if (rc == 0)
		rc = buf_fmt(&text, "dl run 1\nmodel %s\n", model_digest);
	if (rc == 0)
		rc = conf_format(&keys, &text);
	if (rc == 0)
		rc = buf_fmt(&text, "seed %" PRIu64 "\nlabel %s\n", seed, label);
	if (rc == 0) {
		sig_digest(&d, text.data, text.len);
		sig_hex(out, d.b, 16);
	}
	conf_release(&keys);
	buf_release(&text);
	return rc;
}

/* Is what the header says of its model also what its configuration leads to? */
static int check_model(const struct model_conf *mc, const struct header *h)
{
	const char *said = conf_get(&h->keys, "model");
	struct tensors layout = { 0 };
	char found[65] = "";
	int rc = model_layout(mc, &layout);

	if (rc == 0)
		rc = tensors_same(&layout, &h->tensors);
	if (rc == 0)
		rc = run_model_digest(found, mc, &layout);
	if (rc == 0 && (!said || strcmp(said, found) != 0))
		rc = err_set(ERR_DATA, "the model digest is not that of its configuration");
	tensors_release(&layout);
	return rc;
}

/* The items of the header that are of the configuration, as they stood in it. */
static int conf_from_header(struct conf *to, const struct header *h)
{
	static const size_t skip = sizeof PREFIX - 1;
	int rc = 0;

	for (size_t i = 0; i < h->keys.n && rc == 0; i++)
		if (strncmp(h->keys.v[i].key, PREFIX, skip) == 0)
			rc = conf_set(to, h->keys.v[i].key + skip, h->keys.v[i].value);
	return rc;
}

static int conf_to_header(struct header *h, const struct conf *from)
{
	char key[sizeof PREFIX + CONF_KEY];
	int rc = 0;

	for (size_t i = 0; i < from->n && rc == 0; i++) {
		snprintf(key, sizeof key, "%s%s", PREFIX, from->v[i].key);
		rc = conf_set(&h->keys, key, from->v[i].value);
	}
	return rc;
}

int run_conf_parse(struct model_conf *mc, struct train_conf *tc, const struct header *h)
{
	struct conf conf = { 0 };
	int rc = conf_from_header(&conf, h);

	if (rc == 0)
		rc = model_conf_read(mc, &conf);
	if (rc == 0)
		rc = train_conf_read(tc, &conf);
	conf_release(&conf);
	return rc;
}

int run_conf_read(struct model_conf *mc, struct train_conf *tc, const struct header *h)
{
	int rc = run_conf_parse(mc, tc, h);

	return rc < 0 ? rc : check_model(mc, h);
}

int run_conf_write(const struct model_conf *mc, const struct train_conf *tc, struct header *h)
{
	struct conf conf = { 0 };
	int rc = model_conf_write(mc, &conf);

	if (rc == 0)
		rc = train_conf_write(tc, &conf);
	if (rc == 0)
		rc = conf_to_header(h, &conf);
	conf_release(&conf);
	return rc;
}
