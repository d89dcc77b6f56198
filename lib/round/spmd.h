/*
 * spmd - one learner over several ranks (io/ranks.h): the sequences of each batch spread over them, their
 * gradients summed once a step.
 *
 * The first rank is the learner: it alone reads and writes files, keeps the optimizer and takes part in rounds.
 * Each step it gives parameters and batch to all, every rank computes the gradient of its sequences
 * with its threads, and the first gets the sum. What travels in a step, 4 bytes a parameter there and as many back,
 * is what an all-reduce of the gradients costs; and since nothing but the parameters of this step
 * counts on the others, they can't drift. Rank i of n has the sequences [B i / n, B (i + 1) / n),
 * as thread i of n has: with a thread each, n ranks make the same bytes as one process with n threads.
 *
 *     first:   spmd_open, spmd_begin, spmd_backward..., spmd_close
 *     others:  spmd_serve
 */
#ifndef SPMD_H
#define SPMD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "io/ranks.h"
#include "math/model.h"

struct spmd;

/* The first rank. r NULL: *out is NULL, which everything below takes as a learner alone. */
int spmd_open(struct spmd **out, struct ranks *r) ERR_MUST;
/* Tells the others what they work on. The model stays the caller's. */
int spmd_begin(struct spmd *s, struct model *m, const struct model_conf *c, int context) ERR_MUST;
/* As model_backward, over all ranks, model_load as well. */
int spmd_backward(struct spmd *s, struct model *m, double *loss, const uint32_t *ids, int B, int T) ERR_MUST;
/* Has a rank died, or MPI failed? Nothing can be had of the others any more. */
bool spmd_lost(const struct spmd *s);
/* Lets the others go, begun or not, unless a call failed before. */
void spmd_close(struct spmd *s);

/* What a rank beyond the first does until the first lets it go. */
int spmd_serve(struct ranks *r, struct pool *pool) ERR_MUST;

#endif
