#include "round/import.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/finite.h"
#include "form/frame.h"
#include "io/output.h"
#include "io/wake.h"

static int copy_slice(struct frame_writer *w, const struct import_source *source, size_t t, uint64_t first,
	void *work, size_t n, struct finite *finite)
{
	int rc;

	if (source->header->tensors.v[t].enc == ENC_PLAIN) {
		rc = source->integers(source->ctx, t, first, work, n);
		return rc < 0 ? rc : frame_write_int(w, work, n);
	}
	if ((rc = source->floats(source->ctx, t, first, work, n)) < 0)
		return rc;
	if (source->finite)
		finite_look(finite, work, n);
	return frame_write(w, work, NULL, n);
}

static int copy_tensor(struct frame_writer *w, const struct import *x, const struct import_source *source,
	size_t t, void *work)
{
	const struct tensors *ts = &source->header->tensors;
	const uint64_t count = ts->v[t].count;
	struct finite finite = { 0 };
	int rc = 0;

	for (uint64_t first = 0, n; first < count && rc == 0; first += n) {
		n = count - first < FRAME_ELEMS ? count - first : FRAME_ELEMS;
		rc = copy_slice(w, source, t, first, work, (size_t)n, &finite);
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
		if (say_due(x->say))
			say_progress(x->say, "tensor %zu of %zu", t + 1, ts->n);
	}
	if (rc == 0 && (rc = finite_check(&finite)) < 0)
		rc = source->where(source->ctx, rc, t);
	return rc;
}

static int seal(const struct import *x, const struct import_source *source, int fd, digest *id)
{
	float *work = malloc(FRAME_ELEMS * sizeof *work);
	struct frame_writer *w = NULL;
	int rc = work ? frame_create(&w, fd, source->header, &x->key->secret, x->pool) : err_nomem();

	for (size_t t = 0; rc == 0 && t < source->header->tensors.n; t++)
		rc = copy_tensor(w, x, source, t, work);
	if (rc == 0 && source->end)
		rc = source->end(source->ctx);
	if (rc == 0)
		rc = frame_finish(w, id);
	say_progress_end(x->say);
	frame_writer_free(w);
	free(work);
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
