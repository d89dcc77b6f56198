/*
 * batch - which samples a learner sees, and when: a pure function of (seed, learner, position).
 *
 * A shard of n tokens holds (n - 1) / T samples; sample i is tokens [i*T, i*T + T], the last being
 * a target only. Position p of a learner is epoch p / samples; within an epoch a keyed permutation
 * visits each sample once.
 */
#ifndef BATCH_H
#define BATCH_H

#include <stdint.h>

struct batch_order { uint64_t seed, stream, samples; }; /* stream: rng_stream(learner) */
/* ERR-free: samples is 0 when the shard is too short. */
uint64_t batch_samples(uint64_t tokens, uint64_t context);
uint64_t batch_sample_at(const struct batch_order *o, uint64_t position); /* index of the sample */

#endif
