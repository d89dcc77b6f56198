#include "form/card.h"

#include <sys/mman.h>
#include <unistd.h>

#include "form/chain.h"
#include "form/frame.h"
#include "io/fd.h"
#include "io/place.h"

#define FRAMES 16 /* of a card, at most: 4 MiB of text are five and the final one */

/* The writer and the reader of sealed files work on descriptors. */
static int open_memory(int *fd)
{
	*fd = memfd_create("card", MFD_CLOEXEC);
	return *fd < 0 ? fd_temporary(fd) : 0;
}

static int seal(int fd, const struct header *h, const struct sig_secret *key, digest *id)
{
	struct frame_writer *w = NULL;
	int rc = frame_create(&w, fd, h, key, NULL);

	if (rc == 0)
		rc = frame_finish(w, id);
	frame_writer_free(w);
	return rc;
}

int card_seal(struct buf *out, const struct header *h, const struct sig_secret *key, digest *id)
{
	int fd, rc;

	if (h->tensors.n)
		return err_set(ERR_DATA, "a card has no tensors");
	if ((rc = open_memory(&fd)) < 0)
		return rc;
	rc = seal(fd, h, key, id);
	if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_sys("card");
	if (rc == 0)
		rc = fd_slurp(fd, CARD_BYTES, out);
	close(fd);
	return rc;
}

/* A few bytes can claim a lot of text: what they say of its size stays within what a card may have. All
 * else is for the reader to judge. */
static int measure(const char *bytes, size_t n)
{
	const uint8_t *at = (const uint8_t *)bytes + CHAIN_PREAMBLE, *end = (const uint8_t *)bytes + n;
	struct prelude p = { 0 };
	uint64_t text = 0;

	if (n < CHAIN_PREAMBLE)
		return 0;
	for (int frames = 0; p.kind != CHAIN_FINAL && end - at >= CHAIN_PRELUDE; frames++) {
		if (prelude_get(&p, at) < 0)
			return 0;
		text += p.raw;
		if (frames == FRAMES || text > CARD_BYTES)
			return err_set(ERR_DATA, "longer than a file of this kind may be");
		if ((size_t)(end - at) < CHAIN_PRELUDE + (size_t)p.stored + SIG_SEAL)
			return 0;
		at += CHAIN_PRELUDE + (size_t)p.stored + SIG_SEAL;
	}
	return 0;
}

/* Up to the verified end, before which nothing counts. */
static int parse(struct header *h, struct sig_public *signer, int fd, const char *name,
	const struct trust *trust)
{
	struct frame_reader *r = NULL;
	struct frame_slice slice;
	int rc = frame_open(&r, fd, name, trust, NULL);

	if (rc == 0 && frame_header(r)->tensors.n)
		rc = err_set(ERR_DATA, "%s: has tensors, and should be a header only", name);
	if (rc == 0)
		rc = frame_next(r, &slice);
	if (rc == 0) {
		*signer = *frame_signer(r);
		rc = header_copy(h, frame_header(r));
	}
	frame_reader_free(r);
	return rc;
}

int card_parse(struct header *h, struct sig_public *signer, const char *bytes, size_t n, const char *name,
	const struct trust *trust)
{
	int fd, rc;

	if (n > CARD_BYTES)
		return err_set(ERR_DATA, "%s: longer than %zu bytes", name, CARD_BYTES);
	if ((rc = measure(bytes, n)) < 0)
		return err_at(rc, "%s", name);
	if ((rc = open_memory(&fd)) < 0)
		return rc;
	rc = fd_write(fd, bytes, n);
	if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_sys("%s", name);
	if (rc == 0)
		rc = parse(h, signer, fd, name, trust);
	close(fd);
	return rc;
}

int card_read(struct header *h, struct sig_public *signer, const char *path, const struct trust *trust)
{
	struct buf bytes = BUF_INIT;
	struct sig_public who;
	int rc = place_read(path, CARD_BYTES, &bytes);

	if (rc > 0 && (rc = card_parse(h, signer ? signer : &who, bytes.data, bytes.len, path, trust)) == 0)
		rc = 1;
	buf_release(&bytes);
	return rc;
}
