/* moe - who goes to which expert. That the experts' sum and its gradients are right, model.c and
 * model_f64.c tell. */
#include "math/moe.h"

#include "base/rng.h"
#include "unit.h"

enum { R = 61, E = 7, K = 3 };

struct routed {
	struct moe_route route;
	real prob[R * E], weight[R * K], chosen[R * K];
	int row[R * K], start[E + 1], pick[R * K];
};

static void route(struct routed *r, const real *logits, int rows, int experts, int each)
{
	r->route = (struct moe_route){ r->prob, r->weight, r->row, r->start };
	memcpy(r->prob, logits, (size_t)rows * (size_t)experts * sizeof(*logits));
	moe_route(&r->route, r->chosen, r->pick, rows, experts, each);
}

/* The slot of this row at this expert, or -1. */
static int slot_of(const struct routed *r, int row, int expert)
{
	for (int s = r->start[expert]; s < r->start[expert + 1]; s++)
		if (r->row[s] == row)
			return s;
	return -1;
}

static void rows_go_to_the_most_probable(void)
{
	real logits[R * E];
	struct routed r;

	for (int i = 0; i < R * E; i++)
		logits[i] = (real)rng_normal_at(1, 2, (uint64_t)i);
	route(&r, logits, R, E, K);
	CHECK(r.start[0] == 0 && r.start[E] == R * K);
	for (int e = 0; e < E; e++)
		for (int s = r.start[e] + 1; s < r.start[e + 1]; s++)
			CHECK(r.row[s] > r.row[s - 1]);
	for (int i = 0; i < R; i++) {
		double least = INFINITY, most = -INFINITY, sum = 0, weights = 0, p = 0;
		int at = 0;

		for (int e = 0; e < E; e++) {
			const double x = (double)logits[i * E + e];

			p += (double)r.prob[i * E + e];
			if (slot_of(&r, i, e) < 0) {
				most = fmax(most, x);
				continue;
			}
			least = fmin(least, x);
			sum += exp(x);
			at++;
		}
		CHECK(at == K && least > most);
		CHECK_NEAR(p, 1, 1e-6);
		for (int e = 0; e < E; e++) {
			const int s = slot_of(&r, i, e);

			if (s < 0)
				continue;
			CHECK_NEAR((double)r.weight[s], exp((double)logits[i * E + e]) / sum, 1e-6);
			weights += (double)r.weight[s];
		}
		CHECK_NEAR(weights, 1, 1e-6);
	}
}

static void of_equals_the_first_are_taken(void)
{
	const real logits[3 * 5] = { 1, 1, 1, 1, 1, 0, 2, 0, 2, 2, -200, -200, 5, -200, -200 };
	static const int want[3][2] = { { 0, 1 }, { 1, 3 }, { 2, 0 } };
	struct routed r;

	route(&r, logits, 3, 5, 2);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 2; k++)
			CHECK(r.pick[i * 2 + k] == want[i][k] && slot_of(&r, i, want[i][k]) >= 0);
	CHECK(r.weight[slot_of(&r, 0, 0)] == (real)0.5 && r.weight[slot_of(&r, 2, 2)] == 1);
}

/* They must show in the loss, and must not send a row out of bounds or to an expert twice. */
static void what_is_not_finite_is_routed_and_shows(void)
{
	static const real bad[] = { NAN, INFINITY, -INFINITY };

	for (int b = 0; b < 3; b++)
		for (int at = 0; at < E; at++) {
			real logits[2 * E] = { 0 };
			struct routed r;

			logits[E + at] = bad[b];
			route(&r, logits, 2, E, K);
			CHECK(r.start[E] == 2 * K);
			for (int e = 0; e < K; e++)
				CHECK(slot_of(&r, 0, e) >= 0);
			for (int s = 0; s < 2 * K && b < 2; s++)
				CHECK(isnan(r.weight[s]) == (r.row[s] == 1));
			/* Never to be taken is no fault. */
			CHECK(b < 2 || slot_of(&r, 1, at) < 0);
		}
}

/* K when even; E when all go to one and are sure of it. */
static void balance_is_as_published(void)
{
	enum { T = 10, G = 2 };
	real logits[G * T * 5] = { 0 };
	int count[G * 5];
	struct routed r;

	for (int i = 0; i < G * T; i++)
		logits[i * 5 + i % 5] = logits[i * 5 + (i + 1) % 5] = 1;
	route(&r, logits, G * T, 5, 2);
	CHECK_NEAR(moe_balance(count, &r.route, G, T, 5), G * 2, 1e-5);
	for (int i = 0; i < G * 5; i++)
		CHECK(count[i] == T * 2 / 5);
	for (int i = 0; i < T; i++)
		for (int e = 0; e < 5; e++)
			logits[i * 5 + e] = e == 3 ? 60 : 0;
	route(&r, logits, G * T, 5, 1);
	CHECK_NEAR(moe_balance(count, &r.route, 1, T, 5), 5, 1e-5);
	CHECK(count[3] == T && count[0] == 0);
}

int main(void)
{
	rows_go_to_the_most_probable();
	of_equals_the_first_are_taken();
	what_is_not_finite_is_routed_and_shows();
	balance_is_as_published();
	return unit_done("moe");
}
