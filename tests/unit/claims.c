#include "round/claims.h"

#include "unit.h"

#define FRAGMENT 1

/* One that is heard of: at this global step, so many of its steps since the base. */
static void learner(struct roster *r, const char *name, uint64_t step, uint64_t since, uint64_t batch)
{
	const struct sig_public key = { { 0 } };
	struct roster_learner *l;
	size_t i;

	CHECK(roster_add(r, &i, name, &key) == 0);
	l = r->v[i];
	CHECK(beat_init(&l->beat, r->fragments) == 0);
	l->seen = true;
	l->beat.step = step;
	l->beat.steps = step;
	l->beat.trained = step * batch;
	l->beat.fragment[FRAGMENT].steps = since;
}

static enum verdict judged(const struct roster *r, uint64_t step, uint64_t steps, uint64_t batch, double limit)
{
	struct answer a = { .name = "a" };
	struct claims c;

	a.meta.step = step;
	a.meta.steps = steps;
	a.meta.tokens = steps * batch;
	CHECK(claims_gather(&c, r, FRAGMENT, 0) == 0);
	claims_judge(&a, &c, 1000, 24, limit);
	return a.verdict;
}

static void what_others_say_too_is_believed(const struct roster *r)
{
	CHECK(judged(r, 1024, 24, 64, 100) == VERDICT_ACCEPTED);
	CHECK(judged(r, 1000 + 24000, 24000, 64, 100) == VERDICT_ACCEPTED); /* a thousand times as fast */
	CHECK(judged(r, 1, 1, 64, 100) == VERDICT_ACCEPTED);                /* a beginner */
	CHECK(judged(r, 1024, 24, 640, 100) == VERDICT_ACCEPTED);           /* -B ten times as large */
}

static void what_cannot_be_is_refused(const struct roster *r)
{
	CHECK(judged(r, 1024, 24, 6401, 100) == VERDICT_OUTLIER);
	CHECK(judged(r, 1024, 240001, 64, 100) == VERDICT_OUTLIER);
	CHECK(judged(r, 1003 + 24 + 2401, 24, 64, 100) == VERDICT_OUTLIER);
	CHECK(judged(r, UINT64_MAX, 24, 64, 100) == VERDICT_OUTLIER);
	CHECK(judged(r, 1024, UINT64_MAX / 64, 64, 100) == VERDICT_OUTLIER);
	CHECK(judged(r, UINT64_MAX, 24, 64, 0) == VERDICT_ACCEPTED); /* as the manifest wants it */
}

/* It is its own measure: before any merge it may have trained for long. */
static void one_alone_is_believed(void)
{
	struct roster r;

	roster_init(&r, 2);
	CHECK(judged(&r, 10, 10, 64, 100) == VERDICT_ACCEPTED); /* whose beat is not there yet */
	learner(&r, "alone", 5000000, 5000000, 1 << 20);
	CHECK(judged(&r, 5000100, 5000100, 1 << 20, 100) == VERDICT_ACCEPTED);
	CHECK(judged(&r, 5000100, 3, 1 << 20, 100) == VERDICT_ACCEPTED);
	roster_release(&r);
}

int main(void)
{
	struct roster r;

	roster_init(&r, 2);
	learner(&r, "honest", 1000, 20, 64);
	what_others_say_too_is_believed(&r);
	learner(&r, "liar", (uint64_t)1 << 52, (uint64_t)1 << 52, 2);
	learner(&r, "other", 1003, 22, 64);
	what_others_say_too_is_believed(&r);
	what_cannot_be_is_refused(&r);
	roster_release(&r);
	one_alone_is_believed();
	return unit_done("claims");
}
