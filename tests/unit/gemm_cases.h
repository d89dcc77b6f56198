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

/* Against the sum in order, with rows further apart than they are long, and what lies between them left alone. */
static void check_padded(int m, int n, int k, bool transposed, bool add)
{
	const int ldc = n + 16, ldb = n + 3, lda = (transposed ? m : k) + 5;
	const int rows_a = transposed ? k : m;
	real *a = numbers(rows_a * lda, 1), *b = numbers(k * ldb, 2), *c = numbers(m * ldc, 3), *before = numbers(m * ldc, 3);

	(transposed ? gemm_padded_tn : gemm_padded_nn)(c, ldc, a, lda, b, ldb, m, n, k, add);
	for (int i = 0; i < m; i++)
		for (int j = 0; j < ldc; j++) {
			const real was = before[i * ldc + j];
			double sum = add ? (double)was : 0, size = fabs(sum);

			for (int p = 0; p < k && j < n; p++) {
				const double term = (double)(transposed ? a[p * lda + i] : a[i * lda + p]) * (double)b[p * ldb + j];

				sum += term;
				size += fabs(term);
			}
			if (j >= n)
				CHECK(c[i * ldc + j] == was);
			else /* a sum of k terms in order is off by no more than k roundings of its size */
				CHECK(fabs((double)c[i * ldc + j] - sum) <= (k + 1) * 1.2e-7 * size);
		}
	free(a);
	free(b);
	free(c);
	free(before);
}

static void padded_products_are_right(void)
{
	static const int k[] = { 1, 2, 7, 32, 48, 127 };

	for (size_t p = 0; p < sizeof(k) / sizeof(k[0]); p++)
		for (int m = GEMM_PAD_ROWS; m <= 8 * GEMM_PAD_ROWS; m += 2 * GEMM_PAD_ROWS + GEMM_PAD_ROWS * (m % 4 == 0))
			for (int n = GEMM_PAD_COLS; n <= 5 * GEMM_PAD_COLS; n += GEMM_PAD_COLS)
				for (int how = 0; how < 4; how++)
					check_padded(m, n, k[p], how & 1, how & 2);
}

static void test_gemm(void)
{
	blas_init();
	test_products();
	edges_of_blocks_are_right();
	rows_do_not_depend_on_each_other();
	padded_products_are_right();
}
