/* gemm_cases - gemm against product_cases, and where its blocks end. */
#include "math/blas.h"
#include "product_cases.h"

static void any_product(enum kind kind, real *c, const real *a, const real *b, int m, int n, int k, bool add)
{
	real *work = malloc(GEMM_WORK * sizeof(*work));

	if (!work)
		abort();
	/* nothing that was there before may count */
	for (int i = 0; i < GEMM_WORK; i++)
		work[i] = NAN;
	if (kind == NT)
		gemm_nt(c, a, b, m, n, k, add, work);
	else if (kind == NN)
		gemm_nn(c, a, b, m, n, k, add, work);
	else
		gemm_tn(c, a, b, m, n, k, add, work);
	free(work);
}

/* Tiles of 6 and 14 rows, panels of 16 and 32 columns, blocks of 168, 1024 and 256; strides of 512 are packed. */
static void edges_of_blocks_are_right(void)
{
	static const int m[] = { 8, 9, 13, 14, 15, 27, 29, 167, 168, 169, 181 };
	static const int n[] = { 16, 17, 31, 32, 33, 47, 63, 100 };
	static const int k[] = { 8, 9, 31, 255, 256, 257, 512, 515 };

	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		for (size_t j = 0; j < sizeof(n) / sizeof(n[0]); j++)
			for (size_t p = 0; p < sizeof(k) / sizeof(k[0]); p++)
				for (int kind = NT; kind <= TN; kind++)
					CHECK(error(kind, m[i], n[j], k[p], (i + j + p) % 2, 7) < 1);
	for (int kind = NT; kind <= TN; kind++) {
		CHECK(error(kind, 29, 1023, 40, false, 7) < 1);
		CHECK(error(kind, 29, 1024, 40, true, 7) < 1);
		CHECK(error(kind, 29, 1025, 40, false, 7) < 1);
		CHECK(error(kind, 512, 40, 60, true, 7) < 1);
		CHECK(error(kind, 1024, 33, 1024, false, 37) < 1);
		CHECK(error(kind, 30, 2080, 300, true, 7) < 1);
	}
}

/* Rows of a product do not depend on how many there are: a batch of one tells what a batch of many tells. */
static void rows_do_not_depend_on_each_other(void)
{
	enum { M = 200, N = 80, K = 300 };
	real *a = numbers(M * K, 1), *b = numbers(N * K, 2), *all = numbers(M * N, 3), *some = numbers(M * N, 3);

	any_product(NT, all, a, b, M, N, K, false);
	for (int m = 8; m < M; m += 13) {
		any_product(NT, some, a, b, m, N, K, false);
		CHECK(memcmp(all, some, (size_t)m * N * sizeof(*all)) == 0);
	}
	free(a);
	free(b);
	free(all);
	free(some);
}

static void test_gemm(void)
{
	blas_init();
	test_products();
	edges_of_blocks_are_right();
	rows_do_not_depend_on_each_other();
}
