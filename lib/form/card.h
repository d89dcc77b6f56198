/*
 * card - a sealed file that is only a header: manifest, head, beat, epoch of a run directory.
 *
 * Small, whole in memory, verified to its end before anything of it is seen. Reading and writing cost
 * a few signatures, so a card can be replaced several times a second.
 */
#ifndef CARD_H
#define CARD_H

#include "base/buf.h"
#include "base/err.h"
#include "form/header.h"
#include "form/sig.h"
#include "form/trust.h"

#define CARD_BYTES ((size_t)4 << 20) /* longest file that is read */

/* The bytes of the file; *id (may be NULL) is its identity. The header has no tensors. */
int card_seal(struct buf *out, const struct header *h, const struct sig_secret *key, digest *id)
	ERR_MUST;
/*
 * Fills an empty header and *signer from the bytes of a file; `name` is for messages. ERR_AUTH also when
 * it is cut short. The signer is judged by `trust`; NULL: any signer will do, and the caller judges.
 */
int card_parse(struct header *h, struct sig_public *signer, const char *bytes, size_t n,
	const char *name, const struct trust *trust) ERR_MUST;
/* The same of a file, as place_read finds it: 1, or 0 when nothing has that name. signer may be NULL. */
int card_read(struct header *h, struct sig_public *signer, const char *path, const struct trust *trust) ERR_MUST;

#endif
