#include "math/gemm.h"

#include <string.h>

#include "math/blas.h"
#include "math/vec.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define KERNELS 1
#endif

/* An operand: element (i, j) is at[i * row + j * col]; one of row and col is 1. */
struct view {
	const real *at;
	size_t row, col;
};

#ifdef KERNELS

static inline struct view view_at(struct view v, size_t i, size_t j)
{
	v.at += i * v.row + j * v.col;
	return v;
}

/* Would neighbours of a tile fall on one or two sets of the first cache, and push each other out of it? */
static bool strides_clash(struct view a)
{
	const size_t stride = a.row > a.col ? a.row : a.col;

	return stride * sizeof(real) % 2048 == 0;
}

#define UNROLL _Pragma("GCC unroll 16")

#define TARGET __attribute__((target("avx2"))) /* both kinds of kernels have that */
typedef real eight __attribute__((vector_size(8 * sizeof(real)), aligned(sizeof(real)), may_alias));
#define PAIR(a, b, i, j) __builtin_shufflevector(a, b, i, i + 8, j, j + 8, i + 4, i + 12, j + 4, j + 12)
#define FOUR(a, b, i) __builtin_shufflevector(a, b, i, i + 1, i + 8, i + 9, i + 4, i + 5, i + 12, i + 13)
#define HALF(a, b, i) __builtin_shufflevector(a, b, i, i + 1, i + 2, i + 3, i + 8, i + 9, i + 10, i + 11)

/* to (8, ld), its first eight columns: the transpose of eight rows, `stride` apart. */
TARGET static inline void transpose_eight(real *to, size_t ld, const real *from, size_t stride)
{
	eight row[8], pair[8], four[8];

	UNROLL for (int i = 0; i < 8; i++)
		row[i] = *(const eight *)(from + (size_t)i * stride);
	UNROLL for (int i = 0; i < 8; i += 2) {
		pair[i] = PAIR(row[i], row[i + 1], 0, 1);
		pair[i + 1] = PAIR(row[i], row[i + 1], 2, 3);
	}
	UNROLL for (int i = 0; i < 8; i += 4)
		for (int j = 0; j < 2; j++) {
			four[i + 2 * j] = FOUR(pair[i + j], pair[i + j + 2], 0);
			four[i + 2 * j + 1] = FOUR(pair[i + j], pair[i + j + 2], 2);
		}
	UNROLL for (int i = 0; i < 4; i++) {
		*(eight *)(to + (size_t)i * ld) = HALF(four[i], four[i + 4], 0);
		*(eight *)(to + (size_t)(i + 4) * ld) = HALF(four[i], four[i + 4], 4);
	}
}

/* to (k, ld), its first m columns: the transpose of a (m, k). */
TARGET static void transpose(real *restrict to, size_t ld, struct view a, int m, int k)
{
	int i = 0, from = 0;

	for (; a.col == 1 && i + 8 <= m; i += 8)
		for (from = 0; from + 8 <= k; from += 8)
			transpose_eight(to + (size_t)from * ld + i, ld, view_at(a, i, from).at, a.row);
	for (int p = 0; p < k; p++)
		for (int r = p < from ? i : 0; r < m; r++)
			to[(size_t)p * ld + r] = *view_at(a, r, p).at;
}
#undef TARGET

#define NAMED(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#define LANES (64 / (int)sizeof(real))
#define MR 14
#define NV 2
#include "math/gemm_kernel.inc"
#undef NAMED
#undef TARGET
#undef LANES
#undef MR
#undef NV

#define NAMED(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES (32 / (int)sizeof(real))
#define MR 6
#define NV 2
#include "math/gemm_kernel.inc"

static bool has_avx512(void)
{
#ifdef GEMM_NO_AVX512
	return false;
#else
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
}

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* false: OpenBLAS is to do it. Products of few rows or columns are not worth the packing. */
static bool product(real *c, struct view a, struct view b, int m, int n, int k, bool add, real *work)
{
	if (m < 8 || n < 16 || k < 8)
		return false;
	if (has_avx512())
		product_avx512(c, a, b, m, n, k, add, work);
	else if (has_avx2())
		product_avx2(c, a, b, m, n, k, add, work);
	else
		return false;
	return true;
}

/* false: it is to be done plainly. */
static bool padded(real *c, size_t ldc, struct view a, const real *b, size_t ldb, int m, int n, int k, bool add)
{
	if (has_avx512())
		padded_avx512(c, ldc, a, b, ldb, m, n, k, add);
	else if (has_avx2())
		padded_avx2(c, ldc, a, b, ldb, m, n, k, add);
	else
		return false;
	return true;
}

#else

static bool padded(real *c, size_t ldc, struct view a, const real *b, size_t ldb, int m, int n, int k, bool add)
{
	(void)c, (void)ldc, (void)a, (void)b, (void)ldb, (void)m, (void)n, (void)k, (void)add;
	return false;
}

static bool product(real *c, struct view a, struct view b, int m, int n, int k, bool add, real *work)
{
	(void)c, (void)a, (void)b, (void)m, (void)n, (void)k, (void)add, (void)work;
	return false;
}

#endif

void gemm_nt(real *c, const real *a, const real *b, int m, int n, int k, bool add, real *work)
{
	if (!product(c, (struct view){ a, (size_t)k, 1 }, (struct view){ b, 1, (size_t)k }, m, n, k, add, work))
		blas_nt(c, a, b, m, n, k, add);
}

void gemm_nn(real *c, const real *a, const real *b, int m, int n, int k, bool add, real *work)
{
	if (!product(c, (struct view){ a, (size_t)k, 1 }, (struct view){ b, (size_t)n, 1 }, m, n, k, add, work))
		blas_nn(c, a, b, m, n, k, add);
}

void gemm_tn(real *c, const real *a, const real *b, int m, int n, int k, bool add, real *work)
{
	if (!product(c, (struct view){ a, 1, (size_t)m }, (struct view){ b, (size_t)n, 1 }, m, n, k, add, work))
		blas_tn(c, a, b, m, n, k, add);
}

static void padded_plain(real *c, size_t ldc, struct view a, const real *b, size_t ldb, int m, int n, int k, bool add)
{
	for (int i = 0; i < m; i++, c += ldc, a.at += a.row) {
		if (!add)
			memset(c, 0, (size_t)n * sizeof(real));
		for (int p = 0; p < k; p++)
			for (int j = 0; j < n; j++)
				c[j] += a.at[p * a.col] * b[p * ldb + j];
	}
}

static void padded_any(real *c, int ldc, struct view a, const real *b, int ldb, int m, int n, int k, bool add)
{
	if (!padded(c, (size_t)ldc, a, b, (size_t)ldb, m, n, k, add))
		padded_plain(c, (size_t)ldc, a, b, (size_t)ldb, m, n, k, add);
}

void gemm_padded_nn(real *c, int ldc, const real *a, int lda, const real *b, int ldb, int m, int n, int k, bool add)
{
	padded_any(c, ldc, (struct view){ a, (size_t)lda, 1 }, b, ldb, m, n, k, add);
}

void gemm_padded_tn(real *c, int ldc, const real *a, int lda, const real *b, int ldb, int m, int n, int k, bool add)
{
	padded_any(c, ldc, (struct view){ a, 1, (size_t)lda }, b, ldb, m, n, k, add);
}
