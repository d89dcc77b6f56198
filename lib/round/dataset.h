/*
 * dataset - the data of a run on one machine, in its run directory: the corpus as one shard, and its split
 * among a number of learners, made when that number is first wanted.
 *
 *     data/corpus.tok       all of it
 *     data/M.K.tok          the part of learner K of M, from 0
 *     data/M.valid.tok      every 20th block, held out: the same one for every M
 *     log/corpus            what it was made of
 *
 * The work is done by dl-data. The run directory has been entered (rundir.h). Nobody but dl-run, which
 * has one process at a time in a run directory, writes there.
 */
#ifndef DATASET_H
#define DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/say.h"
#include "form/trust.h"
#include "math/model_conf.h"

#define DATASET_PATH 64

/* Could a corpus be had? ERR_USAGE that says what to do when there is neither a file nor the default one;
 * before the run directory is entered. */
int dataset_check(const char *corpus) ERR_MUST;
struct dataset {
	const char *corpus; /* a file of text or a shard (named *.tok), "-" for standard input, NULL for the one that
	                     * is there, or the default one: what bible(1) prints */
	const struct model_conf *model;
	unsigned learners;
	uint64_t context;   /* of a sample: each part holds one at least */
	bool begun;         /* the run has trained, on a text that is not to become another one unasked */
	const char *key;    /* passed to dl-data; NULL: none */
	const struct trust *trust;
	struct say *say;
};
/*
 * Makes what is missing, and parts that are damaged. When the corpus is there, a file that is another one is
 * ERR_USAGE; so is one whose ids are not those of the model, and then nothing of it is kept. When it is gone from a
 * run that had one, the parts that are there do; else the user is asked for it, ERR_USAGE, but for the default one.
 */
int dataset_make(const struct dataset *d) ERR_MUST;
char *dataset_part(char to[DATASET_PATH], unsigned learners, unsigned learner);
char *dataset_valid(char to[DATASET_PATH], unsigned learners);

#endif
