#include "round/import.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/finite.h"
#include "form/frame.h"
#include "io/output.h"
#include "io/wake.h"

/* One file on its way. */
struct copy {
	const struct import *x;
	const struct import_source *source;
	struct frame_writer *w;
	float *work; /* (FRAME_ELEMS) */
	struct finite finite; /* of the tensor under way */
};

/* What the writer says does not name the file. */
static int at_output(const struct copy *c, int rc)
{
	return rc < 0 ? err_at(rc, "%s", output_name(c->x->out)) : 0;
}

static int copy_slice(struct copy *c, size_t t, uint64_t first, size_t n)
{
	const struct import_source *source = c->source;
	int rc;

	if (source->header->tensors.v[t].enc == ENC_PLAIN) {
		rc = source->integers(source->ctx, t, first, c->work, n);
		return rc < 0 ? rc : at_output(c, frame_write_int(c->w, c->work, n));
	}
	if ((rc = source->floats(source->ctx, t, first, c->work, n)) < 0)
		return rc;
	if (source->finite)
		finite_look(&c->finite, c->work, n);
	return at_output(c, frame_write(c->w, c->work, NULL, n));
}

static int copy_tensor(struct copy *c, size_t t)
{
	const struct tensors *ts = &c->source->header->tensors;
	const uint64_t count = ts->v[t].count;
	int rc = 0;

	c->finite = (struct finite){ 0 };
	for (uint64_t first = 0, n; first < count && rc == 0; first += n) {
		n = count - first < FRAME_ELEMS ? count - first : FRAME_ELEMS;
		rc = copy_slice(c, t, first, (size_t)n);
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
		if (say_due(c->x->say))
			say_progress(c->x->say, "tensor %zu of %zu", t + 1, ts->n);
	}
	if (rc == 0 && (rc = finite_check(&c->finite)) < 0)
		rc = c->source->where(c->source->ctx, rc, t);
	return rc;
}

static int seal(const struct import *x, const struct import_source *source, int fd, digest *id)
{
	struct copy c = { .x = x, .source = source, .work = malloc(FRAME_ELEMS * sizeof *c.work) };
	int rc = c.work ? 0 : err_nomem();

	if (rc == 0)
		rc = at_output(&c, frame_create(&c.w, fd, source->header, &x->key->secret, x->pool));
	for (size_t t = 0; rc == 0 && t < source->header->tensors.n; t++)
		rc = copy_tensor(&c, t);
	if (rc == 0 && source->end)
		rc = source->end(source->ctx);
	if (rc == 0)
		rc = at_output(&c, frame_finish(c.w, id));
	say_progress_end(x->say);
	frame_writer_free(c.w);
	free(c.work);
	return rc;
}

int import_seal(const struct import *x, const struct import_source *source)
{
	const struct tensors *ts = &source->header->tensors;
	struct output out = OUTPUT_INIT;
	char hex[2 * SIG_DIGEST + 1];
	digest id;
	int rc = output_open(&out, x->out, "a sealed file", source->inputs, source->n);

	if (rc == 0)
		rc = seal(x, source, out.fd, &id);
	if (rc == 0 && source->check)
		rc = source->check(source->ctx, out.fd);
	if (rc == 0)
		rc = output_commit(&out);
	output_abort(&out);
	if (rc < 0)
		return rc;
	sig_hex(hex, id.b, sizeof id.b);
	say_note(x->say, "%s: %.16s: %" PRIu64 " values in %zu tensors", output_name(x->out), hex,
		tensors_total(ts), ts->n);
	return 0;
}
