/*
 * frame - both readers of sealed files, and what dl-show makes of what they hand out. The first
 * byte says how the rest becomes a file:
 *
 *     even   as it is
 *     1 mod 4   with key, seals and trailer made good, so that payloads are reached
 *     3 mod 4   frames given as kind, flags, u16 length, unpacked payload; packed, sealed, and the last one
 *               named by the trailer
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "form/block.h"
#include "form/content.h"
#include "form/meta.h"
#include "form/report.h"
#include "io/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(int rc)
{
	if (rc < 0)
		abort();
}

struct sealer {
	struct sig_secret key;
	struct chain chain;
	struct trailer trailer;
	struct buf file;
};

static void begin(struct sealer *s)
{
	uint8_t seed[SIG_SEED] = { 1 }, preamble[CHAIN_PREAMBLE];

	*s = (struct sealer){ .trailer = { .number = 0 } };
	must(sig_init());
	must(sig_from_seed(&s->key, seed));
	preamble_put(preamble, &s->key.pub);
	chain_start(&s->chain, &s->key.pub);
	must(buf_add(&s->file, preamble, sizeof preamble));
}

/* Prelude and payload, to be sealed. */
static void add_frame(struct sealer *s, const uint8_t *prelude, const uint8_t *payload, size_t n)
{
	size_t start = s->file.len;
	uint8_t seal[SIG_SEAL];
	digest h;

	s->trailer = (struct trailer){ s->chain.number, start, s->chain.c };
	must(buf_add(&s->file, prelude, CHAIN_PRELUDE));
	must(buf_add(&s->file, payload, n));
	chain_hash(&h, s->chain.number, (const uint8_t *)s->file.data + start, s->file.len - start);
	chain_add(&s->chain, &h);
	sig_sign(seal, &s->chain.c, &s->key);
	must(buf_add(&s->file, seal, sizeof seal));
}

static void end(struct sealer *s)
{
	uint8_t trailer[CHAIN_TRAILER];

	trailer_put(trailer, &s->trailer);
	must(buf_add(&s->file, trailer, sizeof trailer));
}

static void reseal(struct sealer *s, const uint8_t *data, size_t n)
{
	struct cursor c = cursor_over(data, n);

	cursor_take(&c, CHAIN_PREAMBLE);
	while (!c.bad && cursor_left(&c) > CHAIN_TRAILER) {
		const uint8_t *prelude = cursor_take(&c, CHAIN_PRELUDE), *payload;
		uint32_t stored = le32_get(prelude + 4);

		payload = cursor_take(&c, stored);
		if (!payload)
			break;
		add_frame(s, prelude, payload, stored);
		cursor_take(&c, SIG_SEAL);
	}
}

static void compose(struct sealer *s, const uint8_t *data, size_t n)
{
	struct cursor c = cursor_over(data, n);
	struct zs zs = { 0 };

	while (cursor_left(&c) > 4) {
		struct prelude p = { .kind = cursor_u8(&c), .flags = cursor_u8(&c) };
		size_t raw = cursor_u16(&c), room = zs_bound(raw);
		uint8_t *payload = malloc(room), prelude[CHAIN_PRELUDE];

		if (raw > cursor_left(&c))
			raw = cursor_left(&c);
		must(payload ? zs_pack(&zs, payload, &room, cursor_take(&c, raw), raw) : ERR_NOMEM);
		p.raw = (uint32_t)raw;
		p.stored = (uint32_t)room;
		prelude_put(prelude, &p);
		add_frame(s, prelude, payload, room);
		free(payload);
	}
	zs_release(&zs);
}

static int stream(struct frame_reader *r)
{
	const struct tensors *ts = &frame_header(r)->tensors;
	struct report report = { .json = true };
	struct tally tally = { 0 };
	struct content content;
	struct frame_slice s;
	digest d;
	int rc;

	must(report_head(&report, r, NULL, false));
	content_init(&content, ts);
	while ((rc = frame_next(r, &s)) > 0) {
		tally_add(&tally, &ts->v[s.tensor], &s);
		content_add(&content, &s);
		must(report_tensor(&report, &ts->v[s.tensor], &tally));
	}
	content_end(&content, &d);
	if (rc == 0)
		must(report_end(&report, r, &d));
	report_release(&report);
	return rc;
}

static int seek(struct frame_reader *r)
{
	struct frame_scratch *scratch;
	struct frame_slice s;
	int rc = frame_seekable(r);

	if (rc < 0)
		return rc;
	must(frame_scratch_new(&scratch));
	for (uint32_t t = 0; t < frame_header(r)->tensors.n && rc == 0; t++)
		for (uint32_t k = 0; k < frame_slices(r, t) && rc == 0; k++)
			rc = frame_slice_at(r, scratch, t, k, &s);
	frame_scratch_free(scratch);
	return rc;
}

/* One reader of the file in fd by way of `how`. */
static int read_by(int fd, int (*how)(struct frame_reader *r))
{
	struct frame_reader *r;
	struct meta m;
	int rc;

	lseek(fd, 0, SEEK_SET);
	rc = frame_open(&r, fd, "fuzz", NULL, NULL);
	if (rc < 0)
		return rc;
	rc = meta_read(&m, frame_header(r));
	rc = how(r);
	frame_reader_free(r);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct sealer s;
	int fd, streamed, sought;

	if (n == 0 || (fd = memfd_create("fuzz", MFD_CLOEXEC)) < 0)
		return 0;
	begin(&s);
	if (data[0] % 2 == 0) {
		buf_clear(&s.file);
		must(buf_add(&s.file, data + 1, n - 1));
	} else {
		(data[0] % 4 == 1 ? reseal : compose)(&s, data + 1, n - 1);
		end(&s);
	}
	must(fd_write(fd, s.file.data, s.file.len));
	streamed = read_by(fd, stream);
	sought = read_by(fd, seek);
	/* What one reads to its end the other reads, too. */
	if (streamed == 0 && sought < 0)
		abort();
	buf_release(&s.file);
	close(fd);
	return 0;
}
