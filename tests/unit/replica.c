/* replica - counters, books, snapshots and adoption, on a model of three tensors in two fragments. */
#include "round/replica.h"

#include <stdlib.h>

#include "unit.h"

enum { N = 7, P = 2 };

static struct fragments cut;
static float params[N];
static const digest first = { { 1 } }, second = { { 2 } }, third = { { 3 } };

/* Tensors a (4), b (2), c (1): fragment 0 is a, fragment 1 is b and c. */
static void make_cut(void)
{
	const struct tensor t[] = {
		{ .name = "a", .enc = ENC_F32, .rank = 1, .dim = { 4 } },
		{ .name = "b", .enc = ENC_F32, .rank = 1, .dim = { 2 } },
		{ .name = "c", .enc = ENC_F32, .rank = 1, .dim = { 1 } },
	};
	struct tensors layout = { 0 };

	for (size_t i = 0; i < 3; i++)
		CHECK(tensors_push(&layout, &t[i]) == 0);
	CHECK(fragments_cut(&cut, &layout, P) == 0);
	CHECK(cut.v[0].elems == 4 && cut.v[1].elems == 3);
	tensors_release(&layout);
}

static struct replica_version version(uint64_t v, uint64_t round, uint64_t step, digest id)
{
	return (struct replica_version){ v, round, step, id, true, 3 };
}

/* Both fragments at version 0: all zeros. */
static void begin(struct replica *r, struct adopt_rule rule)
{
	static const float zeros[N];
	const struct replica_version v = version(0, 0, 0, first);

	for (int i = 0; i < N; i++)
		params[i] = 9;
	CHECK(replica_open(r, &cut, params, &rule) == 0);
	replica_load(r, 0, &v, zeros, false);
	replica_load(r, 1, &v, zeros, false);
	CHECK(params[0] == 0 && params[6] == 0);
}

/* Steps of 10 tokens that add 1 to each parameter. */
static void train(struct replica *r, int steps)
{
	for (int s = 0; s < steps; s++) {
		for (int i = 0; i < N; i++)
			params[i] += 1;
		replica_step(r, 10, 4 - s, NULL);
	}
}

static void balanced(const struct replica *r)
{
	for (unsigned p = 0; p < P; p++) {
		const struct replica_part *a = &r->part[p];

		CHECK(a->answered + a->lost + a->work.tokens == r->trained);
	}
}

static void a_call_is_answered_once_with_what_was_trained(void)
{
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_OVERWRITE, 0 });
	CHECK(!replica_may_answer(&r, 1, 5, 0)); /* no step yet */
	train(&r, 3);
	CHECK(!replica_may_answer(&r, 1, 5, 1)); /* of another version */
	CHECK(replica_may_answer(&r, 1, 5, 0));
	replica_snapshot(&r, 1, 5, &m);
	CHECK(!replica_may_answer(&r, 1, 5, 0));
	CHECK(m.round == 5 && m.version == 0 && m.steps == 3 && m.tokens == 30 && m.step == 3);
	CHECK(m.trained == 30 && m.answered == 30);
	CHECK_STR(m.fragment, "f001");
	CHECK(m.loss_first == 4 && m.loss_last == 2 && m.loss_mean == 3);
	CHECK(strncmp(m.base, "0100", 4) == 0 && strlen(m.base) == 64);
	CHECK(replica_snap(&r, 1)[0] == 3 && replica_base(&r, 1)[0] == 0);
	train(&r, 2);
	CHECK(replica_snap(&r, 1)[0] == 3 && r.part[1].work.tokens == 50);
	balanced(&r);
	replica_answered(&r, 1);
	CHECK(r.part[1].answered == 30 && r.part[1].work.tokens == 20 && r.part[1].work.steps == 2);
	CHECK(r.part[0].answered == 0 && r.part[0].work.tokens == 50);
	CHECK(!replica_may_answer(&r, 1, 5, 0) && !replica_may_answer(&r, 1, 4, 0));
	balanced(&r);
	replica_close(&r);
}

/* A round that was abandoned is called again under another number: what is said then is what came since. */
static void another_round_of_the_version_gets_the_rest(void)
{
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_OVERWRITE, 0 });
	train(&r, 3);
	replica_snapshot(&r, 0, 5, &m);
	replica_answered(&r, 0);
	CHECK(!replica_may_answer(&r, 0, 6, 0));
	train(&r, 1);
	CHECK(replica_may_answer(&r, 0, 6, 0));
	replica_snapshot(&r, 0, 6, &m);
	CHECK(m.tokens == 10 && m.trained == 40 && m.answered == 40);
	replica_close(&r);
}

static void what_could_not_be_sent_is_under_way_again(void)
{
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_OVERWRITE, 0 });
	train(&r, 3);
	replica_snapshot(&r, 0, 5, &m);
	train(&r, 1);
	replica_dropped(&r, 0);
	CHECK(r.part[0].work.tokens == 40 && r.part[0].answered == 0);
	CHECK(replica_may_answer(&r, 0, 5, 0));
	replica_snapshot(&r, 0, 5, &m);
	CHECK(m.tokens == 40 && m.steps == 4 && m.loss_first == 4);
	balanced(&r);
	replica_close(&r);
}

static void overwriting_loses_what_was_not_answered(void)
{
	const float theta[4] = { 100, 101, 102, 103 };
	const struct replica_version v = version(1, 5, 40, second);
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_OVERWRITE, 0 });
	train(&r, 3);
	replica_snapshot(&r, 0, 5, &m);
	replica_answered(&r, 0);
	train(&r, 2);
	CHECK(replica_differs(&r, 0, 1, &second) && !replica_differs(&r, 0, 0, &first));
	CHECK(replica_differs(&r, 0, 0, &second)); /* another syncer's */
	replica_adopt(&r, 0, &v, theta);
	CHECK(params[0] == 100 && params[3] == 103 && params[4] == 5);
	CHECK(replica_base(&r, 0)[3] == 103 && !replica_differs(&r, 0, 1, &second));
	CHECK(r.part[0].lost == 20 && r.part[0].answered == 30 && r.part[0].work.steps == 0);
	CHECK(r.step == 40 + 2); /* it answered round 5 two steps ago */
	balanced(&r);
	CHECK(!replica_may_answer(&r, 0, 6, 1));
	train(&r, 1);
	CHECK(replica_may_answer(&r, 0, 6, 1) && !replica_may_answer(&r, 0, 6, 0));
	replica_close(&r);
}

static void rebasing_keeps_what_came_after_the_answer(void)
{
	const float theta[4] = { 100, 101, 102, 103 };
	const struct replica_version v = version(1, 5, 3, second), next = version(2, 6, 4, third);
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_REBASE, 0 });
	train(&r, 3);
	replica_snapshot(&r, 0, 5, &m);
	replica_answered(&r, 0);
	train(&r, 2);
	replica_adopt(&r, 0, &v, theta);
	CHECK(params[0] == 102 && params[3] == 105 && replica_base(&r, 0)[0] == 100);
	CHECK(r.part[0].lost == 0 && r.part[0].work.steps == 2 && r.part[0].work.tokens == 20);
	balanced(&r);
	replica_adopt(&r, 0, &next, theta); /* did not answer 6: of what was trained since, a fourth answer's share stays */
	CHECK(params[0] == 100.5f && params[3] == 103.5f && r.part[0].lost == 0 && r.part[0].work.steps == 2);
	balanced(&r);
	replica_close(&r);
}

/* Its values go on by the share it would have had; its tokens, which are refused, count no more. */
static void rebasing_keeps_a_share_of_an_answer_that_came_too_late(void)
{
	const float theta[4] = { 100, 101, 102, 103 };
	struct replica_version v = version(1, 5, 3, second);
	struct meta m = { 0 };
	struct replica r;

	v.counted = false;
	begin(&r, (struct adopt_rule){ ADOPT_REBASE, 0 });
	train(&r, 3);
	replica_snapshot(&r, 0, 5, &m);
	replica_answered(&r, 0);
	train(&r, 2);
	replica_adopt(&r, 0, &v, theta);
	CHECK(params[0] == 101.25f && params[3] == 104.25f && replica_base(&r, 0)[0] == 100);
	CHECK(r.part[0].answered == 30 && r.part[0].lost == 0 && r.part[0].work.tokens == 20);
	train(&r, 1);
	replica_snapshot(&r, 0, 6, &m);
	CHECK(m.tokens == 30 && m.trained == 60); /* no token in two answers */
	balanced(&r);
	replica_close(&r);
}

/* After a restart nobody knows what was in the answer: it would be in the model twice. */
static void an_answer_of_another_life_is_not_rebased_on(void)
{
	const struct beat_fragment books = { .version = 0, .round = 5, .answered = 30 };
	const float theta[4] = { 100, 101, 102, 103 }, base[4] = { 0 };
	const struct replica_version zero = version(0, 0, 0, first);
	struct replica_version v = version(1, 5, 3, second);
	struct replica r;

	for (int counted = 0; counted < 2; counted++) {
		v.counted = counted;
		begin(&r, (struct adopt_rule){ ADOPT_REBASE, 0 });
		r.trained = 30;
		replica_restore(&r, 0, &books, &first, NULL);
		replica_settle(&r);
		replica_load(&r, 0, &zero, base, true);
		train(&r, 2);
		replica_adopt(&r, 0, &v, theta);
		CHECK(params[0] == (counted ? 100 : 100.5f) && r.part[0].lost == (counted ? 20 : 0));
		balanced(&r);
		replica_close(&r);
	}
}

static void rebasing_on_a_version_that_skips_one(void)
{
	const float theta[4] = { 100, 101, 102, 103 };
	const struct replica_version v = version(2, 5, 3, second);
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_REBASE, 0 });
	train(&r, 3);
	replica_snapshot(&r, 0, 5, &m);
	replica_answered(&r, 0);
	train(&r, 1);
	replica_adopt(&r, 0, &v, theta); /* taken as if the answer were in the one between */
	CHECK(params[0] == 101 && r.part[0].lost == 0 && r.part[0].work.steps == 1);
	balanced(&r);
	replica_close(&r);
}

static void mixing_takes_a_share_of_each(void)
{
	const float theta[4] = { 100, 100, 100, 100 };
	const struct replica_version v = version(1, 5, 3, second);
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_MIX, 0.25 });
	train(&r, 4);
	replica_adopt(&r, 0, &v, theta);
	CHECK_NEAR(params[0], 0.25 * 4 + 0.75 * 100, 1e-6);
	CHECK(replica_base(&r, 0)[0] == 100 && r.part[0].lost == 40 && r.part[0].work.steps == 0);
	balanced(&r);
	replica_close(&r);
}

/* The round it was meant for is over without it. */
static void a_newer_version_drops_a_snapshot_that_waits(void)
{
	const float theta[4] = { 0 };
	const struct replica_version v = version(1, 5, 3, second);
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_REBASE, 0 });
	train(&r, 3);
	replica_snapshot(&r, 0, 5, &m);
	replica_adopt(&r, 0, &v, theta);
	CHECK(r.part[0].answered == 0 && r.part[0].work.tokens == 30 && !r.part[0].pending);
	replica_answered(&r, 0); /* too late to count */
	CHECK(r.part[0].answered == 0);
	balanced(&r);
	replica_close(&r);
}

static void the_global_step_follows_the_merges(void)
{
	const float theta[4] = { 0 };
	struct replica_version v = version(1, 5, 20, second);
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_OVERWRITE, 0 });
	train(&r, 3);
	replica_adopt(&r, 0, &v, theta);
	CHECK(r.step == 20); /* it did not answer, and is behind */
	train(&r, 30);
	v = version(2, 6, 40, third);
	replica_adopt(&r, 0, &v, theta);
	CHECK(r.step == 50); /* it did not answer, and is ahead */
	train(&r, 10);
	replica_snapshot(&r, 0, 7, &m);
	replica_answered(&r, 0);
	train(&r, 4);
	v = version(3, 7, 48, first);
	replica_adopt(&r, 0, &v, theta);
	CHECK(r.step == 52 && r.steps == 47); /* it answered at 60, the mean of those who did is 48 */
	replica_close(&r);
}

/* ---- another life ---- */

static void revive(struct replica *r, struct beat_fragment books, uint64_t trained)
{
	const struct adopt_rule rule = { ADOPT_REBASE, 0 };

	CHECK(replica_open(r, &cut, params, &rule) == 0);
	r->trained = trained;
	replica_restore(r, 0, &books, &first, NULL);
	replica_restore(r, 1, &books, &first, NULL);
	replica_settle(r);
	balanced(r);
}

static void what_died_is_lost(void)
{
	const struct beat_fragment books = { .version = 3, .steps = 2, .tokens = 20, .round = 8,
		.answered = 50, .lost = 10 };
	const struct replica_version same = version(3, 8, 30, first), newer = version(4, 9, 50, second);
	const float theta[4] = { 1, 1, 1, 1 };
	struct replica r;

	revive(&r, books, 100); /* the state is of 80 */
	CHECK(r.part[0].lost == 30 && r.part[0].work.tokens == 20);
	params[0] = 7;
	replica_load(&r, 0, &same, theta, true);
	CHECK(params[0] == 7 && replica_base(&r, 0)[0] == 1 && r.part[0].work.tokens == 20);
	CHECK(!replica_may_answer(&r, 0, 8, 3) && replica_may_answer(&r, 0, 9, 3));
	replica_load(&r, 1, &newer, theta, false);
	CHECK(r.part[1].lost == 50 && r.part[1].work.steps == 0 && r.step == 50);
	balanced(&r);
	replica_close(&r);
}

static void what_was_under_way_is_rebased_in_the_next_life(void)
{
	const struct beat_fragment books = { .version = 3, .steps = 2, .tokens = 20, .round = 8, .answered = 50 };
	const struct replica_version old = version(3, 6, 30, first), newer = version(4, 8, 50, second);
	const float theta[4] = { 1, 1, 1, 1 }, next[4] = { 10, 10, 10, 10 }, snap[4] = { 5, 5, 5, 5 };
	struct replica r;

	revive(&r, books, 70);
	r.steps = 9;
	params[0] = params[3] = 7;
	replica_load(&r, 0, &old, theta, true);
	replica_recall(&r, 0, snap);
	replica_adopt(&r, 0, &newer, next);
	CHECK(params[0] == 12 && params[3] == 12 && r.part[0].work.tokens == 20 && r.part[0].lost == 0);
	CHECK(r.step == 52); /* the merge's, and two since the answer that is in it */
	balanced(&r);
	replica_close(&r);

	revive(&r, books, 70);
	replica_load(&r, 0, &old, theta, true);
	replica_adopt(&r, 0, &newer, next); /* what the answer was made of is not known */
	CHECK(params[0] == 10 && r.part[0].work.tokens == 0 && r.part[0].lost == 20);
	balanced(&r);
	replica_close(&r);
}

static void books_that_cannot_be_are_cut_to_size(void)
{
	const struct beat_fragment books = { .tokens = 90, .steps = 9, .answered = 500 };
	struct replica r;

	revive(&r, books, 100);
	CHECK(r.part[0].answered == 100 && r.part[0].work.tokens == 0 && r.part[0].lost == 0);
	replica_close(&r);
}

static void the_beat_tells_the_books(void)
{
	struct beat_fragment f[P];
	struct beat b = { .fragment = f, .fragments = P };
	struct meta m = { 0 };
	struct replica r;

	begin(&r, (struct adopt_rule){ ADOPT_OVERWRITE, 0 });
	train(&r, 3);
	replica_snapshot(&r, 0, 5, &m);
	replica_answered(&r, 0);
	train(&r, 1);
	replica_beat(&r, &b);
	CHECK(b.step == 4 && b.steps == 4 && b.trained == 40);
	CHECK(f[0].round == 5 && f[0].answered == 30 && f[0].tokens == 10 && f[0].steps == 1);
	CHECK(f[1].round == 0 && f[1].answered == 0 && f[1].tokens == 40 && f[1].lost == 0);
	replica_close(&r);
}

/* ---- experts ---- */

#define EXPERT(e) "model.layers.0.block_sparse_moe.experts." #e ".w1.weight"

/* Fragment 0 is expert 1; fragment 1 the norm and expert 0. */
static void make_mixture(struct fragments *f)
{
	const struct tensor t[] = {
		{ .name = "norm", .enc = ENC_F32, .rank = 1, .dim = { 1 } },
		{ .name = EXPERT(0), .enc = ENC_F32, .rank = 1, .dim = { 2 } },
		{ .name = EXPERT(1), .enc = ENC_F32, .rank = 1, .dim = { 4 } },
	};
	struct tensors layout = { 0 };

	for (size_t i = 0; i < 3; i++)
		CHECK(tensors_push(&layout, &t[i]) == 0);
	CHECK(fragments_cut(f, &layout, P) == 0 && f->v[0].n == 1 && f->v[1].n == 2);
	tensors_release(&layout);
}

/* Each step: 3 tokens to expert 0, 8 to expert 1. */
static void route(struct replica *r, int steps)
{
	static const uint64_t load[2] = { 3, 8 };

	for (int s = 0; s < steps; s++)
		replica_step(r, 10, 1, load);
}

static void counts_are(const struct replica *r, uint64_t of0, uint64_t of1)
{
	uint64_t one[2] = { 99, 99 };

	CHECK(replica_routed(r, 0, one) && one[0] == of1);
	CHECK(replica_routed(r, 1, one) && one[0] == 0 && one[1] == of0);
}

static void begin_mixture(struct replica *r, const struct fragments *f)
{
	const struct adopt_rule rule = { ADOPT_OVERWRITE, 0 };
	const struct replica_version v = version(0, 0, 0, first);
	static const float zeros[N];

	CHECK(replica_open(r, f, params, &rule) == 0);
	replica_load(r, 0, &v, zeros, false);
	replica_load(r, 1, &v, zeros, false);
}

static void tokens_of_experts_follow_the_books(const struct fragments *f)
{
	const struct replica_version next = version(1, 5, 9, second);
	static const float zeros[N];
	struct meta m = { 0 };
	struct replica r;

	begin_mixture(&r, f);
	route(&r, 2);
	counts_are(&r, 6, 16);
	replica_snapshot(&r, 0, 5, &m);
	CHECK(replica_snap_routed(&r, 0)[0] == 16);
	route(&r, 1);
	CHECK(replica_snap_routed(&r, 0)[0] == 16);
	counts_are(&r, 9, 24);
	replica_dropped(&r, 0);
	counts_are(&r, 9, 24);
	replica_snapshot(&r, 0, 5, &m);
	CHECK(replica_snap_routed(&r, 0)[0] == 24);
	route(&r, 1);
	replica_answered(&r, 0);
	CHECK(replica_snap_routed(&r, 0)[0] == 24);
	counts_are(&r, 12, 8);
	replica_adopt(&r, 0, &next, zeros);
	replica_adopt(&r, 1, &next, zeros);
	counts_are(&r, 0, 0);
	replica_close(&r);
}

static void tokens_of_experts_of_another_life(const struct fragments *f)
{
	const struct beat_fragment under_way = { .steps = 2, .tokens = 20 }, nothing = { .answered = 20 };
	static const uint64_t known[2] = { 0, 5 };
	const struct adopt_rule rule = { ADOPT_OVERWRITE, 0 };
	struct meta m = { 0 };
	uint64_t count[2];
	struct replica r;

	CHECK(replica_open(&r, f, params, &rule) == 0);
	r.trained = 20;
	replica_restore(&r, 0, &under_way, &first, NULL); /* nobody knows */
	replica_restore(&r, 1, &under_way, &first, known);
	replica_settle(&r);
	CHECK(!replica_routed(&r, 0, count) && replica_routed(&r, 1, count) && count[1] == 5);
	route(&r, 1);
	replica_snapshot(&r, 0, 1, &m);
	replica_snapshot(&r, 1, 2, &m);
	CHECK(!replica_snap_routed(&r, 0) && replica_snap_routed(&r, 1)[1] == 8);
	route(&r, 1);
	replica_answered(&r, 0);
	CHECK(!replica_snap_routed(&r, 0) && replica_routed(&r, 0, count) && count[0] == 8); /* all of this life */
	replica_close(&r);
	CHECK(replica_open(&r, f, params, &rule) == 0);
	r.trained = 20;
	replica_restore(&r, 0, &nothing, &first, NULL);
	replica_restore(&r, 1, &nothing, &first, known); /* of what a later answer had */
	replica_settle(&r);
	counts_are(&r, 0, 0);
	replica_close(&r);
}

int main(void)
{
	struct fragments mixture;

	make_cut();
	make_mixture(&mixture);
	a_call_is_answered_once_with_what_was_trained();
	another_round_of_the_version_gets_the_rest();
	what_could_not_be_sent_is_under_way_again();
	overwriting_loses_what_was_not_answered();
	rebasing_keeps_what_came_after_the_answer();
	rebasing_keeps_a_share_of_an_answer_that_came_too_late();
	an_answer_of_another_life_is_not_rebased_on();
	rebasing_on_a_version_that_skips_one();
	mixing_takes_a_share_of_each();
	a_newer_version_drops_a_snapshot_that_waits();
	the_global_step_follows_the_merges();
	what_died_is_lost();
	what_was_under_way_is_rebased_in_the_next_life();
	books_that_cannot_be_are_cut_to_size();
	the_beat_tells_the_books();
	tokens_of_experts_follow_the_books(&mixture);
	tokens_of_experts_of_another_life(&mixture);
	fragments_release(&mixture);
	fragments_release(&cut);
	return unit_done("replica");
}
