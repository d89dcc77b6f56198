/*
 * deal - one part of a corpus that is shared out, written as a shard.
 */
#ifndef DEAL_H
#define DEAL_H

#include "base/say.h"
#include "form/corpus.h"
#include "form/shard.h"
#include "form/split.h"

/*
 * Writes the blocks of `part` (see split.h) to fd. info->tokens is filled in, the rest of it is the
 * caller's. ERR_IO when a stop is requested (see wake.h). id may be NULL.
 */
int deal_part(int fd, struct shard_info *info, struct corpus *c, const struct split *s, uint64_t part,
	      const struct sig_secret *key, struct say *say, digest *id) ERR_MUST;

#endif
