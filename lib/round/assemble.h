/*
 * assemble - a checkpoint of the whole model from the fragments of a run directory: one that dl-eval,
 * dl-learn and dl-merge read.
 *
 * Its round is the highest version of a fragment, its step and tokens those of the head. Holds one slice in
 * memory, and every fragment's file open.
 */
#ifndef ASSEMBLE_H
#define ASSEMBLE_H

#include "form/key.h"
#include "form/trust.h"
#include "round/fragment.h"
#include "round/head.h"
#include "round/manifest.h"

struct assemble_conf {
	const struct manifest *manifest;
	const struct fragments *fragments;
	const struct trust *makers; /* whose fragments count */
	const struct key *key;
	void (*tick)(void *ctx);    /* called now and then; NULL: never, and wake_requested ends it */
	void *ctx;
};
/* Writes the versions that the head names to fd. ERR_AGAIN: one of them is not there any more; try with a
 * newer head. */
int assemble(int fd, const char *name, const struct assemble_conf *c, const struct head *h, digest *id)
	ERR_MUST;

/* The same of a run that was entered, from the head that is there now, or a newer one. c->makers is not
 * looked at: `user` is whom the user trusts. ERR_AGAIN: no syncer has been there yet. */
int assemble_run(int fd, const char *name, const struct manifest *m, const struct trust *user,
	const struct key *key, digest *id) ERR_MUST;

#endif
