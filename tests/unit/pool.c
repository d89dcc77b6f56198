#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/pool.h"
#include "unit.h"

#define N 1000

struct work {
	atomic_int ran[N];
	atomic_int highest_thread;
	int fail_from;
};

static int job(void *ctx, int i, int thread)
{
	struct work *w = ctx;
	int high = atomic_load(&w->highest_thread);

	atomic_fetch_add(&w->ran[i], 1);
	while (thread > high && !atomic_compare_exchange_weak(&w->highest_thread, &high, thread))
		;
	if (w->fail_from && i >= w->fail_from)
		return err_set(ERR_AUTH, "item %d", i);
	return 0;
}

static void test_each_once(int threads)
{
	struct pool *p = NULL;

	CHECK(pool_open(&p, threads) == 0 && pool_threads(p) == threads);
	for (int round = 0; round < 20; round++) {
		struct work w = { .fail_from = 0 };

		CHECK(pool_run(p, job, &w, N) == 0);
		for (int i = 0; i < N; i++)
			CHECK(atomic_load(&w.ran[i]) == 1);
		CHECK(atomic_load(&w.highest_thread) < threads);
		CHECK(pool_run(p, job, &w, 0) == 0 && pool_run(p, job, &w, 1) == 0);
		CHECK(atomic_load(&w.ran[0]) == 2);
	}
	pool_close(p);
}

static void test_lowest_failure(int threads)
{
	struct pool *p = NULL;

	CHECK(pool_open(&p, threads) == 0);
	for (int round = 0; round < 50; round++) {
		struct work w = { .fail_from = 1 + 17 * round };

		err_set(ERR_DATA, "before");
		CHECK(pool_run(p, job, &w, N) == ERR_AUTH);
		CHECK(atoi(err_text() + 5) == w.fail_from);
		if (w.fail_from + threads < N)
			CHECK(atomic_load(&w.ran[w.fail_from + threads]) == 0);
		w = (struct work){ .fail_from = 0 };
		CHECK(pool_run(p, job, &w, N) == 0 && atomic_load(&w.ran[N - 1]) == 1);
	}
	pool_close(p);
}

static void test_no_pool(void)
{
	struct work w = { .fail_from = 3 };
	struct pool *p = NULL;

	CHECK(pool_threads(NULL) == 1);
	CHECK(pool_run(NULL, job, &w, N) == ERR_AUTH);
	CHECK_STR(err_text(), "item 3");
	CHECK(atomic_load(&w.ran[3]) == 1 && atomic_load(&w.ran[4]) == 0);
	CHECK(pool_open(&p, 0) == ERR_USAGE && p == NULL);
	pool_close(NULL);
	CHECK(pool_cpus() >= 1);
}

static void test_clock(void)
{
	struct clock c = clock_monotonic();
	double last = clock_now(&c);

	for (int i = 0; i < 1000; i++) {
		double now = clock_now(&c);

		CHECK(now >= last);
		last = now;
	}
}

int main(void)
{
	for (int threads = 1; threads <= 5; threads++) {
		test_each_once(threads);
		test_lowest_failure(threads);
	}
	test_no_pool();
	test_clock();
	return unit_done("pool");
}
