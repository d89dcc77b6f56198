/*
 * sample - draw the next token from logits: temperature, top-k, seeded.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdint.h>

#include "base/rng.h"
#include "math/real.h"

struct sample_conf {
	double temperature; /* 0: the largest, first on a tie */
	uint32_t top_k;     /* 0: all */
};
/* logits (V) is used as work space. */
uint32_t sample_token(real *logits, int V, const struct sample_conf *c, struct rng *rng);

#endif
