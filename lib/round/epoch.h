/*
 * epoch - which syncer of a run counts: the one that made the file syncer/epoch.E of the highest E.
 *
 * The file is made exclusively and never changes, so an epoch has one syncer, whatever machines the two
 * that wanted it run on. A syncer looks for the file of a higher epoch before it commits anything: it
 * has been superseded then, and its fragments cannot get their names either. Files that no trusted syncer
 * sealed count for nothing; their numbers are passed over.
 */
#ifndef EPOCH_H
#define EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "form/key.h"
#include "form/trust.h"

struct epoch {
	uint64_t number;
	char nonce[17];
	char boot[33]; /* of the machine it was taken on, since that was started; empty: unknown */
	struct sig_public signer;
};

/* 1 and the epoch of this number, 0 when there is none: no file, or one that is not to be trusted. */
int epoch_read(struct epoch *e, uint64_t number, const char *run, const struct trust *makers) ERR_MUST;
/* The highest epoch there is, `from` being one that is known; number 0 when there is none. */
int epoch_newest(struct epoch *e, uint64_t from, const char *run, const struct trust *makers) ERR_MUST;
/* Takes the next one after `after` that is free. 1: somebody else was faster. */
int epoch_take(struct epoch *e, uint64_t after, const char *run, const struct key *key,
	const struct trust *makers) ERR_MUST;
/* ERR_BUSY "superseded by epoch 7" when there is a higher one than `mine`. */
int epoch_check(uint64_t mine, const char *run, const struct trust *makers) ERR_MUST;
/* Was it taken on this machine, as it runs now? False also where that can't be told. */
bool epoch_is_here(const struct epoch *e);

#endif
