#include "round/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "math/model.h"

static int ask(struct probe *p, struct model *m, const struct model_conf *c, int T)
{
	uint32_t ids[PROBE_TOKENS + 1];
	struct rng rng;
	int rc;

	rng_init(&rng, 1, rng_stream("probe"));
	for (int i = 0; i <= T; i++)
		ids[i] = (uint32_t)rng_below(&rng, c->vocab);
	rc = model_losses(m, &p->loss, ids, 1, T);
	p->loss /= T;
	return rc < 0 ? rc : model_logits(m, p->logits, ids, T);
}

int probe_run(struct probe *p, const struct model_conf *c, struct pool *pool, probe_loader *load, void *ctx)
{
	const int T = c->context < PROBE_TOKENS ? (int)c->context : PROBE_TOKENS;
	struct model *m = NULL;
	int rc;

	*p = (struct probe){ .vocab = c->vocab };
	p->logits = calloc(c->vocab, sizeof *p->logits);
	if (!p->logits)
		return err_nomem();
	rc = model_open(&m, c, T, MODEL_FORWARD, pool);
	if (rc == 0)
		rc = load(ctx, model_params(m));
	if (rc == 0)
		rc = ask(p, m, c, T);
	model_close(m);
	return rc;
}

void probe_release(struct probe *p)
{
	free(p->logits);
	*p = (struct probe){ 0 };
}

bool probe_same(const struct probe *a, const struct probe *b)
{
	return a->vocab == b->vocab && memcmp(&a->loss, &b->loss, sizeof a->loss) == 0 &&
		memcmp(a->logits, b->logits, a->vocab * sizeof *a->logits) == 0;
}

double probe_difference(const struct probe *a, const struct probe *b)
{
	double most = 0, largest = 0;

	for (uint32_t i = 0; i < a->vocab && i < b->vocab; i++) {
		const double d = fabs((double)a->logits[i] - (double)b->logits[i]);

		most = d > most ? d : most;
		largest = fabs((double)a->logits[i]) > largest ? fabs((double)a->logits[i]) : largest;
	}
	return largest > 0 ? most / largest : most;
}
