/*
 * run - what ties the files of one training run together: model digest, run id, configuration in
 * headers.
 */
#ifndef RUN_H
#define RUN_H

#include "base/err.h"
#include "form/header.h"
#include "form/meta.h"
#include "math/model.h"
#include "math/train_conf.h"

/* 64 hex digits: BLAKE2b-256 of the resolved model keys and the table of names, dtypes and
 * shapes. */
int run_model_digest(char out[65], const struct model_conf *c, const struct tensors *layout) ERR_MUST;
/* 32 hex digits from model digest, training keys, seed and label ("" for none). */
int run_id(char out[33], const char *model_digest, const struct train_conf *train, uint64_t seed,
	const char *label) ERR_MUST;
/* Model and training configuration from the keys of a checkpoint's header, where each starts
 * with "conf."; checks that the tensor table and the digest are those of the configuration. */
int run_conf_read(struct model_conf *mc, struct train_conf *tc, const struct header *h) ERR_MUST;
/* The same of a header without a table. */
int run_conf_parse(struct model_conf *mc, struct train_conf *tc, const struct header *h) ERR_MUST;
int run_conf_write(const struct model_conf *mc, const struct train_conf *tc, struct header *h) ERR_MUST;

#endif
