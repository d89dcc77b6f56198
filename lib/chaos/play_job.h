/*
 * play_job - all of `dl-chaos play`, from its options and words to the checkpoint.
 */
#ifndef PLAY_JOB_H
#define PLAY_JOB_H

#include "chaos/play.h"

struct play_options {
	const char *out, *valid, *rule, *experts, *encoding, *key, *trust;
	uint64_t tokens, every, batch, context, threads;
	double until, lr, outer_lr, momentum, outlier;
	bool finish;
	int (*row)(void *ctx, const struct play_row *row); /* of play_conf */
	struct say *say;
};

/* words: TRACE CKPT SHARD... SIGTERM and SIGINT end it with ERR_IO. */
int play_job(const struct play_options *o, char **words, int n) ERR_MUST;

#endif
