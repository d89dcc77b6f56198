/*
 * ledger - which frames a file holds and where: the contents of index and final frame of
 * dl-frame(5).
 *
 *     index = entry...
 *     entry = tensor u32, count u32, first u64, offset u64, h[32]      (56 bytes)
 *     final = header frames u64, data frames u64, index frames u64, then (offset u64, h[32]) for
 *             each header frame and each index frame
 */
#ifndef LEDGER_H
#define LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/tensor.h"
#include "form/chain.h"

#define LEDGER_ENTRY 56

/* A data frame. */
struct entry {
	uint32_t tensor, count;
	uint64_t first, offset;
	digest h;
};
void entry_put(uint8_t out[LEDGER_ENTRY], const struct entry *e);
struct entry entry_get(struct cursor *c);

/* How far a file has come: the element that the next data frame begins with. */
struct progress {
	uint32_t tensor; /* number of tensors: at the end */
	uint64_t first;
};
/* ERR_DATA unless the piece begins there and stays within its tensor; moves on. */
int progress_add(struct progress *p, const struct tensors *ts, uint32_t tensor, uint64_t first,
	uint64_t count) ERR_MUST;

/* Header and index frames. */
struct mark {
	uint64_t offset;
	digest h;
};
struct ledger {
	uint64_t headers, data, indexes; /* frames of each kind */
	struct mark *marks;              /* headers + indexes of them */
	size_t cap;
};
void ledger_release(struct ledger *l);
int ledger_mark(struct ledger *l, enum chain_kind kind, uint64_t offset, const digest *h) ERR_MUST;
int ledger_put(const struct ledger *l, struct buf *out) ERR_MUST;
/* ERR_DATA when the counts do not match the length. */
int ledger_get(struct ledger *l, const uint8_t *bytes, size_t n) ERR_MUST;

#endif
