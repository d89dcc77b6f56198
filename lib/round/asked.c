#include "round/asked.h"

#include <string.h>

#include "base/num.h"

static bool same_number(const char *value, const char *have, int (*parse)(const char *text, double *out))
{
	double a, b;

	return parse(value, &a) == 0 && parse(have, &b) == 0 && !(a < b || a > b);
}

static int count_number(const char *text, double *out)
{
	uint64_t n;
	int rc = num_count(text, &n);

	if (rc == 0)
		*out = (double)n;
	return rc;
}

static bool same(const struct asked *a, const char *value, const char *have)
{
	int (*parse)(const char *text, double *out) = a->time ? num_seconds : a->count ? count_number : num_f64;

	return strcmp(value, have) == 0 || same_number(value, have, parse);
}

int asked_options(const struct asked *v, const char *const *value, size_t n, const struct manifest *m)
{
	struct header h = { .keys = { 0 } };
	int rc = manifest_write(m, &h);

	for (size_t i = 0; i < n && rc == 0; i++) {
		const char *have = conf_get(&h.keys, v[i].key);

		have = have ? have : v[i].none ? v[i].none : "";
		if (value[i] && !same(&v[i], value[i], have))
			rc = err_set(ERR_USAGE, "option %s: the run has %s, not %s: leave it out, or make another run",
				v[i].option, *have ? have : "none", value[i]);
	}
	header_release(&h);
	return rc;
}

static int refuse(const char *name, const char *key, const char *have, const char *value)
{
	return err_set(ERR_USAGE, "option -c: %s: the run has %s %s, not %s: leave it out, or make another run", name,
		key, have ? have : "none", value ? value : "none");
}

int asked_conf(const struct conf *asked, const char *name, const struct manifest *m)
{
	struct conf have = { 0 };
	int rc = model_conf_write(&m->model, &have);

	if (rc == 0)
		rc = train_conf_write(&m->train, &have);
	for (size_t i = 0; rc == 0 && i < have.n; i++) {
		const char *value = conf_get(asked, have.v[i].key);

		if (!value || strcmp(value, have.v[i].value) != 0)
			rc = refuse(name, have.v[i].key, have.v[i].value, value);
	}
	for (size_t i = 0; rc == 0 && i < asked->n; i++) { /* 0 is how dl-init prints what the run leaves out */
		const struct conf_item *item = &asked->v[i];

		if (!conf_get(&have, item->key) && strcmp(item->value, "0") != 0)
			rc = refuse(name, item->key, NULL, item->value);
	}
	conf_release(&have);
	return rc;
}
