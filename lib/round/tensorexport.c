#include "round/tensorexport.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "form/safetensors.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"

#define PREFIX "dl."
#define THEIRS "metadata." /* before keys that tensorimport found */

static int check_options(const struct export *x, enum safetensors_type *floats)
{
	if (x->tokenizer)
		return err_set(ERR_USAGE, "option --tokenizer: a safetensors file has no place for a tokenizer");
	if (x->no_bos)
		return err_set(ERR_USAGE, "option --no-bos: a safetensors file has no place for a tokenizer");
	if (x->check)
		return err_set(ERR_USAGE, "option --check: there is no model in a mere list of tensors to run");
	return x->dtype && safetensors_float_type(floats, x->dtype) < 0 ? err_at(ERR_USAGE, "option --dtype") : 0;
}

/* Each key of the header as metadata. "format" is what other loaders ask for. */
static int describe(struct conf *to, const struct conf *from)
{
	char key[sizeof PREFIX + CONF_KEY];
	int rc = conf_set(to, "format", "pt");

	for (size_t i = 0; i < from->n && rc == 0; i++) {
		if (strncmp(from->v[i].key, THEIRS, sizeof THEIRS - 1) == 0)
			snprintf(key, sizeof key, "%s", from->v[i].key + sizeof THEIRS - 1);
		else
			snprintf(key, sizeof key, PREFIX "%s", from->v[i].key);
		rc = conf_set(to, key, from->v[i].value);
	}
	return rc;
}

static int plan(struct safetensors *s, const struct export *x, enum safetensors_type floats)
{
	const struct header *h = frame_header(x->from);
	int rc = describe(&s->metadata, &h->keys);

	for (size_t t = 0; t < h->tensors.n && rc == 0; t++) {
		const struct tensor *v = &h->tensors.v[t];

		rc = safetensors_add(s, v, x->dtype && v->dtype == DTYPE_F32 ? floats : safetensors_type_of(v));
	}
	return rc;
}

static int write_sum(int fd, enum safetensors_type type, const struct frame_slice *s)
{
	float *sum = malloc(s->n * sizeof *sum);
	int rc;

	if (!sum)
		return err_nomem();
	for (uint32_t i = 0; i < s->n; i++)
		sum[i] = s->value[i] + s->rest[i];
	rc = safetensors_put(fd, type, s->first, sum, s->n);
	free(sum);
	return rc;
}

static int write_slice(int fd, enum safetensors_type type, const struct frame_slice *s)
{
	if (!s->value)
		return fd_write(fd, s->elements, (size_t)s->n * safetensors_size(type));
	return s->rest ? write_sum(fd, type, s) : safetensors_put(fd, type, s->first, s->value, s->n);
}

/* A value that does not fit is the input's fault, anything else the output's. */
static int blame(int rc, const struct export *x, const char *tensor)
{
	if (rc == ERR_DATA)
		return err_at(err_at(rc, "tensor '%s'", tensor), "%s", frame_name(x->from));
	return rc < 0 ? err_at(rc, "%s", output_name(x->out)) : 0;
}

/* All slices up to the verified end of the input. */
static int write_data(const struct export *x, const struct safetensors *s, int fd)
{
	struct frame_slice slice;
	int rc, more;

	while ((more = frame_next(x->from, &slice)) > 0) {
		rc = write_slice(fd, s->part[slice.tensor].type, &slice);
		rc = blame(rc, x, s->tensors.v[slice.tensor].name);
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
		if (rc < 0)
			return rc;
		if (say_due(x->say))
			say_progress(x->say, "tensor %" PRIu32 " of %zu", slice.tensor + 1, s->tensors.n);
	}
	return more;
}

static int write_file(const struct export *x, struct safetensors *s, int fd)
{
	struct buf header = BUF_INIT;
	int rc = safetensors_header(s, &header);

	if (rc == 0)
		rc = fd_write(fd, header.data, header.len);
	rc = rc < 0 ? err_at(rc, "%s", output_name(x->out)) : 0;
	buf_release(&header);
	if (rc == 0)
		rc = write_data(x, s, fd);
	say_progress_end(x->say);
	return rc;
}

int tensorexport(const struct export *x)
{
	enum safetensors_type floats = SAFETENSORS_F32;
	struct output out = OUTPUT_INIT;
	struct safetensors s = { 0 };
	int rc = check_options(x, &floats);

	if (rc == 0)
		rc = plan(&s, x, floats);
	if (rc == 0)
		rc = output_open(&out, x->out, "a safetensors file", &x->fd, 1);
	if (rc == 0)
		rc = write_file(x, &s, out.fd);
	if (rc == 0)
		rc = output_commit(&out);
	output_abort(&out);
	if (rc == 0)
		say_note(x->say, "%s: %zu tensors, %" PRIu64 " bytes", output_name(x->out), s.tensors.n,
			safetensors_bytes(&s));
	safetensors_release(&s);
	return rc;
}
