#include "form/deal.h"

#include <inttypes.h>

#include "io/wake.h"

#define PORTION 16384 /* ids copied at a time */

static int copy_block(struct shard_writer *w, struct corpus *c, uint64_t at, uint64_t n)
{
	uint32_t id[PORTION];
	int rc = 0;

	for (uint64_t portion; rc == 0 && n; at += portion, n -= portion) {
		portion = n < PORTION ? n : PORTION;
		rc = corpus_read(c, id, at, (size_t)portion);
		if (rc == 0)
			rc = shard_write(w, id, (size_t)portion);
		if (rc == 0 && wake_requested())
			rc = err_set(ERR_IO, "interrupted");
	}
	return rc;
}

int deal_part(int fd, struct shard_info *info, struct corpus *c, const struct split *s, uint64_t part,
	      const struct sig_secret *key, struct say *say, digest *id)
{
	uint64_t blocks = split_blocks(s, part), n;
	struct shard_writer *w = NULL;
	int rc;

	info->tokens = split_tokens(s, part);
	rc = shard_create(&w, fd, info, key);
	for (uint64_t i = 0; rc == 0 && i < blocks; i++) {
		uint64_t at = split_at(s, part, i, &n);

		rc = copy_block(w, c, at, n);
		if (say_due(say))
			say_progress(say, "block %" PRIu64 " of %" PRIu64, i + 1, blocks);
	}
	if (rc == 0)
		rc = shard_finish(w, id);
	say_progress_end(say);
	shard_writer_free(w);
	return rc;
}
